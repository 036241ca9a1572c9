"""The four indices of sharing as functions of neuron effects, each for a sample and all its bootstrap resamples.

Axis `half` holds the two halves of the number pairs, one to choose neurons and one to judge them. Axis `resample`
holds the sample itself first, split in `SPLITS` ways over which its value is averaged, and then the resamples,
each split in a way of its own. Prompts and models are `sharing`'s business.
Source: this project's own measures; their errors on planted controls are in the README.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mechint_arith.stats import Estimate, bootstrap_interval, cluster_counts

COVER = 0.95
"""Share of the positive effect that a selected neuron set holds."""
SPLITS = 20
"""Ways in which the sample is split into halves: one alone moves SIGMA by about .004 of a standard deviation."""

Effects = Float[Tensor, "resample neuron"]
HalfEffects = Float[Tensor, "half resample neuron"]
Replicates = Float[Tensor, " resample"]


@dataclass(frozen=True)
class Resampler:
    """Bootstrap weights over clusters of prompts, in every row dealt into two halves at random."""

    cluster: Tensor
    """int [batch]: which cluster a prompt belongs to."""
    counts: Float[Tensor, "half resample cluster"]
    """How often each cluster was drawn, and 0 where it is in the other half; 1 in the sample itself."""

    @classmethod
    def draw(cls, cluster: np.ndarray, n_resamples: int, rng: np.random.Generator) -> Resampler:
        """Draw `n_resamples` resamples of the clusters numbered 0..n-1, and `SPLITS` splits of the sample."""
        n = int(cluster.max()) + 1
        counts = np.concatenate([np.ones((SPLITS, n)), cluster_counts(n, n_resamples, rng)])
        half = rng.permuted(np.tile(np.arange(n) % 2, (len(counts), 1)), axis=1)
        halves = np.stack([counts * (half == k) for k in (0, 1)])
        return cls(torch.from_numpy(cluster), torch.from_numpy(halves).float())

    @property
    def n(self) -> int:
        """Number of clusters."""
        return self.counts.shape[2]

    @property
    def n_resamples(self) -> int:
        """Number of resamples, the sample itself not counted."""
        return self.counts.shape[1] - SPLITS

    def _sums(self, values: Tensor) -> Tensor:
        """Sum [batch column] over the prompts of each cluster."""
        sums = torch.zeros(self.n, values.shape[1], dtype=torch.float64)
        return sums.index_add_(0, self.cluster, values.double()).float()

    def halves(self, values: Tensor) -> HalfEffects:
        """Mean of [batch column] over the prompts of each half. A half that a resample missed has mean 0."""
        return self.counts @ self._sums(values) / self._sizes.clamp(min=1)

    def mean(self, values: Tensor) -> Effects:
        """Mean of [batch column] over all prompts."""
        return self.counts.sum(0) @ self._sums(values) / self._sizes.sum(0)

    @cached_property
    def _sizes(self) -> HalfEffects:
        return self.counts @ self._sums(torch.ones(len(self.cluster), 1))

    def whole(self, halves: HalfEffects) -> Effects:
        """Turn the means over halves into the mean over all prompts."""
        return (halves * self._sizes).sum(0) / self._sizes.sum(0)

    def estimate(self, replicates: Replicates) -> Estimate:
        """Return the sample's value, averaged over its splits, with its basic bootstrap interval.

        A resample holds fewer different pairs than the sample, which pulls min-type indices down; the basic
        interval corrects for that and may then leave the value outside, so it is stretched to contain it.
        """
        values = replicates.double().numpy()
        value = float(values[:SPLITS].mean())
        low, high = bootstrap_interval(value, values[SPLITS:])
        return Estimate(value, min(low, value), max(high, value), self.n)


def covering(effect: Float[Tensor, "*r neuron"], cover: float = COVER) -> Bool[Tensor, "*r neuron"]:
    """The smallest sets of neurons that hold a share of the positive effect."""
    ordered, order = effect.clamp(min=0).sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    inside = (before < cover * ordered.sum(-1, keepdim=True)) & (ordered > 0)
    return torch.zeros_like(inside).scatter_(-1, order, inside)


def positive_shares(effect: Effects) -> Effects:
    """p(i) = max(e(i), 0) / sum of the same."""
    positive = effect.clamp(min=0)
    return positive / positive.sum(-1, keepdim=True).clamp(min=1e-30)


def sigma(
    foreign: Bool[Tensor, "half resample neuron"],
    own: Bool[Tensor, "half resample neuron"],
    effect: HalfEffects,
) -> Replicates:
    """SIGMA, one direction: damage on a route by another route's set over the damage by its own set.

    Sets are chosen on one half and judged by the `effect` on the other, both ways, averaged.
    """
    judge = effect.flip(0)
    return ((judge * foreign).sum(2) / _away_from_zero((judge * own).sum(2))).mean(0)


def swap(
    own: Bool[Tensor, "half resample neuron"], gain: HalfEffects, cover: float = COVER
) -> Replicates:
    """SWAP, one direction: gain of the source's answer from swapping the base route's set, over the gain from
    all neurons, over `cover`; cross-fitted as `sigma` is."""
    judge = gain.flip(0)
    return ((judge * own).sum(2) / _away_from_zero(judge.sum(2)) / cover).mean(0)


def overlap(one: Effects, two: Effects) -> Replicates:
    """OVERLAP = sum over neurons of the smaller of the two shares of positive effect."""
    return torch.minimum(positive_shares(one), positive_shares(two)).sum(1)


def overlap_null(one: Effects, two: Effects, rng: np.random.Generator, n: int = 200) -> float:
    """Mean OVERLAP of the sample when the neurons of one route are relabelled at random."""
    x, y = positive_shares(one[:1]), positive_shares(two[:1])
    orders = (torch.from_numpy(rng.permutation(x.shape[1])) for _ in range(n))
    return float(torch.stack([torch.minimum(x, y[:, order]).sum() for order in orders]).mean())


def act(
    means: tuple[Effects, Effects],
    squares: tuple[Effects, Effects],
    product: Effects,
    weight: Effects,
) -> Replicates:
    """ACT: weighted correlation over pairs of each neuron's activation on two routes; 0 where one is constant.

    means, squares, product: first and second moments of the activations x, y; weight: [resample neuron].
    """
    (mx, my), (xx, yy) = means, squares
    var_x, var_y = xx - mx**2, yy - my**2
    varies = (var_x > 1e-5 * xx.clamp(min=1e-30)) & (var_y > 1e-5 * yy.clamp(min=1e-30))
    scale = torch.where(varies, var_x.clamp(min=0) * var_y.clamp(min=0), 1.0).sqrt()
    correlation = torch.where(varies, (product - mx * my) / scale, 0.0)
    return (weight * correlation.clamp(-1, 1)).sum(1)


def _away_from_zero(value: Tensor) -> Tensor:
    """Keep a denominator's sign and its distance from 0: untrained networks have effects around it."""
    return torch.where(value < 0, value.clamp(max=-1e-12), value.clamp(min=1e-12))
