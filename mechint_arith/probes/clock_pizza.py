"""Clock or pizza: gradient symmetricity, distance irrelevance and circularity of a modular adder.

A clock multiplies the operands' circles and reads cos w(a+b-c); a pizza adds them and reads their mean, whose
size depends on a-b. So a pizza's logits know a-b (low distance irrelevance) and treat both embeddings alike
(symmetricity near 1). The functions take logits, embeddings, or a function from embeddings to logits.

Source: Zhong et al. 2023, arXiv 2306.17844, section 4 (gradient symmetricity and distance irrelevance) and
appendix (circularity). There symmetricity is drawn from 100 triples; here it is exhaustive over pairs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.probes.fourier import ROUNDING, float64, fold
from mechint_arith.probes.pairs import over_pairs
from mechint_arith.stats import Estimate, clustered_mean, unordered_pairs

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Symmetricity:
    """How alike the gradients of the logits with respect to the two embeddings are."""

    mean: Estimate
    """Mean cosine over pairs and classes; interval over unordered pairs."""
    by_pair: Array
    """float64 [a b]: mean over classes; NaN where no cosine is defined."""
    undefined: int
    """Triples (a, b, c) left out because a gradient is zero."""


def gradient_symmetricity(
    logits: Callable[[Tensor, Tensor], Tensor],
    lhs: Float[Tensor, "value d_model"],
    rhs: Tensor | None = None,
    *,
    classes: Iterable[SupportsIndex] | None = None,
    rows: int = 4096,
    rng: np.random.Generator,
) -> Symmetricity:
    """Return the mean cosine of d logit_c / d E_a and d logit_c / d E_b over all pairs and classes.

    logits: maps embeddings of the two operands, each [batch d_model], to logits [batch class], every row by
    itself; lhs, rhs: the embeddings of the numbers for either operand (rhs is lhs by default); classes: all
    by default; rows: pairs per forward pass, which bounds memory. Computed in the embeddings' own dtype.
    Raises `InputError` for shapes that differ or where every gradient is zero.
    """
    right = lhs if rhs is None else rhs
    if lhs.shape != right.shape or len(lhs) < 2:
        raise InputError(
            f"expected embeddings [value d_model] of both operands; got {tuple(lhs.shape)} and"
            f" {tuple(right.shape)}"
        )
    chosen = None if classes is None else [operator.index(c) for c in classes]
    p = len(lhs)
    a, b = np.divmod(np.arange(p * p), p)
    blocks = []
    for start in range(0, p * p, rows):
        chunk = slice(start, start + rows)
        gradients = _gradients(logits, lhs[a[chunk]], right[b[chunk]], chosen)
        blocks.append(np.stack([gradient_cosine(*pair) for pair in gradients], 1))
    return _summary(np.concatenate(blocks).reshape(p, p, -1), rng)


def _gradients(
    logits: Callable[[Tensor, Tensor], Tensor],
    left: Tensor,
    right: Tensor,
    classes: list[int] | None,
) -> list[tuple[Tensor, Tensor]]:
    with torch.enable_grad():
        operands = left.detach().requires_grad_(), right.detach().requires_grad_()
        out = logits(*operands)
        if out.ndim != 2 or len(out) != len(left):
            raise InputError(
                f"the logits of {len(left)} pairs must be [batch class]; got {out.shape}"
            )
        found = []
        for c in range(out.shape[1]) if classes is None else classes:
            one, other = torch.autograd.grad(
                out[:, c].sum(), operands, retain_graph=True, materialize_grads=True
            )
            found.append((one, other))
        return found


def gradient_cosine(left: Any, right: Any) -> Array:
    """Return the cosine of gradients [... d_model] along the last axis, NaN where one is zero."""
    x, y = float64(left), float64(right)
    norm = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    inner = (x * y).sum(-1)
    return np.divide(inner, norm, out=np.full_like(inner, np.nan), where=norm > 0)


def symmetricity(left: Any, right: Any, *, rng: np.random.Generator) -> Symmetricity:
    """Return the symmetricity of gradients at hand: d logit_c / d E_a and d E_b, each [a b class d_model]."""
    return _summary(gradient_cosine(left, right), rng)


def _summary(cosine: Array, rng: np.random.Generator) -> Symmetricity:
    """cosine: [a b class]."""
    defined = np.isfinite(cosine)
    count = defined.sum(-1)
    if not count.any():
        raise InputError("every gradient is zero: the logits do not depend on both embeddings")
    sums = np.where(defined, cosine, 0).sum(-1)
    by_pair = np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
    a, b = np.nonzero(count)
    mean = clustered_mean(by_pair[a, b], unordered_pairs(a, b), rng=rng)
    return Symmetricity(mean, by_pair, int((~defined).sum()))


@dataclass(frozen=True, eq=False)
class DistanceIrrelevance:
    """How much of the spread of the correct logit is there at a fixed a-b: 1 if a-b does not matter."""

    mean: Estimate
    """Mean over distances of the standard deviation over sums, over the overall one; n counts |a-b|."""
    by_distance: Array
    """float64 [distance]: the ratio at each a-b mod p."""


def distance_irrelevance(correct: Any, *, rng: np.random.Generator) -> DistanceIrrelevance:
    """Return mean over d of std over s of L[s, d] over std of L, L the correct logit at a+b = s, a-b = d.

    correct: [a b], the logit of the right answer (`correct_logits`). At each d all p pairs with a-b = d are
    taken, which for an odd p are the p sums, and for an even p each possible sum twice.
    Raises `InputError` where the correct logit is the same for all pairs.
    """
    values = over_pairs(correct)
    if values.ndim != 2:
        raise InputError(f"expected the correct logit [a b]; got shape {values.shape}")
    p = len(values)
    spread = values.std()
    if not spread**2 > ROUNDING * (values**2).mean():
        raise InputError("the correct logit is the same for all pairs: its spread is zero")
    a, d = np.ogrid[:p, :p]
    by_distance = values[a, (a - d) % p].std(0) / spread
    size = [fold(distance, p) for distance in range(p)]
    return DistanceIrrelevance(clustered_mean(by_distance, size, rng=rng), by_distance)


def correct_logits(logits: Any, labels: Any) -> Array:
    """Return the logit of the right answer, float64 [a b], from logits [a b class] and labels int [a b]."""
    return np.take_along_axis(over_pairs(logits), np.asarray(labels)[..., None], -1)[..., 0]


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Principal components of a centred matrix, largest variance first."""

    left: Array
    """float64 [value component]: left singular vectors, orthonormal: each value's place, unit scale."""
    variance: Array
    """float64 [component]: share of the variance."""
    directions: Array
    """float64 [component d_model]: right singular vectors, orthonormal."""


