"""How wide a circuit is: labels measured, boxes set beside or above each other, columns pushed together.

A column is one token position. Boxes of one column may reach over its neighbours where those have none on the
same level, so that a wide cell costs only the width it needs. Pure geometry in cm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mechint_arith.circuits.graph import Circuit, Node
from mechint_arith.figures.drawing import lettering
from mechint_arith.figures.drawing.shapes import CM_PER_PT

Height = tuple[int, int, int]
"""Place of a level in the order of computation, as `Node.height` gives it."""

TOKENS: Height = (0, 0, 0)
"""The level of embeddings and tokens."""

BESIDE = 0.26
"""Space between boxes of one cell, which an edge can pass, cm."""
PADDING = 0.5
"""Space above and below the text of a box together, em."""


class Setting(NamedTuple):
    """How tightly labels are set."""

    size: float
    """Font size, pt."""
    gap: float
    """Least space between columns, em."""
    leaning: bool = False
    """Whether wide cells at the ends of a circuit reach inward instead of standing over their column."""
    stacked: bool = False
    """Whether boxes of one cell may stand above each other."""
    broken: bool = False
    """Whether labels are broken at spaces."""

    @property
    def em(self) -> float:
        """cm."""
        return self.size * CM_PER_PT


SETTINGS = (
    Setting(8.0, 1.0),
    Setting(7.0, 1.0),
    Setting(7.0, 0.5),
    Setting(7.0, 0.5, leaning=True),
    Setting(6.0, 0.6, leaning=True),
    Setting(6.0, 0.3, leaning=True),
    Setting(6.0, 0.3, leaning=True, stacked=True),
    Setting(6.0, 0.3, leaning=True, stacked=True, broken=True),
    Setting(5.0, 0.3, leaning=True, stacked=True, broken=True),
)
"""From the most comfortable to the tightest; the first that fits is taken."""

NATURAL = SETTINGS[1]
"""The setting that a width of its own is chosen for."""


@dataclass(frozen=True)
class Tile:
    """A node's box before it has a place."""

    node: Node
    """The node."""
    lines: tuple[str, ...]
    """Its label, printable."""
    width: float
    """cm."""
    height: float
    """cm."""


@dataclass
class Column:
    """One position of one circuit."""

    label: str
    """Its token, printable."""
    token_width: float
    """Width of that text with the space around it, cm."""
    cells: dict[Height, list[Tile]]
    """Level -> boxes, in the order of the circuit."""
    abreast: int
    """How many boxes of a cell stand beside each other at most."""
    lean: int = 0
    """Where wide cells reach: 0 to both sides, 1 to the left only, -1 to the right only."""

    def rows(self, level: Height) -> list[list[Tile]]:
        """Return the rows of boxes of one cell, from the bottom."""
        tiles = self.cells.get(level, [])
        return [tiles[i : i + self.abreast] for i in range(0, len(tiles), self.abreast)]

    def reach(self, tiles: list[Tile]) -> tuple[float, float]:
        """Return how far a row of boxes reaches to the left and right of the column's middle, cm."""
        wide = row_width(tiles)
        half = max(tile.width for cell in self.cells.values() for tile in cell) / 2
        over = self.lean * max(0.0, wide / 2 - half)
        return (wide / 2 + over, wide / 2 - over)

    def sides(self, level: Height) -> tuple[float, float]:
        """Return how far all that it holds on a level reaches to the left and right, cm."""
        reaches = [self.reach(row) for row in self.rows(level)]
        if level == TOKENS:
            reaches.append((self.token_width / 2, self.token_width / 2))
        return (max(left for left, _ in reaches), max(right for _, right in reaches))

    @property
    def levels(self) -> list[Height]:
        """Levels on which it holds anything."""
        return [TOKENS, *(level for level in self.cells if level != TOKENS)]


def row_width(tiles: list[Tile]) -> float:
    """Return the width of boxes beside each other, cm."""
    return sum(tile.width for tile in tiles) + BESIDE * (len(tiles) - 1)


def measured(
    circuit: Circuit, setting: Setting, breadths: Mapping[str, float]
) -> tuple[Column, ...]:
    """Return the columns of a circuit with boxes large enough for their labels.

    breadths: node id -> least width (cm) that its edges need.
    """
    em = setting.em
    columns = []
    for position in circuit.positions:
        cells: dict[Height, list[Tile]] = {}
        for node in circuit.nodes:
            if node.position == position.name:
                label = lettering.printable(node.label)
                lines = lettering.broken(label) if setting.broken else (label,)
                text = (max(map(lettering.width, lines)) + 0.6) * em
                wide = max(1.9 * em, text, breadths.get(node.id, 0.0))
                tall = (lettering.LINE * len(lines) + PADDING) * em
                cells.setdefault(node.height, []).append(Tile(node, lines, wide, tall))
        label = lettering.printable(position.label)
        most = max([1, *map(len, cells.values())])
        columns.append(Column(label, (lettering.width(label) + 0.3) * em, cells, most))
    if setting.leaning and len(columns) > 1:
        columns[0].lean, columns[-1].lean = -1, 1
    return tuple(columns)


def centres(columns: tuple[Column, ...], gap: float) -> list[float]:
    """Return the middle of every column (cm), pushed together to the left; the leftmost box begins at 0.

    gap: least space between cells on one level, cm.
    """
    found: list[float] = []
    ends: dict[Height, float] = {}
    for column in columns:
        sides = {level: column.sides(level) for level in column.levels}
        x = max([ends[level] + gap + sides[level][0] for level in sides if level in ends] or [0.0])
        found.append(x)
        ends |= {level: x + right for level, (_, right) in sides.items()}
    return [x - _ends(columns, found)[0] for x in found]


def breadth(columns: tuple[Column, ...], gap: float) -> float:
    """Return the width of a whole circuit, cm."""
    return _ends(columns, centres(columns, gap))[1]


def _ends(columns: tuple[Column, ...], middles: list[float]) -> tuple[float, float]:
    """Return the left and right end of everything in the columns, cm."""
    pairs = [
        (x, c.sides(level)) for x, c in zip(middles, columns, strict=True) for level in c.levels
    ]
    left = min((x - left for x, (left, _) in pairs), default=0.0)
    return left, max((x + right for x, (_, right) in pairs), default=0.0)


def stack(tables: list[tuple[Column, ...]], gap: float, room: float) -> None:
    """Put fewer boxes beside each other, always where that saves most, until all circuits fit in `room` cm."""
    while (before := sum(breadth(table, gap) for table in tables)) > room:
        saved = []
        for column in (column for table in tables for column in table if column.abreast > 1):
            column.abreast -= 1
            saved.append((before - sum(breadth(table, gap) for table in tables), column))
            column.abreast += 1
        if not saved:
            return
        max(saved, key=lambda item: item[0])[1].abreast -= 1
