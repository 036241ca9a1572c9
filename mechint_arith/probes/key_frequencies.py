"""Key frequencies of a weight matrix, of neurons or of logits, each against a permutation null.

A frequency is key if its share of the energy exceeds a stated floor and what relabelled values show by
chance. The test steps down: frequencies that stand out are removed and the rest is tested again against
relabellings of itself, so that a strong frequency does not hide a weak one. The first step alone decides
whether there is any, hence the level under pure noise is exact.

Source: Nanda et al. 2023, arXiv 2301.05217, section 4 (the notion); the null is ours: Westfall & Young,
"Resampling-Based Multiple Testing" (1993); Phipson & Smyth, SAGMB 9 (2010) for the rank of the quantile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes import fourier
from mechint_arith.probes.pairs import block_energy, energy_along, over_pairs

Array = np.ndarray
Remaining = Callable[[tuple[int, ...]], "tuple[list[Array], float]"]


@dataclass(frozen=True)
class Null:
    """How key frequencies are told from chance."""

    n_permutations: int = 1000
    """Random relabellings drawn."""
    quantile: float = 0.99
    """Quantile of the largest share under relabelling: 1 minus the rate at which noise shows a frequency."""
    floor: float | None = None
    """Least share of all energy of a key frequency; None: the even share, 2/(p-1)."""

    @property
    def rank(self) -> int:
        """Place of the quantile among the ordered draws. Raises `InputError` for too few permutations."""
        if not 0 < self.quantile < 1 or (self.n_permutations + 1) * (1 - self.quantile) < 1 - 1e-9:
            raise InputError(
                f"the {self.quantile} quantile of a permutation null needs at least"
                f" 1/(1 - quantile) - 1 permutations; got {self.n_permutations}"
            )
        return math.ceil(self.quantile * (self.n_permutations + 1) - 1e-9)


@dataclass(frozen=True, eq=False)
class KeyFrequencies:
    """Frequencies that stand out of a permutation null."""

    p: int
    """Modulus."""
    frequencies: tuple[int, ...]
    """Key frequencies, strongest first; empty where none stands out."""
    shares: Array
    """float64 [freq]: share of the non-constant energy, frequencies 0..p//2, entry 0 being 0."""
    floor: float
    """Share of all energy that a key frequency exceeds."""
    thresholds: tuple[float, ...]
    """Share of the energy still there that a key frequency exceeded, one per step; the last found none."""
    n_permutations: int
    """Random relabellings drawn."""
    quantile: float
    """Quantile of the null that the thresholds are."""
    statement: str
    """The null in words."""

    @property
    def periods(self) -> tuple[int, ...]:
        """Values per repeat of each key frequency, p / gcd(k, p)."""
        return tuple(fourier.period(k, self.p) for k in self.frequencies)


@dataclass(frozen=True, eq=False)
class PairKeyFrequencies:
    """Frequencies that are key over each operand of an array over pairs."""

    frequencies: tuple[int, ...]
    """Frequencies key over both operands, strongest 3x3 block first."""
    shares: Array
    """float64 [freq]: energy of each 3x3 block over the centred energy."""
    sum_shares: Array
    """float64 [freq]: energy in the directions cos w_k(a+b), sin w_k(a+b) over the centred energy."""
    lhs: KeyFrequencies
    """Over a: of all energy that depends on a, the part in {cos k, sin k} x {const, cos k, sin k}."""
    rhs: KeyFrequencies
    """The same over b."""


