"""The shape of a model, and every reason why a shape cannot be.

No weights and no task live here; `ModelConfig` is plain data that goes into a checkpoint's header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types

POSITIONS = ("absolute", "relative", "rotary", "none")
ACTIVATIONS = ("relu", "gelu")
NORMS = ("none", "rms")


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of a `HookedTransformer`. Raises `InputError` naming every fault."""

    d_vocab: int
    """Number of input token ids."""
    d_vocab_out: int
    """Number of answer classes."""
    n_ctx: int
    """Longest sequence."""
    n_layers: int = 2
    n_heads: int = 1
    d_model: int = 128
    d_head: int = 128
    d_mlp: tuple[int, ...] = (0, 512)
    """Neurons per layer; 0: the layer has no MLP."""
    act_fn: str = "relu"
    attn_bias: bool = False
    mlp_bias: bool = False
    unembed_bias: bool = False
    positions: str = "absolute"
    """`absolute`: learned table added to the embedding; `relative`: learned bias per exact offset and head;
    `rotary`: rotated queries and keys; `none`."""
    causal: bool = True
    attn_mix: float = 1.0
    """c in pattern = c * softmax + (1 - c) (Zhong et al., arXiv 2306.17844); 1 is the usual attention."""
    norm: str = "none"
    """`rms`: each layer and the unembedding read the residual stream divided by its root mean square."""
    attn_content: bool = True
    """False: scores come from positions alone, a learned bias per exact offset and head (relative) or per
    pair of places and head (absolute)."""
    attn_sink: bool = False
    """A learned extra score per head that takes attention and contributes nothing."""
    relative_scale: float = 1.0
    """Factor on the bias per offset or per pair of places, which sets how fast it learns."""
    embed_norm: bool = False
    """Token and position embeddings are divided by their root mean square."""

    def __post_init__(self) -> None:
        if isinstance(self.d_mlp, list):
            object.__setattr__(self, "d_mlp", tuple(self.d_mlp))
        if problems := list(wrong_types(self)) or list(self._problems()):
            raise InputError("model configuration: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        for name in ("d_vocab", "d_vocab_out", "n_ctx", "n_layers", "n_heads", "d_model", "d_head"):
            if getattr(self, name) < 1:
                yield f"{name} must be at least 1, not {getattr(self, name)}"
        if len(self.d_mlp) != self.n_layers:
            yield f"d_mlp needs one size per layer ({self.n_layers}), not {len(self.d_mlp)}"
        if any(size < 0 for size in self.d_mlp):
            yield f"d_mlp sizes cannot be negative: {self.d_mlp}"
        for name, known in (
            ("positions", POSITIONS),
            ("act_fn", ACTIVATIONS),
            ("norm", NORMS),
        ):
            if getattr(self, name) not in known:
                yield f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}"
        if not self.attn_content and self.positions not in ("absolute", "relative"):
            yield "attention without content needs absolute or relative positions"
        if not 0 <= self.attn_mix <= 1:
            yield f"attn_mix must lie in [0, 1], not {self.attn_mix:g}"
        if self.positions == "rotary" and self.d_head % 2:
            yield f"rotary positions need an even d_head, not {self.d_head}"

    @property
    def last_mlp(self) -> int:
        """Index of the last layer that has an MLP; -1 if none has."""
        return max((i for i, size in enumerate(self.d_mlp) if size), default=-1)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "d_mlp": list(self.d_mlp)}


def head_width(d_model: int, heads: int, d_head: int | None = None, **sizes: int | None) -> int:
    """Return the width of a head: `d_head`, or the share of d_model that each of `heads` gets.

    sizes: others that must be at least 1; None for those left to a default. Raises `InputError` naming all that
    are not, and where d_model is too narrow for its heads.
    """
    given = {"heads": heads, "d_model": d_model, "d_head": d_head, **sizes}
    if small := [f"{name} {size}" for name, size in given.items() if size is not None and size < 1]:
        raise InputError(f"expected sizes of at least 1, not {', '.join(small)}")
    if d_head is None and heads > d_model:
        raise InputError(f"d_model {d_model} is too narrow for {heads} heads: widen it")
    return d_model // heads if d_head is None else d_head


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return name -> shape of every parameter, by TransformerLens' names."""
    c = config
    shapes: dict[str, tuple[int, ...]] = {"embed.W_E": (c.d_vocab, c.d_model)}
    if c.positions == "absolute":
        shapes["pos_embed.W_pos"] = (c.n_ctx, c.d_model)
    for i, d_mlp in enumerate(c.d_mlp):
        attn = f"blocks.{i}.attn."
        if c.attn_content:
            shapes[attn + "W_Q"] = shapes[attn + "W_K"] = (c.n_heads, c.d_model, c.d_head)
        shapes[attn + "W_V"] = (c.n_heads, c.d_model, c.d_head)
        shapes[attn + "W_O"] = (c.n_heads, c.d_head, c.d_model)
        if c.attn_bias:
            if c.attn_content:
                shapes[attn + "b_Q"] = shapes[attn + "b_K"] = (c.n_heads, c.d_head)
            shapes[attn + "b_V"] = (c.n_heads, c.d_head)
            shapes[attn + "b_O"] = (c.d_model,)
        if c.positions == "relative":
            shapes[attn + "rel_bias"] = (c.n_heads, 2 * c.n_ctx - 1)
        elif not c.attn_content:
            shapes[attn + "place_bias"] = (c.n_heads, c.n_ctx, c.n_ctx)
        if c.attn_sink:
            shapes[attn + "sink"] = (c.n_heads,)
        if d_mlp:
            shapes[f"blocks.{i}.mlp.W_in"] = (c.d_model, d_mlp)
            shapes[f"blocks.{i}.mlp.W_out"] = (d_mlp, c.d_model)
            if c.mlp_bias:
                shapes[f"blocks.{i}.mlp.b_in"] = (d_mlp,)
                shapes[f"blocks.{i}.mlp.b_out"] = (c.d_model,)
    shapes["unembed.W_U"] = (c.d_model, c.d_vocab_out)
    if c.unembed_bias:
        shapes["unembed.b_U"] = (c.d_vocab_out,)
    return shapes
