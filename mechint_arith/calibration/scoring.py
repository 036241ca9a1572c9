"""Hold verdicts against what was planted: confusion, false calls, errors of SIGMA, branches met.

Works on the records of `trial`; thresholds are the verdict's own. A planted share is turned into the word that the
rule has for it: shared from `Thresholds.shared` up, separate up to `Thresholds.separate`, else partly shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.sharing import JUDGED
from mechint_arith.stats import Estimate, share
from mechint_arith.verdict import Thresholds

WITHOUT_SHARE = {"early": "not competent", "untrained": "not competent"}
"""What the rule should find where no share of effect can be told; elsewhere `inconclusive`."""
GOALS = {
    "shared": 0.03,
    "shared, unread flag": 0.03,
    "split": 0.03,
    "partial, random": 0.03,
    "partial, half strength": 0.03,
    "partial, important": 0.06,
}
"""Largest error of SIGMA aimed at, by kind."""
BRANCHES = (
    "competence",
    "mlp not needed",
    "cancellation",
    "disagreement",
    "indices: shared",
    "indices: separate",
    "indices: partly shared",
    "indices: inconclusive",
)


@dataclass(frozen=True)
class Judged:
    """One pair of routes of one control."""

    control: str
    kind: str
    pair: str
    planted: float | None
    """Share of effect, or None where it cannot be told."""
    expected: str
    """The word for it."""
    found: str
    branch: str
    sigma: float | None


@dataclass(frozen=True)
class SigmaError:
    """SIGMA minus the planted share, over pairs of routes of one kind."""

    n: int
    mean: float
    """Signed."""
    mean_absolute: float
    largest: float
    """Of the absolute errors."""
    n_between: int
    """Pairs planted strictly between 0 and 1, the next two numbers' basis."""
    mean_absolute_between: float | None
    largest_between: float | None
    goal: float | None

    @property
    def met(self) -> bool | None:
        """Whether the largest error is within the goal; None without one."""
        return None if self.goal is None else self.largest <= self.goal


@dataclass(frozen=True)
class Scores:
    """What a calibration found."""

    n_controls: int
    n_bases: int
    pairs: Counter[tuple[str, str]]
    """(expected, found) -> pairs of routes."""
    models: Counter[tuple[str, str]]
    """(expected, found) -> controls."""
    rates: dict[str, Estimate | None]
    """Name of a false call -> share with Wilson interval; None where nothing of the sort was planted."""
    sigma: dict[str, SigmaError]
    """Kind -> error."""
    branches: Counter[str]
    """Branch of the rule -> pairs of routes."""
    accuracy_lost: dict[str, float]
    """Kind -> largest loss of accuracy on a route against the base."""
    logit_change: dict[str, float]
    """Kind -> largest change of a logit against the base."""
    wrong: list[Judged]
    """Every pair whose verdict is not the expected word."""


def judged_pairs(
    records: Iterable[dict[str, Any]], thresholds: Thresholds | None = None
) -> list[Judged]:
    """Flatten records to pairs of routes."""
    t = thresholds or Thresholds()
    found = []
    for record in records:
        trial = record["trial"]
        for name, pair in record["pairs"].items():
            planted = pair["planted"]["share"]
            expected = (
                WITHOUT_SHARE.get(trial["kind"], "inconclusive")
                if planted is None
                else word(planted, t)
            )
            branch = pair["branch"]
            if branch == "indices":
                branch = f"indices: {pair['verdict']}"
            sigma = None if pair["sigma"] is None else pair["sigma"]["value"]
            found.append(
                Judged(
                    trial["name"],
                    trial["kind"],
                    name,
                    planted,
                    expected,
                    pair["verdict"],
                    branch,
                    sigma,
                )
            )
    return found


def word(planted: float, t: Thresholds) -> str:
    """Return the rule's word for a planted share of effect."""
    if planted >= t.shared:
        return "shared"
    return "separate" if planted <= t.separate else "partly shared"


