"""Linear classifiers: one-hot ridge in closed form, and logistic regression through scikit-learn.

Both see activations centred by their training mean and divided by one number, so that a rotation of the
residual stream changes nothing and a penalty means the same at every site. What is probed, and against
which control, belongs in `linear`.

Source: Hastie, Tibshirani & Friedman, "The Elements of Statistical Learning" (2009), sections 3.4.1 and 4.2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mechint_arith.errors import InputError

Array = np.ndarray

RIDGE_PENALTIES = tuple(10.0**exponent for exponent in range(-6, 3))
"""Default penalties: directions with less than about 1e-6 of the mean variance are not read."""
LOGISTIC_PENALTIES = (1e-6, 1e-4, 1e-2, 1.0)
"""Fewer, as each fit is iterative."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """A fitted linear classifier: the class with the largest score weights . x + bias."""

    weights: Array
    """float64 [feature class], on centred and scaled activations."""
    bias: Array
    """float64 [class]."""
    mean: Array
    """float64 [feature]: training mean that is subtracted."""
    scale: float
    """Root mean square of the centred training activations, by which they are divided."""
    penalty: float
    """Weight of the squared norm, relative to the mean squared activation and per row."""
    converged: bool
    """Whether the fit reached its tolerance; a closed form always does."""
    warnings: tuple[str, ...] = ()
    """What the fit complained about."""

    def predict(self, x: Array) -> Array:
        """Return the predicted class int64 [row] of activations [row feature]."""
        return (((x - self.mean) / self.scale) @ self.weights + self.bias).argmax(1)


def standardiser(x: Array) -> tuple[Array, float]:
    """Return the mean [feature] and the root mean square of the centred activations (1 if they are constant)."""
    mean = x.mean(0)
    scale = float(np.sqrt(((x - mean) ** 2).mean()))
    return mean, scale if scale > 0 else 1.0


def ridge(x: Array, n_classes: int) -> Callable[[Array, float], Classifier]:
    """Return fit(labels, penalty), which solves one-hot ridge regression on the activations x in closed form.

    x: [row feature]; labels: int [row] below n_classes. The activations are decomposed once, for any number
    of labels and penalties: with Xc^T Xc / n = V diag(l) V^T, weights = V (l + penalty)^-1 V^T Xc^T Y / n.
    """
    mean, scale = standardiser(x)
    centred = (x - mean) / scale
    values, vectors = np.linalg.eigh(centred.T @ centred / len(x))
    rotated = centred @ vectors

    def fit(labels: Array, penalty: float) -> Classifier:
        targets = np.zeros((len(x), n_classes))
        targets[np.arange(len(x)), labels] = 1
        shrunk = (rotated.T @ targets) / len(x) / (np.maximum(values, 0) + penalty)[:, None]
        return Classifier(vectors @ shrunk, targets.mean(0), mean, scale, penalty, True)

    return fit


def logistic(
    x: Array, n_classes: int, *, max_iter: int = 1000
) -> Callable[[Array, float], Classifier]:
    """Return fit(labels, penalty), multinomial logistic regression by scikit-learn.

    Whether the optimiser reached its tolerance, and every warning it gave, is in the result.
    """
    from sklearn.linear_model import LogisticRegression

    mean, scale = standardiser(x)
    centred = (x - mean) / scale

    def fit(labels: Array, penalty: float) -> Classifier:
        present = np.unique(labels)
        weights, bias = np.zeros((x.shape[1], n_classes)), np.full(n_classes, -np.inf)
        if len(present) == 1:
            bias[present] = 0
            return Classifier(weights, bias, mean, scale, penalty, True)
        model = LogisticRegression(C=1 / (penalty * len(x)), max_iter=max_iter)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(centred, labels)
        two = len(present) == 2
        weights[:, present] = (
            np.concatenate([-model.coef_, model.coef_]).T / 2 if two else model.coef_.T
        )
        bias[present] = (
            np.concatenate([-model.intercept_, model.intercept_]) / 2 if two else model.intercept_
        )
        messages = tuple(dict.fromkeys(str(w.message).splitlines()[0] for w in caught))
        done = bool((np.asarray(model.n_iter_) < max_iter).all())
        return Classifier(weights, bias, mean, scale, penalty, done, messages)

    return fit


def select(
    prepare: Callable[[Array, int], Callable[[Array, float], Classifier]],
    x: Array,
    label_sets: Sequence[Array],
    n_classes: int,
    *,
    train: Array,
    validation: Array,
    penalties: Sequence[float],
) -> list[Classifier]:
    """Return one classifier per label set, its penalty chosen on validation rows, refitted on both.

    x: [row feature]; label_sets: each int [row]; train, validation: bool [row]. Of equally good penalties the
    largest is taken. `converged` and `warnings` speak of the refit. Raises `InputError` without penalties.
    """
    if not penalties or min(penalties) <= 0:
        raise InputError(f"penalties must be positive, at least one; got {list(penalties)}")
    fit, refit = prepare(x[train], n_classes), prepare(x[train | validation], n_classes)
    chosen = []
    for labels in label_sets:
        score = {
            penalty: (
                fit(labels[train], penalty).predict(x[validation]) == labels[validation]
            ).mean()
            for penalty in penalties
        }
        best = max(penalties, key=lambda penalty: (score[penalty], penalty))
        chosen.append(refit(labels[train | validation], best))
    return chosen
