"""The plain forward pass, with a named identity module wherever an activation can be looked at or changed.

`hook` decides what those modules are: `torch.nn.Identity` for a network that only computes (no TransformerLens
import), or TransformerLens' `HookPoint` in `hooked.py`. Parameter and hook names are TransformerLens'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mechint_arith.models.config import ModelConfig, parameter_shapes

MakeHook = Callable[[], nn.Module]


def _parameters(module: nn.Module, prefix: str, config: ModelConfig) -> None:
    """Register the parameters of one module, as `parameter_shapes` lists them, filled with zeros."""
    for name, shape in parameter_shapes(config).items():
        if name.startswith(prefix) and "." not in name[len(prefix) :]:
            setattr(module, name[len(prefix) :], nn.Parameter(torch.zeros(shape)))


def rms_normalised(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """Divide by the root mean square over the last axis."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def rotated(
    x: Float[Tensor, "batch pos head d_head"], first_place: int = 0
) -> Float[Tensor, "batch pos head d_head"]:
    """Rotate channel pairs by position times a frequency from 1 to 1e-4 (Su et al., arXiv 2104.09864)."""
    n_pos, half = x.shape[1], x.shape[3] // 2
    frequency = 1e-4 ** (torch.arange(half, dtype=x.dtype, device=x.device) / half)
    place = torch.arange(first_place, first_place + n_pos, dtype=x.dtype, device=x.device)
    angle = place[:, None, None] * frequency
    first, second = x[..., :half], x[..., half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Embed(nn.Module):
    """Token ids to rows of W_E."""

    W_E: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.normalised = config.embed_norm
        _parameters(self, "embed.", config)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        rows = F.embedding(tokens, self.W_E)
        return rms_normalised(rows) if self.normalised else rows


class PosEmbed(nn.Module):
    """Positions to rows of W_pos."""

    W_pos: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.normalised = config.embed_norm
        _parameters(self, "pos_embed.", config)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        batch, n_pos = tokens.shape
        rows = self.W_pos[:n_pos]
        return (rms_normalised(rows) if self.normalised else rows).repeat(batch, 1, 1)


class Attention(nn.Module):
    """Attention, with one hook per step."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    b_Q: Tensor
    b_K: Tensor
    b_V: Tensor
    b_O: Tensor
    rel_bias: Tensor
    place_bias: Tensor
    sink: Tensor

    def __init__(self, config: ModelConfig, layer: int, hook: MakeHook) -> None:
        super().__init__()
        self.config = config
        _parameters(self, f"blocks.{layer}.attn.", config)
        if config.attn_content:
            self.hook_q, self.hook_k = hook(), hook()
        self.hook_v, self.hook_z = hook(), hook()
        self.hook_attn_scores, self.hook_pattern, self.hook_result = hook(), hook(), hook()
        self.with_result = False
        """Whether to compute each head's own output at `hook_result`."""

    def forward(
        self, query_in: Tensor, key_in: Tensor, value_in: Tensor
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend; inputs are [batch pos d_model], or [batch pos head d_model] where split by head.

        There may be fewer queries than keys; they then stand at the last positions.
        """
        c = self.config
        value = self.hook_v(self._project(value_in, "V"))
        scores = self.hook_attn_scores(self._scores(query_in, key_in))
        pattern = self.hook_pattern(self._pattern(scores))
        z = self.hook_z((pattern @ value.transpose(1, 2)).transpose(1, 2))
        if self.with_result:
            out = self.hook_result(torch.einsum("bphk,hkd->bphd", z, self.W_O)).sum(2)
        else:
            out = z.flatten(2) @ self.W_O.flatten(0, 1)
        return out + self.b_O if c.attn_bias else out

    def _project(self, x: Tensor, which: str) -> Float[Tensor, "batch pos head d_head"]:
        weight = getattr(self, f"W_{which}")
        if x.ndim == 4:
            out = torch.einsum("bphd,hdk->bphk", x, weight)
        else:
            out = (x @ weight.transpose(0, 1).flatten(1)).unflatten(2, weight.shape[::2])
        return out + getattr(self, f"b_{which}") if self.config.attn_bias else out

    def _scores(self, query_in: Tensor, key_in: Tensor) -> Float[Tensor, "batch head query pos"]:
        c = self.config
        (batch, n_queries), n_pos = query_in.shape[:2], key_in.shape[1]
        skipped = n_pos - n_queries
        if c.attn_content:
            query = self.hook_q(self._project(query_in, "Q"))
            key = self.hook_k(self._project(key_in, "K"))
            if c.positions == "rotary":
                query, key = rotated(query, skipped), rotated(key)
            scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * c.d_head**-0.5
        else:
            scores = query_in.new_zeros(batch, c.n_heads, n_queries, n_pos)
        if c.positions == "relative":
            place = torch.arange(n_pos, device=scores.device)
            offset = place[skipped:, None] - place + c.n_ctx - 1
            scores = scores + c.relative_scale * self.rel_bias[:, offset]
        elif not c.attn_content:
            scores = scores + c.relative_scale * self.place_bias[:, skipped:n_pos, :n_pos]
        if c.causal:
            scores = scores.masked_fill(_future(scores), -torch.inf)
        return scores

    def _pattern(self, scores: Float[Tensor, "batch head query pos"]) -> Tensor:
        c = self.config
        if c.attn_sink:
            sink = self.sink[:, None, None].expand(*scores.shape[:3], 1)
            softmax = torch.cat([scores, sink], 3).softmax(-1)[..., :-1]
        else:
            softmax = scores.softmax(-1)
        if c.attn_mix == 1:
            return softmax
        mixed = c.attn_mix * softmax + (1 - c.attn_mix)
        return mixed.masked_fill(_future(scores), 0) if c.causal else mixed


def _future(scores: Float[Tensor, "batch head query pos"]) -> Tensor:
    """Return bool [query pos]: the keys after each query; the queries stand at the last positions."""
    n_queries, n_pos = scores.shape[2:]
    ones = torch.ones(n_queries, n_pos, dtype=torch.bool, device=scores.device)
    return ones.triu(1 + n_pos - n_queries)


class MLP(nn.Module):
    """One hidden layer of neurons."""

    W_in: Tensor
    W_out: Tensor
    b_in: Tensor
    b_out: Tensor

    def __init__(self, config: ModelConfig, layer: int, hook: MakeHook) -> None:
        super().__init__()
        self.bias, self.act = config.mlp_bias, F.relu if config.act_fn == "relu" else F.gelu
        _parameters(self, f"blocks.{layer}.mlp.", config)
        self.hook_pre, self.hook_post = hook(), hook()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        pre = x @ self.W_in + self.b_in if self.bias else x @ self.W_in
        post = self.hook_post(self.act(self.hook_pre(pre)))
        return post @ self.W_out + self.b_out if self.bias else post @ self.W_out


class Block(nn.Module):
    """Attention, then an MLP where the layer has one; without one `hook_mlp_out` sees zeros."""

    def __init__(self, config: ModelConfig, layer: int, hook: MakeHook) -> None:
        super().__init__()
        self.read = rms_normalised if config.norm == "rms" else lambda x: x
        self.attn = Attention(config, layer, hook)
        self.mlp = MLP(config, layer, hook) if config.d_mlp[layer] else None
        self.hook_resid_pre, self.hook_attn_out, self.hook_resid_mid = hook(), hook(), hook()
        self.hook_mlp_in, self.hook_mlp_out, self.hook_resid_post = hook(), hook(), hook()
        self.hook_q_input, self.hook_k_input, self.hook_v_input = hook(), hook(), hook()
        self.split_inputs = False
        """Whether queries, keys and values read their own copy of the residual, head by head."""

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], *, last: int | None = None
    ) -> Float[Tensor, "batch query d_model"]:
        """Return the residual stream after the layer, at all or only at the `last` positions."""
        x = self.hook_resid_pre(x)
        if self.split_inputs:
            heads = x[:, :, None].expand(-1, -1, self.attn.config.n_heads, -1)
            forks = (self.hook_q_input, self.hook_k_input, self.hook_v_input)
            inputs = [self.read(fork(heads.clone())) for fork in forks]
        else:
            inputs = [self.read(x)] * 3
        if last is not None:
            x, inputs[0] = x[:, -last:], inputs[0][:, -last:]
        mid = self.hook_resid_mid(x + self.hook_attn_out(self.attn(*inputs)))
        if self.mlp is None:
            mlp_out = self.hook_mlp_out(torch.zeros_like(mid))
        else:
            mlp_out = self.hook_mlp_out(self.mlp(self.read(self.hook_mlp_in(mid))))
        return self.hook_resid_post(mid + mlp_out)


class Unembed(nn.Module):
    """Residual stream to logits."""

    W_U: Tensor
    b_U: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.bias = config.unembed_bias
        _parameters(self, "unembed.", config)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        return x @ self.W_U + self.b_U if self.bias else x @ self.W_U


class Transformer(nn.Module):
    """The network as a function of token ids; `hook` makes the modules at its named places."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Tensor] | None = None,
        *,
        hook: MakeHook = nn.Identity,
    ) -> None:
        super().__init__()
        self.config = config
        self.embed, self.hook_embed = Embed(config), hook()
        if config.positions == "absolute":
            self.pos_embed, self.hook_pos_embed = PosEmbed(config), hook()
        self.blocks = nn.ModuleList(Block(config, i, hook) for i in range(config.n_layers))
        self.unembed = Unembed(config)
        self.read = rms_normalised if config.norm == "rms" else lambda x: x
        if weights is not None:
            self.to(next(iter(weights.values())).dtype)
            self.load_state_dict(dict(weights))

    @property
    def layers(self) -> list[Block]:
        """The blocks as what they are."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def forward(
        self,
        tokens: Tensor,
        *,
        start_at_layer: int = 0,
        stop_at_layer: int | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Return logits [batch pos vocab] of token ids [batch pos].

        With `start_at_layer` > 0 the input is instead that layer's residual stream [batch pos d_model]. With
        `stop_at_layer` the result is the residual stream before that layer (n_layers: after the last one).
        With `last` the model's last layer and the logits are computed at that many last positions only.
        """
        x = tokens
        if not tokens.is_floating_point():
            x = self.hook_embed(self.embed(tokens))
            if self.config.positions == "absolute":
                x = x + self.hook_pos_embed(self.pos_embed(tokens))
        stop = self.config.n_layers if stop_at_layer is None else stop_at_layer
        for i, block in enumerate(self.blocks[start_at_layer:stop], start_at_layer):
            x = block(x, last=last if i == self.config.n_layers - 1 else None)
        return x if stop_at_layer is not None else self.unembed(self.read(x))
