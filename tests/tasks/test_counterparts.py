"""Corrupted prompts: everything said is changed, nothing moves."""

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.tasks.counterparts import counterparts
from mechint_arith.tasks.prompts import from_text

TASK = AssignAdd()


@pytest.fixture
def both_runs(rng):
    pair = rng.choice(TASK.p**2, 300, replace=False)
    clean = matched(TASK, pair, rng)
    return clean, counterparts(TASK, clean, rng)


@pytest.mark.parametrize("route", ROUTES)
def test_each_place_holds_the_same_kind_of_token_with_another_value(both_runs, route):
    clean, corrupted = (runs[route] for runs in both_runs)
    for name, places in clean.positions.items():
        np.testing.assert_array_equal(places, corrupted.positions[name])
    kinds = [
        np.digitize(batch.tokens, [TASK.p, TASK.variable_ids[0]]) for batch in (clean, corrupted)
    ]
    np.testing.assert_array_equal(*kinds)
    rows = np.arange(len(clean))
    for name in ("value of lhs", "value of rhs", "lhs", "rhs"):
        at = clean.positions[name]
        assert (clean.tokens[rows, at] != corrupted.tokens[rows, at]).all()
    assert (clean.tokens == TASK.vocab.ids["PAD"]).any()
    assert (clean.labels != corrupted.labels).all()


def test_a_corrupted_prompt_is_a_prompt_that_training_could_show(both_runs):
    corrupted = both_runs[1]["both"]
    prompts = [" ".join(TASK.vocab.decode(row)) for row in corrupted.tokens]
    read = from_text(TASK, prompts)
    np.testing.assert_array_equal(read.tokens, corrupted.tokens)
    np.testing.assert_array_equal(read.labels, corrupted.labels)
    np.testing.assert_array_equal(read.factors["pair"], corrupted.factors["pair"])
    assert TASK.seen[corrupted.factors["pair"]].all()
    allowed = {tuple(pair) for pair in TASK.variable_pairs().tolist()}
    names = (corrupted.factors["left variable"], corrupted.factors["right variable"])
    assert set(zip(*(n.tolist() for n in names), strict=True)) <= allowed


def test_routes_stay_matched(both_runs):
    corrupted = both_runs[1]
    query = TASK.places["lhs"]
    for route in ROUTES[1:]:
        np.testing.assert_array_equal(
            corrupted[route].tokens[:, :query], corrupted["direct"].tokens[:, :query]
        )
        np.testing.assert_array_equal(corrupted[route].labels, corrupted["direct"].labels)


def test_a_task_with_one_variable_pair_has_no_counterparts(rng):
    task = AssignAdd(p=7, n_vars=2, length=8, never_left=1, never_right=1)
    clean = matched(task, np.array([3]), rng)
    with pytest.raises(InputError, match="some variable pair has no other"):
        counterparts(task, clean, rng)


def test_counterparts_need_the_route_both(rng):
    prompts = matched(TASK, np.arange(3), rng)
    with pytest.raises(InputError, match="need the route both; got direct"):
        counterparts(TASK, {"direct": prompts["direct"]}, rng)
