"""Progress measures over a training run: memorised first, a circuit forms, then what was memorised is cleaned up.

The frequencies are the last checkpoint's key ones, so that one and the same circuit is followed back in time.
Memorised, formed and generalised are the first kept steps at which a declared level is reached, so they are known
as finely as checkpoints were kept.

Source: Nanda et al. 2023, arXiv 2301.05217, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith import modular_circuit as parts
from mechint_arith.errors import InputError
from mechint_arith.interventions.frequencies import modular_table, record
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.modular_accuracy import scores, split_known
from mechint_arith.modular_circuit import Progress
from mechint_arith.stats import Estimate
from mechint_arith.tasks.additive import additive_view
from mechint_arith.tasks.modular import ModularTask

LEARNED = 0.99
"""Accuracy from which pairs count as memorised or generalised."""


@dataclass(frozen=True)
class GrokStep:
    """One checkpoint of a run."""

    step: int
    accuracy: dict[str, Estimate]
    """`seen` and `held`, and the strata of held-out pairs."""
    loss: dict[str, float]
    """Mean cross entropy in nats on `seen` and `held` pairs."""
    progress: Progress

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "step": self.step,
            "accuracy": {name: e.as_dict() for name, e in self.accuracy.items()},
            "loss": self.loss,
            "progress": parts.progress_dict(self.progress),
        }


@dataclass(frozen=True)
class Grokking:
    """A training run, step by step."""

    frequencies: tuple[int, ...]
    """Key frequencies of the last checkpoint."""
    steps: tuple[GrokStep, ...]

    @property
    def memorised(self) -> int | None:
        """First kept step with accuracy `LEARNED` on seen pairs; None if there is none."""
        return self._first(lambda s: s.accuracy["seen"].value >= LEARNED)

    @property
    def generalised(self) -> int | None:
        """First kept step with accuracy `LEARNED` on held-out pairs."""
        return self._first(lambda s: s.accuracy["held"].value >= LEARNED)

    def fallen(self, measure: str, *, below: float) -> int | None:
        """Return the first kept step from which a held-out loss stays below a level, in nats.

        measure: `held` (the model's own loss) or `restricted` (with the key frequencies alone).
        """
        if measure not in ("held", "restricted"):
            raise InputError(f"a loss is 'held' or 'restricted'; got {measure!r}")
        above = [s.step for s in self.steps if not self._loss(s, measure) < below]
        return next((s.step for s in self.steps if s.step > max(above, default=-1)), None)

    @staticmethod
    def _loss(step: GrokStep, measure: str) -> float:
        held = step.loss["held"] if measure == "held" else step.progress.restricted.held
        return np.inf if held is None else held

    def _first(self, reached: Callable[[GrokStep], bool]) -> int | None:
        return next((s.step for s in self.steps if reached(s)), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "frequencies": list(self.frequencies),
            "memorised": self.memorised,
            "generalised": self.generalised,
            "half": self.half,
            "steps": [s.as_dict() for s in self.steps],
        }

    @property
    def half(self) -> dict[str, Any]:
        """Step from which each loss stays below half of log p, the loss of a guess."""
        level = float(np.log(self.steps[0].progress.logit_form.p) / 2)
        return {
            "level": level,
            "restricted": self.fallen("restricted", below=level),
            "held": self.fallen("held", below=level),
        }


def grokking(
    checkpoints: Sequence[Checkpoint],
    *,
    frequencies: tuple[int, ...] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
) -> Grokking:
    """Measure a run's checkpoints, in order of step.

    frequencies: those to follow; by default the last checkpoint's key ones. Raises `InputError` for files that are
    not of one run of a modular task, for a split that is not known, or where no frequency is key.
    """
    ordered = sorted(checkpoints, key=lambda c: -1 if c.step is None else c.step)
    if not ordered:
        raise InputError("a series needs at least one checkpoint")
    last = ordered[-1]
    task = last.task
    if not isinstance(task, ModularTask) or any(c.task != task for c in ordered):
        raise InputError("a series is read from checkpoints of one modular task")
    if any(c.step is None or not split_known(c) for c in ordered):
        raise InputError("a series needs checkpoints that know their step and their split")
    view = additive_view(task)
    table, train = modular_table(task, view), task.seen.reshape(task.p, task.p)[view.pairs]
    chosen = frequencies
    if chosen is None:
        rng = np.random.default_rng((seed, 500))
        chosen = parts.frequencies(record(last.config, last.weights, table), view, rng=rng).key
    if not chosen:
        raise InputError("the last checkpoint has no key frequency to follow: name some")
    steps = []
    for checkpoint in ordered:
        progress(f"step {checkpoint.step}")
        recorded = record(checkpoint.config, checkpoint.weights, table)
        accuracy, losses = scores(checkpoint, known=True)
        measured = parts.progress(recorded, view, chosen, train=train)
        steps.append(GrokStep(int(checkpoint.step or 0), accuracy, losses, measured))
    return Grokking(chosen, tuple(steps))
