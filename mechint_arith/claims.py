"""The paper's claims C1–C10 as rules on a run's series, and what several runs say about each.

Rules and levels are the same for every run. They were not fixed blind: the released run's curves, one training log
and one run's event times had been seen. A run holds a claim or does not; over runs the
share that hold it has a Wilson interval with the run as the unit: supported where it lies above one half,
contradicted where it lies below, undecided otherwise. Source of the claims: arXiv 2605.31497.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mechint_arith.dynamics import Series
from mechint_arith.errors import InputError
from mechint_arith.phases import Event, event, events, jump, reached
from mechint_arith.stats import Estimate, share

SOLVED, KEPT = 0.95, 0.90
"""Accuracy at the end that counts as solved, and the level of events."""
SUDDEN_STEPS, SUDDEN_SHARE = 400, 0.5
"""A rise is sudden if so much of it lies within so many steps."""
ROUTES = ("direct", "left", "right", "both")

LIGHT = (
    "accuracy",
    "cells",
    "sides",
    "strata",
    "ov1_mlp1",
    "qk0_previous",
    "qk1_identity",
    "attn0_operands",
    "attn0_previous",
    "attn1_values",
    "attn1_direct",
    "edge_deletion",
    "relay_deletion",
    "identity_swap",
)
"""Measures that the claims need at every checkpoint."""
HEAVY = ("sharing", "mlp_input")
"""Measures that they need at some."""


@dataclass(frozen=True)
class Run:
    """One run's two series: cheap measures often, costly ones seldom, ending at the same step."""

    name: str
    often: Series
    seldom: Series
    restricted: tuple[str, ...]
    """Restricted cells: `a right`, `k left`, …"""

    @property
    def events(self) -> dict[str, Event]:
        """When what happened, from either series."""
        return {**events(self.seldom), **events(self.often)}

    def last(self, name: str) -> float:
        """A value at the end of the run."""
        series = self.often if name in self.often.values else self.seldom
        return float(series[name][-1].value)

    def shown(self, name: str) -> float | str:
        """A value at the end of the run, or why it is missing there."""
        series = self.often if name in self.often.values else self.seldom
        return series.why_missing(name, series.steps[-1]) or self.last(name)

    def cell(self, name: str) -> Event:
        """When a cell was solved."""
        return self.events[f"cell {name}"]


@dataclass(frozen=True)
class Found:
    """What one run says of a claim."""

    holds: bool
    values: Mapping[str, Any]
    """The numbers behind it."""


def _when(happened: Event) -> float:
    """The step of an event; infinite where it did not happen."""
    return math.inf if happened.step is None else float(happened.step)


def _after(one: Event, two: Event) -> bool:
    """Whether `one` happened at a later checkpoint than `two`, or not at all."""
    return two.step is not None and (one.step is None or one.step > two.step)


def held_pairs(run: Run) -> Found:
    """C1: held-out pairs are solved on every route."""
    pools = ("0var_held", "1var_held", "2var_held")
    values = {pool: run.last(pool) for pool in pools}
    strata = {
        n: run.last(n) for n in run.often.values if n.startswith(tuple(f"{p} " for p in pools))
    }
    return Found(min(values.values()) >= SOLVED, {**values, **strata})


def restricted_positions(run: Run) -> Found:
    """C2: restricted positions were solved, cell by cell, and are at the end; lapses between are counted."""
    cells = {cell: run.cell(cell) for cell in run.restricted}
    ends = {cell: run.last(f"cell {cell}") for cell in cells}
    pools = {n: run.last(n) for n in ("1var_restricted", "2var_restricted_1", "2var_restricted_2")}
    holds = all(e.step is not None for e in cells.values()) and min(ends.values()) >= KEPT
    return Found(
        holds,
        {
            "end": ends | pools,
            "step": {cell: e.step for cell, e in cells.items()},
            "lapses": {cell: e.lapses for cell, e in cells.items()},
        },
    )


def shared_neurons(run: Run) -> Found:
    """C3: the same neurons serve direct and indirect routes at the end; SIGMA of competent routes."""
    pairs = ("direct_left", "direct_right", "direct_both")
    values = {f"sigma {pair}": run.shown(f"sigma_{pair}") for pair in pairs}
    holds = all(run.last(f"shared_{pair}") == 1 for pair in pairs)
    return Found(holds, {**values, "from step": run.events["neurons shared"].step})


def ov_sum(run: Run) -> Found:
    """C4: the MLP's input is about OV(a) + OV(b)."""
    values = {name: run.last(name) for name in ("ov_sum_r2", "ov_sum_scale", "ov1_mlp1")}
    return Found(values["ov_sum_r2"] >= KEPT, values)


def layer0(run: Run) -> Found:
    """C5: values look at the token before, `=` at both operands."""
    names = ["attn0_previous_published", *(f"attn0_operands_{route}" for route in ROUTES)]
    values = {name: run.last(name) for name in names}
    masses = {
        name: run.last(name) for name in ("attn0_previous_mass_both", "attn0_operands_mass_both")
    }
    positions = {
        f"qk0_previous_{n}": run.last(f"qk0_previous_{n}") for n in ("strict", "with_self")
    }
    return Found(min(values.values()) >= KEPT, {**values, **masses, **positions})


def identity(run: Run) -> Found:
    """C6: layer 1 matches variable identity, in the weights and under exchange of identities."""
    values = {name: run.last(name) for name in ("qk1_identity", "qk1_margin", "identity_swap")}
    holds = values["qk1_identity"] >= KEPT and values["identity_swap"] >= KEPT
    return Found(holds, values)


