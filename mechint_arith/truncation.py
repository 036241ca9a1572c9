"""The function a model has that ignores digits beyond its training length, and how often it is right.

Operands a = a0 + B^n A and b = b0 + B^n D with a0, b0 < B^n: B is the base, n the training length.
The truncated function f^(a, b) = f(a0, b0) is right at length m > n when, with
p' = p / gcd(p, B^n),

* (a + b) mod p:  p' divides A + D;
* (a * b) mod p:  p' divides A b0 + D a0 + B^n A D;
* a + b, a * b:   the high digits change nothing, which leaves only products with 0.

Everything is exact: counts are Python integers, shares are `Fraction`. Three independent ways:
`truncated_accuracy` (closed form), `counted_accuracy` (residues), `enumerated_accuracy` (all pairs).
What a model is predicted to do belongs in `theory`. The question is that of Xu et al., ACL 2025
(arXiv 2407.17963); the formulas beyond gcd(p, B^n) / p are derived here.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from mechint_arith.errors import InputError

Array = np.ndarray
Function = Callable[[Any, Any], Any]

OPERATIONS = ("add", "mul")
DOMAINS = ("both", "longer")
LARGEST_REDUCED = 1000
"""Largest p' for which modular products are counted exactly (seconds of work at this size)."""


def function(op: str, modulus: int | None = None) -> Function:
    """Return f(a, b) = a + b or a * b, modulo `modulus` if given.

    f takes integers of any size, or int64 arrays as long as the results fit.
    """
    check(op, modulus)
    if op == "add":
        return (lambda a, b: (a + b) % modulus) if modulus else (lambda a, b: a + b)
    if modulus:
        return lambda a, b: ((a % modulus) * (b % modulus)) % modulus
    return lambda a, b: a * b


def truncated(f: Function, base: int, n: int) -> Function:
    """Return f^(a, b) = f(a mod B^n, b mod B^n)."""
    return lambda a, b: f(a % base**n, b % base**n)


def reduced_modulus(modulus: int, base: int, n: int) -> int:
    """Return p' = p / gcd(p, B^n), the part of the modulus that the low n digits cannot see."""
    return modulus // math.gcd(modulus, base**n)


def truncated_accuracy(
    op: str,
    modulus: int | None,
    base: int,
    n: int,
    length: int | None,
    *,
    domain: str = "both",
    single_b: bool = False,
) -> Fraction:
    """Return the exact share of pairs of `length` digits on which f^ equals f, in closed form.

    domain: "both" operands have exactly `length` digits, the first not 0 (written D~), or the
    "longer" operand has (written D). length None is the limit of long inputs, at this n.
    single_b: products with a b of one digit, 1 … B - 1 on D~ and 0 … B - 1 on D.
    Raises `InputError` for impossible arguments, and for products with p' above `LARGEST_REDUCED`.
    """
    check(op, modulus, base, n, length, domain, single_b)
    if length is not None and length <= n:
        return Fraction(1)
    if single_b:
        return _single_accuracy(modulus, base, n, length, range(int(domain == "both"), base))
    if modulus is None:
        if op == "add" or domain == "both" or length is None:
            return Fraction(0)
        shorter = base ** (length - 1)  # only (a, 0) and (0, b) of the pairs in D
        return Fraction(2 * (base**length - shorter), base ** (2 * length) - shorter**2)
    p = reduced_modulus(modulus, base, n)
    count = _count_sums if op == "add" else _count_products
    if length is None:
        return Fraction(count(p, base**n, 0, p), (p * base**n) ** 2)
    high, low = base ** (length - n), base ** (length - n - 1)
    pairs, shorter_pairs = base ** (2 * length), base ** (2 * length - 2)
    if domain == "longer":
        hits = count(p, base**n, 0, high) - count(p, base**n, 0, low)
        return Fraction(hits, pairs - shorter_pairs)
    return Fraction(count(p, base**n, low, high), (base**length - base ** (length - 1)) ** 2)


def limit_accuracy(op: str, modulus: int | None, base: int, n: int) -> Fraction:
    """Return the share on which f^ equals f when all digits, low and high, are equidistributed.

    Addition: 1 / p' = gcd(p, B^n) / p. Multiplication: the product over prime powers q^k || p' of
    S(q, k) = [(q^k + k φ)² + Σ_{j<k} φ(q^(k-j)) ((j + 1) φ)²] / q^(4k), φ = q^k - q^(k-1), the
    chance that x y ≡ z t modulo q^k; S(q, 1) = (q² + q - 1) / q³. For addition it is the limit of
    long inputs; for multiplication that limit (`truncated_accuracy` with length None) still
    depends on how the B^n low parts fall on the residues, and comes close as B^n / p' grows.
    """
    check(op, modulus, base, n)
    if modulus is None:
        return Fraction(0)
    p = reduced_modulus(modulus, base, n)
    if op == "add":
        return Fraction(1, p)
    return math.prod((_equal_products(q, k) for q, k in prime_powers(p)), start=Fraction(1))


