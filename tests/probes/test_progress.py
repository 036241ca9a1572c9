import math

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.probes import progress
from mechint_arith.probes.fourier import basis


def sums(p: int) -> np.ndarray:
    """Return (a + b) mod p over all pairs."""
    return np.add.outer(np.arange(p), np.arange(p)) % p


def planted(p: int, alpha: dict[int, float], labels: np.ndarray) -> np.ndarray:
    """Return logits sum_k alpha_k cos w_k(y - c)."""
    shift = labels[..., None] - np.arange(p)
    return sum(size * np.cos(2 * np.pi * k * shift / p) for k, size in alpha.items())


def test_the_loss_equals_torch_in_float64_and_survives_large_gaps() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(7, 7, 7)) * 30, sums(7)
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(logits).reshape(49, 7), torch.tensor(labels).reshape(49), reduction="none"
    )
    np.testing.assert_allclose(
        progress.loss_over_pairs(logits, labels).ravel(), expected.numpy(), rtol=1e-10, atol=1e-14
    )
    sure = np.zeros((2, 2, 2))
    sure[..., 1] = 2000
    assert progress.loss_over_pairs(sure, np.ones((2, 2), int)).tolist() == [[0, 0], [0, 0]]
    assert progress.loss_over_pairs(sure, np.zeros((2, 2), int)).tolist() == [[2000, 2000]] * 2


