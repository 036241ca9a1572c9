"""One block of the plain forward pass as named stages, each computed from the stages it reads.

The same function as `transformer.Block`, written a second time for interventions: any stage can be computed alone,
and a block can be asked for its output at a few positions only. No hook fires here; the hooked model is the
oracle. Whole models are run in `staged`.

Stages carry TransformerLens' hook names. [row] counts changed copies of inputs, [query] the positions at which a
block's output is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.models.config import ModelConfig
from mechint_arith.models.transformer import Block, rotated

ATTENTION = ("resid_pre", "q", "k", "v", "attn_scores", "pattern", "z", "attn_out", "resid_mid")
MLP = ("mlp_in", "pre", "post", "mlp_out")
STAGES = (*ATTENTION, *MLP, "resid_post")
"""From bottom to top. Residual stages and outputs are [row pos d_model], q, k, v and z [row pos head d_head],
attn_scores and pattern [row head query key], pre and post [row pos neuron]."""
QKV = ("q", "k", "v")
KEY_SIDE = ("resid_pre", "k", "v")
"""Stages that a layer needs at every position; it needs the others only where its output is wanted."""


@lru_cache
def stages_of(config: ModelConfig, layer: int) -> tuple[str, ...]:
    """Return the stages a layer has: none of an MLP's where it has no MLP, no q and k without content scores."""
    without = set() if config.d_mlp[layer] else set(MLP)
    if not config.attn_content:
        without |= {"q", "k"}
    return tuple(stage for stage in STAGES if stage not in without)


@lru_cache
def _inputs(content: bool, has_mlp: bool, straight: bool) -> dict[str, tuple[str, ...]]:
    keys, values = ("resid_pre", "resid_pre") if straight else ("k", "v")
    return {
        "resid_pre": (),
        "q": ("resid_pre",),
        "k": () if straight else ("resid_pre",),
        "v": () if straight else ("resid_pre",),
        "attn_scores": ("q", keys) if content else (),
        "pattern": ("attn_scores",),
        "z": ("pattern", values),
        "attn_out": ("z",),
        "resid_mid": ("resid_pre", "attn_out"),
        "mlp_in": ("resid_mid",),
        "pre": ("mlp_in",),
        "post": ("pre",),
        "mlp_out": ("post",),
        "resid_post": ("resid_mid", "mlp_out") if has_mlp else ("resid_mid",),
    }