def key_frequencies(
    x: Any, *, axis: int = 0, null: Null | None = None, rng: np.random.Generator
) -> KeyFrequencies:
    """Return the key frequencies of an array over values, such as W_E[:p], or W_out W_U with axis=1.

    x: [... value ...]. The null relabels the p values at random, which keeps everything but their order.
    Below p = 7 too many relabellings are rotations for any frequency to stand out at the default quantile.
    Raises `InputError` for a constant array or too few permutations for the quantile.
    """
    values = np.moveaxis(fourier.float64(x), axis, 0)
    p = fourier.check_modulus(len(values))
    flat = values.reshape(p, -1)
    own = flat - flat.mean(0)
    energy = _some_energy(own, flat)
    frame = fourier.basis(p)

    def remaining(found: tuple[int, ...]) -> tuple[list[Array], float]:
        rows = frame.rows[np.isin(frame.frequency, found)]
        left = own - rows.T @ (rows @ own)
        gram = left @ left.T
        return [gram] * (p // 2), float(np.trace(gram))

    return _step_down(remaining, p, energy, "the values", null or Null(), rng)


def pair_key_frequencies(
    x: Any, *, null: Null | None = None, rng: np.random.Generator
) -> PairKeyFrequencies:
    """Return the key frequencies of an array over pairs: the neurons or the logits of one route.

    x: [a b ...]. Over a: energy of {cos k, sin k} over a times {const, cos k, sin k} over b, as a share of all
    energy that depends on a; the null relabels the values of a at random. Over b the same, a and b exchanged.
    Key over both is key, so noise shows a frequency at most as often as the null states. Of logits remove the
    mean over classes first. Raises `InputError` as `key_frequencies` does.
    """
    values = over_pairs(x)
    flat = values.reshape(*values.shape[:2], -1)
    centred = flat - flat.mean((0, 1))
    energy = _some_energy(centred, flat)
    blocks, sums = block_energy(centred).sum(1) / energy, energy_along(centred).sum(1) / energy
    blocks[0] = sums[0] = 0
    rule = null or Null()
    lhs = _over_operand(centred, "the values of a", rule, rng)
    rhs = _over_operand(centred.swapaxes(0, 1), "the values of b", rule, rng)
    both = sorted(set(lhs.frequencies) & set(rhs.frequencies), key=lambda k: -blocks[k])
    return PairKeyFrequencies(tuple(both), blocks, sums, lhs, rhs)


def _some_energy(centred: Array, raw: Array) -> float:
    energy = float((centred**2).sum())
    if not energy > fourier.ROUNDING * float((raw**2).sum()):
        raise InputError("a constant array has no key frequencies: check what was passed")
    return energy


def _over_operand(x: Array, labels: str, null: Null, rng: np.random.Generator) -> KeyFrequencies:
    """Judge the first axis of x [value value column]; an x that does not depend on it has no frequency."""
    p, own = len(x), x - x.mean(0)
    energy = float((own**2).sum())
    frame = fourier.basis(p)
    mixed = fourier.transform(own, axis=1)  # [value component column]

    def remaining(found: tuple[int, ...]) -> tuple[list[Array], float]:
        left = mixed.copy()
        for k in found:
            rows, columns = frame.of(k), np.isin(frame.frequency, (0, k))
            block = np.tensordot(rows, mixed[:, columns], axes=1)
            left[:, columns] -= np.tensordot(rows.T, block, axes=1)
        grams = []
        for k in range(1, p // 2 + 1):
            part = left[:, np.isin(frame.frequency, (0, k))].reshape(p, -1)
            grams.append(part @ part.T)
        return grams, float((left**2).sum())

    if energy <= fourier.ROUNDING * float((x**2).sum()):
        return KeyFrequencies(
            p, (), np.zeros(p // 2 + 1), 0.0, (), 0, null.quantile, f"nothing depends on {labels}"
        )
    return _step_down(remaining, p, energy, labels, null, rng)


def _step_down(
    remaining: Remaining,
    p: int,
    total: float,
    labels: str,
    null: Null,
    rng: np.random.Generator,
) -> KeyFrequencies:
    """Test frequencies until none stands out of the null of what is left.

    remaining: found frequencies -> (G_k [value value] for k = 1..p//2, energy left), where
    sum over rows r of frequency k of r G_k r^T is that frequency's energy. Relabelling permutes G_k.
    """
    rank = null.rank
    order = rng.permuted(np.tile(np.arange(p), (null.n_permutations, 1)), axis=1)
    floor = 2 / (p - 1) if null.floor is None else null.floor
    frame = fourier.basis(p)
    found: tuple[int, ...] = ()
    shares = np.zeros(p // 2 + 1)
    thresholds: list[float] = []
    while True:
        grams, energy = remaining(found)
        if energy <= fourier.ROUNDING * total:
            break
        drawn, left = np.zeros(null.n_permutations), {}
        for k in (k for k in range(1, p // 2 + 1) if k not in found):
            rows, gram = frame.of(k), grams[k - 1]
            left[k] = float(((rows @ gram) * rows).sum())
            relabelled = rows.T[order].swapaxes(1, 2).reshape(-1, p)
            products = ((relabelled @ gram) * relabelled).sum(1)
            drawn = np.maximum(drawn, products.reshape(len(order), -1).sum(1) / energy)
        if not thresholds:
            shares[1:] = [left[k] / total for k in range(1, p // 2 + 1)]
        thresholds.append(float(np.sort(drawn)[rank - 1]))
        bar = max(floor * total, thresholds[-1] * energy) * (1 + 1e-9)
        new = [k for k, value in left.items() if value > bar]
        found += tuple(new)
        if not new or len(found) == p // 2:
            break
    return KeyFrequencies(
        p,
        tuple(sorted(found, key=lambda k: -shares[k])),
        shares,
        floor,
        tuple(thresholds),
        null.n_permutations,
        null.quantile,
        f"{labels} relabelled at random {null.n_permutations} times: the {null.quantile:g} quantile of the"
        " largest share of any frequency, found ones being removed step by step",
    )
