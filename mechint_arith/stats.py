"""Estimates with their intervals, permutation tests and corrections for several tests.

Plain numbers and NumPy arrays in, named values out; nothing here knows a task or a model.
Sources: Wilson, JASA 22 (1927); Davison & Hinkley, "Bootstrap Methods and their Application"
(1997); Efron & Tibshirani, "An Introduction to the Bootstrap" (1993); Phipson & Smyth, SAGMB 9
(2010); Holm, Scand. J. Stat. 6 (1979); Benjamini & Hochberg, JRSS B 57 (1995).
"""

import math
import operator
from dataclasses import dataclass
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from mechint_arith.errors import InputError

Array = np.ndarray

CHUNK = 4_000_000
"""Bootstrap weights held in memory at a time (8 bytes each)."""


@dataclass(frozen=True)
class Estimate:
    """A number, the interval around it, and what it rests on."""

    value: float
    """Point estimate, in the unit of what was measured."""
    low: float
    """Lower end of the interval, same unit."""
    high: float
    """Upper end of the interval, same unit."""
    n: int
    """Independent units behind it: trials, clusters or runs."""

    def as_dict(self) -> dict[str, float | int]:
        """Return the fields for JSON. Raises `ValueError` where one is NaN or infinite."""
        fields = {"value": float(self.value), "low": float(self.low), "high": float(self.high)}
        bad = [name for name, number in fields.items() if not math.isfinite(number)]
        if bad:
            raise ValueError(
                f"{' and '.join(bad)} of the estimate {self} cannot be written to JSON"
            )
        return {**fields, "n": int(self.n)}

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] n={self.n}"


def share(hits: SupportsIndex, n: SupportsIndex, *, level: float = 0.95) -> Estimate:
    """Return hits / n with its Wilson score interval.

    Raises `InputError` where n is 0 or hits is not between 0 and n.
    """
    from scipy.stats import binomtest

    _check_level(level)
    k, trials = operator.index(hits), operator.index(n)
    if trials < 1:
        raise InputError(f"a share needs at least one trial; got n = {trials}")
    if not 0 <= k <= trials:
        raise InputError(f"a share needs 0 <= hits <= n; got hits = {k}, n = {trials}")
    interval = binomtest(k, trials).proportion_ci(confidence_level=level, method="wilson")
    return Estimate(k / trials, float(interval.low), float(interval.high), trials)


