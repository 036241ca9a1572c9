"""The same function as `HookedTransformer`, folded for reading at one position.

Without LayerNorm and without an MLP before the last layer, the residual stream before the last layer is a
mixture of rows of a table: one row per token id, one per position, and the images of both under each head of
layer 0. Layer 0's scores are sums of products of such rows; the last layer's query only needs its scores with
the rows, and what it attends to is again a mixture of them. So no tensor of shape [batch pos d_model] is ever
made. Exact up to rounding, in value and in gradient; training and exhaustive evaluation run on it. Inside, the
batch is the last axis, so that what is done for every pair of positions runs over contiguous memory.

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
        n_pos = self.read + 1 if c.causal else c.n_ctx
        sizes = (c.d_vocab, n_pos, c.n_ctx - n_pos)
        token_rows, pos_rows, _ = self.rows.split(sizes, 1)
        resid_pre = F.embedding(tokens[:, self.read], token_rows[0]) + pos_rows[0, self.read]
        tokens = tokens[:, :n_pos].T.contiguous()

        movers: tuple[Tensor, ...] = ()
        if self.scores is not None:
            first = self._first_pattern(tokens)
            if edit_first is not None:
                first = edit_first(first.permute(3, 0, 1, 2)).permute(1, 2, 3, 0)
            movers = first.unbind(0)
            at_read = first[:, self.read]
            resid_pre = (
                resid_pre
                + _on_tokens(at_read, tokens, c.d_vocab).flatten(0, 1).T
                @ token_rows[1:].flatten(0, 1)
                + at_read.flatten(0, 1).T @ pos_rows[1:].flatten(0, 1)
            )
        query = torch.einsum("bd,dhk->hkb", resid_pre, self.w_q)
        if self.b_q is not None:
            query = query + self.b_q[:, :, None]
        by_row = (self.keys.flatten(2).mT @ query).unflatten(1, self.keys.shape[2:])
        by_token, by_pos, _ = by_row.split(sizes, 2)
        by_source = _at_tokens(by_token, tokens) + by_pos  # head image pos batch
        scores = by_source[:, 0]
        for image, moves in enumerate(movers, 1):
            scores = scores + (by_source[:, image, None] * moves).sum(2)
        pattern = _mixed(scores.softmax(1), c.attn_mix)
        moved = [(pattern[:, :, None] * moves).sum(1) for moves in movers]
        weight = torch.stack([pattern, *moved], 1)  # head image pos batch
        coefficient = torch.cat([_on_tokens(weight, tokens, c.d_vocab), weight], 2)
        values = self.values[:, :, : c.d_vocab + n_pos]
        resid_mid = resid_pre + coefficient.flatten(0, 2).T @ values.flatten(0, 2) + self.constant
        post, logits = self.after_mid(resid_mid)
        patterns = [pattern.permute(2, 0, 1)]
        if movers:
            patterns.insert(0, first.permute(3, 0, 1, 2))
        return Run(logits, resid_pre, resid_mid, post, tuple(patterns))

    def after_mid(
        self, resid_mid: Float[Tensor, "batch d_model"]
    ) -> tuple[Float[Tensor, "batch neuron"], Float[Tensor, "batch vocab"]]:
        """Return the neurons and the logits that follow from the last MLP's input."""
        pre = resid_mid @ self.w_in
        if self.b_in is not None:
            pre = pre + self.b_in
        post = activate(self.config, pre, reuse=True)
        return post, self.logits_from(resid_mid, post)

    def logits_from(
        self, resid_mid: Float[Tensor, "batch d_model"], post: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, "batch vocab"]:
        """Return the logits of a residual stream and of (possibly changed) neurons."""
        logits = resid_mid @ self.w_u + post @ self.w_logit
        return logits if self.b_logit is None else logits + self.b_logit

    def _first_pattern(
        self, tokens: Int[Tensor, "pos batch"]
    ) -> Float[Tensor, "head query key batch"]:
        assert self.scores is not None
        n_tokens, n_pos = self.config.d_vocab, len(tokens)
        table = self.scores.transpose(0, 1)[:, : n_tokens + n_pos, : n_tokens + n_pos]
        of_tokens, of_positions = table.split((n_tokens, n_pos), 1)
        tokens_tokens, tokens_positions = of_tokens.split((n_tokens, n_pos), 2)
        positions_tokens, positions = of_positions.split((n_tokens, n_pos), 2)
        if self.config.causal:
            future = torch.ones(n_pos, n_pos, dtype=torch.bool, device=tokens.device).triu(1)
            positions = positions.masked_fill(future, -torch.inf)
        pairs = tokens[:, None] * n_tokens + tokens
        scores = (
            _read(tokens_tokens.flatten(1), pairs)
            + _read(tokens_positions.mT, tokens).transpose(1, 2)
            + _read(positions_tokens, tokens)
            + positions[..., None]
        )
        pattern = _mixed(scores.softmax(2), self.config.attn_mix)
        if self.config.causal and self.config.attn_mix != 1:
            return pattern.masked_fill(future[..., None], 0)
        return pattern


def _read(table: Float[Tensor, "*any entry"], where: Int[Tensor, "*place batch"]) -> Tensor:
    """Read entries of a table's last axis: [*any entry] at [*place batch] gives [*any *place batch]."""
    flat = table.reshape(-1, table.shape[-1])
    found = flat.gather(1, where.reshape(1, -1).expand(len(flat), -1))
    return found.reshape(*table.shape[:-1], *where.shape)


def _at_tokens(
    by_token: Float[Tensor, "head image vocab batch"], tokens: Int[Tensor, "pos batch"]
) -> Float[Tensor, "head image pos batch"]:
    """Read a table over token ids at each sequence's tokens."""
    return by_token.gather(2, tokens.expand(*by_token.shape[:2], -1, -1))


def _on_tokens(
    weight: Float[Tensor, "*any pos batch"], tokens: Int[Tensor, "pos batch"], n_tokens: int
) -> Float[Tensor, "*any vocab batch"]:
    """Sum weights over positions by the token that stands there."""
    *before, _, n = weight.shape
    return weight.new_zeros(*before, n_tokens, n).scatter_add(
        -2, tokens.expand(weight.shape), weight
    )


def activate(config: ModelConfig, pre: Tensor, *, reuse: bool = False) -> Tensor:
    """Apply the model's activation function; reuse: into the memory of `pre`, where the function can."""
    return F.relu(pre, inplace=reuse) if config.act_fn == "relu" else F.gelu(pre)


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
