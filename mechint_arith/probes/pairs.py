"""Arrays over number pairs: 2-D Fourier coefficients, 3x3 blocks, and functions of a+b or a-b.

An array over pairs is float64 [a b ...] with two leading axes of length p. The coefficients are those of the
outer products of two bases, so the component `cos 3 x sin 5` has its own place. Conclusions about neurons
and routes belong in `frequencies` and `routes`.

Source: Nanda et al. 2023, arXiv 2301.05217, section 4; the Nyquist frequency of an even p is treated here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes.fourier import (
    basis,
    check_modulus,
    energy_by_frequency,
    float64,
    folded,
    inverse,
    transform,
)

Array = np.ndarray


def over_pairs(x: Any) -> Array:
    """Return an array over pairs as float64 [a b ...]. Raises `InputError` unless its first two axes match."""
    values = float64(x)
    if values.ndim < 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        raise InputError(
            f"an array over pairs starts with two axes of length p >= 2; got shape {values.shape}"
        )
    return values


def table(rows: Any, a: Any, b: Any, *, p: int) -> Array:
    """Arrange one row per number pair as an array over pairs.

    rows: [pair ...]; a, b: int [pair], every pair of 0..p-1 exactly once, in any order. Returns
    float64 [a b ...]. Raises `InputError` where a pair is missing or given twice.
    """
    values, a, b = float64(rows), np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.ndim != 1 or len(values) != len(a):
        raise InputError(
            f"expected one row per pair; got {len(values)} rows, {a.shape} and {b.shape}"
        )
    pair = a * check_modulus(p) + b
    inside = (a >= 0) & (a < p) & (b >= 0) & (b < p)
    if len(pair) != p * p or not inside.all() or len(np.unique(pair)) != p * p:
        raise InputError(
            f"a table modulo {p} needs each of its {p * p} pairs exactly once; got {len(pair)} rows"
        )
    return values[np.argsort(pair)].reshape(p, p, *values.shape[1:])


def transform_pairs(x: Any) -> Array:
    """Return coefficients in the outer products of two bases: [a b ...] -> [component component ...]."""
    return transform(transform(over_pairs(x), axis=0), axis=1)


def inverse_pairs(coefficients: Any) -> Array:
    """Return the array over pairs that has these coefficients [component component ...]."""
    return inverse(inverse(over_pairs(coefficients), axis=0), axis=1)


def block_energy(x: Any) -> Array:
    """Return float64 [freq ...]: energy of x [a b ...] in the 3x3 block of each frequency.

    Block k: {const, cos k, sin k} over a times the same over b, without const x const, which is entry 0.
    Blocks share nothing; what they leave over is energy that mixes two frequencies.
    """
    return blocks_of(transform_pairs(x))


def blocks_of(coefficients: Array) -> Array:
    """Return the block energies [freq ...] of coefficients [component component ...]."""
    squares = coefficients**2
    frequency = basis(len(squares)).frequency
    energy = [squares[0, 0]]
    for k in range(1, int(frequency.max()) + 1):
        own = np.flatnonzero(frequency == k)
        energy.append(
            squares[np.ix_(own, own)].sum((0, 1)) + squares[0, own].sum(0) + squares[own, 0].sum(0)
        )
    return np.array(energy)


def directions(k: int, p: int, *, along: str = "sum") -> Array:
    """Return the unit functions of a+b (or a-b) at frequency k: float64 [direction a b].

    Sum: (cos x cos - sin x sin)/sqrt2 ~ cos w_k(a+b) and (sin x cos + cos x sin)/sqrt2 ~ sin w_k(a+b), with
    x the outer product of basis rows over a and b; difference: the signs of the sine rows over b turned.
    At the Nyquist frequency there is one direction, cos x cos, the same for both.
    Raises `InputError` for the constant.
    """
    rows = basis(p).of(*folded([k], p))
    if len(rows) == 1:
        return np.einsum("ia,ib->iab", rows, rows)
    cosine, sine = rows
    sign = 1 if check_along(along) == "sum" else -1
    return np.stack(
        [
            np.outer(cosine, cosine) - sign * np.outer(sine, sine),
            np.outer(sine, cosine) + sign * np.outer(cosine, sine),
        ]
    ) / math.sqrt(2)


def check_along(along: str) -> str:
    """Return `along`. Raises `InputError` unless it is `sum` or `difference`."""
    if along not in ("sum", "difference"):
        raise InputError(f"pairs are read along 'sum' or 'difference'; got {along!r}")
    return along


def profile(x: Any, *, along: str = "sum") -> Array:
    """Return the mean over the p pairs of each sum (or difference): [a b ...] -> [value ...].

    What x says as a function of a+b mod p, or of a-b mod p.
    """
    values = over_pairs(x)
    p = len(values)
    a, s = np.ogrid[:p, :p]
    other = (s - a) % p if check_along(along) == "sum" else (a - s) % p
    return values[a, other].mean(0)


def spread(profile: Any, *, along: str = "sum") -> Array:
    """Return the array over pairs that takes each value of a profile at its sum (or difference)."""
    values = float64(profile)
    a, b = np.ogrid[: len(values), : len(values)]
    return values[(a + b if check_along(along) == "sum" else a - b) % len(values)]


def energy_along(x: Any, *, along: str = "sum") -> Array:
    """Return float64 [freq ...]: energy of x [a b ...] in the sum (or difference) directions per frequency."""
    means = profile(x, along=along)
    return len(means) * energy_by_frequency(means)