def unordered_pairs(a: ArrayLike, b: ArrayLike) -> Array:
    """Number the unordered pairs {a, b}: int64 [batch], ids 0..n-1 in the order of (min, max).

    a, b: integers [batch]. Raises `InputError` where they differ in shape.
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"pairs need a and b of one shape [batch]; got {a.shape} and {b.shape}")
    numbers, ids = np.unique(np.concatenate([a, b]), return_inverse=True)
    pairs = np.sort(ids.reshape(2, -1), axis=0)
    return np.unique(pairs[0] * len(numbers) + pairs[1], return_inverse=True)[1]


def cluster_counts(n_clusters: int, n_resamples: int, rng: np.random.Generator) -> Array:
    """Draw bootstrap weights: int64 [resample cluster], how often each cluster was drawn.

    Every row is multinomial with n_clusters draws of equal probability, so rows sum to n_clusters.
    Raises `InputError` where either number is below 1.
    """
    if n_clusters < 1 or n_resamples < 1:
        raise InputError(
            "a bootstrap needs at least one cluster and one resample;"
            f" got {n_clusters} and {n_resamples}"
        )
    drawn = rng.integers(n_clusters, size=(n_resamples, n_clusters))
    drawn += n_clusters * np.arange(n_resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n_resamples * n_clusters)
    return counts.reshape(n_resamples, n_clusters)


def bootstrap_interval(
    value: SupportsFloat, replicates: ArrayLike, *, level: float = 0.95, kind: str = "basic"
) -> tuple[float, float]:
    """Return (low, high) around `value` from its bootstrap replicates [resample].

    With q(u) the u-quantile of the R replicates (the (R + 1) u-th in order) and α = (1 - level) / 2:

    * "basic": 2 value - q(1 - α), 2 value - q(α). Davison & Hinkley 1997, eq. 5.6.
    * "bc": q(Φ(2 z0 + Φ⁻¹(α))), q(Φ(2 z0 + Φ⁻¹(1 - α))), where z0 = Φ⁻¹(share of replicates below
      `value`, ties counting half). Stays within the range of the statistic. Efron & Tibshirani
      1993, eq. 14.9 with acceleration 0; Davison & Hinkley 1997, section 5.3.2.

    Raises `InputError` for no replicates, replicates that are not finite, or an unknown kind.
    """
    _check_level(level)
    centre, draws = float(value), np.asarray(replicates, float)
    if draws.ndim != 1 or not draws.size:
        raise InputError("a bootstrap interval needs finite replicates of shape [resample]")
    if not np.isfinite(draws).all():
        raise InputError(
            "a bootstrap interval needs finite replicates: what was measured is NaN or infinite"
        )
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if kind == "basic":
        low, high = 2 * centre - np.quantile(draws, tails[::-1], method="weibull")
    elif kind == "bc":
        from scipy.stats import norm

        below = np.mean(draws < centre) + np.mean(draws == centre) / 2
        z0 = norm.ppf(np.clip(below, 0.5 / draws.size, 1 - 0.5 / draws.size))
        corrected = norm.cdf(2 * z0 + norm.ppf(tails))
        low, high = np.quantile(draws, corrected, method="weibull")
    else:
        raise InputError(f"a bootstrap interval is 'basic' or 'bc'; got {kind!r}")
    return float(low), float(high)


def clustered_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    n_resamples: int = 2000,
    rng: np.random.Generator,
    level: float = 0.95,
    kind: str = "basic",
) -> Estimate:
    """Return the mean of `values` with a bootstrap interval that resamples whole clusters.

    values: numbers [batch]; clusters: labels [batch]. Rows of one cluster (prompts with one number
    pair) count as dependent. n of the result is the number of clusters.
    Raises `InputError` for shapes that differ, no rows, or values that are not finite.
    """
    x, labels = np.asarray(values, float), np.asarray(clusters)
    if x.ndim != 1 or x.shape != labels.shape:
        raise InputError(f"expected values and clusters [batch]; got {x.shape} and {labels.shape}")
    if not x.size or not np.isfinite(x).all():
        raise InputError("a clustered mean needs at least one row and finite values")
    ids = np.unique(labels, return_inverse=True)[1].reshape(-1)
    sums, sizes = np.bincount(ids, x), np.bincount(ids).astype(float)
    step = max(1, CHUNK // len(sizes))
    replicates = []
    for start in range(0, n_resamples, step):
        weights = cluster_counts(len(sizes), min(step, n_resamples - start), rng).astype(float)
        replicates.append((weights @ sums) / (weights @ sizes))
    low, high = bootstrap_interval(x.mean(), np.concatenate(replicates), level=level, kind=kind)
    return Estimate(float(x.mean()), low, high, len(sizes))


def seeds(values: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Return the mean over independent runs with Student's t interval; the run is the unit.

    values: one number per run [run]: mean ± t(n - 1) s / √n.
    Raises `InputError` for fewer than two runs or values that are not finite.
    """
    from scipy.stats import t

    _check_level(level)
    x = np.asarray(values, float)
    if x.ndim != 1 or len(x) < 2:
        raise InputError(f"an interval across runs needs at least 2 runs; got {x.size}")
    if not np.isfinite(x).all():
        raise InputError("an interval across runs needs finite values")
    half = float(t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)))
    mean = float(x.mean())
    return Estimate(mean, mean - half, mean + half, len(x))


def permutation_p(observed: SupportsFloat, null: ArrayLike, *, tail: str = "greater") -> float:
    """Return the p-value (1 + null draws at least as extreme) / (1 + null draws).

    null: the statistic under random relabelling [draw]. "two-sided" doubles the smaller tail, up
    to 1. Draws within rounding of `observed` count as equal. Source: Phipson & Smyth 2010.
    Raises `InputError` for no draws, draws that are not finite, or an unknown tail.
    """
    centre, draws = float(observed), np.asarray(null, float).ravel()
    if not draws.size or not np.isfinite(draws).all() or not math.isfinite(centre):
        raise InputError("a permutation test needs a finite statistic and finite null draws")
    rounding = 100 * np.finfo(float).eps * abs(centre)
    greater = (1 + int(np.sum(draws >= centre - rounding))) / (1 + draws.size)
    less = (1 + int(np.sum(draws <= centre + rounding))) / (1 + draws.size)
    p_values = {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}
    if tail not in p_values:
        raise InputError(f"a tail is one of {', '.join(p_values)}; got {tail!r}")
    return p_values[tail]


def holm(p: ArrayLike) -> Array:
    """Return p-values [test] adjusted by Holm's step-down: family-wise error, any dependence."""
    p_values = _p_values(p)
    order = np.argsort(p_values, kind="stable")
    steps = (len(p_values) - np.arange(len(p_values))) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> Array:
    """Return p-values [test] adjusted by Benjamini–Hochberg: false discovery rate."""
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(_p_values(p), method="bh"))


def _p_values(p: Any) -> Array:
    p_values = np.asarray(p, float)
    if p_values.ndim != 1 or not p_values.size or not ((p_values >= 0) & (p_values <= 1)).all():
        raise InputError("expected p-values of shape [test], each between 0 and 1, at least one")
    return p_values


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"a confidence level lies between 0 and 1; got {level}")
