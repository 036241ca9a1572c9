"""Phases of a run: change points with intervals, events with intervals, and the order that runs agree on.

Curves in, steps out; no model is seen. Change points are found by segmentation (`ruptures`), events by a level
that is reached and kept. Sources: Truong, Oudre & Vayatis, Signal Processing 167 (2020) for the segmentation;
Künsch, Ann. Stat. 17 (1989) for the block bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from mechint_arith.dynamics import Series
from mechint_arith.errors import InputError
from mechint_arith.stats import Estimate, share

PHASES = ("phase 1", "phase 2", "phase 3")
"""Stretches after each change point; what is learned in them is for the events to say."""

SUSTAINED = 3
"""Checkpoints in a row at which a level must be kept for an event to count."""


@dataclass(frozen=True)
class Event:
    """When a curve reached a level and kept it for `SUSTAINED` checkpoints."""

    name: str
    step: int | None
    """First checkpoint of the first such stretch; None: it did not happen."""
    low: int
    """Last checkpoint before it at which the curve's upper limit was still below the level (0: none)."""
    high: int | None
    """First checkpoint from which the curve's lower limit kept the level; None: not certain to have happened."""
    lapses: int
    """Later checkpoints at which the upper limit fell below the level again."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"step": self.step, "low": self.low, "high": self.high, "lapses": self.lapses}


@dataclass(frozen=True)
class Rule:
    """What counts as an event: every named curve at or above the level."""

    curves: tuple[str, ...]
    level: float = 0.9


EVENTS: Mapping[str, Rule] = {
    "addition": Rule(("0var_held",)),
    "addition in the weights": Rule(("ov1_mlp1",)),
    "values look at the token before": Rule(("attn0_previous_published",)),
    "= looks at both operands": Rule(("attn0_operands_both",)),
    "identity matching": Rule(("qk1_identity",)),
    "assignment on the left": Rule(("1var_held_left",)),
    "assignment on the right": Rule(("1var_held_right",)),
    "assignment": Rule(("1var_held_left", "1var_held_right")),
    "two variables": Rule(("2var_held",)),
    "early addition re-routed": Rule(("bare_accuracy_deleted",)),
    "neurons shared": Rule(("shared_direct_left", "shared_direct_right", "shared_direct_both")),
    "restricted positions": Rule(("1var_restricted", "2var_restricted_1", "2var_restricted_2")),
}
"""Events by name; every level was set before a run was looked at."""


def event(series: Series, name: str, rule: Rule) -> Event:
    """Return when all curves of a rule reached its level. Raises `InputError` for a curve that is not there."""
    return reached(
        name,
        series.steps,
        *(
            np.min([series.curve(curve, field) for curve in rule.curves], axis=0)
            for field in ("value", "low", "high")
        ),
        level=rule.level,
    )


def reached(
    name: str,
    steps: Sequence[int],
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    level: float,
) -> Event:
    """Return when a curve [step] reached `level` and kept it for `SUSTAINED` checkpoints (or to its end)."""

    def first_kept(above: np.ndarray) -> int | None:
        for i in np.flatnonzero(above):
            if above[i : i + SUSTAINED].all():
                return int(i)
        return None

    start, sure = first_kept(value >= level), first_kept(low >= level)
    before = np.flatnonzero(high[: len(high) if start is None else start] < level)
    lapses = 0 if start is None else int((high[start:] < level).sum())
    return Event(
        name,
        None if start is None else int(steps[start]),
        int(steps[before[-1]]) if len(before) else 0,
        None if sure is None else int(steps[sure]),
        lapses,
    )


def events(series: Series, rules: Mapping[str, Rule] = EVENTS) -> dict[str, Event]:
    """Return the events whose curves the series has, and one per cell: `cell b right`, …"""
    known = {n: rule for n, rule in rules.items() if all(c in series.values for c in rule.curves)}
    known |= {name: Rule((name,)) for name in series.values if name.startswith("cell ")}
    return {name: event(series, name, rule) for name, rule in known.items()}


@dataclass(frozen=True)
class Order:
    """How often one event came before another, over runs."""

    first: str
    second: str
    before: int
    """Runs in which `first` surely came before `second` (their intervals do not meet)."""
    after: int
    """Runs in which it surely came after."""
    unclear: int
    """Runs in which the intervals meet, or neither happened."""

    @property
    def always(self) -> bool:
        """Whether all runs agree."""
        return self.after == self.unclear == 0 and self.before > 0

    @property
    def share(self) -> Estimate:
        """Share of runs in which `first` surely came first, with its Wilson interval."""
        return share(self.before, self.before + self.after + self.unclear)


def orders(runs: Sequence[Mapping[str, Event]]) -> list[Order]:
    """Compare every two events that all runs have, most agreed-upon first. Raises `InputError` for no runs."""
    if not runs:
        raise InputError("an order over runs needs at least one run")
    names = [name for name in runs[0] if all(name in run for run in runs)]
    found = []
    for one, two in combinations(names, 2):
        before = sum(_precedes(run[one], run[two]) for run in runs)
        after = sum(_precedes(run[two], run[one]) for run in runs)
        if after > before:
            one, two, before, after = two, one, after, before
        found.append(Order(one, two, before, after, len(runs) - before - after))
    return sorted(found, key=lambda o: -o.before)


def _precedes(one: Event, two: Event) -> bool:
    """Whether `one` was certain to have happened at a checkpoint at which `two` was certain not to have."""
    return one.high is not None and one.high <= two.low


@dataclass(frozen=True)
class ChangePoint:
    """A step at which a run's curves change level."""

    step: int
    """First checkpoint of the new segment."""
    low: int
    """Lower end of the interval: the change lies after this checkpoint."""
    high: int
    """Upper end: the change lies at or before this checkpoint."""
    n: int
    """Bootstrap refits behind the interval."""


