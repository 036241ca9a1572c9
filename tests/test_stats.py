"""Intervals against known truths and coverage; corrections against worked examples."""

import json
import math

import numpy as np
import pytest

from mechint_arith import stats
from mechint_arith.errors import InputError
from mechint_arith.stats import Estimate


def rng(seed=0):
    return np.random.default_rng(seed)


def test_an_estimate_reads_well_and_goes_to_json():
    estimate = Estimate(0.98123, 0.975, 0.98649, 2000)
    assert str(estimate) == "0.981 [0.975, 0.986] n=2000"
    assert json.loads(json.dumps(estimate.as_dict()))["n"] == 2000


def test_an_estimate_without_a_number_is_not_written():
    with pytest.raises(ValueError, match="low and high of the estimate"):
        Estimate(0.5, math.nan, math.inf, 3).as_dict()


def test_share_is_the_wilson_interval():
    z, n, k = 1.959963984540054, 50, 3
    centre = (k + z**2 / 2) / (n + z**2)
    half = z * math.sqrt(k * (n - k) / n + z**2 / 4) / (n + z**2)
    found = stats.share(k, n)
    assert (found.value, found.n) == (0.06, 50)
    np.testing.assert_allclose([found.low, found.high], [centre - half, centre + half])


def test_share_at_the_ends_stays_within_0_and_1():
    assert stats.share(0, 7).low == 0
    assert stats.share(7, 7).high == 1
    assert stats.share(np.int64(7), np.int64(7)).low > 0.5


@pytest.mark.parametrize(
    ("hits", "n", "text"),
    [(0, 0, "at least one trial; got n = 0"), (3, 2, "hits = 3, n = 2"), (-1, 2, "hits = -1")],
)
def test_share_refuses_impossible_counts(hits, n, text):
    with pytest.raises(InputError, match=text):
        stats.share(hits, n)


def test_share_refuses_a_level_in_percent():
    with pytest.raises(InputError, match="between 0 and 1; got 95"):
        stats.share(1, 2, level=95.0)


def test_wilson_covers_a_rate_of_one_percent():
    hits = rng().binomial(2000, 0.01, size=1000)
    covered = [(e := stats.share(k, 2000)).low <= 0.01 <= e.high for k in hits]
    assert 0.93 < np.mean(covered) < 0.975


def test_unordered_pairs_ignore_the_order():
    ids = stats.unordered_pairs([3, 1, 2, 1, 3], [1, 3, 2, 1, 3])
    assert ids.tolist() == [1, 1, 2, 0, 3]


def test_unordered_pairs_refuse_other_shapes():
    with pytest.raises(InputError, match="one shape"):
        stats.unordered_pairs([1, 2], [1])


def test_cluster_counts_are_multinomial():
    n = 12
    counts = stats.cluster_counts(n, 40_000, rng())
    assert counts.shape == (40_000, n)
    assert (counts.sum(1) == n).all()
    expected = np.eye(n) - 1 / n
    np.testing.assert_allclose(counts.mean(0), 1, atol=0.03)
    np.testing.assert_allclose(np.cov(counts.T), expected, atol=0.03)
    with pytest.raises(InputError, match="at least one cluster"):
        stats.cluster_counts(0, 10, rng())


def test_bootstrap_intervals_by_hand():
    replicates = np.arange(1, 100)  # quantile u is 100 u
    low, high = stats.bootstrap_interval(60, replicates, level=0.9)
    assert (low, high) == pytest.approx((25, 115))
    low, high = stats.bootstrap_interval(50, replicates, level=0.9, kind="bc")
    assert (low, high) == pytest.approx((5, 95))


def test_bias_correction_moves_towards_the_value():
    replicates = rng().normal(size=400_000)
    low, high = stats.bootstrap_interval(0.5, replicates, kind="bc")
    assert (low, high) == pytest.approx((1.0 - 1.96, 1.0 + 1.96), abs=0.05)


def test_bias_correction_stays_finite_outside_the_replicates():
    low, high = stats.bootstrap_interval(2, rng().uniform(size=99), kind="bc")
    assert low <= high <= 1


@pytest.mark.parametrize("replicates", [[], [1, np.nan], [[1, 2]]])
def test_bootstrap_refuses_what_is_not_a_list_of_numbers(replicates):
    with pytest.raises(InputError, match="finite replicates"):
        stats.bootstrap_interval(0, replicates)


def test_bootstrap_refuses_an_unknown_kind():
    with pytest.raises(InputError, match="'basic' or 'bc'; got 'bca'"):
        stats.bootstrap_interval(0, [1, 2], kind="bca")


