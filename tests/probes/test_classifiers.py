import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from mechint_arith.errors import InputError
from mechint_arith.probes import classifiers


def clusters(n: int, classes: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return activations [row d] around one random centre per class, and the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d)) + 3, labels


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("penalty", [1e-4, 0.1])
def test_closed_form_ridge_equals_scikit_learn(classes: int, penalty: float) -> None:
    x, labels = clusters(200, classes, 12, 0)
    mine = classifiers.ridge(x, classes)(labels, penalty)
    other = RidgeClassifier(alpha=penalty * len(x)).fit((x - mine.mean) / mine.scale, labels)
    weights = np.atleast_2d(other.coef_).T / 2
    if classes == 2:
        weights = np.concatenate([-weights, weights], 1)
    np.testing.assert_allclose(mine.weights, weights, atol=1e-10)
    fresh, _ = clusters(300, classes, 12, 1)
    expected = other.predict((fresh - mine.mean) / mine.scale)
    assert (mine.predict(fresh) == expected).all()
    assert mine.converged


@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_predicts_as_scikit_learn_does(classes: int) -> None:
    x, labels = clusters(150, classes, 6, 2)
    mine = classifiers.logistic(x, classes)(labels, 0.01)
    other = LogisticRegression(C=1 / (0.01 * len(x)), max_iter=1000)
    other.fit((x - mine.mean) / mine.scale, labels)
    assert (mine.predict(x) == other.predict((x - mine.mean) / mine.scale)).all()
    assert mine.converged
    assert mine.warnings == ()


def test_a_fit_that_does_not_converge_says_so() -> None:
    x, labels = clusters(150, 4, 6, 2)
    found = classifiers.logistic(x, 4, max_iter=2)(labels, 1e-6)
    assert not found.converged
    assert any("converge" in message for message in found.warnings)


def test_classes_without_rows_are_never_predicted() -> None:
    x, labels = clusters(150, 3, 6, 3)
    labels = np.where(labels == 2, 4, labels)
    for prepare in (classifiers.ridge, classifiers.logistic):
        assert set(prepare(x, 6)(labels, 0.1).predict(x)) <= {0, 1, 4}
    alone = classifiers.logistic(x, 6)(np.full(len(x), 3), 0.1)
    assert set(alone.predict(x)) == {3}


def test_rotation_shift_and_scale_change_nothing() -> None:
    x, labels = clusters(200, 4, 8, 4)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    moved = 1e-3 * x @ rotation + 7
    one, other = (classifiers.ridge(z, 4)(labels, 0.1).predict(z) for z in (x, moved))
    assert (one == other).all()


def test_the_penalty_is_chosen_on_validation_rows_the_largest_of_equals() -> None:
    x, labels = clusters(300, 3, 5, 5)
    rows = np.arange(300)
    easy = np.eye(3)[labels] * 10
    masks = {"train": rows < 150, "validation": (rows >= 150) & (rows < 220)}
    [found] = classifiers.select(
        classifiers.ridge, easy, [labels], 3, **masks, penalties=[1e-3, 1e-1, 1.0]
    )
    assert found.penalty == 1.0
    noisy = np.concatenate([x, np.random.default_rng(0).normal(size=(300, 200))], 1)
    [found] = classifiers.select(
        classifiers.ridge, noisy, [labels], 3, **masks, penalties=[1e-8, 1.0]
    )
    assert found.penalty == 1.0
    with pytest.raises(InputError, match="must be positive"):
        classifiers.select(classifiers.ridge, x, [labels], 3, **masks, penalties=[0.0])


def test_constant_activations_do_not_divide_by_zero() -> None:
    labels = np.array([0, 1, 1, 1])
    found = classifiers.ridge(np.ones((4, 3)), 2)(labels, 0.1)
    assert found.predict(np.ones((2, 3))).tolist() == [1, 1]