def change_points(
    steps: Sequence[int],
    curves: np.ndarray,
    *,
    n_changes: int = len(PHASES),
    n_resamples: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> list[ChangePoint]:
    """Return the steps that cut the curves [step curve] best into pieces of constant level (least squares).

    Interval: residuals are resampled in blocks of about the square root of the number of checkpoints within
    each piece, the cut is made again, and its quantiles are widened by one checkpoint to the left, as a change
    lies between two checkpoints. Raises `InputError` where the checkpoints are too few.
    """
    from ruptures import KernelCPD

    x = np.asarray(curves, float)
    x = x[:, None] if x.ndim == 1 else x
    if x.shape[0] != len(steps) or not np.isfinite(x).all():
        raise InputError(f"expected one finite row per step; got {x.shape} for {len(steps)} steps")
    if len(steps) < 2 * (n_changes + 1):
        raise InputError(
            f"{n_changes} change points need at least {2 * (n_changes + 1)} checkpoints; got {len(steps)}"
        )

    def cut(signal: np.ndarray) -> np.ndarray:
        found = KernelCPD(kernel="linear", min_size=2).fit(signal).predict(n_bkps=n_changes)
        return np.array(found[:-1])

    at = cut(x)
    pieces = np.split(np.arange(len(x)), at)
    fitted = np.concatenate([np.repeat(x[rows].mean(0)[None], len(rows), 0) for rows in pieces])
    residual = x - fitted
    rng = np.random.default_rng(seed)
    block = max(1, round(len(x) ** 0.5))
    draws = []
    for _ in range(n_resamples):
        rows = np.concatenate([_blocks(piece, block, rng) for piece in pieces])
        draws.append(cut(fitted + residual[rows]))
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(np.array(draws), tails, axis=0, method="inverted_cdf").astype(int)
    low, high = np.minimum(low, at), np.maximum(high, at)
    return [
        ChangePoint(int(steps[i]), int(steps[max(a - 1, 0)]), int(steps[b]), n_resamples)
        for i, a, b in zip(at, low, high, strict=True)
    ]


def _blocks(rows: np.ndarray, block: int, rng: np.random.Generator) -> np.ndarray:
    """Draw as many rows as there are, in runs of neighbours."""
    size = min(block, len(rows))
    starts = rng.integers(0, len(rows) - size + 1, -(-len(rows) // size))
    return np.concatenate([rows[s : s + size] for s in starts])[: len(rows)]


@dataclass(frozen=True)
class Jump:
    """The steepest part of a curve."""

    share: float
    """Its rise as a share of the curve's whole rise: from its lowest value to the highest after that."""
    start: int
    """Checkpoint at which it starts."""
    end: int
    """Checkpoint at which it ends."""


def jump(steps: Sequence[int], curve: np.ndarray, *, within: int) -> Jump:
    """Return the largest rise of a curve [step] within so many steps."""
    at, x = np.asarray(steps), np.asarray(curve, float)
    later = np.maximum.accumulate(x[::-1])[::-1]
    whole = float((later - x).max())
    last = np.searchsorted(at, at + within, side="right") - 1
    rise = x[last] - x
    best = int(rise.argmax())
    share_of_rise = float(rise[best]) / whole if whole > 0 else 0.0
    return Jump(share_of_rise, int(at[best]), int(at[last[best]]))
