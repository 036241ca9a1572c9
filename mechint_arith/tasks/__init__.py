"""Sequences and labels as data; nothing here knows a model.

A task is a frozen dataclass with `vocab`, `d_vocab_out` and `length`. The two functions below are how a task
gets into a checkpoint's header and out again.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from mechint_arith.errors import InputError
from mechint_arith.tasks.vocab import Vocab

TASKS = {
    "assign-add": ("assign_add", "AssignAdd"),
    "modular": ("modular", "ModularTask"),
    "digits": ("digits", "DigitsTask"),
}


@runtime_checkable
class Task(Protocol):
    """What a model needs to know of the task it was made for."""

    @property
    def vocab(self) -> Vocab: ...
    @property
    def d_vocab_out(self) -> int: ...
    @property
    def length(self) -> int: ...


def task_class(name: str) -> type:
    """Return the class of a task by its name. Raises `InputError` for an unknown one."""
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}: choose from {', '.join(TASKS)}")
    module, attribute = TASKS[name]
    return getattr(import_module(f"mechint_arith.tasks.{module}"), attribute)


def task_name(task: Task) -> str:
    """Return the name under which a task is stored."""
    return next(name for name, (_, cls) in TASKS.items() if cls == type(task).__name__)


def task_to_dict(task: Task) -> dict[str, Any]:
    """Return plain JSON values that `task_from_dict` turns back into the task."""
    return {"name": task_name(task), **asdict(task)}  # type: ignore[call-overload]


def task_from_dict(values: dict[str, Any]) -> Task:
    """Rebuild a task. Raises `InputError` naming unknown or missing options."""
    options = dict(values)
    cls = task_class(options.pop("name", ""))
    known = {f.name: f for f in fields(cls)}
    if unknown := sorted(set(options) - set(known)):
        raise InputError(f"unknown task options: {', '.join(unknown)}")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    try:
        return cls(**options)
    except TypeError as error:
        raise InputError(f"task {values.get('name')}: {error}") from error
