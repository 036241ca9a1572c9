"""Predicates against the published values, and predictions for the sixteen cells."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from mechint_arith import theory
from mechint_arith.errors import InputError
from mechint_arith.theory import forecast, predict
from mechint_arith.truncation import function


@dataclass(frozen=True)
class Places:
    """Where answer digits are read and what they need."""

    a_places: np.ndarray
    b_places: np.ndarray
    read_places: np.ndarray


I = np.arange(6)  # noqa: E741
LEAST_FIRST = Places(I, 6 + I, 11 + I)
MOST_FIRST = Places(5 - I, 11 - I, 11 + I)
B_ONCE = Places(I, 6 + 0 * I, 6 + I)
B_BESIDE_A = Places(2 * I, 2 * I + 1, 11 + I)


@pytest.mark.parametrize(
    ("op", "p", "invariant"),
    [("add", None, True), ("mul", None, False), ("add", 10, False), ("mul", 7, False)],
)
@pytest.mark.parametrize("base", [2, 7, 10, 2000])
def test_shift_invariance(op, p, invariant, base):
    assert theory.shift_invariant(function(op, p), base) == invariant


def test_products_with_one_digit_are_shift_invariant_in_the_other():
    assert theory.shift_invariant(function("mul"), 10, both=False)
    assert not theory.shift_invariant(function("add"), 10, both=False)


@pytest.mark.parametrize(
    ("op", "p", "rate"),
    [
        ("add", None, 0),
        ("mul", None, 0.334),
        ("add", 10, 0),
        ("add", 100, 0.001),
        ("add", 11, 0.205),
        ("add", 101, 0.116),
    ],
)
def test_the_published_conflict_rates(op, p, rate):
    assert round(float(theory.conflict_rate(function(op, p))), 3) == rate
    assert theory.local_rule(function(op, p)) == (rate == 0)


def test_conflict_rate_against_a_dictionary():
    """The same rate, one pair at a time."""
    base, digits, p = 3, 2, 7
    table: dict = {}
    for a in range(base**digits):
        for b in range(base**digits):
            numbers = (a, b, (a + b) % p)
            x, y, z = ([number // base**i % base for i in range(4)] for number in numbers)
            for i in range(4):
                below = (x[i - 1], y[i - 1], z[i - 1]) if i else None
                entry = table.setdefault((x[i], y[i], below), [0] * base)
                entry[z[i]] += 1
    wrong = sum(sum(entry) - max(entry) for entry in table.values())
    found = theory.conflict_rate(function("add", p), base, digits=digits)
    assert found == Fraction(wrong, 4 * base ** (2 * digits))


@pytest.mark.parametrize("base", [2, 3, 5, 16, 40])
def test_sums_and_products_with_one_digit_are_local_in_every_base(base):
    assert theory.local_rule(function("add"), base, digits=3)
    assert theory.local_rule(function("mul"), base, digits=2, repeat_b=True)


def test_a_rule_can_need_a_longer_window():
    """Digit i of a + B² b needs b_{i-2}, and b_{i-3} to tell the carry."""

    def two_apart(a, b):
        return a + 25 * b

    rates = [theory.conflict_rate(two_apart, 5, digits=3, window=w) for w in range(4)]
    assert rates[0] == rates[1] > rates[2] > rates[3] == 0


@pytest.mark.parametrize("base", [2, 3, 4, 5])
def test_three_digits_show_every_context_of_a_sum_and_two_do_not(base):
    assert theory.coverage(function("add"), base, 2) < 1
    assert theory.coverage(function("add"), base, 3) == 1
    assert theory.coverage(function("add"), base, 2, length=2) == 1


def test_base_alignment_is_the_statement_about_truncation():
    numbers = np.arange(1000)
    a, b = np.meshgrid(numbers, numbers[::7])
    for p in range(1, 301):
        f = function("add", p)
        unchanged = np.array_equal(f(a, b), f(a % 100, b % 100))
        assert theory.base_aligned(p, 10, 2) == unchanged
    assert not theory.base_aligned(200, 10, 2)
    assert theory.base_aligned(200, 10, 3)
    assert theory.base_aligned(8, 2, 3)


@pytest.mark.parametrize(
    ("layout", "constant"),
    [(LEAST_FIRST, True), (MOST_FIRST, False), (B_ONCE, False), (B_BESIDE_A, False)],
)
def test_constant_offsets(layout, constant):
    assert theory.constant_offsets(layout) == constant


def test_answer_digits_beyond_the_operands_need_nothing():
    assert theory.constant_offsets(Places(I, 6 + I, 11 + np.arange(12)))


SIXTEEN = [  # operation, modulus, encoding, upward
    ("add", None, "absolute", False),
    ("add", None, "relative", True),
    ("mul", None, "absolute", False),
    ("mul", None, "relative", False),
    ("add", 100, "absolute", True),
    ("add", 100, "relative", True),
    ("add", 101, "absolute", False),
    ("add", 101, "relative", False),
]


@pytest.mark.parametrize(("op", "p", "encoding", "upward"), SIXTEEN)
def test_the_sixteen_cells(op, p, encoding, upward):
    found = predict(op, p, 10, 3, encoding=encoding, layout=LEAST_FIRST)
    assert found.upward == upward
    assert found.downward
    assert all("\n" not in reason for reason in found.reasons)


@pytest.mark.parametrize(
    "options",
    [{"layout": MOST_FIRST}, {"layout": None}, {"covered": False}, {"encoding": "none"}],
)
def test_each_condition_of_relative_addition_is_needed(options):
    good = {"encoding": "relative", "layout": LEAST_FIRST}
    assert predict("add", None, 10, 3, **good).upward
    assert not predict("add", None, 10, 3, **(good | options)).upward


def test_two_digits_do_not_cover_the_rule():
    options = {"encoding": "relative", "layout": LEAST_FIRST}
    assert not predict("add", None, 10, 2, **options).upward
    assert predict("add", None, 10, 2, covered=True, **options).upward


def test_products_with_one_digit_need_it_beside_every_digit():
    options = {"encoding": "relative", "single_b": True}
    repeated = Places(I, 6 + I, 11 + I)
    assert predict("mul", None, 10, 3, layout=repeated, **options).upward
    assert not predict("mul", None, 10, 3, layout=B_ONCE, **options).upward


def test_downward_needs_shorter_inputs():
    assert not predict("add", None, 10, 3, shorter=False).downward


def test_the_reasons_name_the_numbers():
    found = predict("add", 101, 10, 4)
    assert found.reduced_modulus == 101
    assert found.limit == Fraction(1, 101)
    assert found.reasons[0] == ("101 does not divide 10^4: digits above the 4 trained ones matter")
    assert "right on 0.99% of long inputs" in found.reasons[-1]
    relative = predict("add", None, 10, 3, encoding="relative", layout=MOST_FIRST)
    assert "offsets are not constant" in relative.reasons[-1]


def test_a_forecast_lists_every_length():
    rows = forecast("add", 101, 10, 4, range(3, 8))
    assert [row.region for row in rows] == ["downward", "trained"] + 3 * ["upward"]
    assert [row.succeeds for row in rows] == [True, True, False, False, False]
    assert [round(100 * float(row.accuracy), 2) for row in rows] == [100, 100, 0, 1.01, 0.99]
    assert all(row.accuracy == row.truncated for row in rows)


def test_a_forecast_does_not_invent_rates_for_relative_models():
    row = forecast("add", 101, 10, 4, [6], encoding="relative", layout=LEAST_FIRST)[0]
    assert not row.succeeds
    assert row.accuracy is None
    assert row.truncated == Fraction(41, 4050)
    success = forecast("add", None, 10, 4, [6], encoding="relative", layout=LEAST_FIRST)[0]
    assert (success.accuracy, success.truncated) == (1, 0)


def test_a_forecast_of_large_products_leaves_the_rate_open():
    row = forecast("mul", 1009, 10, 4, [6])[0]
    assert row.truncated is None
    assert forecast("mul", 1009, 10, 4, [6], single_b=True)[0].truncated is not None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: predict("add", None, 10, 3, encoding="alibi"), "rotary, none; got 'alibi'"),
        (lambda: predict("div", None, 10, 3), "got 'div'"),
        (lambda: theory.conflict_rate(function("add"), 1), "base >= 2"),
        (lambda: theory.conflict_rate(function("add"), 10, window=9), "fit in int64"),
        (lambda: theory.coverage(function("add"), 10, 3), r"got 10\^4"),
    ],
)
def test_impossible_questions_are_refused(call, text):
    with pytest.raises(InputError, match=text):
        call()
