"""The same function as `HookedTransformer`, folded for reading at one position.

Without LayerNorm and without an MLP before the last layer, the residual stream before the last layer is a
mixture of rows of a table: one row per token id, one per position, and the images of both under each head of
layer 0. Layer 0's scores are sums of products of such rows; the last layer's query only needs its scores with
the rows, and what it attends to is again a mixture of them. So no tensor of shape [batch pos d_model] is ever
made. Exact up to rounding, in value and in gradient; training and exhaustive evaluation run on it.

Row vectors. A key bias shifts all scores of a query alike and drops out of the softmax.
Sources: the exact forward pass of arXiv 2605.31497; virtual weights, Elhage et al. 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig

Weights = Mapping[str, Tensor]


def why_not_foldable(config: ModelConfig) -> str | None:
    """Return the reason why a model has no folded form, or None if it has one."""
    if config.n_layers > 2:
        return f"it has {config.n_layers} layers (1 or 2 can be folded)"
    if any(config.d_mlp[:-1]):
        return "it has an MLP before the last layer"
    if config.norm != "none" or config.embed_norm:
        return "it normalises the residual stream"
    if config.positions != "absolute":
        return f"its positions are {config.positions} (absolute ones can be folded)"
    if config.attn_sink or not config.attn_content:
        return "its attention has a sink or no content term"
    return None


@dataclass(frozen=True)
class Run:
    """What one folded forward pass knows; at the read position where nothing else is said."""

    logits: Float[Tensor, "batch vocab"]
    resid_pre: Float[Tensor, "batch d_model"]
    """Before the last layer."""
    resid_mid: Float[Tensor, "batch d_model"]
    """After the last layer's attention: its MLP's input."""
    post: Float[Tensor, "batch neuron"]
    """The last MLP's neurons after the activation function; no neurons if there is no such MLP."""
    patterns: tuple[Tensor, ...]
    """One per layer: layer 0 of two [batch head pos pos], the last [batch head pos]."""


