"""Clean and corrupted inputs side by side, and the metric that tells their answers apart.

Pairs whose answers are equal say nothing about the difference; they are left out and counted here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mechint_arith import metrics
from mechint_arith.errors import InputError
from mechint_arith.interventions.effects import clusters_of
from mechint_arith.interventions.running import Measure
from mechint_arith.models.staged import reads_of
from mechint_arith.tasks.batch import Batch

Metric = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Logits [*row vocab], clean answers [*row], corrupted answers [*row] -> numbers [*row]."""

METRICS: Mapping[str, Metric] = {
    "logit difference": metrics.logit_difference,
    "mean margin": lambda logits, answer, _: metrics.mean_margin(logits, answer),
    "margin": lambda logits, answer, _: metrics.margin(logits, answer),
    "answer logit": lambda logits, answer, _: metrics.answer_logit(logits, answer),
    "loss": lambda logits, answer, _: metrics.loss(logits, answer),
    "correct": lambda logits, answer, _: metrics.correct(logits, answer).double(),
}
"""By name; the right answer is the clean one. `logit difference` is z[clean] - z[corrupted]."""


@dataclass(frozen=True)
class Contrast:
    """Pairs of inputs with different answers."""

    clean: Batch
    corrupted: Batch
    rows: np.ndarray
    """int64 [example]: their rows in the batches given."""
    clusters: np.ndarray
    """int64 [example]: examples whose clean inputs share an unordered number pair."""
    excluded: Mapping[str, int]
    """Reason -> number of pairs left out."""
    metric: Metric
    name: str
    """The metric's name."""

    @property
    def reads(self) -> tuple[int, ...]:
        """Positions at which the answer is read."""
        return reads_of(self.clean)

    def measure(self) -> Measure:
        """Return the metric as a function of logits and example numbers (mean over an answer's tokens)."""
        return measuring(self.metric, self.clean.labels, self.corrupted.labels)


def measuring(metric: Metric, answer: np.ndarray, other: np.ndarray) -> Measure:
    """Return a metric for given answers int [batch] or [batch read], averaged over an answer's tokens."""
    one = answer.ndim == 1
    right, wrong = (torch.from_numpy(x[:, None] if one else x) for x in (answer, other))

    def measure(logits: Tensor, examples: Tensor) -> Tensor:
        values = metric(logits.double(), right[examples], wrong[examples])
        if values.shape != logits.shape[:-1]:
            raise InputError(
                f"a metric gives one number per row, {list(logits.shape[:-1])};"
                f" got {list(values.shape)}"
            )
        return values.double().mean(-1)

    return measure


def named_metric(metric: str | Metric) -> tuple[Metric, str]:
    """Return a metric and its name. Raises `InputError` for an unknown name."""
    if isinstance(metric, str):
        if metric not in METRICS:
            raise InputError(f"no metric {metric!r}: choose from {', '.join(METRICS)}")
        return METRICS[metric], metric
    return metric, getattr(metric, "__name__", "metric")


def contrast(clean: Batch, corrupted: Batch, metric: str | Metric) -> Contrast:
    """Pair two batches row by row, without the pairs whose answers are equal.

    Raises `InputError` where they do not match in size, length or read position, or no pair is left.
    """
    if clean.tokens.shape != corrupted.tokens.shape or reads_of(clean) != reads_of(corrupted):
        raise InputError(
            "clean and corrupted need as many rows of one length, read at one place; got"
            f" {list(clean.tokens.shape)} read at {clean.read} and"
            f" {list(corrupted.tokens.shape)} read at {corrupted.read}"
        )
    differ = (clean.labels != corrupted.labels).reshape(len(clean), -1).any(1)
    if not differ.any():
        raise InputError("every pair has equal clean and corrupted answers, so none can be used")
    rows = np.flatnonzero(differ)
    function, name = named_metric(metric)
    excluded = {"equal answers": int((~differ).sum())}
    kept = clean[rows]
    return Contrast(kept, corrupted[rows], rows, clusters_of(kept), excluded, function, name)
