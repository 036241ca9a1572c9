"""Do two routes use the same frequencies and phases, neuron by neuron and as a whole layer?

Agreement is weighted by energy, each route normalised by its own, and a neuron that is silent on one route
stays in the denominator. What follows for sharing is decided in `verdict`, never here.

Source: the measures are ours. Interval: delete-a-group jackknife over unordered number pairs (Kott, "The
delete-a-group jackknife", Journal of Official Statistics 17, 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes.fourier import ROUNDING, basis
from mechint_arith.probes.frequencies import NeuronFrequencies, neuron_frequencies
from mechint_arith.probes.pairs import over_pairs
from mechint_arith.stats import Estimate, unordered_pairs

Array = np.ndarray


@dataclass(frozen=True)
class Agreement:
    """A measure of agreement and what it reads without any."""

    estimate: Estimate
    """Agreement, 1 where both routes are the same; n counts unordered number pairs."""
    chance: float
    """Mean of the same measure under the null."""
    chance_high: float
    """95 % quantile of the measure under the null."""


@dataclass(frozen=True, eq=False)
class RouteComparison:
    """Frequencies of one layer on two routes, held against each other."""

    frequency: Agreement
    """Energy-weighted share of neurons with one dominant frequency on both routes. Null: neurons shuffled."""
    phase: Agreement
    """Energy-weighted mean cosine of the phase shifts, 0 where frequencies differ. Null: neurons shuffled."""
    spectrum: Agreement
    """Sum over frequencies of the smaller of the two shares of energy. Null: frequencies shuffled."""
    same: Array
    """bool [neuron]: one dominant frequency on both routes."""
    cosine: Array
    """float64 [neuron]: cosine of the phase shift, over a and b weighted by both amplitudes."""
    weight: Array
    """float64 [neuron]: mean of the neuron's shares of either route's energy, summing to 1."""
    first: NeuronFrequencies
    """The first route."""
    second: NeuronFrequencies
    """The second route."""


@dataclass(frozen=True, eq=False)
class _Waves:
    """Block coefficients of one route: enough for everything that is compared."""

    energy: Array
    """[neuron]: centred energy."""
    blocks: Array
    """[freq neuron]: energy of the blocks of frequencies 1..p//2."""
    lhs: Array
    """complex [freq neuron]: wave over a, cosine plus i sine."""
    rhs: Array
    """complex [freq neuron]: wave over b."""


def compare_routes(
    first: Any,
    second: Any,
    *,
    rng: np.random.Generator,
    n_groups: int = 50,
    n_null: int = 200,
    level: float = 0.95,
) -> RouteComparison:
    """Compare the frequencies, phases and spectra of a layer on two routes.

    first, second: [a b neuron], activations on the same pairs (or logits [a b class], of which only the
    spectrum says something; remove their mean over classes first). Interval: unordered pairs are dealt into
    `n_groups` groups at random, each left out in turn, both routes together; normal limits, cut to the range
    of the measure. The neurons are taken as given. Null: `n_null` shufflings. Raises `InputError` for shapes that differ or a route whose
    activations are constant.
    """
    one, two = over_pairs(first), over_pairs(second)
    if one.shape != two.shape or one.ndim != 3:
        raise InputError(
            f"two routes need activations [a b neuron] of one shape; got {one.shape} and {two.shape}"
        )
    p = len(one)
    a, b = np.divmod(np.arange(p * p), p)
    cluster = unordered_pairs(a, b)
    n_clusters = int(cluster.max()) + 1
    n_groups = min(n_groups, n_clusters)
    group = rng.permutation(np.arange(n_clusters) % n_groups)[cluster]
    waves = [_leave_groups_out(values, group, n_groups) for values in (one, two)]
    full, *replicates = (_measures(x, y) for x, y in zip(*waves, strict=True))
    spread = np.sqrt((n_groups - 1) * np.var(replicates, axis=0))
    everything = waves[0][0], waves[1][0]
    nulls = _nulls(*everything, rng, n_null)
    from scipy.stats import norm

    half = float(norm.ppf((1 + level) / 2)) * spread

    def agreement(i: int, least: float) -> Agreement:
        low, high = max(full[i] - half[i], least), min(full[i] + half[i], 1.0)
        estimate = Estimate(full[i], float(low), float(high), n_clusters)
        return Agreement(estimate, float(nulls[i].mean()), float(np.quantile(nulls[i], 0.95)))

    same, cosine = _per_neuron(*everything)
    return RouteComparison(
        frequency=agreement(0, 0.0),
        phase=agreement(1, -1.0),
        spectrum=agreement(2, 0.0),
        same=same,
        cosine=cosine,
        weight=_weights(*everything),
        first=neuron_frequencies(one),
        second=neuron_frequencies(two),
    )


