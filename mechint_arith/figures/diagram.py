"""Circuit diagrams for papers: one circuit, or two side by side with what they share, in four formats.

A circuit goes in, shapes come out; `drawing` knows where things stand and how files are written. No browser,
no system program, no model.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mechint_arith import files
from mechint_arith.circuits.graph import Circuit, Common, Edge, common
from mechint_arith.errors import InputError
from mechint_arith.figures.colours import GREY, INK
from mechint_arith.figures.drawing import grid, legend, lettering, routes, sheet, strokes
from mechint_arith.figures.drawing.grid import Grid, Panel
from mechint_arith.figures.drawing.shapes import CM_PER_PT, Box, Drawing, Shape, Text
from mechint_arith.figures.drawing.svg import svg
from mechint_arith.figures.drawing.tikz import tikz

SUFFIXES = (".svg", ".pdf", ".png", ".tikz", ".tex")
"""What `save` writes; `.tikz` and `.tex` are both TikZ."""

COLUMN, PAGE = 8.0, 17.0
"""Width of one column of a paper and of its page, cm."""

BROADEST = 1.3
"""A box is widened for its edges up to this, cm."""

SHARED_FILL = "#f3e3b3"
PLAIN_FILL = "#ffffff"
BAND_FILL = "#f1f1f1"

Circuits = Circuit | Sequence[Circuit]
"""One circuit, or two to set side by side."""


def draw(circuits: Circuits, *, width: float | None = None) -> Drawing:
    """Return the diagram of one circuit, or of two side by side with what they share highlighted.

    width: of the sheet, cm; by default as narrow as is comfortable to read, from one column to one page.
    Layers go upward, positions across. Width and colour of an edge show its effect on a scale common to both
    circuits. Of two circuits, shared nodes are filled and shared edges solid, all others dashed.
    Raises `InputError` where the circuits have different units, name different places by one id, or do not
    fit in the width.
    """
    pair = (circuits,) if isinstance(circuits, Circuit) else tuple(circuits)
    _check(pair, width)
    shared = common(*pair) if len(pair) == 2 else None
    largest = max([abs(e.effect) for circuit in pair for e in circuit.edges], default=0.0) or 1.0
    breadths = [_breadths(circuit, largest) for circuit in pair]
    if width is None:
        width = min(PAGE, max(COLUMN, grid.natural_width(pair, breadths)))
    sample = Box(0.0, 0.0, 0.36, 0.2)
    notes = legend.entries(pair, shared=_boxed(sample, True), alone=_boxed(sample, False))
    bottom = legend.height(notes, width) + 0.42
    placed = grid.place(pair, width=width, bottom=bottom, breadths=breadths)
    title_height = placed.rows[-1][1] + 0.22
    shapes = [*legend.draw(notes, width, largest), *_bands(placed)]
    for circuit, panel in zip(pair, placed.panels, strict=True):
        shapes += _edges(circuit, panel, placed, largest, shared)
        shapes += _nodes(panel, placed.size, shared)
        middle = (panel.left + panel.right) / 2
        route = lettering.printable(circuit.about.route)
        shapes.append(Text(middle, title_height, route, placed.size, bold=True))
    named = " and ".join(lettering.spelled(circuit.about.route) for circuit in pair)
    return Drawing(width, title_height + 0.3, tuple(shapes), f"Circuit of the route {named}")


def save(
    circuits: Circuits,
    path: str | os.PathLike[str],
    *,
    width: float | None = None,
    dpi: int = 300,
) -> None:
    """Write the diagram of one or two circuits to `path`, in the format its suffix names.

    `.svg`, `.pdf`, `.png`, or `.tikz` (also `.tex`) for LaTeX's \\input. width: cm; dpi: pixels per inch of PNG.
    The same circuits give the same bytes; the file appears in one step.
    Raises `InputError` for another suffix, a dpi out of reach, and for what `draw` refuses.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"cannot draw into {Path(path).name!r}: the name should end in .svg, .pdf, .png or .tikz"
        )
    if not 30 <= dpi <= 2400:
        raise InputError(f"a picture has 30 to 2400 pixels per inch; got {dpi}")
    drawing = draw(circuits, width=width)
    if suffix == ".svg":
        files.write_text(path, svg(drawing))
    elif suffix in (".tikz", ".tex"):
        files.write_text(path, tikz(drawing))
    else:
        content = sheet.pdf(drawing) if suffix == ".pdf" else sheet.png(drawing, dpi)
        with files.replacing(path) as temporary:
            temporary.write_bytes(content)