@dataclass(frozen=True)
class Folded:
    """A model's weights, multiplied out once; call it on any number of batches."""

    config: ModelConfig
    read: int
    """Position whose logits are computed."""
    scores: Float[Tensor, "row head row"] | None
    """Layer 0's scores (query row, head, key row); None in a one-layer model."""
    rows: Float[Tensor, "image row d_model"]
    """Token rows, then position rows; image 0 as they are, image 1 + h under layer 0's head h."""
    w_q: Float[Tensor, "d_model head d_head"]
    """The last layer's query map, divided by sqrt(d_head)."""
    b_q: Float[Tensor, "head d_head"] | None
    keys: Float[Tensor, "head d_head image row"]
    """The last layer's keys of the rows."""
    values: Float[Tensor, "head image row d_model"]
    """The last layer's OV images of the rows."""
    constant: Float[Tensor, " d_model"]
    """What the last layer's attention biases add."""
    w_in: Float[Tensor, "d_model neuron"]
    b_in: Float[Tensor, " neuron"] | None
    w_logit: Float[Tensor, "neuron vocab"]
    """W_out W_U: what a unit of each neuron adds to the logits."""
    w_u: Float[Tensor, "d_model vocab"]
    b_logit: Float[Tensor, " vocab"] | None
    """b_out W_U + b_U."""

    def __call__(
        self,
        tokens: Int[Tensor, "batch pos"],
        *,
        edit_first: Callable[[Tensor], Tensor] | None = None,
    ) -> Run:
        """Run the model on token ids and return what is known at the read position.

        `edit_first` returns what takes the place of layer 0's pattern [batch head pos pos].
        """
        c = self.config
        n_tokens, n_pos = c.d_vocab, self.read + 1 if c.causal else c.n_ctx
        tokens = tokens[:, :n_pos]
        sizes = (n_tokens, n_pos, c.n_ctx - n_pos)
        token_rows, pos_rows, _ = self.rows.split(sizes, 1)

        resid_pre = F.embedding(tokens[:, self.read], token_rows[0]) + pos_rows[0, self.read]
        first = None
        if self.scores is not None:
            first = self._first_pattern(tokens, n_pos)
            first = first if edit_first is None else edit_first(first)
            at_read = first[:, :, self.read]
            resid_pre = (
                resid_pre
                + _on_tokens(at_read, tokens, n_tokens).flatten(1) @ token_rows[1:].flatten(0, 1)
                + at_read.flatten(1) @ pos_rows[1:].flatten(0, 1)
            )
        query = torch.einsum("bd,dhk->hbk", resid_pre, self.w_q)
        if self.b_q is not None:
            query = query + self.b_q[:, None]
        by_row = (query @ self.keys.flatten(2)).unflatten(2, self.keys.shape[2:])  # h b image row
        by_row = by_row.transpose(0, 1)
        by_token, by_pos, _ = by_row.split(sizes, 3)
        by_source = _at_tokens(by_token, tokens) + by_pos  # b h image pos
        scores = by_source[:, :, 0]
        if first is not None:
            scores = scores + torch.einsum("bhis,bits->bht", by_source[:, :, 1:], first)
        pattern = _mixed(scores.softmax(-1), c.attn_mix)
        weight = pattern[:, :, None]
        if first is not None:
            moved = torch.einsum("bht,bits->bhis", pattern, first)
            weight = torch.cat([weight, moved], 2)
        coefficient = torch.cat([_on_tokens(weight, tokens, n_tokens), weight], 3)
        values = self.values[:, :, : n_tokens + n_pos]
        resid_mid = resid_pre + coefficient.flatten(1) @ values.flatten(0, 2) + self.constant
        post, logits = self.after_mid(resid_mid)
        patterns = (pattern,) if first is None else (first, pattern)
        return Run(logits, resid_pre, resid_mid, post, patterns)

    def after_mid(
        self, resid_mid: Float[Tensor, "batch d_model"]
    ) -> tuple[Float[Tensor, "batch neuron"], Float[Tensor, "batch vocab"]]:
        """Return the neurons and the logits that follow from the last MLP's input."""
        pre = resid_mid @ self.w_in
        if self.b_in is not None:
            pre = pre + self.b_in
        post = activate(self.config, pre)
        return post, self.logits_from(resid_mid, post)

    def logits_from(
        self, resid_mid: Float[Tensor, "batch d_model"], post: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, "batch vocab"]:
        """Return the logits of a residual stream and of (possibly changed) neurons."""
        logits = resid_mid @ self.w_u + post @ self.w_logit
        return logits if self.b_logit is None else logits + self.b_logit

    def _first_pattern(self, tokens: Tensor, n_pos: int) -> Float[Tensor, "batch head pos pos"]:
        assert self.scores is not None
        n_tokens, n_heads = self.config.d_vocab, self.config.n_heads
        table = self.scores[:, :, : n_tokens + n_pos]
        of_tokens, of_positions = table[:n_tokens], table[n_tokens : n_tokens + n_pos]
        pairs = tokens[:, :, None] * n_tokens + tokens[:, None]
        tokens_tokens = of_tokens[:, :, :n_tokens].transpose(0, 1).flatten(1)
        tokens_positions = of_tokens[:, :, n_tokens:].flatten(1)
        positions_tokens = of_positions[:, :, :n_tokens].permute(2, 1, 0).flatten(1)
        scores = (
            tokens_tokens.gather(1, pairs.flatten().expand(n_heads, -1))
            .unflatten(1, pairs.shape)
            .transpose(0, 1)
            + F.embedding(tokens, tokens_positions).unflatten(2, (n_heads, n_pos)).transpose(1, 2)
            + F.embedding(tokens, positions_tokens)
            .unflatten(2, (n_heads, n_pos))
            .permute(0, 2, 3, 1)
            + of_positions[:, :, n_tokens:].transpose(0, 1)
        )
        if self.config.causal:
            future = torch.ones(n_pos, n_pos, dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(future, -torch.inf)
            if self.config.attn_mix == 1:
                return scores.softmax(-1)
            return _mixed(scores.softmax(-1), self.config.attn_mix).masked_fill(future, 0)
        return _mixed(scores.softmax(-1), self.config.attn_mix)


def _at_tokens(
    by_token: Float[Tensor, "batch any other vocab"], tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch any other pos"]:
    """Read a table over token ids at each sequence's tokens."""
    return by_token.gather(3, tokens[:, None, None].expand(*by_token.shape[:3], -1))


def _on_tokens(
    weight: Float[Tensor, "batch *any pos"], tokens: Int[Tensor, "batch pos"], n_tokens: int
) -> Float[Tensor, "batch *any vocab"]:
    """Sum weights over positions by the token that stands there."""
    where = tokens.reshape(len(tokens), *[1] * (weight.ndim - 2), -1).expand(weight.shape)
    return weight.new_zeros(*weight.shape[:-1], n_tokens).scatter_add(-1, where, weight)


def activate(config: ModelConfig, pre: Tensor) -> Tensor:
    """Apply the model's activation function."""
    return pre.relu() if config.act_fn == "relu" else F.gelu(pre)


def _mixed(softmax: Tensor, mix: float) -> Tensor:
    return softmax if mix == 1 else mix * softmax + (1 - mix)


def fold(config: ModelConfig, weights: Weights, *, read: int | None = None) -> Folded:
    """Multiply the weights out for reading at one position (by default the last).

    Raises `InputError` with the reason where the model has no folded form.
    """
    if reason := why_not_foldable(config):
        raise InputError(f"this model cannot be folded: {reason}")
    last = config.n_layers - 1
    read = config.n_ctx - 1 if read is None else read
    scale = config.d_head**-0.5

    def attn(layer: int, name: str) -> Tensor:
        return weights[f"blocks.{layer}.attn.{name}"]

    def bias_effect(layer: int) -> Float[Tensor, "pos d_model"]:
        """What b_V and b_O add to each position: b_V W_O times the pattern's row sum, plus b_O."""
        moved = torch.einsum("hk,hkd->d", attn(layer, "b_V"), attn(layer, "W_O"))
        n_keys = torch.full((config.n_ctx,), float(config.n_ctx)).to(moved)
        if config.causal:
            n_keys = torch.arange(1, config.n_ctx + 1).to(moved)
        row_sum = config.attn_mix + (1 - config.attn_mix) * n_keys
        return row_sum[:, None] * moved + attn(layer, "b_O")

    w_e, w_pos = weights["embed.W_E"], weights["pos_embed.W_pos"]
    rows = torch.cat([w_e, w_pos])[None]
    scores = None
    if config.n_layers == 2:
        w_q, w_k = attn(0, "W_Q") * scale, attn(0, "W_K")
        queries = rows @ w_q
        if config.attn_bias:
            on_positions = torch.cat([w_e.new_zeros(len(w_e)), w_e.new_ones(len(w_pos))])
            queries = queries + scale * on_positions[:, None] * attn(0, "b_Q")[:, None]
        scores = (queries @ (rows @ w_k).mT).transpose(0, 1)
        moved = rows @ attn(0, "W_V") @ attn(0, "W_O")
        if config.attn_bias:
            rows = torch.cat([w_e, w_pos + bias_effect(0)])[None]
        rows = torch.cat([rows, moved])
    w_u = weights["unembed.W_U"]
    mlp = f"blocks.{last}.mlp."
    has_mlp = config.d_mlp[last] > 0
    b_logit = weights.get("unembed.b_U")
    if has_mlp and config.mlp_bias:
        b_out = weights[mlp + "b_out"] @ w_u
        b_logit = b_out if b_logit is None else b_out + b_logit
    flat = rows.flatten(0, 1)
    shape = rows.shape[:2]
    return Folded(
        config,
        read,
        scores,
        rows,
        (attn(last, "W_Q") * scale).transpose(0, 1),
        attn(last, "b_Q") * scale if config.attn_bias else None,
        (flat @ attn(last, "W_K")).mT.unflatten(2, shape),
        (flat @ (attn(last, "W_V") @ attn(last, "W_O"))).unflatten(1, shape),
        bias_effect(last)[read] if config.attn_bias else w_u.new_zeros(config.d_model),
        weights[mlp + "W_in"] if has_mlp else w_u.new_zeros(config.d_model, 0),
        weights[mlp + "b_in"] if has_mlp and config.mlp_bias else None,
        weights[mlp + "W_out"] @ w_u if has_mlp else w_u.new_zeros(0, config.d_vocab_out),
        w_u,
        b_logit,
    )
