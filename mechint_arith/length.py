"""Length generalisation: a trained model at every length, held against theory.

Each length is scored on pairs of numbers with exactly that many digits, twice: against the truth and against
the truncated function, which ignores digits beyond the training length. `theory` says what to expect; the
rules by which a measurement counts as predicted are `LengthThresholds`, fixed before any model is looked at.
Training many models and tables over them is `cells`.

`results.json` of `mechint-arith length` is `LengthReport.as_dict()`:

    task, step, seed      the task's options, and where the model stands in its run
    encoding, content     position encoding; whether attention scores also depend on content
    in_domain             exact match on held-out pairs of the training distribution: value, low, high, n
    converged             whether in_domain reached thresholds.min_in_domain
    lengths[]             length; region (downward, trained, upward); accuracy and agreement with the truncated
                          function (value, low, high, n); succeeds (theory says: always right); predicted
                          (theory's exact match, null where it only says: not 1); truncated (exact share on
                          which the truncated function is right, null where unknown); as_predicted
    verdicts              region -> "as predicted", "not as predicted" or "not converged"
    truncated             the same words on the mechanism: does a model with absolute positions compute the
                          truncated function upward? null for other encodings. An accuracy of 0 alone proves
                          little: whatever is broken has it
    reasons[]             the theory's reasons
    thresholds            the rules' numbers
    curve[]               only for a run's folder: step, in_domain and length -> accuracy and agreement

Source: arXiv 2407.17963, with exact rates of our own (`truncation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mechint_arith import theory
from mechint_arith.answers import matches
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, read
from mechint_arith.models.transformer import Transformer
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks import digits, task_to_dict
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.digits import DigitsTask
from mechint_arith.theory import Row

REGIONS = ("downward", "trained", "upward")
AS_PREDICTED, NOT_AS_PREDICTED, NOT_CONVERGED = "as predicted", "not as predicted", "not converged"


@dataclass(frozen=True)
class LengthThresholds:
    """When a measurement counts as predicted."""

    min_in_domain: float = 0.99
    """Exact match on held-out pairs below which a model is not converged and nothing else is judged."""
    min_success: float = 0.99
    """Exact match from which a length counts as right; a predicted success must reach it at every length of
    its region, and a failure predicted without a rate must stay below it at every length. Agreement from which a
    model counts as computing the truncated function."""
    family_error: float = 0.05
    """A predicted rate must lie in the Wilson interval of level 1 - family_error / lengths of the region."""


@dataclass(frozen=True)
class LengthRow:
    """One test length: measured and predicted."""

    length: int
    """Digits of both operands."""
    region: str
    """downward, trained or upward."""
    accuracy: Estimate
    """Exact match with the truth, share."""
    agreement: Estimate
    """Exact match with the truncated function, share."""
    succeeds: bool
    """Predicted to be right on every pair."""
    predicted: float | None
    """Predicted exact match; None where the theory only says: not 1."""
    truncated: float | None
    """Exact share on which the truncated function is right; None where unknown."""
    as_predicted: bool
    """Whether the accuracy meets the prediction under the thresholds."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = {**asdict(self)}
        return values | {k: getattr(self, k).as_dict() for k in ("accuracy", "agreement")}