def prime_powers(number: int) -> list[tuple[int, int]]:
    """Return the prime factors of a positive number as (prime, exponent), ascending."""
    found, q = [], 2
    while number > 1:
        q = q if q * q <= number else number
        k = 0
        while number % q == 0:
            number, k = number // q, k + 1
        if k:
            found.append((q, k))
        q += 1
    return found


def counted_accuracy(
    op: str, modulus: int, base: int, n: int, length: int, *, domain: str = "both"
) -> Fraction:
    """Return what `truncated_accuracy` returns, by summing over residues modulo p'.

    Raises `InputError` where the number of pairs exceeds 2^53, as the sums are done in float64.
    """
    check(op, modulus, base, n, length, domain)
    if base ** (2 * length) > 2**53:
        raise InputError(f"too many pairs of {length} digits to count; use the closed form")
    if length <= n:
        return Fraction(1)
    low, high = base ** (length - n - 1), base ** (length - n)
    boxes = [(low, high, 1)] if domain == "both" else [(0, high, 1), (0, low, -1)]
    p, width = reduced_modulus(modulus, base, n), base**n
    hits = pairs = 0
    for start, stop, sign in boxes:
        tops = _residue_counts(p, start, stop)
        if op == "add":
            box_hits = float(tops @ tops[-np.arange(p) % p]) * width**2
        else:
            box_hits = _weigh_products(p, width, _residue_counts(p, 0, width), tops)
        hits += sign * int(box_hits)
        pairs += sign * ((stop - start) * width) ** 2
    return Fraction(hits, pairs)


def enumerated_accuracy(
    op: str,
    modulus: int | None,
    base: int,
    n: int,
    length: int,
    *,
    domain: str = "both",
    single_b: bool = False,
) -> Fraction:
    """Return what `truncated_accuracy` returns, by trying every pair.

    Raises `InputError` where B^length exceeds 5,000.
    """
    check(op, modulus, base, n, length, domain, single_b)
    if base**length > 5000:
        raise InputError(f"too many pairs of {length} digits in base {base} to try them all")
    f, shorter, b = function(op, modulus), base ** (length - 1), np.arange(base**length)
    every, long = (b[:base], b[1:base]) if single_b else (b, b[shorter:])
    hits = pairs = 0
    for a in range(shorter if domain == "both" or single_b else 0, base**length):
        partners = every if domain == "longer" and a >= shorter else long
        hits += int(np.sum(f(a, partners) == truncated(f, base, n)(a, partners)))
        pairs += len(partners)
    return Fraction(hits, pairs)


def check(
    op: str,
    modulus: int | None = None,
    base: int = 10,
    n: int = 1,
    length: int | None = None,
    domain: str = "both",
    single_b: bool = False,
) -> None:
    """Raise `InputError` naming the first argument that makes no sense."""
    if op not in OPERATIONS:
        raise InputError(f"an operation is one of {', '.join(OPERATIONS)}; got {op!r}")
    if modulus is not None and modulus < 1:
        raise InputError(f"a modulus is at least 1; got {modulus}")
    if base < 2:
        raise InputError(f"a base is at least 2; got {base}")
    if n < 1:
        raise InputError(f"a training length is at least 1 digit; got {n}")
    if length is not None and length < 1:
        raise InputError(f"a length is at least 1 digit; got {length}")
    if domain not in DOMAINS:
        raise InputError(f"a test domain is one of {', '.join(DOMAINS)}; got {domain!r}")
    if single_b and op != "mul":
        raise InputError(f"a one-digit b is for op 'mul'; got op {op!r}")


