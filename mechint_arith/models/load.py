"""Read any checkpoint, ours or an outside file, into one `Checkpoint` that says how it was read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from mechint_arith.errors import InputError
from mechint_arith.models import checkpoint as own
from mechint_arith.models.checkpoint import Checkpoint, check_fit, check_weights
from mechint_arith.models.files import describe, read_tensors
from mechint_arith.models.layouts import Loaded, from_transformer_lens
from mechint_arith.tasks import Task
from mechint_arith.tasks.assign_add import AssignAdd


@dataclass(frozen=True)
class Hints:
    """What a file without a configuration does not say; None: take it from the shapes or the defaults."""

    task: str | None = None
    p: int | None = None
    train_share: float | None = None
    split_seed: int | None = None
    never_left: int | None = None
    never_right: int | None = None


def load_checkpoint(path: str | os.PathLike[str], hints: Hints | None = None) -> Checkpoint:
    """Read a checkpoint; an outside file's `meta["source"]` says layout, dtype, ignored keys and assumptions.

    Raises `InputError` that says in one line what is wrong with the file.
    """
    hints = hints or Hints()
    if describe(path) == "safetensors" and own.read_header(path) is not None:
        return own.read(path)
    loaded = from_transformer_lens(read_tensors(path), str(path))
    check_weights(loaded.weights, loaded.config, str(path))
    task, assumed = guess_task(loaded, hints, str(path))
    try:
        check_fit(loaded.config, task)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    source = {
        "layout": loaded.layout,
        "dtype": loaded.dtype,
        "ignored": list(loaded.ignored),
        "dropped": list(loaded.dropped),
        "assumed": assumed,
    }
    return Checkpoint(loaded.config, loaded.weights, task, meta={"source": source})


def guess_task(loaded: Loaded, hints: Hints, where: str) -> tuple[Task, dict[str, Any]]:
    """Return the task of an outside file and what had to be assumed about it."""
    c = loaded.config
    if hints.task not in (None, "assign-add"):
        raise InputError(f"{where}: --task {hints.task} files of this layout are not read yet")
    p = hints.p if hints.p is not None else c.d_vocab_out
    if p != c.d_vocab_out:
        raise InputError(f"{where}: --p {p} was given, but the model has {c.d_vocab_out} answers")
    n_vars = c.d_vocab - p - 3
    if n_vars < 2:
        raise InputError(
            f"{where}: {c.d_vocab} token ids and {p} answers leave {n_vars} variables, so this is"
            " no assign-and-add model; say what it is with --task"
        )
    options = {
        name: getattr(hints, name)
        for name in ("train_share", "split_seed", "never_left", "never_right")
        if getattr(hints, name) is not None
    }
    task = AssignAdd(p=p, n_vars=n_vars, length=c.n_ctx, **options)
    assumed = {
        name: getattr(task, name)
        for name in ("split_seed", "train_share", "never_left", "never_right")
        if name not in options
    }
    return task, assumed
