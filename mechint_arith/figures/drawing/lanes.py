"""At which x an edge passes the rows between its ends, and how edges in one gap keep apart.

Pure geometry in cm.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

Key = Any
"""What an edge is known by; sortable."""

Interval = tuple[float, float]
"""(low, high), cm."""

BEND = 0.02
"""Cost of not going straight up, cm²."""
PASSES = 3
"""How often all neighbours are looked at."""
NEAR = 0.3
"""Lanes nearer than this may be swapped, cm."""
APART = 0.06
"""Space between edges that run beside each other, cm."""


def best_lanes(gaps: list[list[Interval]], start: float, end: float) -> list[float]:
    """Return one x per row passed: the way through the gaps from start to end with the gentlest steps.

    gaps: for every row the intervals that are free. Steps cost their square, so a long way is spread over
    several rows; of equal ways the one further right is taken.
    """
    best: dict[float, tuple[float, list[float]]] = {start: (0.0, [])}
    sides = {x for row in gaps for gap in row for x in gap}
    for i, row in enumerate(gaps, start=1):
        along = start + (end - start) * i / (len(gaps) + 1)
        aims = {start, end, along, *sides}
        following = {}
        for x in sorted({min(max(aim, low), high) for low, high in row for aim in aims}):
            cost, path = min(
                ((cost + _step(came, x), path) for came, (cost, path) in best.items()),
                key=lambda way: way[0],
            )
            following[x] = (cost - 1e-4 * x, [*path, x])
        best = following
    return min((cost + _step(x, end), path) for x, (cost, path) in best.items())[1]


def _step(came: float, x: float) -> float:
    return (came - x) ** 2 + (BEND if abs(came - x) > 1e-9 else 0.0)


class Lanes:
    """The lanes taken so far, by row."""

    def __init__(self) -> None:
        self._taken: dict[int, list[tuple[float, float]]] = {}

    def settle(
        self, rows: list[int], wanted: list[float], gaps: list[list[Interval]], width: float
    ) -> list[float]:
        """Return `wanted` with each upright run moved sideways, within its gaps, to where it is free.

        rows: numbers of the rows passed; wanted: x in each; gaps: free intervals in each; width: of the line,
        cm. The places are taken from then on.
        """
        found: list[float] = []
        while len(found) < len(wanted):
            first = last = len(found)
            while last + 1 < len(wanted) and abs(wanted[last + 1] - wanted[first]) < 1e-9:
                last += 1
            run = range(first, last + 1)
            around = [_around(gaps[i], wanted[first]) for i in run]
            room = (max(low for low, _ in around), min(high for _, high in around))
            others = [lane for i in run for lane in self._taken.get(rows[i], [])]
            x = _freest(wanted[first], room, width, others)
            found += [x] * len(run)
            for i in run:
                self._taken.setdefault(rows[i], []).append((x, width))
        return found


def _around(gaps: list[Interval], x: float) -> Interval:
    return min(gaps, key=lambda gap: max(gap[0] - x, x - gap[1], 0.0))


def _freest(x: float, room: Interval, width: float, others: list[tuple[float, float]]) -> float:
    """Return the place in `room` nearest to x that keeps its distance from others, or the least bad one."""
    at, wide = np.array(others, float).reshape(-1, 2).T
    distance = (width + wide) / 2 + APART
    beside = np.concatenate([at - distance, at + distance])
    inside = beside[(beside >= room[0]) & (beside <= room[1])]
    places = np.unique([x, *room, *inside])[::-1]
    overlap = np.maximum(0, distance - abs(places[:, None] - at)).sum(axis=1)
    return float(places[np.lexsort([abs(places - x), overlap.round(6)])[0]])


def untangle(paths: Mapping[Key, list[float]], firsts: Mapping[Key, int]) -> None:
    """Swap lanes of neighbours on a row, in place, where that makes their edges cross less.

    paths: edge -> x on its sender's row, on every row it passes and on its receiver's row; firsts: edge ->
    number of its sender's row. Only lanes are swapped, never the ends; lanes as near as `NEAR` belong to one
    gap.
    """
    passing: dict[int, list[Key]] = {}
    for edge, path in paths.items():
        for row in range(firsts[edge] + 1, firsts[edge] + len(path) - 1):
            passing.setdefault(row, []).append(edge)
    for _ in range(PASSES):
        for row, edges in sorted(passing.items()):
            edges.sort(key=lambda edge: (paths[edge][row - firsts[edge]], edge))
            for a, b in itertools.pairwise(edges):
                here, there, i, j = paths[a], paths[b], row - firsts[a], row - firsts[b]
                gain = _crossings(here, there, i, j, 1) - _crossings(here, there, i, j, -1)
                if gain > 0 and abs(here[i] - there[j]) < NEAR:
                    here[i], there[j] = there[j], here[i]


def _crossings(here: list[float], there: list[float], i: int, j: int, sign: int) -> int:
    """Return how often two edges cross just below and above a row; sign -1: with their lanes swapped there."""
    order = sign * (here[i] - there[j])
    return sum(order * (here[i + k] - there[j + k]) < 0 for k in (-1, 1))
