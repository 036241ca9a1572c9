"""What a transformer trained on n digits is predicted to do at other lengths, before any model.

Each predicate is computed from a function of two numbers, for any base; `predict` puts them
together and `forecast` lists the lengths. Exact rates are in `truncation`, models and measured
accuracies elsewhere. Digits are counted from the least significant one.
Source: Xu, Zhao, Zhang, Yang, ACL 2025 (arXiv 2407.17963); the local rule is our form of their
argument for relative positions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from mechint_arith import truncation
from mechint_arith.errors import InputError
from mechint_arith.truncation import Function

Array = np.ndarray

ENCODINGS = {"absolute": False, "relative": True, "rotary": True, "none": False}
"""Position encoding -> does attention see the offset between two places, and only that?

Without positions ("none") a causal model can still count places, so it is taken as absolute.
"""
EXHAUSTIVE = 1000
"""Largest B^digits for which every pair of numbers is tried."""


@runtime_checkable
class Layout(Protocol):
    """Where things stand in a sequence, for answer digit i = 0, 1, …; all int [digit]."""

    @property
    def a_places(self) -> Array:
        """Position of the digit of a that answer digit i needs."""

    @property
    def b_places(self) -> Array:
        """Position of the digit of b that answer digit i needs."""

    @property
    def read_places(self) -> Array:
        """Position whose logits give answer digit i."""


@dataclass(frozen=True)
class Prediction:
    """Predicates of a task, and what follows from them."""

    shift_invariant: bool
    """f(B^k a, B^k b) = B^k f(a, b)."""
    local_rule: bool
    """One table gives every answer digit from the digits beside it."""
    base_aligned: bool
    """The modulus divides B^n."""
    constant_offsets: bool
    """The digits an answer digit needs are equally far from each answer digit."""
    coverage: bool
    """Training shows every entry of that table."""
    relative: bool
    """Attention sees offsets, not places."""
    upward: bool
    """Longer inputs than in training are predicted to be right."""
    downward: bool
    """Shorter inputs are predicted to be right, once the training domain is fitted."""
    reduced_modulus: int | None
    """p' = p / gcd(p, B^n); None without a modulus."""
    limit: Fraction
    """Share of long inputs on which the truncated function is right."""
    reasons: tuple[str, ...]
    """One line per reason."""


@dataclass(frozen=True)
class Row:
    """The forecast for one test length."""

    length: int
    """Digits of both operands."""
    region: str
    """Where it lies: downward of the training length, trained, or upward."""
    succeeds: bool
    """Predicted to be right on every pair."""
    truncated: Fraction | None
    """Exact share on which the truncated function is right; None where it is out of reach."""
    accuracy: Fraction | None
    """Predicted exact match with the truth; None where the theory only says: not 1."""


def shift_invariant(f: Function, base: int = 10, *, both: bool = True) -> bool:
    """Is f(B^k a, B^k b) = B^k f(a, b) for all a, b < B² and k <= 3?

    both False shifts a alone, f(B^k a, b), as in n-digit by 1-digit multiplication.
    f: function of two int64 arrays [pair].
    """
    truncation.check("add", base=base)
    a, b = _pairs(base, min(2, _exhaustive_digits(base)))
    return all(
        np.array_equal(f(base**k * a, base**k * b if both else b), base**k * f(a, b))
        for k in range(1, 4)
    )


