"""Numbers per example to one number per cell, with clustered bootstrap intervals and reasons for missing values.

Every summary is a ratio of sums over the examples, so one bootstrap serves all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechint_arith.stats import CHUNK, bootstrap_interval, cluster_counts

Array = np.ndarray

KINDS = ("ratio of means", "mean of ratios", "change", "level")
NO_GAP = "base and donor run have the same metric, so there is no scale"
NO_ROW = "no row has this place"


ROUNDING = 1e-12
"""A sum below this share of its terms' sizes counts as 0."""


@dataclass(frozen=True, eq=False)
class Summary:
    """One number per cell, over the examples."""

    kind: str
    """One of `KINDS`."""
    value: Array
    """float64 [*axes]; NaN where it is missing. Unit: share of the gap; for `change` and `level` the metric's."""
    low: Array
    """float64 [*axes]: lower end of the interval."""
    high: Array
    """float64 [*axes]: upper end."""
    n: Array
    """int64 [*axes]: clusters behind it."""
    excluded: Array
    """int64 [*axes]: examples left out of this cell: they lack the place or, in a mean of ratios, have no gap."""
    missing: Array
    """object [*axes]: why a value is missing, or None."""


def summarise(
    kind: str,
    top: Array,
    bottom: Array,
    clusters: Array,
    present: Array,
    *,
    level: float,
    n_resamples: int,
    seed: int,
) -> Summary:
    """Return sum(top) / sum(bottom) over the examples of each cell.

    top, bottom: float64 [*axes example], NaN for examples left out. clusters: [example], resampled as wholes.
    present: bool [*axes], whether any example has the cell's place. Intervals are basic, for a level (which has a
    range to stay within) bias-corrected.
    """
    shape = top.shape[:-1]
    top, bottom = (x.reshape(-1, len(clusters)) for x in (top, bottom))
    valid = np.isfinite(top) & np.isfinite(bottom)
    top, bottom = np.where(valid, top, 0.0), np.where(valid, bottom, 0.0)
    ids = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    n_clusters = int(ids.max(initial=-1)) + 1
    sums = np.zeros((3, n_clusters, len(top)))
    for total, x in zip(sums, (top, bottom, valid), strict=True):
        np.add.at(total, ids, x.T)
    over = sums[1].sum(0)
    some = np.abs(over) > ROUNDING * np.abs(bottom).sum(1)
    value = np.divide(sums[0].sum(0), over, out=np.full(len(over), np.nan), where=some)
    value += 0.0  # no negative zeros
    interval = "bc" if kind == "level" else "basic"
    low, high = _intervals(value, sums[0], sums[1], level, n_resamples, seed, interval)
    missing = np.full(len(value), None, dtype=object)
    missing[np.isnan(value)] = NO_GAP
    missing[~present.reshape(-1)] = NO_ROW
    return Summary(
        kind,
        value.reshape(shape),
        low.reshape(shape),
        high.reshape(shape),
        (sums[2] > 0).sum(0).reshape(shape),
        (~valid).sum(1).reshape(shape),
        missing.reshape(shape),
    )


def _intervals(
    value: Array,
    top: Array,
    bottom: Array,
    level: float,
    n_resamples: int,
    seed: int,
    kind: str,
) -> tuple[Array, Array]:
    """Return bootstrap intervals of sum(top) / sum(bottom), [cell] each; top, bottom: [cluster cell]."""
    ends = np.full((2, len(value)), np.nan)
    if not len(top):
        return ends[0], ends[1]
    rng = np.random.default_rng(seed)
    step = max(1, CHUNK // len(top))
    drawn = []
    for start in range(0, n_resamples, step):
        weights = cluster_counts(len(top), min(step, n_resamples - start), rng).astype(float)
        over = weights @ bottom
        drawn.append(
            np.divide(weights @ top, over, out=np.full(over.shape, np.nan), where=over != 0)
        )
    replicates = np.concatenate(drawn)
    for i in np.flatnonzero(np.isfinite(value)):
        finite = replicates[np.isfinite(replicates[:, i]), i]
        if len(finite):
            ends[:, i] = bootstrap_interval(value[i], finite, level=level, kind=kind)
    return ends[0], ends[1]
