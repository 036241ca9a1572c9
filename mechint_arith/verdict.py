"""From evidence to a verdict, by a rule declared before looking. Never sees a model.

The verdict speaks of the neurons of the last MLP. Thresholds are options; they are written into every result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from mechint_arith.sharing import JUDGED, Evidence, PairEvidence
from mechint_arith.stats import Estimate
from mechint_arith.tasks.assign_add import QUERIES

NAMES = ("shared", "partly shared", "separate", "not competent", "inconclusive")
CARRY = {
    "shared": "carry it on {} too",
    "partly shared": "carry only part of it on {}",
    "separate": "carry hardly any of it on {}",
}
"""Verdict on a pair of routes -> what the neurons of the direct route do on the other."""
OPEN = {
    "mlp not needed": "the answers hardly need the last MLP",
    "cancellation": "too many neurons work against the answer",
    "disagreement": "the indices disagree",
    "indices": "an interval crosses a threshold",
}
"""Branch of the rule -> why nothing follows."""


@dataclass(frozen=True)
class Thresholds:
    """The rule's numbers, with the defaults declared beforehand."""

    competent: float = 0.90
    """Lower limit of accuracy on seen pairs off the diagonal that both routes must reach."""
    mlp_not_needed: float = 0.25
    """Accuracy without the MLP (zeroed, or pooled mean) above which, or above 2/p, it is not needed."""
    cancelling: float = 0.20
    """Share of negative effect above which effects cancel."""
    disagreement: float = 0.20
    """Largest distance allowed between SIGMA, SWAP and OVERLAP."""
    shared: float = 0.85
    """Every index's lower limit must reach this."""
    shared_act: float = 0.60
    """ACT must reach this for `shared`."""
    separate: float = 0.15
    """Every index's upper limit must stay at or below this."""


@dataclass(frozen=True)
class PairVerdict:
    """The verdict on two routes."""

    name: str
    reason: str
    """One line with the numbers that decided."""
    branch: str
    """Which step of the rule decided: competence, mlp not needed, cancellation, disagreement, indices."""


@dataclass(frozen=True, repr=False)
class Verdict:
    """The verdict on a model."""

    name: str
    """One of `NAMES`."""
    reasons: tuple[str, ...]
    """One line for the model and one per judged route pair."""
    meaning: str
    """A sentence that says what the verdict means for this model."""
    pairs: Mapping[str, PairVerdict]
    """All route pairs; the model's verdict uses direct-left, direct-right and direct-both."""
    index: Estimate
    """Sharing index: the smallest SIGMA of the three judged pairs."""
    thresholds: Thresholds

    def __repr__(self) -> str:
        """Return the verdict, its index and the verdict on each pair of routes in one line."""
        pairs = ", ".join(f"{pair}: {found.name}" for pair, found in self.pairs.items())
        return f"Verdict({self.name}; sharing index {self.index}; {pairs})"

    def as_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "meaning": self.meaning,
            "reasons": list(self.reasons),
            "thresholds": asdict(self.thresholds),
        }


def judge(evidence: Evidence, thresholds: Thresholds | None = None) -> Verdict:
    """Apply the rule to every route pair, then to the model."""
    t = thresholds or Thresholds()
    pairs = {name: judge_pair(evidence, name, t) for name in evidence.pairs}
    judged = {name: pairs[name] for name in JUDGED}
    found = {verdict.name for verdict in judged.values()}
    by_name = {name: [pair for pair, v in judged.items() if v.name == name] for name in NAMES}
    if "not competent" in found:
        name = "not competent"
        why = f"a route is not competent in {', '.join(by_name[name])}"
    elif "inconclusive" in found:
        name = "inconclusive"
        why = f"no conclusion for {', '.join(by_name[name])}"
    elif len(found) == 1:
        name = found.pop()
        why = f"all three pairs of routes are {name}"
    else:
        name = "partly shared"
        why = "; ".join(f"{n}: {', '.join(by_name[n])}" for n in NAMES if by_name[n])
    index = min((evidence.pairs[pair].sigma for pair in JUDGED), key=lambda s: s.value)
    reasons = (f"{name}: {why}", *(f"{pair}: {v.name}: {v.reason}" for pair, v in judged.items()))
    return Verdict(name, reasons, _meaning(name, judged, evidence, t), pairs, index, t)


