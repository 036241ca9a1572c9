"""Clean and corrupted prompts differ in exactly one token, which is the changed operand's number."""

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd
from mechint_arith.tasks.contrasts import contrasting

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
    ("route", "n", "change", "complaint"),
    [
        ("middle", 3, "lhs", "no route"),
        ("left", 3, "x", "lhs or rhs"),
        ("left", 0, "lhs", "at least one"),
    ],
)
def test_unknown_names_are_refused(route, n, change, complaint):
    with pytest.raises(InputError, match=complaint):
        contrasting(TASK, route, n, change=change)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed cannot be negative: -1"):
        contrasting(AssignAdd(), "both", 3, seed=-1)
