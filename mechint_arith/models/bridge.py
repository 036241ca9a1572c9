"""Our weights as TransformerLens state dicts and as its native bridge.

Reading other people's state dicts is `foreign`'s job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig


def why_not_bridge(config: ModelConfig) -> str | None:
    """Return why TransformerLens' own model cannot express a configuration, or None if it can."""
    if config.attn_mix != 1:
        return "it has no attention mix"
    if config.positions in ("relative", "rotary") or config.attn_sink or not config.attn_content:
        return f"it has no {config.positions} positions of this kind"
    if config.positions == "none":
        return "it needs position embeddings"
    if config.embed_norm or config.norm != "none":
        return "this project's normalisation differs from its own"
    return None


def state_dict(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a full HookedTransformer state dict: every bias, and zeros for the MLP of a layer without one.

    Raises `InputError` where TransformerLens has no such model.
    """
    if reason := why_not_bridge(config):
        raise InputError(f"TransformerLens cannot express this model: {reason}")
    c, w_e = config, weights["embed.W_E"]
    width = max(c.d_mlp)
    if any(size not in (0, width) for size in c.d_mlp):
        raise InputError(f"TransformerLens cannot express MLPs of different widths {c.d_mlp}")
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(c.n_layers):
        attn, mlp = f"blocks.{i}.attn.", f"blocks.{i}.mlp."
        shapes |= {attn + f"b_{x}": (c.n_heads, c.d_head) for x in "QKV"}
        shapes |= {attn + "b_O": (c.d_model,)}
        if width:
            shapes |= {mlp + "W_in": (c.d_model, width), mlp + "W_out": (width, c.d_model)}
            shapes |= {mlp + "b_in": (width,), mlp + "b_out": (c.d_model,)}
    shapes["unembed.b_U"] = (c.d_vocab_out,)
    zeros = {name: w_e.new_zeros(shape) for name, shape in shapes.items() if name not in weights}
    return {name: w.detach().clone() for name, w in weights.items()} | zeros


def to_bridge(config: ModelConfig, weights: Mapping[str, Tensor]) -> Any:
    """Return a `TransformerBridge` that computes the same logits in its first d_vocab_out columns."""
    full = state_dict(config, weights)
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge.sources.native import boot
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    lens = TransformerBridgeConfig(
        d_model=config.d_model,
        d_head=config.d_head,
        n_layers=config.n_layers,
        n_ctx=config.n_ctx,
        n_heads=config.n_heads,
        d_mlp=max(config.d_mlp),
        d_vocab=config.d_vocab,
        act_fn=config.act_fn,
        attn_only=config.last_mlp < 0,
        normalization_type=None,
        attention_dir="causal" if config.causal else "bidirectional",
        default_prepend_bos=False,
        init_weights=False,
        architecture="TransformerLensNative",
        device=str(full["embed.W_E"].device),
    )
    missing = config.d_vocab - config.d_vocab_out
    if missing < 0:
        raise InputError("TransformerLens cannot express a model with more answers than tokens")
    pad = torch.nn.functional.pad
    full["unembed.W_U"] = pad(full["unembed.W_U"], (0, missing))
    full["unembed.b_U"] = pad(full["unembed.b_U"], (0, missing))
    bridge = boot(lens, dtype=full["embed.W_E"].dtype)
    bridge.load_state_dict(convert_tl_checkpoint(full, lens), strict=True)
    return bridge.eval()
