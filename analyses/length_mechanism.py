"""Why digits models do what they do upward: attention offsets, digit patching, carry neurons, the leak over training.

    python analyses/length_mechanism.py --runs runs/cells --out analyses/results

The shipped models are in checkpoints/digits; the leak over training needs runs of `mechint-arith cells`, trained anew
where only their numbers were kept: `--only add-absolute --summary runs/again.json`, say.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from mechint_arith.answers import matches
from mechint_arith.digit_circuits import (
    attention,
    carry_sharing,
    leak,
    lone_digits,
    offset_overlap,
    patch_digits,
)
from mechint_arith.files import write_json
from mechint_arith.length import digits_task, run_checkpoints
from mechint_arith.models.checkpoint import Checkpoint, read
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import digits

MODELS = Path(__file__).parents[1] / "checkpoints" / "digits"
RUNS = tuple(
    f"{cell}/seed1"
    for cell in (
        "add-absolute-quiet-no-decay",
        "add-absolute",
        "add-absolute-noise-.3",
        "add-absolute-noisy",
        "add-absolute-decay-1-long",
        "mod400-absolute-decay-1-long",
    )
)
SLOTS = tuple(
    f"{cell}/seed{seed}" for cell in ("mod200-relative", "mod200-relative-wide") for seed in (1, 2)
)
"""Runs of which only the empty slots are looked at: with relative positions 6 digits break what 5 do not."""
LENGTH = 6


def main(out: Path, smoke: bool = False, runs: Path | None = None) -> dict[str, Any]:
    """Write `length_mechanism.json`; smoke: on few pairs of the first model."""
    n = 40 if smoke else 2000
    paths = sorted(MODELS.glob("*.safetensors"))
    found = {path.stem: _model(read(path), n) for path in (paths[:1] if smoke else paths)}
    curves = {
        name: [_leak(checkpoint, n) for checkpoint in run_checkpoints(runs / name)]
        for name in RUNS
        if runs is not None and (runs / name).exists()
    }
    slots = {
        name: _lone_digits(run_checkpoints(runs / name)[-1], n)
        for name in SLOTS
        if runs is not None and (runs / name).exists()
    }
    command = "python analyses/length_mechanism.py --runs runs/cells"
    values = {"command": command, "n": n, "models": found, "leak": curves, "empty_slots": slots}
    write_json(out / "length_mechanism.json", values)
    return values


def _model(checkpoint: Checkpoint, n: int) -> dict[str, Any]:
    task, model = digits_task(checkpoint), Transformer(checkpoint.config, checkpoint.weights)
    untrained = Transformer(checkpoint.config, initial_weights(checkpoint.config, 0))
    batch = digits.test_batch(task, LENGTH, n, np.random.default_rng(0))
    inner = range(1, min(task.answer_slots, task.longest))
    values = {
        "offset_overlap": {
            f"digit 1 and {i}": offset_overlap(attention(model, task, batch), 1, i)
            .round(4)
            .tolist()
            for i in inner
            if i > 1
        },
        "patches": {
            f"{operand}, {m} digits": patch_digits(
                model, task, m, np.random.default_rng(m), operand=operand, n=n
            ).as_dict()
            for operand in ("a", "b")
            for m in (task.digits, LENGTH)
        },
        "lone_digits": _lone_digits(checkpoint, n),
        "leak": {
            str(m): leak(model, task, m, n=n).as_dict() for m in range(task.digits + 1, LENGTH + 1)
        },
    }
    if task.modulus is None and task.op == "add":
        values["carries"] = {
            f"{one} and {two}": _carries(model, untrained, task, one, two, n)
            for one, two in ((1, 2), (1, 3), (2, 3), (2, 5))
        }
    return values


def _lone_digits(checkpoint: Checkpoint, n: int) -> dict[str, Any]:
    task, model = digits_task(checkpoint), Transformer(checkpoint.config, checkpoint.weights)
    found = {
        operand: lone_digits(model, task, np.random.default_rng(0), operand=operand, n=n)
        for operand in ("a", "b")
    }
    return {
        operand: {str(j): share.as_dict() for j, share in by_digit.items()}
        for operand, by_digit in found.items()
    }


def _carries(
    model: Transformer, untrained: Transformer, task: digits.DigitsTask, one: int, two: int, n: int
) -> dict[str, Any]:
    shared = carry_sharing(model, task, one, two, n=n, n_resamples=40 if n < 100 else 300)
    control = carry_sharing(untrained, task, one, two, n=n, n_resamples=20)
    return {
        "overlap": shared.overlap.as_dict(),
        "sigma": shared.sigma.as_dict(),
        "null": shared.null,
        "within": shared.within,
        "untrained_overlap": control.overlap.value,
    }


def _leak(checkpoint: Checkpoint, n: int) -> dict[str, Any]:
    """How much an unseen part of the input moves the answer, beside in-domain accuracy."""
    task, model = digits_task(checkpoint), Transformer(checkpoint.config, checkpoint.weights)
    held = digits.held_out_batch(task, n, np.random.default_rng(0))
    return {
        "step": checkpoint.step,
        "in_domain": round(float(matches(model, task, held).mean()), 4),
        "leak": {
            str(m): leak(model, task, m, n=n).as_dict()
            for m in range(task.digits + 1, task.longest + 1)
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("analyses/results"))
    parser.add_argument("--runs", type=Path, default=None)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    main(options.out, options.smoke, options.runs)
