"""Where the nodes of circuits stand: layers upward, token positions across.

Pure geometry in cm; no colours, no edges (see `routes`), no file format. Several circuits are set side by
side on common rows, so that one layer has one height in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mechint_arith.circuits.graph import Circuit, Node
from mechint_arith.errors import InputError
from mechint_arith.figures.drawing import columns as cols
from mechint_arith.figures.drawing.columns import TOKENS, Column, Height, Setting
from mechint_arith.figures.drawing.shapes import Box

MARGIN, WIDE_MARGIN = 0.3, 0.5
"""Free space on both sides of a panel, where edges may pass; the wider where boxes are stacked, cm."""
STRIP = 0.4
"""Strip on the left that names the layers, cm."""


@dataclass(frozen=True)
class Cell:
    """A node's box and the lines of text in it."""

    node: Node
    """The node."""
    box: Box
    """Its rectangle, cm."""
    lines: tuple[str, ...]
    """Its label, printable."""


@dataclass(frozen=True)
class Token:
    """A token's label under its column."""

    x: float
    """Middle, cm."""
    y: float
    """Middle, cm."""
    label: str
    """Printable text."""


@dataclass(frozen=True)
class Panel:
    """One circuit's part of the sheet."""

    left: float
    """Left end, margin included, cm."""
    right: float
    """Right end, margin included, cm."""
    cells: dict[str, Cell]
    """Node id -> where it stands."""
    tokens: tuple[Token, ...]
    """Tokens that no box shows already."""


@dataclass(frozen=True)
class Level:
    """The rows of boxes of one level of the model."""

    height: Height
    """Its place in the order of computation."""
    first: int
    """Its lowest row."""
    last: int
    """Its highest row; several where boxes of one cell stand above each other."""


@dataclass(frozen=True)
class Grid:
    """All panels on their common rows."""

    panels: tuple[Panel, ...]
    """From left to right."""
    rows: tuple[tuple[float, float], ...]
    """Lower and upper end of every row of boxes, from the bottom, cm."""
    levels: tuple[Level, ...]
    """From the bottom."""
    width: float
    """cm."""
    size: float
    """Font size of the labels, pt."""


def place(
    circuits: Sequence[Circuit],
    *,
    width: float,
    bottom: float,
    breadths: Sequence[Mapping[str, float]],
) -> Grid:
    """Return where every node of the circuits stands on a sheet of `width` cm, from `bottom` cm upward.

    breadths: for every circuit, node id -> least width (cm) of its box.
    Raises `InputError` that names the width needed where even the tightest setting does not fit.
    """
    for setting in cols.SETTINGS:
        tables = _measured(circuits, setting, breadths)
        gap = setting.gap * setting.em
        outside = _outside(len(tables), setting)
        if setting.stacked:
            cols.stack(tables, gap, width - outside)
        needed = sum(cols.breadth(table, gap) for table in tables) + outside
        if needed <= width + 1e-9:
            return _grid(tables, setting, width, width - needed, bottom)
    raise InputError(
        f"a diagram {width:g} cm wide is too narrow for this circuit:"
        f" use at least {math.ceil(10 * needed) / 10:g} cm, or prune it"
    )


def natural_width(circuits: Sequence[Circuit], breadths: Sequence[Mapping[str, float]]) -> float:
    """Return the width (cm) at which the circuits are comfortable to read, nothing stacked."""
    tables = _measured(circuits, cols.NATURAL, breadths)
    gap = cols.NATURAL.gap * cols.NATURAL.em
    return sum(cols.breadth(table, gap) for table in tables) + _outside(len(tables), cols.NATURAL)


def _measured(
    circuits: Sequence[Circuit], setting: Setting, breadths: Sequence[Mapping[str, float]]
) -> list[tuple[Column, ...]]:
    pairs = zip(circuits, breadths, strict=True)
    return [cols.measured(circuit, setting, least) for circuit, least in pairs]


def _margin(setting: Setting) -> float:
    return WIDE_MARGIN if setting.stacked else MARGIN


def _outside(n: int, setting: Setting) -> float:
    """Return the width of everything that is not a column of one of n circuits, cm."""
    return STRIP + 2 * n * _margin(setting)


def _grid(
    tables: list[tuple[Column, ...]], setting: Setting, width: float, spare: float, bottom: float
) -> Grid:
    em, gap = setting.em, setting.gap * setting.em
    gaps = sum(max(0, len(table) - 1) for table in tables)
    wider = min(spare / gaps, 5 * em) if gaps else 0.0
    rest = (spare - gaps * wider) / (2 * len(tables))
    margin = _margin(setting) + rest
    middles, ends, x = [], [], STRIP
    for table in tables:
        span = cols.breadth(table, gap) + wider * (len(table) - 1)
        start = x + margin
        middles.append([start + c + wider * i for i, c in enumerate(cols.centres(table, gap))])
        ends.append((x, start + span + margin))
        x = ends[-1][1]
    between = min(1.5, max(0.62, 0.13 * max((right - left for left, right in ends), default=0.0)))
    levels, rows = _rows(tables, em, bottom, between)
    panels = tuple(
        _panel(table, centres, end, levels, rows, em)
        for table, centres, end in zip(tables, middles, ends, strict=True)
    )
    return Grid(panels, rows, levels, width, setting.size)


def _rows(
    tables: list[tuple[Column, ...]], em: float, bottom: float, between: float
) -> tuple[tuple[Level, ...], tuple[tuple[float, float], ...]]:
    """Return the levels and the rows, common to all panels, `between` cm apart from level to level."""
    columns = [column for table in tables for column in table]
    levels: list[Level] = []
    rows: list[tuple[float, float]] = []
    y = bottom
    for height in sorted({TOKENS, *(level for column in columns for level in column.levels)}):
        cells = [column.rows(height) for column in columns]
        count = max([1, *map(len, cells)])
        levels.append(Level(height, len(rows), len(rows) + count - 1))
        for i in range(count):
            tiles = [tile for cell in cells for tile in (cell[i] if i < len(cell) else [])]
            tall = max([1.7 * em, *(tile.height for tile in tiles)])
            rows.append((y, y + tall))
            y += tall + (2.0 * em if i < count - 1 else between)
    return tuple(levels), tuple(rows)


def _panel(
    table: tuple[Column, ...],
    centres: list[float],
    ends: tuple[float, float],
    levels: tuple[Level, ...],
    rows: tuple[tuple[float, float], ...],
    em: float,
) -> Panel:
    cells, tokens = {}, []
    for column, centre in zip(table, centres, strict=True):
        for level in levels:
            for i, tiles in enumerate(column.rows(level.height)):
                middle = sum(rows[level.first + i]) / 2
                x = centre - column.reach(tiles)[0]
                for tile in tiles:
                    box = Box(x, middle - tile.height / 2, tile.width, tile.height)
                    cells[tile.node.id] = Cell(tile.node, box, tile.lines)
                    x += tile.width + cols.BESIDE
        shown = [" ".join(tile.lines) for tile in column.cells.get(TOKENS, [])]
        if not shown:
            tokens.append(Token(centre, sum(rows[0]) / 2, column.label))
        elif column.label not in shown:
            tokens.append(Token(centre, rows[0][0] - 0.75 * em, column.label))
    return Panel(*ends, cells, tuple(tokens))
