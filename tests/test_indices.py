"""The indices on effects whose answer is known."""

import numpy as np
import pytest
import torch

from mechint_arith import indices
from mechint_arith.indices import Resampler, covering


def test_covering_is_the_smallest_set():
    effect = torch.tensor([5.0, 3.0, 1.0, 0.9, 0.1, -4.0])
    assert covering(effect, 0.5).tolist() == [True, False, False, False, False, False]
    assert covering(effect, 0.8).tolist() == [True, True, False, False, False, False]
    assert covering(effect, 1.0).tolist() == [True] * 5 + [False]
    assert not covering(torch.tensor([-1.0, -2.0])).any()


def test_planted_shares():
    """Neurons 0-9 shared, 10-19 only on one route, 20-29 only on the other: shared half by effect."""
    one, two = torch.zeros(1, 30), torch.zeros(1, 30)
    one[:, :20], two[:, :10], two[:, 20:] = 1.0, 1.0, 1.0
    assert indices.overlap(one, two).item() == pytest.approx(0.5)
    halves = [torch.stack([x, x]) for x in (one, two)]
    sets = [covering(x, 1.0) for x in halves]
    assert indices.sigma(sets[0], sets[1], halves[1]).item() == pytest.approx(0.5)
    assert indices.swap(sets[1], halves[0], 1.0).item() == pytest.approx(0.5)


def test_resampler_means_are_weighted_means_by_hand(rng):
    cluster = np.repeat(np.arange(9), [1, 2, 3, 1, 2, 3, 1, 2, 3])
    values = torch.from_numpy(rng.normal(size=(18, 4)))
    r = Resampler.draw(cluster, 5, rng)
    assert (r.n, r.n_resamples) == (9, 5)
    sample = r.mean(values)[: indices.SPLITS].double()
    torch.testing.assert_close(sample, values.mean(0).expand(indices.SPLITS, -1), rtol=0, atol=1e-6)
    halves = r.halves(values)
    torch.testing.assert_close(r.whole(halves), r.mean(values), rtol=0, atol=1e-6)
    weights = r.counts.sum(0)
    assert (weights.sum(1) == 9).all()
    for half, means in zip(r.counts, halves, strict=True):
        by_row = half[:, torch.from_numpy(cluster)].double()
        expected = by_row @ values / by_row.sum(1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(means.double(), expected, rtol=0, atol=1e-6)


def test_every_row_deals_each_cluster_to_one_half_in_a_way_of_its_own(rng):
    r = Resampler.draw(np.arange(40), 3, rng)
    member = r.counts[:, : indices.SPLITS] > 0
    assert (member.sum(0) == 1).all()
    assert (member.sum(2) == 20).all()
    assert len({tuple(row.tolist()) for row in member[0]}) == indices.SPLITS
    assert not ((r.counts[0] > 0) & (r.counts[1] > 0)).any()


def test_act_is_a_weighted_correlation_and_0_for_constants(rng):
    x = torch.from_numpy(rng.normal(size=(200, 3)))
    y = torch.stack([2 * x[:, 0] + 1, -x[:, 1], torch.ones(200)], 1)
    moments = [v.mean(0, keepdim=True) for v in (x, y, x * x, y * y, x * y)]
    weight = torch.tensor([[0.5, 0.3, 0.2]])
    value = indices.act((moments[0], moments[1]), (moments[2], moments[3]), moments[4], weight)
    assert value.item() == pytest.approx(0.5 - 0.3, abs=1e-6)


def test_interval_contains_the_value(rng):
    r = Resampler.draw(np.arange(50), 200, rng)
    splits = torch.linspace(0.96, 0.98, indices.SPLITS)
    biased = torch.cat([splits, torch.full((200,), 0.90)])
    estimate = r.estimate(biased)
    assert estimate.low == estimate.value == pytest.approx(0.97, abs=1e-6)
    assert estimate.high == pytest.approx(1.04, abs=1e-6)


def test_overlap_null_is_below_the_overlap_of_equal_routes(rng):
    effect = torch.from_numpy(rng.exponential(size=(1, 200)))
    assert indices.overlap(effect, effect).item() == pytest.approx(1)
    assert 0.3 < indices.overlap_null(effect, effect, rng) < 0.7