def _check(pair: tuple[Circuit, ...], width: float | None) -> None:
    if len(pair) not in (1, 2):
        raise InputError(f"a diagram shows one circuit or two; got {len(pair)}")
    units = {circuit.unit for circuit in pair if circuit.edges}
    if len(units) > 1:
        raise InputError(f"circuits side by side need one unit; got {' and '.join(sorted(units))}")
    if width is not None and not 1 <= width <= 200:
        raise InputError(f"the width of a diagram is 1 to 200 cm; got {width}")


def _breadths(circuit: Circuit, largest: float) -> dict[str, float]:
    """Return the least width (cm) of every box, so that the heads and tails of its edges have room."""
    sides: defaultdict[tuple[str, bool], float] = defaultdict(float)
    for edge in circuit.edges:
        for node, enters in ((edge.sender, False), (edge.receiver, True)):
            sides[node, enters] += strokes.port(edge.effect, largest)
    return {
        node.id: min(BROADEST, max(sides[node.id, False], sides[node.id, True]) / routes.USED)
        for node in circuit.nodes
    }


def _edges(
    circuit: Circuit, panel: Panel, placed: Grid, largest: float, shared: Common | None
) -> list[Shape]:
    widths = {e.ends: CM_PER_PT * strokes.width(e.effect, largest) for e in circuit.edges}
    heads = {e.ends: strokes.head_length(e.effect, largest) for e in circuit.edges}
    breadths = {e.ends: strokes.port(e.effect, largest) for e in circuit.edges}
    chains = routes.route(panel, placed.rows, widths, heads, breadths)
    shapes: list[Shape] = []
    for edge in sorted(circuit.edges, key=lambda e: abs(e.effect)):
        chain = chains[edge.ends]
        tip = (chain[-1][0], panel.cells[edge.receiver].box.y)
        dashed = shared is not None and edge.ends not in shared.edges
        note = _note(circuit, edge)
        shapes += strokes.stroke(chain, tip, edge.effect, largest, dashed=dashed, note=note)
    return shapes


def _nodes(panel: Panel, size: float, shared: Common | None) -> list[Shape]:
    em = size * CM_PER_PT
    shapes: list[Shape] = []
    for name, cell in panel.cells.items():
        shapes.append(_boxed(cell.box, None if shared is None else name in shared.nodes))
        x, y = cell.box.centre
        for i, line in enumerate(cell.lines):
            down = lettering.LINE * (i - (len(cell.lines) - 1) / 2)
            shapes.append(Text(x, y - (down + 0.34) * em, line, size))
    for token in panel.tokens:
        shapes.append(Text(token.x, token.y - 0.34 * em, token.label, size, colour=GREY))
    return shapes


def _boxed(box: Box, shared: bool | None) -> Box:
    """Return `box` as it looks: filled where shared, dashed where not, plain for a single circuit."""
    fill = SHARED_FILL if shared else PLAIN_FILL
    return Box(box.x, box.y, box.width, box.height, fill, dashed=shared is False)


def _bands(placed: Grid) -> list[Shape]:
    """Return a shaded band behind each block, with its name in the strip on the left."""
    blocks: dict[int, tuple[float, float]] = {}
    for level in placed.levels:
        part, block, _ = level.height
        if part == 1:
            low = placed.rows[level.first][0] - 0.12
            high = placed.rows[level.last][1] + 0.12
            blocks[block] = (blocks.get(block, (low, high))[0], high)
    size = min(6.0, placed.size)
    em = size * CM_PER_PT
    room = min((high - low for low, high in blocks.values()), default=0.0)
    word = "layer " if lettering.width("layer 00") * em < room else "L"
    shapes: list[Shape] = []
    for block, (low, high) in blocks.items():
        for panel in placed.panels:
            wide = panel.right - panel.left - 0.08
            shapes.append(Box(panel.left, low, wide, high - low, BAND_FILL, stroke=None))
        turned = Text(0.28, (low + high) / 2, f"{word}{block}", size, colour=INK, turned=True)
        shapes.append(turned)
    return shapes


def _note(circuit: Circuit, edge: Edge) -> str:
    sender, receiver = circuit.by_id[edge.sender], circuit.by_id[edge.receiver]
    effect, low, high = map(legend.signed, (edge.effect, edge.low, edge.high))
    numbers = f"{effect} [{low}, {high}] {edge.unit}, n = {edge.n}"
    return lettering.spelled(f"{sender.label} → {receiver.label}: {numbers}")
