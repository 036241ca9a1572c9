"""Read any checkpoint, ours or an outside file, into one `Checkpoint` that says how it was read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from mechint_arith.errors import InputError, naming
from mechint_arith.models import checkpoint as own
from mechint_arith.models.agreement import agreeing
from mechint_arith.models.checkpoint import Checkpoint, check_fit
from mechint_arith.models.files import describe, read_tensors
from mechint_arith.models.foreign_json import Stated, beside, read_stated
from mechint_arith.models.foreign_layout import LENS, MIX, TRANSPOSED, detect, to_lens
from mechint_arith.models.foreign_task import Hints, guess_task
from mechint_arith.models.layouts import Loaded, from_transformer_lens

__all__ = ["Hints", "load_checkpoint"]


def load_checkpoint(path: str | os.PathLike[str], hints: Hints | None = None) -> Checkpoint:
    """Read a checkpoint; an outside file's `meta["source"]` says layout, dtype, ignored keys and assumptions.

    Raises `InputError` that says in one line what is wrong with the file.
    """
    with naming(path):
        return _read(path, hints or Hints())


def _read(path: str | os.PathLike[str], hints: Hints) -> Checkpoint:
    if describe(path) == "safetensors" and own.read_header(path) is not None:
        return agreeing(own.read(path), hints, str(path), own=True)
    tensors = read_tensors(path)
    config = hints.config or beside(Path(path))
    stated = Stated() if config is None else read_stated(Path(config), op=hints.op)
    loaded = read_layout(tensors, hints, stated, str(path))
    task, loaded, assumed = guess_task(loaded, hints, stated, str(path))
    check_fit(loaded.config, task)
    source = {
        "layout": loaded.layout,
        "told": loaded.told,
        "dtype": loaded.dtype,
        "ignored": list(loaded.ignored),
        "dropped": list(loaded.dropped),
        "config": stated.file,
        "assumed": assumed,
        "split_known": hints.split_seed is not None,
    }
    found = Checkpoint(loaded.config, loaded.weights, task, meta={"source": source}, file=str(path))
    return agreeing(found, hints, str(path), own=False)


def read_layout(tensors: Mapping[str, Tensor], hints: Hints, stated: Stated, where: str) -> Loaded:
    """Return the model in a file's tensors, whichever way round they stand.

    Raises `InputError` where the layout stays open, a mix lacks its coefficient, or the JSON is of another model.
    """
    mix = hints.attn_coeff if hints.attn_coeff is not None else stated.attn_coeff
    if mix is not None and not 0 <= mix <= 1:
        raise InputError(f"an attention coefficient lies between 0 and 1; got {mix}")
    layout, told = detect(tensors, where, forced=hints.layout, mixed=mix is not None)
    if layout != MIX and hints.attn_coeff is not None:
        raise InputError(
            f"{where} has the layout {layout}: --attn-coeff belongs to {MIX} files only"
        )
    if layout == TRANSPOSED and stated.attn_coeff is not None:
        raise InputError(
            f"{stated.file} gives an attention coefficient, so {where} is of the {MIX} family: leave --layout"
        )
    if layout == MIX and mix is None:
        raise InputError(
            f"{where} is a model of the attention-mix family without its JSON, and its accuracy cannot tell"
            " the coefficient: give --config JSON or --attn-coeff"
        )
    loaded = from_transformer_lens(tensors if layout == LENS else to_lens(tensors), where)
    config = loaded.config
    for name, size in (stated.sizes or {}).items():
        if size != getattr(config, name):
            raise InputError(
                f"{stated.file} says {name} = {size}, but {where} has {getattr(config, name)}:"
                " it belongs to another model"
            )
    if layout == MIX and mix is not None:
        config = replace(config, causal=False, attn_mix=mix)
    if stated.act_fn is not None:
        config = replace(config, act_fn=stated.act_fn)
    return replace(loaded, config=config, layout=layout, told=told)
