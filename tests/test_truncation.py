"""Exact rates of the truncated function: the published table, and three ways that must agree."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mechint_arith import truncation
from mechint_arith.errors import InputError
from mechint_arith.truncation import (
    counted_accuracy,
    enumerated_accuracy,
    limit_accuracy,
    truncated_accuracy,
)

FOUR_DIGITS = {  # n = 4: p -> (p', addition limit %, addition at 5, 6, 7 digits %, product limit %)
    50: (1, 100, (100, 100, 100), 100),
    100: (1, 100, (100, 100, 100), 100),
    200: (1, 100, (100, 100, 100), 100),
    51: (51, 1.961, (0, 1.988, 1.960), 2.529),
    101: (101, 0.990, (0, 1.012, 0.990), 1.000),
    202: (101, 0.990, (0, 1.012, 0.990), 1.000),
    150: (3, 33.333, (33.333, 33.333, 33.333), 40.741),
    300: (3, 33.333, (33.333, 33.333, 33.333), 40.741),
    151: (151, 0.662, (0, 0.593, 0.662), 0.667),
    201: (201, 0.498, (0, 0, 0.492), 0.617),
}
TWO_DIGITS = {  # n = 2: p -> (addition, products) at 3, 4, 5 digits, %
    11: ((9.88, 9.10, 9.09), (9.09, 10.16, 9.98)),
    15: ((33.33, 33.33, 33.33), (41.04, 41.04, 41.04)),
    30: ((33.33, 33.33, 33.33), (41.04, 41.04, 41.04)),
    150: ((33.33, 33.33, 33.33), (41.04, 41.04, 41.04)),
    40: ((50.62, 50, 50), (59.88, 62.5, 62.5)),
    200: ((50.62, 50, 50), (59.88, 62.5, 62.5)),
    101: ((0, 1.01, 0.99), (0.99, 0.99, 1.00)),
    **dict.fromkeys((10, 20, 25, 50, 100), ((100, 100, 100), (100, 100, 100))),
}


def percent(rate, digits):
    return round(100 * float(rate), digits)


@pytest.mark.parametrize("p", FOUR_DIGITS)
def test_the_table_for_four_digits(p):
    reduced, limit, rates, product_limit = FOUR_DIGITS[p]
    assert truncation.reduced_modulus(p, 10, 4) == reduced
    assert percent(limit_accuracy("add", p, 10, 4), 3) == limit
    assert percent(limit_accuracy("mul", p, 10, 4), 3) == product_limit
    found = [percent(truncated_accuracy("add", p, 10, 4, m), 3) for m in (5, 6, 7)]
    assert found == list(rates)
    assert [percent(counted_accuracy("add", p, 10, 4, m), 3) for m in (5, 6, 7)] == list(rates)


@pytest.mark.parametrize("p", TWO_DIGITS)
def test_the_table_for_two_digits(p):
    for op, rates in zip(("add", "mul"), TWO_DIGITS[p], strict=True):
        for m, rate in zip((3, 4, 5), rates, strict=True):
            assert percent(truncated_accuracy(op, p, 10, 2, m), 2) == rate
            assert percent(counted_accuracy(op, p, 10, 2, m), 2) == rate


def test_the_domain_of_the_longer_operand_differs():
    assert percent(truncated_accuracy("add", 51, 10, 4, 6, domain="longer"), 3) == 1.970
    assert percent(truncated_accuracy("add", 51, 10, 4, 6), 3) == 1.988


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_closed_form_equals_counting_for_all_moduli(op, n):
    for p in range(1, 301):
        for m in range(1, n + 4):
            assert truncated_accuracy(op, p, 10, n, m) == counted_accuracy(op, p, 10, n, m)


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize(
    ("base", "m", "domain"),
    [
        *[(base, m, "both") for base, m in [(10, 1), (10, 2), (10, 3), (2, 9), (3, 6), (5, 4)]],
        *[(base, m, "longer") for base, m in [(10, 2), (10, 3), (3, 5)]],
    ],
)
def test_closed_form_equals_all_pairs_for_all_moduli(op, domain, base, m):
    """p makes f^ right exactly where it divides f - f^, so one table of differences serves all p."""
    f, shorter, numbers = truncation.function(op), base ** (m - 1), np.arange(base**m)
    a, b = np.meshgrid(numbers, numbers, indexing="ij")
    inside = (a >= shorter) & (b >= shorter) if domain == "both" else np.maximum(a, b) >= shorter
    for n in (1, 2, 3):
        wrong_by = (f(a, b) - truncation.truncated(f, base, n)(a, b))[inside]
        counts = np.bincount(wrong_by)
        assert truncated_accuracy(op, None, base, n, m, domain=domain) == Fraction(
            int(counts[0]), len(wrong_by)
        )
        for p in range(1, 301):
            expected = Fraction(int(counts[::p].sum()), len(wrong_by))
            assert truncated_accuracy(op, p, base, n, m, domain=domain) == expected


@pytest.mark.parametrize("domain", ["both", "longer"])
@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("p", [None, 7, 12, 40, 101])
def test_closed_form_equals_trying_every_pair(op, domain, p):
    for base, n, m in [(10, 1, 2), (4, 2, 4), (3, 1, 4), (2, 3, 6), (10, 2, 2)]:
        expected = enumerated_accuracy(op, p, base, n, m, domain=domain)
        assert truncated_accuracy(op, p, base, n, m, domain=domain) == expected


@pytest.mark.parametrize("domain", ["both", "longer"])
@pytest.mark.parametrize("p", [None, 6, 15, 40, 101])
def test_one_digit_factors(domain, p):
    for base, n, m in [(10, 1, 2), (10, 1, 3), (10, 2, 3), (4, 2, 4), (3, 1, 5)]:
        options = {"domain": domain, "single_b": True}
        expected = enumerated_accuracy("mul", p, base, n, m, **options)
        assert truncated_accuracy("mul", p, base, n, m, **options) == expected


def test_counting_knows_the_longer_domain():
    for op in ("add", "mul"):
        found = counted_accuracy(op, 51, 10, 2, 4, domain="longer")
        assert found == truncated_accuracy(op, 51, 10, 2, 4, domain="longer")


def test_plain_sums_and_products_are_never_right_on_longer_operands():
    assert truncated_accuracy("add", None, 10, 3, 4) == 0
    assert truncated_accuracy("mul", None, 10, 3, 4) == 0
    assert truncated_accuracy("add", None, 10, 3, 3) == 1
    only_with_zero = truncated_accuracy("mul", None, 10, 1, 2, domain="longer")
    assert only_with_zero == Fraction(2 * 90, 100**2 - 10**2)


@pytest.mark.parametrize("p", [7, 51, 101, 198, 199, 201])
@pytest.mark.parametrize("n", [1, 2])
def test_sums_are_always_wrong_until_the_high_digits_can_reach_the_modulus(p, n):
    reduced = truncation.reduced_modulus(p, 10, n)
    for m in range(n + 1, n + 5):
        rate = truncated_accuracy("add", p, 10, n, m)
        assert (rate == 0) == (2 * (10 ** (m - n) - 1) < reduced)


def test_long_inputs_approach_the_limits():
    for op in ("add", "mul"):
        for p in (3, 11, 40, 51, 150):
            limit = truncated_accuracy(op, p, 10, 2, None)
            assert float(truncated_accuracy(op, p, 10, 2, 12)) == pytest.approx(limit, abs=1e-7)
            equidistributed = float(limit_accuracy(op, p, 10, 9))
            rate = truncated_accuracy(op, p, 10, 9, None)
            assert float(rate) == pytest.approx(equidistributed, abs=1e-6)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8, 9, 12, 16, 25, 27, 30])
def test_the_limit_of_products_counts_equal_products(p):
    """In a base coprime to p, every residue x, y, z, t counted: how often x y ≡ z t."""
    products = np.bincount((np.outer(range(p), range(p)) % p).ravel(), minlength=p)
    base = next(b for b in range(2, 50) if math.gcd(b, p) == 1)
    assert limit_accuracy("mul", p, base, 1) == Fraction(int((products**2).sum()), p**4)


def test_the_simple_form_for_primes():
    q = 17
    assert limit_accuracy("mul", q, 10, 3) == Fraction(q**2 + q - 1, q**3)


@pytest.mark.parametrize(
    ("number", "factors"), [(1, []), (97, [(97, 1)]), (360, [(2, 3), (3, 2), (5, 1)])]
)
def test_prime_powers(number, factors):
    assert truncation.prime_powers(number) == factors


def test_big_numbers_stay_exact():
    rate = truncated_accuracy("add", 101, 10, 4, 60)
    numbers = 9 * 10**59
    assert (rate * numbers**2).denominator == 1
    assert float(rate) == pytest.approx(1 / 101)
    products = truncated_accuracy("mul", 7, 10, 4, 60)
    assert float(products) == pytest.approx(float(limit_accuracy("mul", 7, 10, 4)), abs=1e-4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: truncated_accuracy("sub", 7, 10, 2, 3), "add, mul; got 'sub'"),
        (lambda: truncated_accuracy("add", 0, 10, 2, 3), "modulus is at least 1; got 0"),
        (lambda: truncated_accuracy("add", 7, 1, 2, 3), "base is at least 2; got 1"),
        (lambda: truncated_accuracy("add", 7, 10, 0, 3), "at least 1 digit; got 0"),
        (lambda: truncated_accuracy("add", 7, 10, 2, 0), "at least 1 digit; got 0"),
        (lambda: truncated_accuracy("add", 7, 10, 2, 3, domain="D"), "both, longer; got 'D'"),
        (lambda: truncated_accuracy("add", 7, 10, 2, 3, single_b=True), "one-digit b"),
        (lambda: truncated_accuracy("mul", 1009, 10, 2, 3), "<= 1000; got 1009"),
        (lambda: enumerated_accuracy("mul", 7, 10, 2, 4), "too many pairs"),
        (lambda: counted_accuracy("mul", 7, 10, 2, 9), "use the closed form"),
    ],
)
def test_impossible_questions_are_refused(call, text):
    with pytest.raises(InputError, match=text):
        call()
