"""What a user says of a file has to agree with what the file says: nothing that was said is ignored in silence."""

from __future__ import annotations

from dataclasses import fields

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.foreign_task import Hints
from mechint_arith.tasks import task_name

OUTSIDE_ONLY = ("layout", "config")
"""Hints on how an outside file is stored; our own files are stored in one way."""


def agreeing(checkpoint: Checkpoint, hints: Hints, where: str, *, own: bool) -> Checkpoint:
    """Return the checkpoint as it is, if every hint given holds of it.

    own: whether the file is ours, so that the hints had no part in reading it. Raises `InputError` that names the
    first option that contradicts the file or means nothing for its task.
    """
    task = checkpoint.task
    name = task_name(task)
    read = {"task": name, "attn_coeff": checkpoint.config.attn_mix}
    read |= {f.name: getattr(task, f.name) for f in fields(task)}  # type: ignore[arg-type]
    for hint, value in vars(hints).items():
        if value is None:
            continue
        option = f"--{'no-' if value is False else ''}{hint.replace('_', '-')}"
        said = option if isinstance(value, bool) else f"{option} {value}"
        if hint in OUTSIDE_ONLY:
            if own:
                raise InputError(f"{where} says itself what it is: leave {said} out")
        elif hint not in read:
            raise InputError(f"{where}: {said} means nothing for a model of {name}: leave it out")
        elif read[hint] != value:
            raise InputError(
                f"{where}: {said} was given, but the file says {read[hint]}: leave {option} out"
            )
    return checkpoint
