"""From a state dict's names and shapes to a configuration and weights under our names.

Which way round the tensors stand is found in `foreign_layout`, which task they belong to in `foreign_task`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.foreign_layout import LENS, require_transformer

BUFFERS = re.compile(r".*\.attn\.(mask|IGNORE)|x_embed|y_embed")
"""Entries that take no part in the forward pass: causal masks, their filler, copies of embeddings."""


@dataclass(frozen=True)
class Loaded:
    """A model taken from an outside file, and what was done to it on the way."""

    config: ModelConfig
    weights: Mapping[str, Tensor]
    layout: str
    dtype: str
    """Stored dtype; weights are float32 (or float64 where stored so)."""
    ignored: tuple[str, ...]
    """Entries that take no part in the forward pass."""
    dropped: tuple[str, ...] = field(default_factory=tuple)
    """All-zero MLPs and biases, and logits of tokens that are no answers, that were left out."""
    told: str = ""
    """What the layout was told from."""


def as_float(tensors: Mapping[str, Tensor], where: str) -> tuple[dict[str, Tensor], str]:
    """Cast weights to float32 (float64 stays) and return them with the stored dtype's name."""
    kinds = {t.dtype for t in tensors.values()}
    if bad := [k for k, t in tensors.items() if not t.is_floating_point()]:
        raise InputError(f"{where}: {bad[0]} is {tensors[bad[0]].dtype}, expected real numbers")
    target = torch.float64 if torch.float64 in kinds else torch.float32
    names = sorted(str(kind).removeprefix("torch.") for kind in kinds)
    return {k: t.to(target).contiguous() for k, t in tensors.items()}, "+".join(names)


def from_transformer_lens(tensors: Mapping[str, Tensor], where: str) -> Loaded:
    """Read a HookedTransformer state dict; sizes come from shapes, zero MLPs and biases are dropped.

    Raises `InputError` for LayerNorm models; missing, unknown or misshapen entries are for the caller to check.
    """
    require_transformer(tensors, where)
    ignored = tuple(sorted(k for k in tensors if BUFFERS.fullmatch(k)))
    weights, dtype = as_float({k: t for k, t in tensors.items() if k not in ignored}, where)
    if norm := [k for k in weights if re.search(r"(^|\.)ln(1|2|_final)\.", k)]:
        raise InputError(f"{where} has LayerNorm ({norm[0]}): only models without it are read")
    blocks = [int(m[1]) for k in weights if (m := re.match(r"blocks\.(\d+)\.", k))]
    n_layers = max(blocks) + 1
    dropped = []

    def all_zero(prefix: str) -> bool:
        return not any(bool(t.any()) for k, t in weights.items() if k.startswith(prefix))

    d_mlp = []
    for i in range(n_layers):
        prefix = f"blocks.{i}.mlp."
        w_in = weights.get(prefix + "W_in")
        if w_in is not None and all_zero(prefix):
            dropped.append(f"blocks.{i}.mlp")
            for key in [k for k in weights if k.startswith(prefix)]:
                del weights[key]
            w_in = None
        d_mlp.append(0 if w_in is None else w_in.shape[-1])
    biases = {
        "attn_bias": [k for k in weights if re.search(r"\.attn\.b_", k)],
        "mlp_bias": [k for k in weights if re.search(r"\.mlp\.b_", k)],
        "unembed_bias": [k for k in weights if k == "unembed.b_U"],
    }
    present: dict[str, Any] = {}
    for option, names in biases.items():
        present[option] = any(bool(weights[k].any()) or not _finite(weights[k]) for k in names)
        if names and not present[option]:
            dropped.append(f"zero {option.replace('_', ' ')}es")
            for key in names:
                del weights[key]
    n_heads, d_model, d_head = weights["blocks.0.attn.W_Q"].shape
    config = ModelConfig(
        d_vocab=weights["embed.W_E"].shape[0],
        d_vocab_out=weights["unembed.W_U"].shape[1],
        n_ctx=weights["pos_embed.W_pos"].shape[0],
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_mlp=tuple(d_mlp),
        **present,
    )
    order = [k for k in parameter_shapes(config) if k in weights]
    extra = [k for k in weights if k not in order]
    weights = {k: weights[k] for k in [*order, *extra]}
    return Loaded(config, weights, LENS, dtype, ignored, tuple(dropped))


def _finite(t: Tensor) -> bool:
    return bool(torch.isfinite(t).all())
