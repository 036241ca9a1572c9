import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.probes.routes import compare_routes

P, NEURONS = 23, 60


def layer(rng: np.random.Generator, frequencies: list[int], noise: float = 0.0) -> np.ndarray:
    """Return ReLU neurons [a b neuron] of random frequency, phase and size."""
    a, b = np.meshgrid(np.arange(P), np.arange(P), indexing="ij")
    k, phase = rng.choice(frequencies, NEURONS), rng.uniform(0, 2 * np.pi, NEURONS)
    angle = 2 * np.pi * k / P
    pre = np.cos(a[..., None] * angle - phase) + np.cos(b[..., None] * angle - phase)
    return np.maximum(pre, 0) * rng.uniform(0.5, 2, NEURONS) + noise * rng.normal(size=pre.shape)


def test_one_layer_scaled_and_noisy_agrees() -> None:
    rng = np.random.default_rng(0)
    x = layer(rng, [2, 5, 9])
    found = compare_routes(x, 0.4 * x + 0.05 * rng.normal(size=x.shape), rng=rng)
    assert found.frequency.estimate.low > 0.95
    assert found.phase.estimate.low > 0.95
    assert found.spectrum.estimate.value > 0.95
    assert found.frequency.chance_high < 0.6
    assert abs(found.phase.chance) < 0.1
    assert found.same.all()
    assert found.weight.sum() == pytest.approx(1)
    assert found.frequency.estimate.n == P * (P + 1) // 2
    assert (found.first.frequency == found.second.frequency).all()


def test_identical_routes_agree_exactly() -> None:
    x = layer(np.random.default_rng(1), [2, 5])
    found = compare_routes(x, x, rng=np.random.default_rng(0))
    for agreement in (found.frequency, found.phase, found.spectrum):
        assert agreement.estimate.value == pytest.approx(1)
        assert agreement.estimate.high <= 1


def test_disjoint_neurons_do_not_agree_though_their_spectra_do() -> None:
    x = layer(np.random.default_rng(2), [2, 5])
    first, second = x.copy(), x.copy()
    first[..., : NEURONS // 2] = 0
    second[..., NEURONS // 2 :] = 0
    found = compare_routes(first, second, rng=np.random.default_rng(0))
    assert found.frequency.estimate.value == 0
    assert found.phase.estimate.value == 0
    assert found.spectrum.estimate.value > 0.8


def test_other_phases_at_the_same_frequencies_are_told_apart() -> None:
    x, y = layer(np.random.default_rng(3), [4]), layer(np.random.default_rng(4), [4])
    found = compare_routes(x, y, rng=np.random.default_rng(0))
    assert found.frequency.estimate.value == pytest.approx(1)
    assert abs(found.phase.estimate.value) < 0.4


def test_a_second_algorithm_has_another_spectrum() -> None:
    x, y = layer(np.random.default_rng(5), [2, 5]), layer(np.random.default_rng(6), [3, 8])
    found = compare_routes(x, y, rng=np.random.default_rng(0))
    assert found.frequency.estimate.high < 0.1
    assert found.spectrum.estimate.high < 0.4


def test_the_interval_shrinks_with_the_noise() -> None:
    widths = []
    for noise in (2.0, 0.2):
        rng = np.random.default_rng(7)
        x = layer(rng, [2, 5, 9])
        found = compare_routes(x, x + noise * rng.normal(size=x.shape), rng=rng).spectrum.estimate
        assert found.low < found.value < found.high
        widths.append(found.high - found.low)
    assert widths[1] < widths[0]


@pytest.mark.parametrize("p", [2, 3, 4])
def test_small_moduli_work(p: int) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 4))
    found = compare_routes(x, x, rng=np.random.default_rng(0), n_null=5)
    assert found.frequency.estimate.value == pytest.approx(1)


def test_faults_are_named() -> None:
    rng = np.random.default_rng(0)
    x = layer(rng, [2])
    with pytest.raises(InputError, match="of one shape"):
        compare_routes(x, x[..., :3], rng=rng)
    with pytest.raises(InputError, match="constant"):
        compare_routes(x, np.ones_like(x), rng=rng)
    with pytest.raises(InputError, match="at least one shuffling"):
        compare_routes(x, x, rng=rng, n_null=0)