def conflict_rate(
    f: Function, base: int = 10, *, digits: int = 2, window: int = 1, repeat_b: bool = False
) -> Fraction:
    """Return how often the best single table G is wrong about an answer digit.

    c_i = G(a_i, b_i, …, a_{i-w}, b_{i-w}, c_{i-1}), one G for every i; below digit 0 stands a
    symbol of its own. The rate is the share of (pair, i) that disagree with the majority of their
    entry, over all pairs below B^digits (a million drawn ones where there are more) and
    i = 0 … digits + 1. 0 means that there is a local rule.

    f: function of two int64 arrays [pair]; window: w; repeat_b: b is one digit, and every b_i is it.
    """
    contexts, answers = _contexts(f, base, digits, window, repeat_b)
    entries, kept = np.unique(contexts * base + answers, return_counts=True)
    starts = np.flatnonzero(np.diff(entries // base, prepend=-1))
    right = int(np.maximum.reduceat(kept, starts).sum())
    return Fraction(len(contexts) - right, len(contexts))


def local_rule(
    f: Function, base: int = 10, *, digits: int = 2, window: int = 1, repeat_b: bool = False
) -> bool:
    """Is there one table for all answer digits? See `conflict_rate`; `digits` must let f wrap."""
    return not conflict_rate(f, base, digits=digits, window=window, repeat_b=repeat_b)


def coverage(
    f: Function,
    base: int,
    n: int,
    *,
    length: int | None = None,
    window: int = 1,
    repeat_b: bool = False,
) -> Fraction:
    """Return the share of (pair, digit) at `length` digits whose table entry n digits also show.

    Both over all pairs below B^n and B^length; `length` is n + 1 by default. For addition it is 1
    from n = 3 on: at n = 2 no digit beside one that received a carry was ever followed by others.
    Raises `InputError` where B^length exceeds `EXHAUSTIVE`.
    """
    length = length or n + 1
    if base**length > EXHAUSTIVE:
        raise InputError(f"coverage tries all pairs: B^length <= {EXHAUSTIVE}; got {base}^{length}")
    known = _contexts(f, base, n, window, repeat_b)[0]
    met = _contexts(f, base, length, window, repeat_b)[0]
    return Fraction(int(np.isin(met, known).sum()), len(met))


def base_aligned(modulus: int, base: int, n: int) -> bool:
    """Does the modulus divide B^n, so that digits above the n-th never matter?"""
    truncation.check("add", modulus, base, n)
    return base**n % modulus == 0


def constant_offsets(layout: Layout) -> bool:
    """Are the operand digits that answer digit i needs equally far from where it is read, for all i?"""
    read = np.asarray(layout.read_places)
    for places in map(np.asarray, (layout.a_places, layout.b_places)):
        shared = min(len(read), len(places))
        if len(set((read[:shared] - places[:shared]).tolist())) > 1:
            return False
    return True


def predict(
    op: str,
    modulus: int | None,
    base: int,
    n: int,
    *,
    encoding: str = "absolute",
    layout: Layout | None = None,
    covered: bool | None = None,
    shorter: bool = True,
    single_b: bool = False,
) -> Prediction:
    """Return the predicates of a task and what they predict for other lengths.

    Upward succeeds iff the modulus is base aligned, or the encoding is relative, there is a local
    rule, the layout has constant offsets and training covers the rule. Downward succeeds iff the
    training domain is fitted and has shorter inputs.

    n: training length; covered: None stands for n >= 3; shorter: training has leading zeros;
    single_b: b has one digit. Without a layout offsets are taken not to be constant.
    Raises `InputError` for an unknown operation or encoding, or impossible numbers.
    """
    truncation.check(op, modulus, base, n, single_b=single_b)
    if encoding not in ENCODINGS:
        raise InputError(f"an encoding is one of {', '.join(ENCODINGS)}; got {encoding!r}")
    relative = ENCODINGS[encoding]
    shifts = _shifts(op, modulus, base, single_b)
    conflicts = _conflicts(op, modulus, base, single_b)
    aligned = modulus is not None and base_aligned(modulus, base, n)
    constant = layout is not None and constant_offsets(layout)
    seen = n >= 3 if covered is None else covered
    by_rule = relative and not conflicts and constant and seen
    reduced = None if modulus is None else truncation.reduced_modulus(modulus, base, n)
    if single_b:
        limit = truncation.truncated_accuracy(op, modulus, base, n, None, single_b=True)
    else:
        limit = truncation.limit_accuracy(op, modulus, base, n)

    positions = "no positions" if encoding == "none" else f"{encoding} positions"
    reasons = []
    if modulus is not None:
        reasons.append(
            f"{modulus} {'divides' if aligned else 'does not divide'} {base}^{n}: digits above the"
            f" {n} trained ones {'never matter' if aligned else 'matter'}"
        )
    reasons.append(
        f"there is {'one local rule' if not conflicts else 'no local rule'} for all answer digits"
        f" (conflict rate {float(conflicts):.3f})"
    )
    if not relative:
        reasons.append(
            f"{positions}: places beyond the {n} trained ones are ignored, so the model"
            f" computes the truncated function, right on {float(limit):.2%} of long inputs"
        )
    elif not conflicts:
        offsets = "no layout given" if layout is None else f"offsets {_yes(constant)} constant"
        entries = f"{_yes(seen)} covered by training on {n} digits"
        reasons.append(f"{positions}: {offsets}; the rule's entries {entries}")
    if not shorter:
        reasons.append("no shorter inputs in training: leading zeros are new to the model")
    return Prediction(
        shift_invariant=shifts,
        local_rule=not conflicts,
        base_aligned=aligned,
        constant_offsets=constant,
        coverage=seen,
        relative=relative,
        upward=aligned or by_rule,
        downward=shorter,
        reduced_modulus=reduced,
        limit=limit,
        reasons=tuple(reasons),
    )


def forecast(
    op: str,
    modulus: int | None,
    base: int,
    n: int,
    lengths: Iterable[int],
    *,
    encoding: str = "absolute",
    layout: Layout | None = None,
    covered: bool | None = None,
    shorter: bool = True,
    single_b: bool = False,
) -> list[Row]:
    """Return one row per test length, on pairs of numbers with exactly that many digits.

    Arguments and errors are those of `predict`.
    """
    found = predict(
        op,
        modulus,
        base,
        n,
        encoding=encoding,
        layout=layout,
        covered=covered,
        shorter=shorter,
        single_b=single_b,
    )
    rows = []
    for length in lengths:
        region = "trained" if length == n else "upward" if length > n else "downward"
        succeeds = {"trained": True, "upward": found.upward, "downward": found.downward}[region]
        rate = _reachable_rate(op, modulus, base, n, length, single_b)
        fails_as = rate if region == "upward" and not found.relative else None
        rows.append(Row(length, region, succeeds, rate, Fraction(1) if succeeds else fails_as))
    return rows


def _reachable_rate(
    op: str, modulus: int | None, base: int, n: int, length: int, single_b: bool
) -> Fraction | None:
    """Return the exact rate of the truncated function, or None where it takes too long."""
    reduced = truncation.reduced_modulus(modulus or 1, base, n)
    if op == "mul" and not single_b and length > n and reduced > truncation.LARGEST_REDUCED:
        return None
    return truncation.truncated_accuracy(op, modulus, base, n, length, single_b=single_b)


def _yes(holds: bool) -> str:
    return "are" if holds else "are not"


@lru_cache
def _shifts(op: str, modulus: int | None, base: int, single_b: bool) -> bool:
    return shift_invariant(truncation.function(op, modulus), base, both=not single_b)


@lru_cache
def _conflicts(op: str, modulus: int | None, base: int, single_b: bool) -> Fraction:
    """Return the conflict rate on numbers long enough for the modulus to act."""
    digits = 2
    while modulus is not None and base**digits < modulus:
        digits += 1
    return conflict_rate(truncation.function(op, modulus), base, digits=digits, repeat_b=single_b)


def _exhaustive_digits(base: int) -> int:
    """Return how many digits can be tried exhaustively, at least one."""
    digits = 1
    while base ** (digits + 1) <= EXHAUSTIVE:
        digits += 1
    return digits


def _pairs(base: int, digits: int, repeat_b: bool = False) -> tuple[Array, Array]:
    """Return int64 a, b [pair]: all pairs below B^digits, or a million drawn with a fixed seed."""
    tops = base**digits, base if repeat_b else base**digits
    if tops[0] <= EXHAUSTIVE:
        a, b = np.divmod(np.arange(tops[0] * tops[1]), tops[1])
        return a, b
    rng = np.random.default_rng(0)
    return rng.integers(tops[0], size=10**6), rng.integers(tops[1], size=10**6)


def _contexts(
    f: Function, base: int, digits: int, window: int, repeat_b: bool
) -> tuple[Array, Array]:
    """Return int64 [digit pair], flat: the table entry each answer digit falls in, and the digit."""
    if base < 2 or digits < 1 or window < 0:
        raise InputError(
            "a local rule needs base >= 2, digits >= 1 and window >= 0;"
            f" got {base}, {digits} and {window}"
        )
    symbols = base + 1
    if base * symbols ** (2 * window + 3) > 2**63 or base ** (2 * digits) > 2**62:
        raise InputError(f"base {base}, {digits} digits and window {window} do not fit in int64")
    a, b = _pairs(base, digits, repeat_b)
    c = f(a, b)
    contexts, answers = [], []
    for i in range(digits + 2):
        entry = np.zeros_like(a)
        for back in range(window + 1):
            for number, repeated in ((a, False), (b, repeat_b)):
                entry = entry * symbols + _digit(number, base, i - back, repeated)
        contexts.append(entry * symbols + _digit(c, base, i - 1))
        answers.append(_digit(c, base, i))
    return np.concatenate(contexts), np.concatenate(answers)


def _digit(number: Array, base: int, i: int, repeated: bool = False) -> Array:
    """Return digit i of int64 [pair]; below digit 0 the symbol `base`."""
    if i < 0:
        return np.full_like(number, base)
    return number if repeated else number // base**i % base