@pytest.mark.parametrize("p", [10, 13])
def test_restricting_to_the_planted_frequencies_changes_nothing_and_drops_memory(p: int) -> None:
    rng = np.random.default_rng(1)
    labels = sums(p)
    clean = planted(p, {1: 5.0, p // 2: 3.0}, labels)
    memory = rng.normal(size=clean.shape) * 4
    train = rng.random((p, p)) < 0.3
    full = progress.loss_over_pairs(clean, labels).mean()
    found = progress.restricted_loss(clean, labels, [1, p // 2], train=train)
    assert found.all == pytest.approx(full, rel=1e-9)
    assert found.held == pytest.approx(full, rel=1e-9)
    noisy = progress.restricted_loss(clean + memory, labels, [1, p // 2], train=train)
    assert noisy.all < progress.loss_over_pairs(clean + memory, labels).mean()
    assert progress.restricted_loss(clean, labels, [2]).all == pytest.approx(math.log(p))
    assert progress.restricted_loss(clean, labels, [2]).held is None
    assert progress.restricted_loss(clean, labels, [2], train=np.ones((p, p), bool)).held is None


def test_excluding_leaves_memory_alone_and_kills_the_circuit() -> None:
    p, labels = 13, sums(13)
    train = np.random.default_rng(2).random((p, p)) < 0.3
    memory = np.zeros((p, p, p))
    np.put_along_axis(memory, labels[..., None], train[..., None] * 20.0, -1)
    circuit = planted(p, {1: 8.0, 4: 6.0}, labels)
    alone = progress.excluded_loss(circuit, labels, [1, 4], train=train)
    assert alone.together == pytest.approx(math.log(p))
    assert alone.full < alone.each[4] < alone.together
    assert alone.full < alone.each[1] < alone.together
    assert progress.excluded_loss(circuit, labels, [2], train=train).together == pytest.approx(
        alone.full
    )
    remembered = progress.excluded_loss(memory, labels, [1, 4], train=train)
    assert remembered.together < 1


def test_subtraction_is_read_along_the_difference() -> None:
    p = 11
    labels = np.subtract.outer(np.arange(p), np.arange(p)) % p
    logits = planted(p, {3: 9.0}, labels)
    full = progress.loss_over_pairs(logits, labels).mean()
    found = progress.restricted_loss(logits, labels, [3], along="difference")
    assert found.all == pytest.approx(full)
    assert progress.restricted_loss(logits, labels, [3]).all == pytest.approx(math.log(p))
    assert progress.trig_fraction(logits, [3], along="difference").total == pytest.approx(1)
    assert progress.trig_fraction(logits, [3]).total == pytest.approx(0, abs=1e-12)


def test_the_trig_fraction_of_planted_columns() -> None:
    p, shares = 59, [1.0, 0.5, 0.0]
    angle = 2 * np.pi * 5 * sums(p) / p
    a = 2 * np.pi * 5 * np.arange(p)[:, None] / p + np.zeros(p)
    columns = [np.sqrt(s) * np.cos(angle + 1) + np.sqrt(1 - s) * np.cos(a) for s in shares]
    found = progress.trig_fraction(np.stack([*columns, np.full((p, p), 4.4)], -1), [5])
    np.testing.assert_allclose(found.each, [1, 0.5, 0, 0], atol=1e-12)
    assert found.total == pytest.approx(0.5)
    with pytest.raises(InputError, match="constant"):
        progress.trig_fraction(np.ones((p, p, 1)), [5])


def test_gini_of_known_distributions() -> None:
    assert progress.gini([3, 3, 3, 3]) == pytest.approx(0)
    assert progress.gini([0, 0, 0, 5]) == pytest.approx(3 / 4)
    assert progress.gini([1, 2, 3, 4]) == pytest.approx(0.25)
    for bad in ([], [0, 0], [-1, 2]):
        with pytest.raises(InputError, match="not all zero"):
            progress.gini(bad)


def test_component_norms_of_a_sparse_matrix() -> None:
    rows = basis(10).rows
    matrix = np.outer(rows[3], [3.0, 4.0])
    np.testing.assert_allclose(progress.component_norms(matrix), np.eye(10)[3] * 5, atol=1e-12)
    np.testing.assert_allclose(
        progress.component_norms(matrix.T, axis=1), np.eye(10)[3] * 5, atol=1e-12
    )


def test_squared_weights() -> None:
    weights = {"W_E": torch.tensor([[1.0, 2.0]]), "W_U": np.array([3.0])}
    assert progress.squared_weights(weights) == {"W_E": 5, "W_U": 9}


@pytest.mark.parametrize("p", [10, 59])
def test_the_logit_form_returns_planted_alphas_and_their_variance(p: int) -> None:
    labels, rng = sums(p), np.random.default_rng(p)
    alpha = {1: 3.0, 4: -1.5, p // 2: 2.0}
    signal = planted(p, alpha, labels)
    found = progress.logit_form(signal + rng.normal(size=(p, p, 1)) * 7, labels)
    for k in range(1, p // 2 + 1):
        assert found.alpha[k] == pytest.approx(alpha.get(k, 0), abs=1e-10)
    assert found.variance_explained() == pytest.approx(1)
    noise = rng.normal(size=(p, p, p)) * signal.std()
    noisy = progress.logit_form(signal + noise, labels)
    assert noisy.variance_explained(alpha) == pytest.approx(0.5, abs=0.05)
    assert noisy.variance_explained([2]) < 0.01


def test_the_logit_form_is_least_squares() -> None:
    p, labels = 7, sums(7)
    logits = np.random.default_rng(0).normal(size=(p, p, p))
    centred = logits - logits.mean(-1, keepdims=True)
    design = np.stack([planted(p, {k: 1.0}, labels).ravel() for k in (1, 2, 3)], 1)
    alpha, residual, _, _ = np.linalg.lstsq(design, centred.ravel())
    found = progress.logit_form(logits, labels)
    np.testing.assert_allclose(found.alpha[1:], alpha)
    assert found.variance_explained() == pytest.approx(1 - residual[0] / (centred**2).sum())


def test_faults_are_named() -> None:
    logits = np.zeros((4, 4, 4))
    with pytest.raises(InputError, match=r"labels \[a b\]"):
        progress.loss_over_pairs(logits, np.zeros(4, int))
    with pytest.raises(InputError, match="classes 0 to 3; got 0 to 4"):
        progress.loss_over_pairs(logits, np.arange(16).reshape(4, 4) % 5)
    with pytest.raises(InputError, match="has none"):
        progress.excluded_loss(logits, sums(4), [1], train=np.zeros((4, 4), bool))
    with pytest.raises(InputError, match="bool mask"):
        progress.restricted_loss(logits, sums(4), [1], train=np.zeros((4, 4)))
    with pytest.raises(InputError, match="each the answer of 4 pairs"):
        progress.logit_form(logits, np.zeros((4, 4), int))
    with pytest.raises(InputError, match="without variance"):
        progress.logit_form(logits, sums(4))
