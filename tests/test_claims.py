"""Claims on planted runs: a run that keeps the paper's story, and runs that break one part of it each."""

from dataclasses import replace

import numpy as np
import pytest

from mechint_arith.claims import Run, judge
from mechint_arith.dynamics import Series
from mechint_arith.errors import InputError
from mechint_arith.stats import Estimate

STEPS = tuple(range(200, 20_200, 200))
RESTRICTED = ("a right", "k left")
CELLS = ("a left", "a right", "k left", "k right")


def rise(at, *, start=0.02, end=1.0, over=0):
    """A curve from `start` to `end` at a step, straight over so many steps."""
    x = np.interp(STEPS, [at - over - 1, at], [start, end])
    return tuple(Estimate(v, v - 0.01, v + 0.01, 1000) for v in x.tolist())


def run(name="run", **changes):
    values = {
        "0var_seen": rise(400),
        "0var_held": rise(1000),
        "1var_held": rise(5400),
        "1var_held_left": rise(5400),
        "1var_held_right": rise(5000),
        "2var_held": rise(5800),
        "1var_restricted": rise(15_000),
        "2var_restricted_1": rise(15_000),
        "2var_restricted_2": rise(15_000),
        "ov1_mlp1": rise(800),
        "qk0_previous_strict": rise(1000),
        "qk0_previous_with_self": rise(1000, end=0.1),
        "qk1_identity": rise(5400),
        "qk1_margin": rise(5400, end=70.0),
        "identity_swap": rise(5400),
        "attn0_previous_published": rise(2000),
        "attn0_previous_mass_both": rise(2000),
        "attn0_operands_mass_both": rise(5400, end=0.6),
        **{f"attn0_operands_{r}": rise(5400) for r in ("direct", "left", "right", "both")},
        "bare_accuracy_deleted": rise(5400),
        "bare_accuracy_without_relay": rise(400),
        "bare_accuracy_without_both": rise(5400),
        "attn1_direct_lhs": rise(200, end=0.9),
        "attn1_direct_rhs": rise(5400, end=0.4),
        **{f"cell {c}": rise(15_000 if c == "a right" else 6000) for c in CELLS},
    }
    seldom = {
        **{f"shared_direct_{r}": rise(6000) for r in ("left", "right", "both")},
        **{f"sigma_direct_{r}": rise(6000) for r in ("left", "right", "both")},
        "ov_sum_r2": rise(5000),
        "ov_sum_scale": rise(5000, end=0.4),
    }
    series = [
        Series(STEPS, {k: changes.get(k, v) for k, v in group.items()})
        for group in (values, seldom)
    ]
    return Run(name, *series, RESTRICTED)


def test_a_run_that_tells_the_papers_story_holds_every_claim():
    claims = judge([run(str(i)) for i in range(8)])
    assert {name: claim.verdict for name, claim in claims.items()} == {
        f"C{i}": "supported" for i in range(1, 11)
    }
    assert claims["C9"].runs["0"].values["last cell"] == "a right"
    assert claims["C10"].runs["0"].values["operand that layer 1 neglects then"] == "rhs"
    assert claims["C3"].runs["0"].values["from step"] == 6000
    assert claims["C1"].holding.n == 8


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("C1", {"2var_held": rise(5800, end=0.9)}),
        ("C2", {"cell a right": rise(15_000, end=0.1)}),
        ("C3", {"shared_direct_left": rise(6000, end=0.0)}),
        ("C4", {"ov_sum_r2": rise(5000, end=0.5)}),
        ("C5", {"attn0_operands_left": rise(5400, end=0.5)}),
        ("C6", {"identity_swap": rise(5400, end=0.3)}),
        ("C7", {"1var_held_right": rise(600)}),
        ("C8", {"1var_held_left": rise(9000, over=8000)}),
        ("C9", {"cell k right": rise(18_000)}),
        ("C10", {"bare_accuracy_deleted": rise(200)}),
    ],
)
def test_a_run_that_breaks_one_part_is_counted_against_that_claim(claim, changes):
    found = judge([run("good"), run("bad", **changes)])
    assert found[claim].against == ("bad",)
    assert found[claim].verdict == "undecided"


def test_claims_that_no_run_holds_are_contradicted():
    runs = [run(str(i), ov_sum_r2=rise(5000, end=0.5)) for i in range(8)]
    found = judge(runs)["C4"]
    assert found.verdict == "contradicted"
    assert found.as_dict()["runs"]["0"]["holds"] is False
    with pytest.raises(InputError, match="at least one run"):
        judge([])


def test_a_run_that_is_not_competent_shows_that_instead_of_sigma():
    whole = run()
    missing = {"sigma_direct_right": {STEPS[-1]: "not competent"}}
    late = replace(whole.seldom, missing=missing)
    values = judge([replace(whole, seldom=late)])["C3"].as_dict()["runs"]["run"]
    assert values["sigma direct_right"] == "not competent"
    assert values["sigma direct_left"] == 1
