"""From a state dict's names and shapes to a configuration and weights under our names.

Which way round the tensors stand is found in `foreign_layout`, which task they belong to in `foreign_task`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import check_weights
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.files import as_float
from mechint_arith.models.foreign_layout import LENS, require_transformer

BUFFERS = re.compile(r".*\.attn\.(mask|IGNORE)|x_embed|y_embed")
"""Entries that take no part in the forward pass: causal masks, their filler, copies of embeddings."""
BIASES = {"attn_bias": r"\.attn\.b_", "mlp_bias": r"\.mlp\.b_", "unembed_bias": r"^unembed\.b_U$"}
"""Option of a configuration -> the names of the biases it stands for."""


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


def from_transformer_lens(tensors: Mapping[str, Tensor], where: str) -> Loaded:
    """Read a HookedTransformer state dict; sizes come from shapes, zero MLPs and biases are dropped.

    Raises `InputError` for LayerNorm models and for missing, unknown, misshapen or non-finite entries.
    """
    require_transformer(tensors, where)
    ignored = tuple(sorted(k for k in tensors if BUFFERS.fullmatch(k)))
    weights, dtype = as_float({k: t for k, t in tensors.items() if k not in ignored}, where)
    if norm := [k for k in weights if re.search(r"(^|\.)ln(1|2|_final)\.", k)]:
        raise InputError(f"{where} has LayerNorm ({norm[0]}): only models without it are read")
    n_layers = len({m[1] for k in weights if (m := re.match(r"blocks\.(\d+)\.", k))})
    families: dict[str, list[str]] = {
        option: [k for k in weights if re.search(pattern, k)] for option, pattern in BIASES.items()
    }
    mlps = [[k for k in weights if k.startswith(f"blocks.{i}.mlp.")] for i in range(n_layers)]
    n_heads, d_model, d_head = weights["blocks.0.attn.W_Q"].shape
    whole = ModelConfig(
        d_vocab=weights["embed.W_E"].shape[0],
        d_vocab_out=weights["unembed.W_U"].shape[1],
        n_ctx=weights["pos_embed.W_pos"].shape[0],
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_mlp=tuple(_width(weights, i) if names else 0 for i, names in enumerate(mlps)),
        attn_bias=bool(families["attn_bias"]),
        mlp_bias=bool(families["mlp_bias"]),
        unembed_bias=bool(families["unembed_bias"]),
    )
    check_weights(weights, whole, where)

    groups = {f"blocks.{i}.mlp": names for i, names in enumerate(mlps)}
    groups |= {f"zero {option.replace('_', ' ')}es": names for option, names in families.items()}
    dropped = []
    for group, names in groups.items():
        left = [k for k in names if k in weights]
        if left and not any(bool(weights[k].any()) for k in left):
            dropped.append(group)
            weights = {k: w for k, w in weights.items() if k not in left}

    def kept(names: list[str]) -> bool:
        return any(k in weights for k in names)

    config = replace(
        whole,
        d_mlp=tuple(size if kept(mlps[i]) else 0 for i, size in enumerate(whole.d_mlp)),
        **{option: kept(names) for option, names in families.items()},  # type: ignore[arg-type]
    )
    weights = {k: weights[k] for k in parameter_shapes(config)}
    return Loaded(config, weights, LENS, dtype, ignored, tuple(dropped))


def _width(weights: Mapping[str, Tensor], layer: int) -> int:
    """Return how many neurons a layer's MLP has, by whichever of its matrices is there."""
    w_in, w_out = (weights.get(f"blocks.{layer}.mlp.{name}") for name in ("W_in", "W_out"))
    if w_in is not None and w_in.ndim == 2:
        return w_in.shape[1]
    return 1 if w_out is None or w_out.ndim != 2 else w_out.shape[0]