def _leave_groups_out(values: Array, group: Array, n_groups: int) -> list[_Waves]:
    """Return the waves over all pairs, then over all pairs but those of each group."""
    p = len(values)
    flat = values.reshape(p * p, -1)
    raw = (flat**2).sum(0)
    flat = flat - flat.mean(0)
    if not (flat**2).sum() > ROUNDING * raw.sum():
        raise InputError("activations on a route are constant: there is nothing to compare")
    flat[:, (flat**2).sum(0) <= ROUNDING * raw] = 0
    functions = _block_functions(p)
    parts, squares, sizes = [], [], []
    for g in range(n_groups):
        rows = group == g
        parts.append(functions[:, rows] @ flat[rows])
        squares.append((flat[rows] ** 2).sum(0))
        sizes.append(rows.sum())
    total, energy, n = sum(parts), sum(squares), p * p
    found = [_waves(total, energy)]
    for part, square, size in zip(parts, squares, sizes, strict=True):
        scale = n / (n - size) if size < n else 1.0
        found.append(_waves((total - part) * scale, (energy - square) * scale))
    return found


def _block_functions(p: int) -> Array:
    """Return the orthonormal functions of all blocks: [freq 8, pair], sines of Nyquist being zero."""
    frame = basis(p)
    constant = frame.rows[0]
    functions = []
    for k in range(1, p // 2 + 1):
        rows = frame.of(k)
        cosine, sine = rows if len(rows) == 2 else (rows[0], np.zeros(p))
        functions += [np.outer(x, constant) for x in (cosine, sine)]
        functions += [np.outer(constant, x) for x in (cosine, sine)]
        functions += [np.outer(x, y) for x in (cosine, sine) for y in (cosine, sine)]
    return np.array(functions).reshape(-1, p * p)


def _waves(coefficients: Array, energy: Array) -> _Waves:
    block = coefficients.reshape(-1, 8, coefficients.shape[1])
    lhs, rhs = block[:, 0] + 1j * block[:, 1], block[:, 2] + 1j * block[:, 3]
    return _Waves(energy, (block**2).sum(1), lhs, rhs)


def _weights(first: _Waves, second: _Waves) -> Array:
    return (first.energy / first.energy.sum() + second.energy / second.energy.sum()) / 2


def _per_neuron(first: _Waves, second: _Waves) -> tuple[Array, Array]:
    """Return whether each neuron's frequencies agree, and the cosine of its phase shift where they do."""
    k, other = first.blocks.argmax(0), second.blocks.argmax(0)
    same = (k == other) & (first.energy > 0) & (second.energy > 0)
    neuron = np.arange(len(k))
    inner, norm = np.zeros(len(k)), np.zeros(len(k))
    for mine, theirs in ((first.lhs, second.lhs), (first.rhs, second.rhs)):
        x, y = mine[k, neuron], theirs[k, neuron]
        inner += (x * y.conj()).real
        norm += np.abs(x * y)
    cosine = np.divide(inner, norm, out=np.zeros_like(inner), where=same & (norm > 0))
    return same, cosine


def _overlap(first: Array, second: Array) -> float:
    return float(np.minimum(first / first.sum(), second / second.sum()).sum())


def _measures(first: _Waves, second: _Waves) -> tuple[float, float, float]:
    same, cosine = _per_neuron(first, second)
    weight = _weights(first, second)
    overlap = _overlap(first.blocks.sum(1), second.blocks.sum(1))
    return float(weight @ same), float(weight @ cosine), overlap


def _nulls(first: _Waves, second: _Waves, rng: np.random.Generator, n: int) -> Array:
    """Return the three measures [measure draw] with neurons, or for the spectra frequencies, shuffled."""
    if n < 1:
        raise InputError(f"a null needs at least one shuffling; got {n}")
    draws = np.empty((3, n))
    for i in range(n):
        at = rng.permutation(len(second.energy))
        shuffled = _Waves(
            second.energy[at], second.blocks[:, at], second.lhs[:, at], second.rhs[:, at]
        )
        draws[:2, i] = _measures(first, shuffled)[:2]
        draws[2, i] = _overlap(first.blocks.sum(1), rng.permutation(second.blocks.sum(1)))
    return draws
