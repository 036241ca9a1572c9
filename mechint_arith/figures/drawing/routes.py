"""How edges run from box to box without crossing any other box.

An edge leaves the upper side of its sender, enters the lower side of its receiver, and passes every row in
between through a gap (its lane there). Between two rows it is one cubic curve with upright ends, so it stays
in the free space. Pure geometry in cm; the rows and boxes come from `grid`.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from itertools import pairwise

from mechint_arith.figures.drawing.grid import Panel
from mechint_arith.figures.drawing.lanes import Interval, Lanes, best_lanes, untangle
from mechint_arith.figures.drawing.shapes import Point

Ends = tuple[str, str]

CLEAR = 0.07
"""Least distance between an edge and a box that it passes, cm."""
USED = 0.9
"""Share of a box's side that edges may touch."""


def route(
    panel: Panel,
    rows: tuple[tuple[float, float], ...],
    widths: Mapping[Ends, float],
    heads: Mapping[Ends, float],
    breadths: Mapping[Ends, float],
) -> dict[Ends, tuple[Point, ...]]:
    """Return the points of one chain of cubic curves per edge (1 + 3 pieces points, cm).

    widths: (sender, receiver) -> line width, cm; heads: length of the arrow head, which the chain stops short
    of; breadths: width of the head, which it needs on the side of a box.
    """
    row_of = _row_of(panel, rows)
    lanes = Lanes()
    passing: dict[Ends, list[float]] = {}
    for edge in sorted(widths, key=lambda e: (row_of[e[1]] - row_of[e[0]], e)):
        passed = range(row_of[edge[0]] + 1, row_of[edge[1]])
        gaps = [_gaps(panel, rows[row], widths[edge] / 2) for row in passed]
        start, end = (panel.cells[node].box.centre[0] for node in edge)
        wanted = best_lanes(gaps, start, end)
        passing[edge] = lanes.settle(list(passed), wanted, gaps, widths[edge])
    _untangle(panel, row_of, passing)
    starts, ends = _ports(panel, passing, breadths)
    stops = {
        edge: _stops(panel, rows, row_of, edge, (starts[edge], *lane, ends[edge]), heads[edge])
        for edge, lane in passing.items()
    }
    return _curved(stops)


def _row_of(panel: Panel, rows: tuple[tuple[float, float], ...]) -> dict[str, int]:
    lows = [low for low, _ in rows]
    return {
        name: bisect.bisect_right(lows, cell.box.centre[1]) - 1
        for name, cell in panel.cells.items()
    }


def _gaps(panel: Panel, row: tuple[float, float], half: float) -> list[Interval]:
    """Return where a line of half width `half` can pass a row: intervals of x, from the left."""
    boxes = sorted(
        (cell.box.x, cell.box.right)
        for cell in panel.cells.values()
        if row[0] <= cell.box.centre[1] <= row[1]
    )
    sides = [panel.left, *(x for box in boxes for x in box), panel.right]
    free = zip(sides[::2], sides[1::2], strict=True)
    fits = [(a + CLEAR + half, b - CLEAR - half) for a, b in free]
    return [(low, high) for low, high in fits if low <= high]


def _untangle(panel: Panel, row_of: Mapping[str, int], passing: dict[Ends, list[float]]) -> None:
    paths = {
        (s, r): [panel.cells[s].box.centre[0], *lane, panel.cells[r].box.centre[0]]
        for (s, r), lane in passing.items()
    }
    untangle(paths, {edge: row_of[edge[0]] for edge in paths})
    for edge, path in paths.items():
        passing[edge] = path[1:-1]


def _ports(
    panel: Panel, lanes: Mapping[Ends, list[float]], breadths: Mapping[Ends, float]
) -> tuple[dict[Ends, float], dict[Ends, float]]:
    """Return where every edge leaves its sender and enters its receiver: spread in the order it comes from."""
    out: dict[str, list[tuple[float, Ends]]] = {}
    into: dict[str, list[tuple[float, Ends]]] = {}
    for edge, lane in lanes.items():
        start, end = (panel.cells[node].box.centre[0] for node in edge)
        out.setdefault(edge[0], []).append((lane[0] if lane else end, edge))
        into.setdefault(edge[1], []).append((lane[-1] if lane else start, edge))
    return _spread(panel, out, breadths), _spread(panel, into, breadths)


