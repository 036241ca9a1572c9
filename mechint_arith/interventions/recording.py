"""Record runs of a model within a memory budget, and leave the model as it was.

A model that carries hooks of its own is recorded through them; any other stage by stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from mechint_arith.interventions.site import ENTRIES, hook_name
from mechint_arith.models.staged import Place, Record, Staged
from mechint_arith.models.stages import stages_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

BUDGET = 64 * 2**20
"""Bytes of activations that stacked rows, or the recorded runs behind them, may hold at a time."""


@contextmanager
def undisturbed(model: Transformer, *, grad: bool = False) -> Iterator[None]:
    """Run in evaluation mode, without gradients unless asked; every module's mode is restored."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.set_grad_enabled(grad):
            yield
    finally:
        for module in training:
            module.training = True


def has_hooks(model: Transformer) -> bool:
    """Whether somebody's forward hooks sit on the model."""
    return any(module._forward_hooks for module in model.modules())


def example_bytes(staged: Staged) -> int:
    """Return the bytes of one example's record, every stage kept."""
    return sum(layer_bytes(staged, layer) for layer in range(staged.config.n_layers))


def layer_bytes(staged: Staged, layer: int) -> int:
    """Return the bytes of one example's stages in one layer."""
    c = staged.config
    n_pos = staged.reads[-1] + 1 if c.causal else c.n_ctx
    queries = staged.blocks[layer].queries
    n_query = n_pos if queries is None else len(queries)
    heads = c.n_heads * c.d_head
    floats = n_pos * (c.d_model + 2 * heads) + 2 * n_query * (heads + c.n_heads * n_pos)
    floats += n_query * (5 * c.d_model + 2 * c.d_mlp[layer])
    return floats * staged.model.unembed.W_U.element_size()


def record(
    staged: Staged,
    tokens: Int[Tensor, "batch pos"],
    keep: Collection[Place] | None = None,
    *,
    hooked: bool,
) -> Record:
    """Record a run: stage by stage, or (`hooked`) through the hooks that are on the model."""
    if not hooked:
        return staged.record(tokens, keep)
    model: Any = staged.model
    logits, cache = model.run_with_cache(tokens, return_cache_object=False)
    values = {
        (layer, stage): _cropped(staged, (layer, stage), cache[hook_name(stage, layer)])
        for layer in range(staged.config.n_layers)
        for stage in stages_of(staged.config, layer)
    }
    return Record(values, logits[:, list(staged.reads)])


def _cropped(staged: Staged, place: Place, value: Tensor) -> Tensor:
    return value[crop(staged, place, value)]


def crop(staged: Staged, place: Place, value: Tensor) -> tuple[Any, ...]:
    """Return the index of the part of a full activation that `Staged` computes."""
    columns = staged.columns(place)
    length = value.shape[-1] if place[1] in ENTRIES else value.shape[1]
    n_pos = staged.reads[-1] + 1 if staged.config.causal else length
    at: Any = slice(n_pos) if columns is None else columns
    if place[1] in ENTRIES:
        return slice(None), slice(None), at, slice(n_pos)
    return slice(None), at


def runs(
    staged: Staged, batch: Batch, keep: Collection[Place] | None, budget: int = BUDGET
) -> Iterator[tuple[slice, Record]]:
    """Record a batch part by part: yields which rows, and their run with some stages kept (None: all)."""
    step = max(1, budget // example_bytes(staged))
    hooked = has_hooks(staged.model)
    for start in range(0, len(batch), step):
        rows = slice(start, start + step)
        with undisturbed(staged.model):
            run = record(staged, torch.from_numpy(batch.tokens[rows]), keep, hooked=hooked)
        yield rows, run