def test_clustered_mean_is_as_wide_as_the_clusters_demand():
    """Ten copies of every value carry no more information than one."""
    x = rng(1).normal(size=300)
    once = stats.clustered_mean(x, np.arange(300), rng=rng(2))
    copied = stats.clustered_mean(np.repeat(x, 10), np.repeat(np.arange(300), 10), rng=rng(2))
    assert copied.n == once.n == 300
    np.testing.assert_allclose([copied.low, copied.high], [once.low, once.high])
    half = 1.96 * x.std() / np.sqrt(300)
    assert (once.high - once.low) / 2 == pytest.approx(half, rel=0.06)


def test_clustered_mean_does_not_depend_on_names_of_clusters():
    x = rng(1).normal(size=60)
    names = np.repeat(["d", "b", "x"], 20)
    by_name = stats.clustered_mean(x, names, rng=rng(3))
    by_number = stats.clustered_mean(x, np.repeat([7, -4, 100], 20), rng=rng(3))
    assert by_name.n == by_number.n == 3
    assert by_name.value == x.mean()


@pytest.mark.parametrize("kind", ["basic", "bc"])
def test_clustered_mean_covers_the_truth(kind):
    """Clusters of unequal size with a shared effect: a plain interval would cover far less."""
    draw, covered, naive = rng(5), [], []
    for _ in range(300):
        sizes = draw.integers(1, 8, size=80)
        clusters = np.repeat(np.arange(80), sizes)
        values = 2 + draw.normal(size=80)[clusters] + 0.2 * draw.normal(size=len(clusters))
        e = stats.clustered_mean(values, clusters, rng=draw, n_resamples=400, kind=kind)
        half = 1.96 * values.std() / np.sqrt(len(values))
        covered.append(e.low <= 2 <= e.high)
        naive.append(abs(values.mean() - 2) <= half)
    assert 0.91 < np.mean(covered) < 0.98
    assert np.mean(naive) < 0.75


def test_clustered_mean_in_chunks_equals_one_piece(monkeypatch):
    x, clusters = rng(1).normal(size=100), np.arange(100) // 2
    whole = stats.clustered_mean(x, clusters, rng=rng(4))
    monkeypatch.setattr(stats, "CHUNK", 777)
    parts = stats.clustered_mean(x, clusters, rng=rng(4))
    np.testing.assert_allclose([parts.low, parts.high], [whole.low, whole.high])


@pytest.mark.parametrize(
    ("values", "clusters", "text"),
    [([1, 2], [1], "values and clusters"), ([], [], "at least one"), ([np.nan], [0], "finite")],
)
def test_clustered_mean_refuses_unusable_rows(values, clusters, text):
    with pytest.raises(InputError, match=text):
        stats.clustered_mean(values, clusters, rng=rng())


def test_seeds_is_students_interval():
    found = stats.seeds([1.0, 2.0, 3.0])
    assert (found.value, found.n) == (2.0, 3)
    assert found.high - 2 == pytest.approx(4.302652729911275 / math.sqrt(3))
    assert stats.seeds([0.5, 0.5]).low == 0.5


@pytest.mark.parametrize("values", [[], [1.0]])
def test_seeds_needs_two_runs(values):
    with pytest.raises(InputError, match=f"at least 2 runs; got {len(values)}"):
        stats.seeds(values)


def test_permutation_p_counts_the_observed_one():
    null = np.arange(99)
    assert stats.permutation_p(1000, null) == pytest.approx(0.01)
    assert stats.permutation_p(98, null) == pytest.approx(0.02)
    assert stats.permutation_p(0, null, tail="less") == pytest.approx(0.02)
    assert stats.permutation_p(98, null, tail="two-sided") == pytest.approx(0.04)
    assert stats.permutation_p(49, null, tail="two-sided") == 1
    assert stats.permutation_p(0.1 + 0.2, [0.3] * 3) == 1


@pytest.mark.parametrize("tail", ["greater", "less", "two-sided"])
def test_permutation_p_is_valid_under_the_null(tail):
    draw = rng(6)
    p = [stats.permutation_p(draw.normal(), draw.normal(size=99), tail=tail) for _ in range(4000)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.011)


def test_permutation_p_refuses_no_draws_and_unknown_tails():
    with pytest.raises(InputError, match="finite null draws"):
        stats.permutation_p(1, [])
    with pytest.raises(InputError, match="tail is one of greater, less, two-sided; got 'upper'"):
        stats.permutation_p(1, [1], tail="upper")


def test_holm_by_hand():
    np.testing.assert_allclose(stats.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(stats.holm([0.9, 0.8]), [1, 1])


def test_benjamini_hochberg_by_hand():
    found = stats.benjamini_hochberg([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(found, [0.02, 0.04, 0.04, 0.02])


@pytest.mark.parametrize("adjust", [stats.holm, stats.benjamini_hochberg])
@pytest.mark.parametrize("p", [[], [0.5, np.nan], [1.1], [[0.1]]])
def test_corrections_refuse_what_is_not_a_p_value(adjust, p):
    with pytest.raises(InputError, match="between 0 and 1"):
        adjust(p)
