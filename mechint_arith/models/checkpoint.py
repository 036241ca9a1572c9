"""Our own checkpoint: one safetensors file whose header says what it is, and a folder of them as a series.

The header holds architecture, task, split, step, seed, recipe and versions. Other people's files are read in
`foreign`; `load` picks the reader.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import mechint_arith
from mechint_arith.errors import InputError, naming
from mechint_arith.fields import wrong_types
from mechint_arith.files import replacing
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.files import as_float, read_safetensors, require_regular
from mechint_arith.tasks import Task, task_from_dict, task_to_dict

HEADER = "mechint_arith"
FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A model at one step, with everything needed to compute and judge it."""

    config: ModelConfig
    weights: Mapping[str, Tensor]
    """Parameter name -> tensor, as `parameter_shapes` lists them."""
    task: Task
    step: int | None = None
    """Optimiser steps taken; None where an outside file does not say."""
    seed: int | None = None
    """Seed of the initial weights and of the training data."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Recipe, versions, planted truth, and for outside files layout, ignored keys and stored dtype."""
    file: str | None = None
    """Where it was read from."""


def versions() -> dict[str, str]:
    """Versions of this package, Python and torch."""
    return {
        "mechint_arith": mechint_arith.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def check_fit(config: ModelConfig, task: Task) -> None:
    """Raise `InputError` with every way in which a model's sizes do not fit a task (a vocabulary follows its answers)."""
    problems = []
    if config.d_vocab_out != task.d_vocab_out:
        problems.append(
            f"the model gives {config.d_vocab_out} logits, but the task has {task.d_vocab_out} answers"
        )
    elif config.d_vocab != len(task.vocab):
        problems.append(
            f"the embedding has {config.d_vocab} rows, but the task needs {len(task.vocab)} token ids"
        )
    if config.n_ctx < task.length:
        problems.append(f"the model reads {config.n_ctx} positions, the task has {task.length}")
    if problems:
        raise InputError("model and task do not fit: " + "; ".join(problems))


def check_weights(weights: Mapping[str, Tensor], config: ModelConfig, where: str) -> None:
    """Raise `InputError` for missing, extra, misshapen or non-finite parameters."""
    shapes = parameter_shapes(config)
    problems = []
    if missing := sorted(set(shapes) - set(weights)):
        problems.append(f"missing {', '.join(missing)}")
    if extra := sorted(set(weights) - set(shapes)):
        problems.append(f"unexpected {', '.join(extra)}")
    for name, shape in shapes.items():
        if name in weights and tuple(weights[name].shape) != shape:
            problems.append(f"{name} is {list(weights[name].shape)}, expected {list(shape)}")
    if not problems:
        bad = [name for name, w in weights.items() if not torch.isfinite(w).all()]
        if bad:
            problems.append(f"NaN or infinite weights in {', '.join(bad)}")
    if problems:
        raise InputError(f"{where}: " + "; ".join(problems))


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one step; an earlier file stays whole if anything fails."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    header = {
        "format": FORMAT,
        "model": checkpoint.config.as_dict(),
        "task": task_to_dict(checkpoint.task),
        "step": checkpoint.step,
        "seed": checkpoint.seed,
        "meta": {**checkpoint.meta, "versions": versions()},
    }
    tensors = {
        name: w.detach().to("cpu").contiguous().clone() for name, w in checkpoint.weights.items()
    }
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={HEADER: json.dumps(header, allow_nan=False)})
        except SafetensorError as error:
            raise OSError(str(error)) from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return our header, or None for a safetensors file without one. Raises `InputError` if it is no such file."""
    from safetensors import SafetensorError, safe_open

    require_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(HEADER)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {error}") from error
    if text is None:
        return None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: its header is damaged (no JSON: {error})") from error
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header is damaged (no JSON object, but {text:.20})")
    return header


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read one of our checkpoints; half precision becomes float32, which changes no weight.

    Raises `InputError` that says what is wrong with the file.
    """
    with naming(path):
        header = read_header(path)
        if header is None:
            raise InputError("it has no mechint-arith header; give its task with --task")
        if header.get("format") != FORMAT:
            raise InputError(f"it has format {header.get('format')}, this version reads {FORMAT}")
        weights, _ = as_float(read_safetensors(path), str(path))
        try:
            config, task = ModelConfig(**header["model"]), task_from_dict(header["task"])
            step, seed, meta = header["step"], header["seed"], header["meta"]
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, MemoryError, OverflowError) as error:
            raise InputError(f"its header is damaged ({error})") from error
        found = Checkpoint(config, weights, task, step, seed, meta, str(path))
        check_weights(weights, config, str(path))
        check_fit(config, task)
        if problems := list(wrong_types(found)):
            raise InputError(f"its header is damaged ({'; '.join(problems)})")
        return found


def step_path(folder: str | os.PathLike[str], step: int) -> Path:
    """Where a run's checkpoint of a step lies."""
    return Path(folder) / f"step_{step:06d}.safetensors"
