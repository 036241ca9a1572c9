"""A training run remembers what its command was told, so that `--resume` needs nothing but the folder."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from mechint_arith.errors import InputError

Told = Mapping[str, Any]
"""Option -> value, as the command line and its defaults, or the folder, had it."""
FREE = {"every", "device", "threads", "steps"}
"""Options that a resumed run may change; `steps` not where the learning rate depends on it."""


def remembered(name: str) -> Callable[[Callable[..., None]], Any]:
    """Give a `train` command its own options as the parameter `told`, those of a resumed folder filled in."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(ctx: Any, **given: Any) -> None:
            told = {key: value for key, value in given.items() if key not in ("out", "resume")}
            if given["resume"]:
                told = _recalled(ctx, name, given["out"], told)
            command(**{**given, **told}, told={"train": name, **told})

        signature = inspect.signature(command, eval_str=True)
        own = [value for key, value in signature.parameters.items() if key != "told"]
        context = inspect.Parameter(
            "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
        )
        run.__signature__ = signature.replace(parameters=[context, *own])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def _recalled(ctx: Any, name: str, folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Return a folder's options, with those that the command line changes. Raises `InputError` where it may not."""
    from mechint_arith.runs import recorded_options

    kept = recorded_options(folder)
    if kept.get("train", name) != name:
        raise InputError(f"{folder} holds a run of `train {kept['train']}`, not of `train {name}`")
    free = FREE - {"steps"} if kept.get("cosine") else FREE
    flags = {param.name: param.opts[0] for param in ctx.command.params}
    merged = dict(told)
    for key in told.keys() & kept.keys():
        source: Any = ctx.get_parameter_source(key)
        if source.name == "DEFAULT":
            merged[key] = kept[key]
        elif key not in free and told[key] != kept[key]:
            raise InputError(
                f"{flags[key]} is {told[key]}, but the run in {folder} has {kept[key]}:"
                " leave it out to go on, or choose another --out"
            )
    return merged