def _meaning(
    name: str, judged: Mapping[str, PairVerdict], evidence: Evidence, t: Thresholds
) -> str:
    """Return in words what a verdict on the model says of it."""
    if name == "not competent":
        weak = [
            QUERIES[r] for r, found in evidence.routes.items() if found.accuracy.low < t.competent
        ]
        return (
            f"The model does not answer {_and(weak)} reliably, so nothing is said of its neurons."
        )
    queries = {pair: QUERIES[pair.split("-")[1]] for pair in judged}
    if name == "inconclusive":
        unclear: dict[str, list[str]] = {}
        for pair, found in judged.items():
            if found.name == name:
                unclear.setdefault(OPEN[found.branch], []).append(queries[pair])
        why = "; ".join(f"{reason} ({_and(which)})" for reason, which in unclear.items())
        return f"Whether neurons of the last MLP are shared cannot be told: {why}."
    said = {
        kind: [queries[pair] for pair, found in judged.items() if found.name == kind]
        for kind in CARRY
    }
    carry = "; they ".join(CARRY[kind].format(_and(which)) for kind, which in said.items() if which)
    return f"The neurons of the last MLP that carry 95 % of the effect on 7 + 12 {carry}."


def _and(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def judge_pair(evidence: Evidence, name: str, t: Thresholds) -> PairVerdict:
    """Apply the rule to one pair of routes, in its declared order."""
    routes = {route: evidence.routes[route] for route in name.split("-")}
    for route, r in routes.items():
        if r.accuracy.low < t.competent:
            return PairVerdict(
                "not competent",
                f"{route} accuracy {r.accuracy}, lower limit below {t.competent:.2f}",
                "competence",
            )
    needed = max(t.mlp_not_needed, 2 / evidence.p)
    for route, r in routes.items():
        for how, accuracy in (("zeroed", r.zeroed), ("at its pooled mean", r.mean_pooled)):
            if accuracy.value > needed:
                return PairVerdict(
                    "inconclusive",
                    f"{route} accuracy with the MLP {how} is {accuracy}, above {needed:.2f}:"
                    " the MLP is not needed",
                    "mlp not needed",
                )
    for route, r in routes.items():
        if r.negative_share > t.cancelling:
            return PairVerdict(
                "inconclusive",
                f"{route}: {r.negative_share:.2f} of the effect works against the answer, above"
                f" {t.cancelling:.2f}: sharing is not identifiable",
                "cancellation",
            )
    return _by_indices(evidence.pairs[name], t)


def _by_indices(pair: PairEvidence, t: Thresholds) -> PairVerdict:
    indices = {"SIGMA": pair.sigma, "SWAP": pair.swap, "OVERLAP": pair.overlap}
    text = ", ".join(
        f"{name} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}]" for name, e in indices.items()
    )
    text += f", ACT {pair.act.value:.3f}"
    values = [e.value for e in indices.values()]
    if max(values) - min(values) > t.disagreement:
        return PairVerdict("inconclusive", f"the indices disagree: {text}", "disagreement")
    estimates = list(indices.values())
    if all(e.low >= t.shared for e in estimates) and pair.act.value >= t.shared_act:
        return PairVerdict("shared", text, "indices")
    if all(e.high <= t.separate for e in estimates):
        return PairVerdict("separate", text, "indices")
    if all(e.low > t.separate and e.high < t.shared for e in estimates):
        return PairVerdict("partly shared", text, "indices")
    return PairVerdict("inconclusive", f"the limits straddle a threshold: {text}", "indices")