def principal_components(matrix: Any, n: int) -> PrincipalComponents:
    """Return the first n principal components of a matrix [value d_model], its mean row removed.

    Raises `InputError` for a constant matrix or more components than it can have.
    """
    values = float64(matrix)
    if values.ndim != 2 or not 1 <= n <= min(values.shape[0] - 1, values.shape[1]):
        raise InputError(
            f"a matrix of shape {values.shape} has no {n} principal components: ask for fewer"
        )
    centred = values - values.mean(0)
    left, scale, right = np.linalg.svd(centred, full_matrices=False)
    total = (scale**2).sum()
    if not total > ROUNDING * (values**2).sum():
        raise InputError("a constant matrix has no principal components: check what was passed")
    return PrincipalComponents(left[:, :n], scale[:n] ** 2 / total, right[:n])


@dataclass(frozen=True, eq=False)
class Circularity:
    """Whether the main components of the number embeddings are single waves."""

    mean: float
    """Mean over components: 1 if each is a wave of one frequency."""
    by_component: Array
    """float64 [component]."""
    frequency: Array
    """int64 [component]: the frequency of most energy."""
    variance: Array
    """float64 [component]: share of the variance of the embeddings."""


def circularity(embeddings: Any, *, n: int = 4) -> Circularity:
    """Return the mean over the first n principal components of max over k (2/p) |sum_j v_j e^(2 pi i j k/p)|^2.

    embeddings: [value d_model], W_E[:p]; v: left singular vectors of unit norm. Each maximum is cut to [0, 1]:
    at the Nyquist frequency of an even p the formula gives twice the energy. Raises `InputError` as
    `principal_components` does.
    """
    parts = principal_components(embeddings, n)
    p = len(parts.left)
    power = 2 / p * np.abs(np.fft.rfft(parts.left, axis=0)) ** 2
    power[0] = 0
    peak = np.clip(power.max(0), 0, 1)
    return Circularity(float(peak.mean()), peak, power.argmax(0), parts.variance)
