import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.probes.frequencies import neuron_frequencies


def grid(p: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return w_k a and w_k b over all pairs."""
    a, b = np.meshgrid(np.arange(p), np.arange(p), indexing="ij")
    return 2 * np.pi * k * a / p, 2 * np.pi * k * b / p


@pytest.mark.parametrize("p", [10, 59, 118])
def test_planted_waves_give_their_frequency_fraction_phases_and_amplitudes(p: int) -> None:
    over_a, over_b = grid(p, 3)
    other, _ = grid(p, 2)
    pure = 2 + 0.5 * np.cos(over_a - 0.4) + 1.5 * np.cos(over_b + 1.1)
    summed = 3 * np.cos(over_a + over_b - 2.0)
    mixed = np.cos(over_a) + 0.5 * np.cos(other)
    found = neuron_frequencies(np.stack([pure, summed, mixed], -1))
    assert found.frequency.tolist() == [3, 3, 3]
    np.testing.assert_allclose(found.fraction, [1, 1, 0.8])
    assert found.phase["lhs"][[0, 2]] == pytest.approx([0.4, 0])
    assert found.phase["rhs"][0] == pytest.approx(-1.1)
    assert found.phase["sum"][1] == pytest.approx(2.0)
    np.testing.assert_allclose(found.amplitude["lhs"], [0.5, 0, 1], atol=1e-12)
    np.testing.assert_allclose(found.amplitude["rhs"], [1.5, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.amplitude["sum"], [0, 3, 0], atol=1e-12)
    np.testing.assert_allclose(found.energy, [1.25 * p * p, 4.5 * p * p, 0.625 * p * p])
    np.testing.assert_allclose(found.by_frequency[2], [0, 0, 0.125 * p * p], atol=1e-10)


@pytest.mark.parametrize("p", [2, 4, 10])
def test_the_nyquist_frequency_has_sign_instead_of_phase(p: int) -> None:
    over_a, over_b = grid(p, p // 2)
    x = np.stack([-2 * np.cos(over_a), 0.5 * np.cos(over_a + over_b)], -1)
    found = neuron_frequencies(x)
    assert found.frequency.tolist() == [p // 2, p // 2]
    np.testing.assert_allclose(found.fraction, 1)
    np.testing.assert_allclose(found.amplitude["lhs"], [2, 0], atol=1e-12)
    assert abs(found.phase["lhs"][0]) == pytest.approx(np.pi)
    np.testing.assert_allclose(found.amplitude["sum"], [0, 0.5], atol=1e-12)


def test_constant_neurons_have_no_frequency() -> None:
    found = neuron_frequencies(np.full((7, 7, 2), [0.0, 3.7]))
    assert found.frequency.tolist() == [0, 0]
    assert found.fraction.tolist() == [0, 0]
    assert found.energy.tolist() == [0, 0]
    assert found.amplitude["sum"].tolist() == [0, 0]
    assert found.clusters() == {}


def test_fractions_of_noise_are_small_and_clusters_split_the_neurons() -> None:
    found = neuron_frequencies(np.random.default_rng(0).normal(size=(31, 31, 40)))
    assert found.fraction.max() < 0.1
    assert (found.by_frequency.sum(0) <= found.energy).all()
    clusters = found.clusters()
    assert sorted(np.concatenate(list(clusters.values()))) == list(range(40))
    assert found.clusters(least=0.5) == {}


def test_a_relu_neuron_is_explained_by_its_own_frequency() -> None:
    over_a, over_b = grid(59, 7)
    neuron = np.maximum(np.cos(over_a - 1) + np.cos(over_b - 1), 0)
    found = neuron_frequencies(neuron[..., None])
    assert found.frequency.tolist() == [7]
    assert found.fraction[0] > 0.9
    assert found.phase["lhs"][0] == pytest.approx(1, abs=1e-2)
    assert found.phase["sum"][0] == pytest.approx(2, abs=1e-2)


def test_another_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"\[a b neuron\]"):
        neuron_frequencies(np.zeros((4, 4)))
