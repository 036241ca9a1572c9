"""A one-layer model in closed form, over as few rows as it really has: for full-batch training.

With one layer, what a position offers (its key and its value) depends on its own token alone, and so does the
query. So queries, keys, values and scores are tables over tokens, made once per step however many sequences there
are; a sequence mixes a few rows of them, with weights from a softmax over as many numbers as it has tokens. W_O is
multiplied into the MLP's input map and into the unembedding, W_out into the unembedding. Exact up to rounding, in
value and in gradient: a step of the grokking set-up takes half the time of the plain pass, two thirds of the
folded form's. Two layers are folded in `folded`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import activate, why_not_foldable


def why_not_separable(config: ModelConfig) -> str | None:
    """Return the reason why a model has no such form, or None if it has one."""
    if config.n_layers != 1:
        return f"it has {config.n_layers} layers (only 1 is separable)"
    return why_not_foldable(config)


def separable_logits(
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    tokens: Int[Tensor, "batch pos"],
    *,
    read: int,
) -> Float[Tensor, "batch vocab"]:
    """Return the logits at position `read` of a one-layer model.

    Raises `InputError` with the reason where the model has no such form.
    """
    if reason := why_not_separable(config):
        raise InputError(f"this model is not separable: {reason}")
    if config.causal:
        tokens = tokens[:, : read + 1]
    heads = (config.n_heads, config.d_head)

    def attn(name: str) -> Tensor:
        return weights[f"blocks.0.attn.{name}"]

    def mapped(x: Tensor, which: str) -> Float[Tensor, "row head d_head"]:
        out = (x @ attn(f"W_{which}").transpose(0, 1).flatten(1)).unflatten(1, heads)
        return out + attn(f"b_{which}") if config.attn_bias else out

    w_e, w_pos = weights["embed.W_E"], weights["pos_embed.W_pos"]
    asking, asker = torch.unique(tokens[:, read], return_inverse=True)
    reading = w_e[asking] + w_pos[read]
    query = mapped(reading, "Q") * config.d_head**-0.5
    scores, values = [], []
    for place, token in enumerate(tokens.unbind(1)):
        offered = w_e + w_pos[place]
        table = torch.einsum("qhk,vhk->qvh", query, mapped(offered, "K")).flatten(0, 1)
        scores.append(F.embedding(asker * len(w_e) + token, table))
        values.append(F.embedding(token, mapped(offered, "V").flatten(1)))
    pattern = torch.stack(scores).softmax(0)
    if config.attn_mix != 1:
        pattern = config.attn_mix * pattern + (1 - config.attn_mix)
    z = torch.zeros_like(values[0])
    for weight, value in zip(pattern, values, strict=True):
        z = z + (weight[..., None] * value.unflatten(1, heads)).flatten(1)
    resid = reading + attn("b_O") if config.attn_bias else reading
    return _after_attention(config, weights, z, resid, asker)


def _after_attention(
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    z: Float[Tensor, "batch z"],
    resid: Float[Tensor, "asking d_model"],
    asker: Int[Tensor, " batch"],
) -> Float[Tensor, "batch vocab"]:
    """z: the heads' mixed values side by side; resid: what the stream holds besides, for each row of `asker`."""
    w_u, d_mlp = weights["unembed.W_U"], config.d_mlp[0]
    outward = torch.cat([weights["blocks.0.mlp.W_in"], w_u], 1) if d_mlp else w_u
    w_o = weights["blocks.0.attn.W_O"].flatten(0, 1)
    both = torch.addmm(F.embedding(asker, resid @ outward), z, w_o @ outward)
    pre, logits = both.split((d_mlp, config.d_vocab_out), 1)
    if d_mlp:
        if config.mlp_bias:
            pre = pre + weights["blocks.0.mlp.b_in"]
            logits = logits + weights["blocks.0.mlp.b_out"] @ w_u
        post = activate(config, pre)
        logits = torch.addmm(logits, post, weights["blocks.0.mlp.W_out"] @ w_u)
    return logits + weights["unembed.b_U"] if config.unembed_bias else logits