def _spread(
    panel: Panel, wanted: Mapping[str, list[tuple[float, Ends]]], breadths: Mapping[Ends, float]
) -> dict[Ends, float]:
    ports = {}
    for node, edges in wanted.items():
        box = panel.cells[node].box
        each = [breadths[edge] for _, edge in sorted(edges)]
        room = USED * box.width / sum(each)
        x = box.centre[0] - sum(each) * min(room, 1.5) / 2
        for (_, edge), breadth in zip(sorted(edges), each, strict=True):
            ports[edge] = x + breadth * min(room, 1.5) / 2
            x += breadth * min(room, 1.5)
    return ports


def _stops(
    panel: Panel,
    rows: tuple[tuple[float, float], ...],
    row_of: Mapping[str, int],
    edge: Ends,
    xs: tuple[float, ...],
    head: float,
) -> list[Point]:
    """Return the points at which the edge is upright: on its boxes and at the ends of every row it touches."""
    sender, receiver = (panel.cells[node].box for node in edge)
    first, last = row_of[edge[0]], row_of[edge[1]]
    stops = [(xs[0], sender.top), (xs[0], rows[first][1])]
    for row in range(first + 1, last):
        x = xs[row - first]
        stops += [(x, rows[row][0]), (x, rows[row][1])]
    return [*stops, (xs[-1], rows[last][0] - head), (xs[-1], receiver.y - head)]


def _curved(stops: Mapping[Ends, list[Point]]) -> dict[Ends, tuple[Point, ...]]:
    """Join the stops of every edge by cubic curves that do not run into each other where they are flat."""
    steps: dict[tuple[Ends, int], tuple[Point, Point]] = {}
    for edge, points in stops.items():
        steps |= {(edge, i): step for i, step in enumerate(pairwise(points))}
    bends = _bends(steps)
    chains = {}
    for edge, points in stops.items():
        chain = [points[0]]
        for i, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
            if x0 == x1 and y0 == y1:
                continue
            y = y0 + (y1 - y0) * bends.get((edge, i), 0.5)
            chain += [(x0, y), (x1, y), (x1, y1)]
        chains[edge] = tuple(chain)
    return chains


def _bends(
    steps: Mapping[tuple[Ends, int], tuple[Point, Point]],
) -> dict[tuple[Ends, int], float]:
    """Return how far up (0..1) each sideways step has its flat part.

    Of the steps that run side by side in one direction between two rows, the one that started furthest
    behind runs highest: so it passes over the others and none cross.
    """
    groups: dict[tuple[float, bool], list[tuple[float, float, tuple[Ends, int]]]] = {}
    for key, ((x0, y0), (x1, _)) in steps.items():
        if abs(x1 - x0) > 0.25:
            sign = 1 if x1 > x0 else -1
            groups.setdefault((y0, x1 > x0), []).append((sign * x0, sign * x1, key))
    bends: dict[tuple[Ends, int], float] = {}
    for group in groups.values():
        for run in _overlapping(group):
            bends |= {key: 0.5 + _share(i, len(run)) for i, key in enumerate(run)}
    return bends


def _overlapping(
    steps: list[tuple[float, float, tuple[Ends, int]]],
) -> list[list[tuple[Ends, int]]]:
    """Return the steps (start, end, key) in runs that overlap, each from the furthest behind."""
    runs: list[list[tuple[Ends, int]]] = []
    reach = float("-inf")
    for start, end, key in sorted(steps):
        if start > reach:
            runs.append([])
        runs[-1].append(key)
        reach = max(reach, end)
    return runs


def _share(i: int, n: int) -> float:
    """Return the i-th of n heights from .25 down to -.25."""
    return 0.5 * (0.5 - i / (n - 1)) if n > 1 else 0.0