@dataclass(frozen=True)
class LengthReport:
    """A model at all lengths, with a verdict per region."""

    task: DigitsTask
    encoding: str
    content: bool
    """Whether attention scores depend on content as well as on positions."""
    in_domain: Estimate
    """Exact match on held-out pairs of the training distribution, share."""
    rows: tuple[LengthRow, ...]
    reasons: tuple[str, ...]
    """The theory's reasons, one line each."""
    thresholds: LengthThresholds
    step: int | None = None
    seed: int | None = None

    @property
    def converged(self) -> bool:
        """Whether the training domain is fitted."""
        return self.in_domain.value >= self.thresholds.min_in_domain

    @property
    def verdicts(self) -> dict[str, str]:
        """Region -> verdict, for the regions that have lengths."""
        found = {}
        for region in REGIONS:
            rows = [row for row in self.rows if row.region == region]
            if rows:
                met = all(row.as_predicted for row in rows)
                judged = AS_PREDICTED if met else NOT_AS_PREDICTED
                found[region] = judged if self.converged else NOT_CONVERGED
        return found

    @property
    def truncated(self) -> str | None:
        """Verdict on the truncated function; None where the theory does not speak of it or no length tells."""
        upward = [row.agreement.value for row in self.rows if row.region == "upward"]
        if self.encoding != "absolute" or not upward:
            return None
        return truncated_verdict(upward, converged=self.converged, thresholds=self.thresholds)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, as the module's docstring lists them."""
        return {
            "task": task_to_dict(self.task),
            "step": self.step,
            "seed": self.seed,
            "encoding": self.encoding,
            "content": self.content,
            "in_domain": self.in_domain.as_dict(),
            "converged": self.converged,
            "lengths": [row.as_dict() for row in self.rows],
            "verdicts": self.verdicts,
            "truncated": self.truncated,
            "reasons": list(self.reasons),
            "thresholds": asdict(self.thresholds),
        }


@dataclass(frozen=True)
class CurvePoint:
    """A run at one checkpoint."""

    step: int
    in_domain: Estimate
    """Exact match on held-out pairs, share."""
    accuracy: dict[int, Estimate]
    """Length -> exact match with the truth, share."""
    agreement: dict[int, Estimate]
    """Length -> exact match with the truncated function, share."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; lengths become strings."""
        lengths = {
            name: {str(m): e.as_dict() for m, e in getattr(self, name).items()}
            for name in ("accuracy", "agreement")
        }
        return {"step": self.step, "in_domain": self.in_domain.as_dict(), **lengths}


def measure(
    checkpoint: Checkpoint,
    *,
    lengths: Iterable[int] | None = None,
    n: int = 2000,
    seed: int = 0,
    thresholds: LengthThresholds | None = None,
) -> LengthReport:
    """Score a model at every length and judge it against the theory.

    lengths: digits of both operands, by default 1 … the longest its task has room for; n: pairs per length
    (all of them where there are at most n); seed: of the pairs.
    Raises `InputError` for a model of another task, or a length without room.
    """
    task, thresholds = digits_task(checkpoint), thresholds or LengthThresholds()
    chosen = list(range(1, task.longest + 1) if lengths is None else lengths)
    model = Transformer(checkpoint.config, checkpoint.weights)
    in_domain, tests = test_sets(task, chosen, n, seed)
    encoding = checkpoint.config.positions
    expected = forecast(task, encoding, chosen)
    reasons = theory.predict(*_operation(task), **_setting(task, encoding)).reasons
    counts = {r: sum(row.region == r for row in expected) for r in REGIONS}
    rows = [
        _row(row, *_scores(model, task, tests[row.length]), counts[row.region], thresholds)
        for row in expected
    ]
    return LengthReport(
        task,
        checkpoint.config.positions,
        checkpoint.config.attn_content,
        _share(matches(model, task, in_domain)),
        tuple(rows),
        reasons,
        thresholds,
        checkpoint.step,
        checkpoint.seed,
    )


def forecast(task: DigitsTask, encoding: str, lengths: Sequence[int]) -> list[Row]:
    """Return what the theory says of a task and position encoding, length by length."""
    return theory.forecast(*_operation(task), lengths, **_setting(task, encoding))


def _operation(task: DigitsTask) -> tuple[str, int | None, int, int]:
    return task.op, task.modulus, task.base, task.digits


def _setting(task: DigitsTask, encoding: str) -> dict[str, Any]:
    return {
        "encoding": encoding,
        "layout": task.layout,
        "shorter": task.shows_shorter,
        "single_b": task.single_b,
    }