@dataclass(frozen=True)
class StagedBlock:
    """One layer, stage by stage."""

    config: ModelConfig
    block: Block
    queries: Int[Tensor, " query"] | None
    """Positions at which its output is wanted; None: all."""

    def reads(self, stage: str, *, straight: bool = False) -> tuple[str, ...]:
        """Return the stages that one is computed from.

        `straight`: scores and z are taken from the residual stream, without making keys and values of it.
        """
        return _inputs(self.config.attn_content, self.block.mlp is not None, straight)[stage]

    def compute(self, stage: str, *inputs: Tensor) -> Tensor:
        """Return a stage from what `reads` lists."""
        attn, mlp = self.block.attn, self.block.mlp
        match stage:
            case "q":
                return self._project(self._at_queries(inputs[0]), "Q")
            case "k" | "v":
                return self._project(inputs[0], stage.upper())
            case "attn_scores":
                return self._scores(*inputs)
            case "pattern":
                return self._pattern(inputs[0])
            case "z":
                return self._mixed(*inputs)
            case "attn_out":
                out = inputs[0].flatten(2) @ attn.W_O.flatten(0, 1)
                return out + attn.b_O if self.config.attn_bias else out
            case "resid_mid":
                return self._at_queries(inputs[0]) + inputs[1]
            case "resid_post" if len(inputs) == 2:
                return inputs[0] + inputs[1]
            case "mlp_in":
                return inputs[0].clone()
            case "resid_post":
                return inputs[0]
        assert mlp is not None
        match stage:
            case "pre":
                pre = self.block.read(inputs[0]) @ mlp.W_in
                return pre + mlp.b_in if mlp.bias else pre
            case "post":
                return mlp.act(inputs[0])
        out = inputs[0] @ mlp.W_out
        return out + mlp.b_out if mlp.bias else out

    def _at_queries(self, x: Float[Tensor, "row pos d"]) -> Float[Tensor, "row query d"]:
        return x if self.queries is None else x[:, self.queries]

    def _project(self, x: Float[Tensor, "row pos d_model"], which: str) -> Tensor:
        weight = getattr(self.block.attn, f"W_{which}")
        out = self.block.read(x) @ weight.transpose(0, 1).flatten(1)
        out = out.unflatten(2, weight.shape[::2])
        return out + getattr(self.block.attn, f"b_{which}") if self.config.attn_bias else out

    def _scores(self, query: Tensor | None = None, key: Tensor | None = None) -> Tensor:
        """Return scores [row head query key]; `key`: keys [row pos head d_head] or residuals [row pos d_model]."""
        c, attn = self.config, self.block.attn
        assert query is not None
        assert key is not None
        if key.ndim == 3:
            # (q W_K^T) x: with few queries this is much cheaper than a key for every position.
            moved = query.transpose(1, 2) @ attn.W_K.mT
            scores = moved @ self.block.read(key).mT[:, None]
            if c.attn_bias:
                scores = scores + (query * attn.b_K).sum(-1).mT[..., None]
        else:
            if c.positions == "rotary":
                query, key = rotated(query), rotated(key)
            scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1)
        return self.placed(scores * c.d_head**-0.5)

    def placed(self, scores: Float[Tensor, "row head query key"]) -> Tensor:
        """Add the bias of relative positions and hide the future."""
        c, n_pos = self.config, scores.shape[-1]
        if c.positions == "relative":
            place = torch.arange(n_pos, device=scores.device)
            offset = self._place(n_pos)[:, None] - place + c.n_ctx - 1
            scores = scores + c.relative_scale * self.block.attn.rel_bias[:, offset]
        elif not c.attn_content:
            bias = self.block.attn.place_bias[:, self._place(n_pos), :n_pos]
            scores = scores + c.relative_scale * bias
        return scores.masked_fill(self._future(n_pos), -torch.inf) if c.causal else scores

    def _place(self, n_pos: int) -> Int[Tensor, " query"]:
        if self.queries is not None:
            return self.queries
        return torch.arange(n_pos, device=self.block.attn.W_V.device)

    def _future(self, n_pos: int) -> Tensor:
        place = self._place(n_pos)
        return torch.arange(n_pos, device=place.device) > place[:, None]

    def _pattern(self, scores: Float[Tensor, "row head query key"]) -> Tensor:
        c = self.config
        if c.attn_sink:
            sink = self.block.attn.sink[:, None, None].expand(*scores.shape[:3], 1)
            softmax = torch.cat([scores, sink], 3).softmax(-1)[..., :-1]
        else:
            softmax = scores.softmax(-1)
        if c.attn_mix == 1:
            return softmax
        mixed = c.attn_mix * softmax + (1 - c.attn_mix)
        return mixed.masked_fill(self._future(scores.shape[-1]), 0) if c.causal else mixed

    def _mixed(self, pattern: Float[Tensor, "row head query key"], value: Tensor) -> Tensor:
        """Return z [row query head d_head]; `value`: values [row pos head d_head] or residuals [row pos d_model]."""
        attn = self.block.attn
        if value.ndim == 4:
            return (pattern @ value.transpose(1, 2)).transpose(1, 2)
        z = (pattern @ self.block.read(value)[:, None] @ attn.W_V).transpose(1, 2)
        if self.config.attn_bias:
            z = z + pattern.sum(-1).mT[..., None] * attn.b_V
        return z
