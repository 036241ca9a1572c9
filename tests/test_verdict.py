"""The rule, branch by branch, on evidence made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from mechint_arith.sharing import Evidence, PairEvidence, RouteEvidence
from mechint_arith.stats import Estimate
from mechint_arith.verdict import Thresholds, judge

PAIRS = ("direct-left", "direct-right", "direct-both", "left-right", "left-both", "right-both")


def e(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value, value - half, value + half, 100)


def route(**changes) -> RouteEvidence:
    good, bad = e(0.99), e(0.03)
    made = RouteEvidence(
        accuracy=good, accuracy_held=good, accuracy_diagonal=good, zeroed=bad, mean_own=bad,
        mean_pooled=bad, resampled=bad, mlp_only=good, keep_set=good, margin=e(30.0),
        negative_share=0.01, effect=np.ones(4), chosen=np.ones(4, bool), active=np.ones(4, bool),
    )  # fmt: skip
    return replace(made, **changes)


def pair(sigma=0.98, swap=0.98, overlap=0.96, act=0.95, half=0.01) -> PairEvidence:
    return PairEvidence(e(sigma, half), e(swap, half), e(overlap, half), e(act), 0.4, 1.0, 1.0, {})


def evidence(routes=None, pairs=None, p=59) -> Evidence:
    every_route = {name: route() for name in ("direct", "left", "right", "both")} | (routes or {})
    every_pair = {name: pair() for name in PAIRS} | (pairs or {})
    return Evidence(every_route, every_pair, p, 1000, 500, 100, 0)


def test_shared():
    v = judge(evidence())
    assert v.name == "shared"
    assert v.index.value == 0.98
    assert len(v.reasons) == 4
    assert all("\n" not in reason for reason in v.reasons)


def test_separate():
    assert judge(evidence(pairs={n: pair(0.02, 0.03, 0.05, 0.0) for n in PAIRS})).name == "separate"


def test_partly_shared_by_value_and_by_mixture():
    assert judge(evidence(pairs={n: pair(0.5, 0.5, 0.45) for n in PAIRS})).name == "partly shared"
    v = judge(evidence(pairs={"direct-left": pair(0.02, 0.03, 0.05, 0.0)}))
    assert v.name == "partly shared"
    assert "separate: direct-left" in v.reasons[0]
    assert v.index.value == 0.02


def test_what_a_verdict_means_is_one_sentence_about_this_model():
    carry = "The neurons of the last MLP that carry 95 % of the effect on 7 + 12 "
    apart, half = pair(0.02, 0.03, 0.05, 0.0), pair(0.5, 0.5, 0.45)
    wide = pair(half=0.2)
    weak = route(accuracy=Estimate(0.92, 0.89, 0.94, 300))
    for made, meaning in (
        (evidence(), carry + "carry it on x + 12, 7 + y and x + y too."),
        (
            evidence(pairs={"direct-left": apart, "direct-both": half}),
            carry + "carry it on 7 + y too; they carry only part of it on x + y;"
            " they carry hardly any of it on x + 12.",
        ),
        (
            evidence(pairs={"direct-left": wide, "direct-both": pair(sigma=0.5)}),
            "Whether neurons of the last MLP are shared cannot be told: an interval crosses a threshold"
            " (x + 12); the indices disagree (x + y).",
        ),
        (
            evidence({"left": weak, "both": weak}),
            "The model does not answer x + 12 and x + y reliably, so nothing is said of its neurons.",
        ),
    ):
        assert judge(made).meaning == meaning


def test_competence_comes_first():
    weak = route(accuracy=Estimate(0.92, 0.89, 0.94, 300), zeroed=e(0.9), negative_share=0.9)
    v = judge(evidence(routes={"left": weak}))
    assert v.name == "not competent"
    assert v.pairs["direct-left"].branch == "competence"
    assert v.pairs["direct-right"].name == "shared"


@pytest.mark.parametrize("field", ["zeroed", "mean_pooled"])
def test_mlp_not_needed_comes_second(field):
    idle = route(**{field: e(0.6), "negative_share": 0.9})
    v = judge(evidence(routes={"direct": idle}))
    assert v.name == "inconclusive"
    assert v.pairs["direct-left"].branch == "mlp not needed"


def test_two_over_p_counts_for_small_moduli():
    assert judge(evidence(routes={"left": route(zeroed=e(0.3))}, p=5)).name == "shared"


def test_cancellation_comes_third():
    v = judge(
        evidence(routes={"both": route(negative_share=0.3)}, pairs={"direct-both": pair(0.9, 0.5)})
    )
    assert v.pairs["direct-both"].branch == "cancellation"
    assert v.name == "inconclusive"


def test_disagreement_comes_fourth():
    v = judge(evidence(pairs={"direct-right": pair(0.95, 0.95, 0.7)}))
    assert v.pairs["direct-right"].branch == "disagreement"
    assert v.name == "inconclusive"


def test_limits_that_straddle_a_threshold_are_inconclusive():
    v = judge(evidence(pairs={"direct-left": pair(0.86, 0.86, 0.86, half=0.03)}))
    assert v.pairs["direct-left"].name == "inconclusive"
    assert "straddle" in v.pairs["direct-left"].reason


def test_high_indices_with_low_act_are_not_shared():
    assert (
        judge(evidence(pairs={"direct-left": pair(act=0.3)})).pairs["direct-left"].name != "shared"
    )


def test_unjudged_pairs_do_not_move_the_model():
    assert judge(evidence(pairs={"left-right": pair(0.0, 0.0, 0.0)})).name == "shared"


def test_thresholds_are_options_and_written_down():
    strict = Thresholds(shared=0.99)
    v = judge(evidence(), strict)
    assert v.name == "inconclusive"
    assert v.as_dict()["thresholds"]["shared"] == 0.99
