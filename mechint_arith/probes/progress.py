"""Progress measures of a modular model: what the loss owes to its key frequencies, and how far clean-up went.

Logits and labels are arrays over all pairs. Which frequencies are key is decided in `key_frequencies`.

Source: Nanda et al. 2023, arXiv 2301.05217, section 5.1 (restricted and excluded loss, Gini coefficient, sum
of squared weights) and 4 (logit form, trig fraction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes.fourier import ROUNDING, basis, float64, folded, transform
from mechint_arith.probes.pairs import energy_along, over_pairs
from mechint_arith.probes.projections import project

Array = np.ndarray


def loss_over_pairs(logits: Any, labels: Any) -> Array:
    """Return the cross entropy of every pair in nats, float64 [a b].

    logits: [a b class]; labels: int [a b]. Log-softmax in float64, shifted by the largest logit.
    Raises `InputError` for shapes that do not fit or a label that is no class.
    """
    z, right = over_pairs(logits), _labels(logits, labels)
    top = z.max(-1, keepdims=True)
    total = np.log(np.exp(z - top).sum(-1)) + top[..., 0]
    return total - np.take_along_axis(z, right[..., None], -1)[..., 0]


def _labels(logits: Any, labels: Any) -> Array:
    shape, right = np.shape(logits), np.asarray(labels)
    if len(shape) != 3 or right.shape != shape[:2]:
        raise InputError(
            f"expected logits [a b class] and labels [a b]; got {shape} and {right.shape}"
        )
    if right.min() < 0 or right.max() >= shape[2]:
        raise InputError(
            f"labels must be classes 0 to {shape[2] - 1}; got {right.min()} to {right.max()}"
        )
    return right


@dataclass(frozen=True)
class RestrictedLoss:
    """Loss with nothing but key frequencies in the logits. Falls before the held-out loss does."""

    frequencies: tuple[int, ...]
    """Frequencies kept, beside the constant."""
    all: float
    """Mean cross entropy over all pairs, nats."""
    held: float | None
    """Mean over held-out pairs; None where no split was given or nothing is held out."""


@dataclass(frozen=True)
class ExcludedLoss:
    """Loss on training pairs with key frequencies removed. Rises as the circuit takes over from memory."""

    frequencies: tuple[int, ...]
    """Frequencies removed."""
    full: float
    """Mean cross entropy over training pairs with nothing removed, nats."""
    together: float
    """The same with all of them removed at once."""
    each: Mapping[int, float]
    """Frequency -> the same with that one removed."""


def restricted_loss(
    logits: Any,
    labels: Any,
    frequencies: Iterable[SupportsIndex],
    *,
    train: Any = None,
    along: str = "sum",
) -> RestrictedLoss:
    """Return the loss after keeping only the constant and cos, sin w_k(a+b) of the given k in the logits.

    logits: [a b class]; labels: int [a b]; train: bool [a b], the training pairs; `along="difference"` for
    subtraction. Raises `InputError` for shapes that do not fit.
    """
    z = over_pairs(logits)
    chosen = folded(frequencies, len(z))
    losses = loss_over_pairs(project(z, chosen, over=along), labels)
    held = None if train is None else losses[~_mask(train, losses)]
    return RestrictedLoss(
        chosen,
        float(losses.mean()),
        None if held is None or not held.size else float(held.mean()),
    )


def excluded_loss(
    logits: Any,
    labels: Any,
    frequencies: Iterable[SupportsIndex],
    *,
    train: Any,
    along: str = "sum",
) -> ExcludedLoss:
    """Return the training loss after removing cos, sin w_k(a+b): all given k together, and each alone.

    Arguments as in `restricted_loss`. Raises `InputError` where there are no training pairs.
    """
    z = over_pairs(logits)
    chosen = folded(frequencies, len(z))
    rows = _mask(train, z[..., 0])
    if not rows.any():
        raise InputError("the excluded loss needs training pairs; the mask given has none")

    def without(k: Iterable[SupportsIndex]) -> float:
        left = project(z, k, over=along, keep=False)
        return float(loss_over_pairs(left, labels)[rows].mean())

    return ExcludedLoss(chosen, without(()), without(chosen), {k: without([k]) for k in chosen})


def _mask(train: Any, like: Array) -> Array:
    rows = np.asarray(train)
    if rows.dtype != bool or rows.shape != like.shape:
        raise InputError(f"expected a bool mask {like.shape} of training pairs; got {rows.shape}")
    return rows


@dataclass(frozen=True, eq=False)
class TrigFraction:
    """Share of the centred energy in functions of a+b at key frequencies."""

    total: float
    """Over all columns together."""
    each: Array
    """float64 [column]: for each neuron or class; 0 where it is constant."""


def trig_fraction(
    x: Any, frequencies: Iterable[SupportsIndex], *, along: str = "sum"
) -> TrigFraction:
    """Return the energy in cos, sin w_k(a+b), summed over the given k, over the centred energy.

    x: [a b column], neurons or logits. Raises `InputError` where x is constant.
    """
    values = over_pairs(x)
    chosen = list(folded(frequencies, len(values)))
    values = values.reshape(*values.shape[:2], -1)
    found = energy_along(values, along=along)[chosen].sum(0)
    energy = ((values - values.mean((0, 1))) ** 2).sum((0, 1))
    some = energy > ROUNDING * (values**2).sum((0, 1))
    if not some.any():
        raise InputError("a constant array has no trig fraction: check what was passed")
    each = np.divide(found, energy, out=np.zeros_like(found), where=some)
    return TrigFraction(float(found[some].sum() / energy[some].sum()), each)


def component_norms(matrix: Any, *, axis: int = 0) -> Array:
    """Return float64 [component]: the norm of each Fourier component along a value axis, in basis order."""
    coefficients = np.moveaxis(transform(matrix, axis=axis), axis, 0)
    return np.linalg.norm(coefficients.reshape(len(coefficients), -1), axis=1)


def gini(values: Any) -> float:
    """Return the Gini coefficient of non-negative numbers: 0 if all are equal, (n-1)/n if one holds all.

    sum_i (2i - n - 1) x_i / (n sum x) over the numbers in rising order. Of Fourier norms (`component_norms`)
    it says how sparse a matrix is in that basis. Raises `InputError` for negative numbers or a zero sum.
    """
    x = np.sort(float64(values).ravel())
    if not x.size or x[0] < 0 or x.sum() <= 0:
        raise InputError("a Gini coefficient needs non-negative numbers that are not all zero")
    i = np.arange(1, len(x) + 1)
    return float(((2 * i - len(x) - 1) * x).sum() / (len(x) * x.sum()))


def squared_weights(weights: Mapping[str, Any]) -> dict[str, float]:
    """Return name -> sum of squares of that tensor, in float64; their sum is the total."""
    return {name: float((float64(value) ** 2).sum()) for name, value in weights.items()}


@dataclass(frozen=True, eq=False)
class LogitForm:
    """The fit logits ~ sum over k of alpha_k cos w_k(y - c), y the right answer (a+b) and c the class."""

    p: int
    """Modulus."""
    alpha: Array
    """float64 [freq]: alpha_k in logits, frequencies 0..p//2, entry 0 being 0."""
    explained: Array
    """float64 [freq]: share of the variance of the centred logits that each term explains."""

    def variance_explained(self, frequencies: Iterable[SupportsIndex] | None = None) -> float:
        """Return the share that the given frequencies explain together; by default all of them."""
        if frequencies is None:
            return float(self.explained.sum())
        return float(self.explained[list(folded(frequencies, self.p))].sum())