def model_word(words: Sequence[str]) -> str:
    """Combine the words of the judged pairs of routes as the rule does."""
    for decisive in ("not competent", "inconclusive"):
        if decisive in words:
            return decisive
    return words[0] if len(set(words)) == 1 else "partly shared"


def score(records: Sequence[dict[str, Any]], thresholds: Thresholds | None = None) -> Scores:
    """Summarise the records of a calibration."""
    pairs = judged_pairs(records, thresholds)
    by_control: dict[str, list[Judged]] = {}
    for pair in pairs:
        by_control.setdefault(pair.control, []).append(pair)
    models: Counter[tuple[str, str]] = Counter()
    for record in records:
        mine = [p for p in by_control[record["trial"]["name"]] if p.pair in JUDGED]
        models[model_word([p.expected for p in mine]), record["verdict"]["name"]] += 1
    kinds = list(dict.fromkeys(pair.kind for pair in pairs))
    changes = [
        (r["trial"]["kind"], r["planted"]["change"]) for r in records if "change" in r["planted"]
    ]
    lost: dict[str, float] = {}
    logit: dict[str, float] = {}
    for kind, change in changes:
        drop = max(old - new for old, new in change["accuracy before, after"].values())
        lost[kind] = max(lost.get(kind, 0.0), drop)
        logit[kind] = max(logit.get(kind, 0.0), change["largest logit change"])
    return Scores(
        n_controls=len(records),
        n_bases=len({record["base"]["sha256"] for record in records}),
        pairs=Counter((pair.expected, pair.found) for pair in pairs),
        models=models,
        rates=false_calls(pairs),
        sigma={
            kind: error
            for kind in kinds
            if (error := sigma_error([p for p in pairs if p.kind == kind], GOALS.get(kind)))
        },
        branches=Counter(dict.fromkeys(BRANCHES, 0) | Counter(p.branch for p in pairs)),
        accuracy_lost=lost,
        logit_change=logit,
        wrong=[pair for pair in pairs if pair.found != pair.expected],
    )


def false_calls(pairs: Sequence[Judged]) -> dict[str, Estimate | None]:
    """Return the shares of false calls, over pairs of routes and over the controls that contain any."""
    known = [pair for pair in pairs if pair.planted is not None]
    unknown = [pair for pair in pairs if pair.planted is None]
    rates: dict[str, Estimate | None] = {}
    for unit in ("pairs", "controls"):
        for called, opposite in (("shared", "separate"), ("separate", "shared")):
            for planted, these in (
                (f"planted {opposite}", [p for p in known if p.expected == opposite]),
                (f"planted not {called}", [p for p in known if p.expected != called]),
                ("no share to be told", unknown),
            ):
                rates[f"{planted}, called {called} ({unit})"] = _rate(these, called, unit)
    return rates


def _rate(pairs: Sequence[Judged], called: str, unit: str) -> Estimate | None:
    """Share of pairs, or of controls with at least one pair, that were called so."""
    calls: dict[str, bool] = {}
    for i, pair in enumerate(pairs):
        key = pair.control if unit == "controls" else str(i)
        calls[key] = calls.get(key, False) or pair.found == called
    return share(sum(calls.values()), len(calls)) if calls else None


def sigma_error(pairs: Sequence[Judged], goal: float | None) -> SigmaError | None:
    """Return the error of SIGMA over pairs with a planted share; None if there are none."""
    both = np.array(
        [(p.planted, p.sigma) for p in pairs if p.planted is not None and p.sigma is not None],
        dtype=float,
    ).reshape(-1, 2)
    if not len(both):
        return None
    error = both[:, 1] - both[:, 0]
    between = np.abs(error[(both[:, 0] > 1e-9) & (both[:, 0] < 1 - 1e-9)])
    return SigmaError(
        len(error),
        float(error.mean()),
        float(np.abs(error).mean()),
        float(np.abs(error).max()),
        len(between),
        float(between.mean()) if len(between) else None,
        float(between.max()) if len(between) else None,
        goal,
    )
