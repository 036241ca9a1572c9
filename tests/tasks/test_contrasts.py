"""Clean and corrupted prompts differ in exactly one token: the changed operand's number or its variable."""

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd
from mechint_arith.tasks.contrasts import contrasting
from mechint_arith.tasks.prompts import from_text

TASK = AssignAdd()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("change", ["lhs", "rhs"])
def test_one_token_differs_and_the_answer_with_it(route, change):
    clean, corrupted = contrasting(TASK, route, 300, change=change)
    differ = clean.tokens != corrupted.tokens
    assert (differ.sum(1) == 1).all()
    assert (differ.argmax(1) == clean.positions[f"value of {change}"]).all()
    assert (clean.labels != corrupted.labels).all()
    number = {"lhs": "a", "rhs": "b"}[change]
    place = corrupted.positions[f"value of {change}"]
    assert (corrupted.tokens[np.arange(300), place] == corrupted.factors[number]).all()
    total = corrupted.factors["a"] + corrupted.factors["b"]
    assert (total % 59 == corrupted.labels).all()
    assert TASK.seen[clean.factors["pair"]].all()


@pytest.mark.parametrize(
    ("route", "operand"), [("both", "lhs"), ("both", "rhs"), ("left", "lhs"), ("right", "rhs")]
)
def test_another_variable_is_asked_for_and_nothing_else_changes(route, operand):
    clean, corrupted = contrasting(TASK, route, 300, change=f"variable of {operand}")
    assert len(clean) == len(corrupted) == 300
    differ = clean.tokens != corrupted.tokens
    assert (differ.sum(1) == 1).all()
    assert (differ.argmax(1) == clean.positions[operand]).all()
    assert (clean.labels != corrupted.labels).all()
    assert TASK.seen[clean.factors["pair"]].all()
    text = [" ".join(TASK.vocab.decode(row)) for row in corrupted.tokens.tolist()]
    again = from_text(TASK, text)
    np.testing.assert_array_equal(again.labels, corrupted.labels)
    for found, want in (
        (corrupted.positions, again.positions),
        (corrupted.factors, again.factors),
    ):
        assert found.keys() == want.keys()
        for name in want:
            np.testing.assert_array_equal(found[name], want[name])
    for side in ("left", "right"):
        shown = corrupted.factors[f"{side} variable"]
        assert np.isin(shown, [-1, *TASK.variables(side)]).all()


def test_a_task_without_another_variable_is_refused():
    small = AssignAdd(p=7, n_vars=4, length=8, never_left=1, never_right=1)
    with pytest.raises(InputError, match="too small for another variable of lhs"):
        contrasting(small, "both", 3, change="variable of lhs")


@pytest.mark.parametrize(
    ("route", "n", "change", "complaint"),
    [
        ("middle", 3, "lhs", "no route"),
        ("left", 3, "x", "change is one of lhs, rhs, variable of lhs"),
        ("left", 0, "lhs", "not 0"),
        ("direct", 3, "variable of lhs", "asks for no variable of lhs"),
        ("right", 3, "variable of lhs", "asks for no variable of lhs"),
        ("left", 3, "variable of rhs", "asks for no variable of rhs"),
    ],
)
def test_unknown_names_are_refused(route, n, change, complaint):
    with pytest.raises(InputError, match=complaint):
        contrasting(TASK, route, n, change=change)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed cannot be negative: -1"):
        contrasting(AssignAdd(), "both", 3, seed=-1)