def addition_first(run: Run) -> Found:
    """C7: held-out direct sums are solved before one-variable queries are on either side."""
    found = {
        name: run.events[name]
        for name in ("addition", "assignment on the left", "assignment on the right")
    }
    first, left, right = found.values()
    holds = _after(left, first) and _after(right, first)
    return Found(holds, {name: e.step for name, e in found.items()})


def assignment_sudden(run: Run) -> Found:
    """C8: assignment comes after addition, and at least half of its rise (later side) within 400 steps."""
    sides = {side: run.events[f"assignment on the {side}"] for side in ("left", "right")}
    later = max(sides, key=lambda side: _when(sides[side]))
    rises = {
        side: jump(run.often.steps, run.often.curve(f"1var_held_{side}"), within=SUDDEN_STEPS)
        for side in sides
    }
    holds = _after(sides[later], run.events["addition"]) and rises[later].share >= SUDDEN_SHARE
    values: dict[str, Any] = {"later side": later}
    for side, rise in rises.items():
        values[f"{side}: share of rise within {SUDDEN_STEPS} steps"] = rise.share
        values[f"{side}: steepest from step"] = rise.start
        values[f"{side}: solved at step"] = sides[side].step
    return Found(holds and sides[later].step is not None, values)


def refinement_last(run: Run) -> Found:
    """C9: the last cell to be solved is a restricted one, after both sides of assignment."""
    cells = {n.removeprefix("cell "): e for n, e in run.events.items() if n.startswith("cell ")}
    last = max(cells, key=lambda cell: _when(cells[cell]))
    unsolved = sorted(cell for cell, e in cells.items() if e.step is None)
    both = run.events["assignment"]
    holds = last in run.restricted and _after(cells[last], both)
    return Found(
        holds and not set(unsolved) - set(run.restricted),
        {
            "last cell": last,
            "its step": cells[last].step,
            "assignment": both.step,
            "unsolved": unsolved,
        },
    )


def early_route(run: Run) -> Found:
    """C10: when direct sums are first solved, deleting layer 0's `=` → operands breaks them; at the end it does not.

    The other way in, lhs taken in by rhs in layer 0, is printed beside it and not decided on.
    """
    often = run.often
    seen = event(often, "seen", _rule("0var_seen"))
    if seen.step is None:
        return Found(False, {"direct sums solved at step": None})
    at = often.steps.index(seen.step)
    weights = {name: often[f"attn1_direct_{name}"][at].value for name in ("lhs", "rhs")}
    early = often["bare_accuracy_deleted"][at].value
    end = run.last("bare_accuracy_deleted")
    neglected = min(weights, key=lambda name: weights[name])
    rerouted = reached(
        "re-routed",
        often.steps,
        *(often.curve("bare_accuracy_deleted", field) for field in ("value", "low", "high")),
        level=KEPT,
    )
    return Found(
        early < 0.5 and end >= KEPT,
        {
            "direct sums solved at step": seen.step,
            "A1 on lhs then": weights["lhs"],
            "A1 on rhs then": weights["rhs"],
            "operand that layer 1 neglects then": neglected,
            "accuracy without the edges then": early,
            "accuracy without rhs → lhs then": often["bare_accuracy_without_relay"][at].value,
            "accuracy without either then": often["bare_accuracy_without_both"][at].value,
            "accuracy without rhs → lhs at the end": run.last("bare_accuracy_without_relay"),
            "accuracy without the edges at the end": end,
            "re-routed at step": rerouted.step,
        },
    )


def _rule(name: str) -> Any:
    from mechint_arith.phases import Rule

    return Rule((name,), KEPT)


CLAIMS: Mapping[str, tuple[str, Callable[[Run], Found]]] = {
    "C1": ("Held pairs are solved on every route", held_pairs),
    "C2": ("Restricted positions are solved at the end, cell by cell", restricted_positions),
    "C3": ("The same neurons serve both routes at the end", shared_neurons),
    "C4": ("The MLP's input is about OV(a) + OV(b)", ov_sum),
    "C5": ("Layer 0: values look at the token before, = at both operands", layer0),
    "C6": ("Layer 1 matches variable identity", identity),
    "C7": ("Addition comes first", addition_first),
    "C8": ("Assignment comes second, suddenly", assignment_sudden),
    "C9": ("Refinement (a restricted cell) comes last", refinement_last),
    "C10": ("Early addition runs on another route and is re-routed", early_route),
}


@dataclass(frozen=True)
class Claim:
    """A claim over several runs."""

    name: str
    statement: str
    verdict: str
    """`supported`, `contradicted` or `undecided`."""
    holding: Estimate
    """Share of runs that hold it; n runs."""
    against: tuple[str, ...]
    """Runs that do not hold it."""
    runs: Mapping[str, Found]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "claim": self.statement,
            "verdict": self.verdict,
            "holding": self.holding.as_dict(),
            "against": list(self.against),
            "runs": {
                name: {"holds": bool(found.holds), **found.values}
                for name, found in self.runs.items()
            },
        }


def judge(runs: Sequence[Run]) -> dict[str, Claim]:
    """Judge every claim over runs. Raises `InputError` for no runs."""
    if not runs:
        raise InputError("claims need at least one run")
    result = {}
    for name, (statement, rule) in CLAIMS.items():
        found = {run.name: rule(run) for run in runs}
        holding = share(sum(f.holds for f in found.values()), len(runs))
        verdict = "supported" if holding.low > 0.5 else "undecided"
        verdict = "contradicted" if holding.high < 0.5 else verdict
        against = tuple(run for run, f in found.items() if not f.holds)
        result[name] = Claim(name, statement, verdict, holding, against, found)
    return result
