"""Every operation as addition, against the operation itself."""

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.tasks.additive import additive_view, is_prime, primitive_root
from mechint_arith.tasks.modular import ModularTask


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("p", [5, 11, 13])
def test_the_answer_at_i_and_j_stands_at_their_sum(op, p):
    task = ModularTask(p=p, op=op, train_share=0.5)
    view = additive_view(task)
    assert view.n == (p if op in ("add", "sub") else p - 1)
    answers = task.answers[view.pairs]
    np.testing.assert_array_equal(answers, view.classes[view.labels])
    assert len(set(view.lhs.tolist())) == len(set(view.rhs.tolist())) == view.n


@pytest.mark.parametrize("p", [2, 4, 10])
def test_addition_and_subtraction_take_any_modulus(p):
    for op in ("add", "sub"):
        task = ModularTask(p=p, op=op, train_share=0.5)
        view = additive_view(task)
        np.testing.assert_array_equal(task.answers[view.pairs], view.classes[view.labels])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p": 10, "op": "mul"}, "not prime"),
        ({"p": 9, "op": "div"}, "not prime"),
        ({"p": 3, "op": "mul"}, "too few"),
        ({"p": 7, "labels": "random"}, "random"),
    ],
)
def test_what_is_no_addition_says_why(options, said):
    with pytest.raises(InputError, match=said):
        additive_view(ModularTask(train_share=0.5, **options))


def test_primes_and_their_roots():
    assert [n for n in range(20) if is_prime(n)] == [2, 3, 5, 7, 11, 13, 17, 19]
    for p in (3, 5, 7, 23, 59):
        root = primitive_root(p)
        assert len({pow(root, i, p) for i in range(p - 1)}) == p - 1