def meets(accuracy: Estimate, row: Row, *, n_lengths: int, thresholds: LengthThresholds) -> bool:
    """Does a measured accuracy meet a forecast? n_lengths: lengths of the region, judged together.

    A success must reach `min_success`; a rate below 1 must lie in the corrected Wilson interval; a failure
    without a rate must stay below `min_success`.
    """
    if row.succeeds:
        return accuracy.value >= thresholds.min_success
    if row.accuracy is None:
        return accuracy.value < thresholds.min_success
    level = 1 - thresholds.family_error / n_lengths
    wide = share(round(accuracy.value * accuracy.n), accuracy.n, level=level)
    return wide.low <= float(row.accuracy) <= wide.high


def truncated_verdict(
    upward: Iterable[float], *, converged: bool, thresholds: LengthThresholds
) -> str:
    """Judge agreement with the truncated function, shares at every length beyond the training length."""
    if not converged:
        return NOT_CONVERGED
    met = all(agreement >= thresholds.min_success for agreement in upward)
    return AS_PREDICTED if met else NOT_AS_PREDICTED


def curve(
    checkpoints: Sequence[Checkpoint],
    *,
    lengths: Iterable[int] | None = None,
    n: int = 1000,
    seed: int = 0,
) -> list[CurvePoint]:
    """Score every checkpoint of a run on the same pairs. Arguments and errors are those of `measure`."""
    points = []
    for checkpoint in checkpoints:
        task = digits_task(checkpoint)
        chosen = list(range(1, task.longest + 1) if lengths is None else lengths)
        in_domain, tests = test_sets(task, chosen, n, seed)
        model = Transformer(checkpoint.config, checkpoint.weights)
        scores = {m: _scores(model, task, batch) for m, batch in tests.items()}
        points.append(
            CurvePoint(
                checkpoint.step or 0,
                _share(matches(model, task, in_domain)),
                {m: accuracy for m, (accuracy, _) in scores.items()},
                {m: agreement for m, (_, agreement) in scores.items()},
            )
        )
    return points


def run_checkpoints(folder: Path) -> list[Checkpoint]:
    """Read the checkpoints of a run in order of their steps. Raises `InputError` where there are none."""
    paths = sorted(folder.glob("step_*.safetensors"))
    if not paths:
        raise InputError(f"{folder} has no step_*.safetensors: give a checkpoint or a run's folder")
    return [read(path) for path in paths]


def digits_task(checkpoint: Checkpoint) -> DigitsTask:
    """Return the digits task of a model. Raises `InputError` where it has another."""
    if not isinstance(checkpoint.task, DigitsTask):
        raise InputError("this model was not trained on digits; see `mechint-arith train digits`")
    if not checkpoint.config.causal:
        raise InputError("a model that writes its answer digit by digit must be causal")
    return checkpoint.task


def test_sets(
    task: DigitsTask, lengths: Sequence[int], n: int, seed: int
) -> tuple[Batch, dict[int, Batch]]:
    """Return held-out pairs of the training distribution, and length -> pairs of that length.

    Of n held-out draws each pair is kept once, so that a small table is not counted over and over.
    """
    drawn = digits.held_out_batch(task, n, np.random.default_rng((seed, 0)))
    once = np.unique(drawn.tokens, axis=0, return_index=True)[1]
    in_domain = drawn[np.sort(once)]
    return in_domain, {
        m: digits.test_batch(task, m, n, np.random.default_rng((seed, m))) for m in lengths
    }


test_sets.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for a test


def _scores(model: Transformer, task: DigitsTask, batch: Batch) -> tuple[Estimate, Estimate]:
    """Return exact match with the truth and with the truncated function."""
    truncated = digits.truncated_labels(task, batch)
    return _share(matches(model, task, batch)), _share(matches(model, task, batch, truncated))


def _share(right: np.ndarray) -> Estimate:
    return share(int(right.sum()), len(right))


def _row(
    row: Row, accuracy: Estimate, agreement: Estimate, n_lengths: int, thresholds: LengthThresholds
) -> LengthRow:
    return LengthRow(
        row.length,
        row.region,
        accuracy,
        agreement,
        row.succeeds,
        None if row.accuracy is None else float(row.accuracy),
        None if row.truncated is None else float(row.truncated),
        meets(accuracy, row, n_lengths=n_lengths, thresholds=thresholds),
    )