def logit_form(logits: Any, labels: Any) -> LogitForm:
    """Fit alpha_k cos w_k(y - c) to logits from which each pair's mean over classes is removed.

    logits: [a b class], p classes; labels: int [a b]. Where every answer has p pairs, terms are orthogonal,
    and least squares is a projection: alpha_k = 2/p^3 sum logits cos w_k(y - c), 1/p^3 at Nyquist.
    Raises `InputError` for another number of classes, or labels that do not occur equally often (as
    products do not): there the terms are not orthogonal.
    """
    z, right = over_pairs(logits), _labels(logits, labels)
    p = len(z)
    if z.shape[2] != p or not (np.bincount(right.ravel(), minlength=p) == p).all():
        raise InputError(
            f"the logit form needs {p} classes, each the answer of {p} pairs; got {z.shape[2]} classes"
        )
    z = z - z.mean(-1, keepdims=True)
    energy = (z**2).sum()
    if not energy > ROUNDING * (over_pairs(logits) ** 2).sum():
        raise InputError("logits without variance have no logit form: check what was passed")
    shifted = np.take_along_axis(z, (right[..., None] - np.arange(p)) % p, -1)
    means = shifted.mean((0, 1))  # by y - c
    frame = basis(p)
    cosines = [int(np.flatnonzero(frame.frequency == k)[0]) for k in range(1, p // 2 + 1)]
    coefficients = np.array([0.0, *(frame.rows[cosines] @ means)])
    scale = np.sqrt(np.where(2 * np.arange(p // 2 + 1) == p, 1, 2) / p)
    return LogitForm(p, coefficients * scale, coefficients**2 * p * p / energy)