def _single_accuracy(
    modulus: int | None, base: int, n: int, length: int | None, choices: range
) -> Fraction:
    """Return the share of (A, b) with p' | A b, that is p' / gcd(p', b) | A, for b in `choices`."""
    if modulus is None:
        return Fraction(sum(b == 0 for b in choices), len(choices))
    p = reduced_modulus(modulus, base, n)
    steps = [p // math.gcd(p, b) for b in choices]
    if length is None:
        return sum((Fraction(1, step) for step in steps), Fraction(0)) / len(choices)
    low, high = base ** (length - n - 1), base ** (length - n)
    hits = sum((high - 1) // step - (low - 1) // step for step in steps)
    return Fraction(hits, len(choices) * (high - low))


def _count_sums(p: int, width: int, start: int, stop: int) -> int:
    """Count pairs with A, D in [start, stop), a0, b0 in [0, width) where p divides A + D.

    N = stop - start = Q p + s. Each residue occurs Q times and s of them once more, so the count is
    Q² p + 2 Q s + the pairs x, y < s with x + y ≡ -2 start: those that sum to t or to t + p.
    """
    cycles, s = divmod(stop - start, p)
    t = -2 * start % p
    overlap = max(0, min(s - 1, t) - max(0, t - s + 1) + 1) + max(0, 2 * s - 1 - t - p)
    return (cycles**2 * p + 2 * cycles * s + overlap) * width**2


def _count_products(p: int, width: int, start: int, stop: int) -> int:
    """Count pairs with A, D in [start, stop), a0, b0 in [0, width) where f^ is right.

    With width = c p + r, the pairs (a0, b0) for given A, D are c² full squares of residues, c full
    cycles in one of the two beside r values of the other, and one r x r corner. With
    g = gcd(A, D, p), g_A = gcd(A, p): p g solutions per square, g_A ⌈r g / g_A⌉ per cycle of b0
    (a0 must be a multiple of g_A / g), and a count for the corner, which has no closed form.
    """
    if p > LARGEST_REDUCED:
        raise InputError(
            f"exact rates of products need p / gcd(p, B^n) <= {LARGEST_REDUCED}; got {p}:"
            " use limit_accuracy, which has no such bound"
        )
    (cycles, r), (tops, s) = divmod(width, p), divmod(stop - start, p)
    extra = (start % p + np.arange(s)) % p
    total = 0
    for weight, counts in zip((cycles**2, cycles, 1), _solutions(p, r), strict=True):
        rows = counts[extra]
        total += weight * (
            tops**2 * int(counts.sum())
            + 2 * tops * int(rows.sum())
            + int(rows[:, extra].sum())  # counts are symmetric in A and D
        )
    return total


@lru_cache(maxsize=8)
def _solutions(p: int, r: int) -> tuple[Array, Array, Array]:
    """Return int64 [A D] solutions (a0, b0) per square, per pair of cycles, and in the corner."""
    residues = np.arange(p)
    to_p = np.gcd(residues, p)
    common = np.gcd.outer(to_p, residues)
    cycle = to_p[:, None] * -(-r * common // to_p[:, None])
    multiples = np.outer(residues, -residues) % p
    multiples = np.concatenate([multiples, multiples], axis=1)  # -D x for x in [0, 2 p)
    corner = np.zeros((p, p), np.int64)
    for top in range(p if r else 0):
        reached = np.bincount(top * residues[:r] % p, minlength=p)  # A b0, b0 < r
        first = top * r % p
        corner[top] = reached[multiples[:, first : first + r]].sum(axis=1)  # -D (a0 + r A), a0 < r
    return p * common, cycle + cycle.T, corner


def _equal_products(q: int, k: int) -> Fraction:
    """Return S(q, k), the chance that x y ≡ z t modulo the prime power q^k."""
    phi = q**k - q ** (k - 1)
    by_valuation = sum((q ** (k - j) - q ** (k - j - 1)) * ((j + 1) * phi) ** 2 for j in range(k))
    return Fraction((q**k + k * phi) ** 2 + by_valuation, q ** (4 * k))


def _residue_counts(p: int, start: int, stop: int) -> Array:
    """Return float64 [p]: how many integers of [start, stop) have each residue."""
    x = np.arange(p)
    return ((stop - 1 - x) // p - (start - 1 - x) // p).astype(float)


def _weigh_products(p: int, width: int, lows: Array, tops: Array) -> float:
    """Sum the weights of residues (A, a0, D, b0) with A b0 ≡ -D (a0 + B^n A), as matrix products."""
    x = np.arange(p)
    cells = x[:, None] * p
    times = np.outer(x, x) % p
    left = np.bincount((cells + times).ravel(), np.tile(lows, p), p * p).reshape(p, p)
    right = np.bincount((cells + -times % p).ravel(), np.tile(tops, p), p * p).reshape(p, p)
    joint = left @ right.T  # [A, a]: weight of (b0, D)
    return float(tops @ (joint[x[:, None], (x + width * x[:, None]) % p] @ lows))
