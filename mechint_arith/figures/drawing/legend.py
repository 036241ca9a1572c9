"""The legend under a diagram: what width and colour mean, in which unit, and how it was measured.

It flows from left to right and breaks where the sheet ends. Lengths in cm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mechint_arith.circuits.graph import Circuit
from mechint_arith.figures.drawing import lettering, strokes
from mechint_arith.figures.drawing.shapes import CM_PER_PT, Box, Curve, Shape, Text, straight

SIZE = 6.0
"""Font size, pt."""
EM = SIZE * CM_PER_PT
SAMPLE = 0.5
"""Length of a sample line, cm."""
GAP = 0.16
"""Space between two entries, cm."""
LEADING = 0.36
"""From line to line, cm."""
LEFT = 0.06
"""Left margin, cm."""


@dataclass(frozen=True)
class Entry:
    """A sample and its words; the sample may be nothing."""

    words: str
    """Text to the right of the sample."""
    effect: float = 0.0
    """Effect that the sample line shows; 0 for no sample line."""
    box: Box | None = None
    """Box to show as a sample, placed at its lower left corner (0, 0)."""
    dashed: bool | None = None
    """Whether the sample is a neutral line, dashed or solid; None for no such line."""

    @property
    def sample_width(self) -> float:
        """cm, with the space behind the sample."""
        box = self.box.width + 0.08 if self.box else 0.0
        line = SAMPLE + 0.08 if self.effect or self.dashed is not None else 0.0
        return box + line

    @property
    def width(self) -> float:
        """cm."""
        return self.sample_width + lettering.width(self.words) * EM


def entries(circuits: Sequence[Circuit], *, shared: Box, alone: Box) -> list[list[Entry]]:
    """Return the paragraphs of the legend: effects, what is shared (for several circuits), how it was measured.

    shared, alone: sample boxes of a node that all circuits have and of one that only its circuit has.
    """
    effects = [edge.effect for circuit in circuits for edge in circuit.edges]
    paragraphs = []
    if effects and any(effects):
        metrics = _listed(circuit.about.metric for circuit in circuits)
        unit = lettering.spelled(next(c.unit for c in circuits if c.edges))
        title = f"effect on {metrics} ({unit})" if unit != metrics else f"effect ({unit})"
        paragraphs.append([Entry(title), *(Entry(signed(e), e) for e in samples(effects))])
    if len(circuits) > 1:
        routes = _listed((circuit.about.route for circuit in circuits), "and")
        paragraphs.append(
            [
                Entry(f"in {routes}", box=shared, dashed=False),
                Entry("in one only", box=alone, dashed=True),
            ]
        )
    paragraphs.append([Entry(note) for note in _notes(circuits)])
    return paragraphs


def samples(effects: Sequence[float]) -> list[float]:
    """Return the effects to show: three round ones up to the largest, and the largest round one below 0."""
    highest, lowest = max(effects), min(effects)
    found = []
    if highest > 0:
        top = rounded_down(highest)
        found = [top * share for share in (0.2, 0.5, 1.0)]
    return [*([-rounded_down(-lowest)] if lowest < 0 else []), *found]


def rounded_down(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not above `value`, which is positive."""
    power = 10.0 ** math.floor(math.log10(value))
    return max(step * power for step in (1, 2, 5) if step * power <= value * (1 + 1e-9))


def signed(value: float) -> str:
    """Return a number in three digits at most, with a true minus sign."""
    return f"{value:.3g}".replace("-", "−")


def height(paragraphs: list[list[Entry]], width: float) -> float:
    """Return how high the legend is on a sheet of `width` cm."""
    return LEADING * len(_lines(paragraphs, width)) + 0.1


def draw(paragraphs: list[list[Entry]], width: float, largest: float) -> list[Shape]:
    """Return the shapes of the legend at the bottom of a sheet of `width` cm.

    largest: |effect| of the widest edge in the diagram.
    """
    shapes: list[Shape] = []
    lines = _lines(paragraphs, width)
    for i, line in enumerate(lines):
        x, y = LEFT, LEADING * (len(lines) - i - 0.5) + 0.05
        for entry in line:
            shapes += _sample(entry, x, y, largest)
            words = Text(x + entry.sample_width, y - 0.34 * EM, entry.words, SIZE, "start")
            shapes.append(words)
            x += entry.width + GAP
    return shapes


def _sample(entry: Entry, x: float, y: float, largest: float) -> list[Shape]:
    shapes: list[Shape] = []
    if entry.box:
        box = entry.box
        low = y - box.height / 2
        shapes.append(Box(x, low, box.width, box.height, box.fill, dashed=box.dashed))
        x += box.width + 0.08
    if entry.effect:
        tip = (x + SAMPLE, y)
        base = (tip[0] - strokes.head_length(entry.effect, largest), y)
        shapes += strokes.stroke(straight((x, y), base), tip, entry.effect, largest)[1:]
    if entry.dashed is not None:
        shapes.append(Curve(straight((x, y), (x + SAMPLE, y)), 1.2, dashed=entry.dashed))
    return shapes


def _lines(paragraphs: list[list[Entry]], width: float) -> list[list[Entry]]:
    lines: list[list[Entry]] = []
    for paragraph in paragraphs:
        x = math.inf
        for entry in paragraph:
            if x + entry.width > width - LEFT:
                lines.append([])
                x = LEFT
            lines[-1].append(entry)
            x += entry.width + GAP
    return lines


def _notes(circuits: Sequence[Circuit]) -> list[str]:
    thresholds = sorted({c.about.threshold for c in circuits if c.about.threshold})
    notes = [f"|effect| ≥ {_listed(map(signed, thresholds))}"] if thresholds else []
    ablations = _listed(f"{circuit.about.ablation} ablation" for circuit in circuits)
    return [*notes, ablations, _listed(circuit.about.direction for circuit in circuits)]


def _listed(words: Iterable[str], joint: str = "or") -> str:
    distinct = dict.fromkeys(words)
    return f" {joint} ".join(map(lettering.spelled, distinct))
