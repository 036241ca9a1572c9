"""The task of an outside file: from what the user says, its configuration, and its shapes, in this order.

What had to be assumed is returned beside the task and printed by whoever reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mechint_arith.errors import InputError
from mechint_arith.models.foreign_json import Stated
from mechint_arith.models.layouts import Loaded
from mechint_arith.tasks import Task
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.modular import ModularTask

TASKS = ("assign-add", "modular")
SPLIT = ("train_share", "split_seed")


@dataclass(frozen=True)
class Hints:
    """What a file without a configuration does not say; None: take it from the shapes or the defaults."""

    task: str | None = None
    p: int | None = None
    train_share: float | None = None
    split_seed: int | None = None
    never_left: int | None = None
    never_right: int | None = None
    op: str | None = None
    """Operation of a modular task."""
    equals: bool | None = None
    """Whether a closing `=` exists in a modular task."""
    diff_vocab: bool | None = None
    """Whether the second operand of a modular task has tokens of its own."""
    layout: str | None = None
    """One of `foreign_layout.LAYOUTS`."""
    config: Path | None = None
    """JSON with what the file does not say; by default the one of the same name beside it."""
    attn_coeff: float | None = None
    """c of an attention mix; it goes before the JSON's."""


def guess_task(
    loaded: Loaded, hints: Hints, stated: Stated, where: str
) -> tuple[Task, Loaded, dict[str, Any]]:
    """Return the task of an outside file, the model with that task's answers, and what was assumed."""
    name = hints.task
    if name is None:
        name = "modular" if stated.modular or loaded.config.n_ctx <= 3 else "assign-add"
    if name not in TASKS:
        raise InputError(
            f"{where}: --task {name} files of this layout are not read;"
            f" expected {' or '.join(TASKS)}"
        )
    if name == "modular":
        return _modular(loaded, hints, stated, where)
    return _assign_add(loaded, hints, where)


def _assign_add(
    loaded: Loaded, hints: Hints, where: str
) -> tuple[AssignAdd, Loaded, dict[str, Any]]:
    c = loaded.config
    p = hints.p if hints.p is not None else c.d_vocab_out
    if p != c.d_vocab_out:
        raise InputError(f"{where}: --p {p} was given, but the model has {c.d_vocab_out} answers")
    n_vars = c.d_vocab - p - 3
    if n_vars < 2:
        raise InputError(
            f"{where}: {c.d_vocab} token ids and {p} answers leave {n_vars} variables, so this is"
            " no assign-and-add model; say what it is with --task"
        )
    names = (*SPLIT, "never_left", "never_right")
    options = {name: value for name in names if (value := getattr(hints, name)) is not None}
    task = AssignAdd(p=p, n_vars=n_vars, length=c.n_ctx, **options)
    assumed = {
        name: getattr(task, name)
        for name in ("split_seed", "train_share", "never_left", "never_right")
        if name not in options
    }
    return task, loaded, assumed


def _modular(
    loaded: Loaded, hints: Hints, stated: Stated, where: str
) -> tuple[ModularTask, Loaded, dict[str, Any]]:
    def told(name: str) -> Any:
        said = getattr(hints, name)
        return said if said is not None else getattr(stated, name, None)

    c = loaded.config
    op, p, equals, diff_vocab = map(told, ("op", "p", "equals", "diff_vocab"))
    assumed: dict[str, Any] = {} if op is not None else {"op": "add"}
    if equals is None:
        equals = c.n_ctx != 2
    diff_vocab = bool(diff_vocab)
    operands = 2 if diff_vocab else 1
    if p is None:
        p, rest = divmod(c.d_vocab - equals, operands)
        if rest:
            raise InputError(
                f"{where}: {c.d_vocab} token ids are not two vocabularies of one size"
                + (" and =" if equals else "")
            )
    if c.d_vocab != operands * p + equals:
        raise InputError(
            f"{where}: p = {p}{', two vocabularies' if diff_vocab else ''} and"
            f" {'a' if equals else 'no'} closing = make {operands * p + equals} token ids, but the"
            f" model has {c.d_vocab}: check --p, --equals and the configuration"
        )
    split = {name: value for name in SPLIT if (value := told(name)) is not None}
    task = ModularTask(p=p, op=op or "add", equals=equals, diff_vocab=diff_vocab, **split)
    return task, _answers_only(loaded, p, where), assumed


def _answers_only(loaded: Loaded, p: int, where: str) -> Loaded:
    """Drop the logits of tokens that are no answers, such as that of `=` (114 of 114)."""
    c = loaded.config
    if c.d_vocab_out == p:
        return loaded
    if c.d_vocab_out != c.d_vocab:
        raise InputError(
            f"{where}: the model gives {c.d_vocab_out} logits; expected {p} answers or one per token id"
        )
    weights = dict(loaded.weights)
    weights["unembed.W_U"] = weights["unembed.W_U"][:, :p].contiguous()
    if "unembed.b_U" in weights:
        weights["unembed.b_U"] = weights["unembed.b_U"][:p].contiguous()
    n = c.d_vocab_out - p
    note = "the logit of =" if n == 1 else f"{n} logits of tokens that are no answers"
    config = replace(c, d_vocab_out=p)
    return replace(loaded, config=config, weights=weights, dropped=(*loaded.dropped, note))
