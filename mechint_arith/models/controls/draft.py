"""A model under surgery: more residual dimensions and heads that change nothing, and a basis that hides them.

What is written into the new room is decided elsewhere. Weights are float64 here and return to their dtype at
the end, so that a rewrite adds no rounding of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.controls.neurons import Neurons
from mechint_arith.models.folded import Folded, fold, why_not_foldable
from mechint_arith.tasks import vocab
from mechint_arith.tasks.assign_add import AssignAdd

D_MODEL_AXIS = {
    "W_E": 1,
    "W_pos": 1,
    "W_Q": 1,
    "W_K": 1,
    "W_V": 1,
    "W_O": 2,
    "b_O": 0,
    "W_in": 0,
    "W_out": 1,
    "b_out": 0,
    "W_U": 0,
}
"""Which axis of each parameter is the residual stream."""
PER_HEAD = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
"""Parameters whose first axis is the head."""


def why_not_rewritable(base: Checkpoint) -> str | None:
    """Return the reason why no control can be made of a model, or None if one can."""
    config = base.config
    if not isinstance(base.task, AssignAdd):
        return "its task is not assign-and-add"
    if reason := why_not_foldable(config):
        return reason
    if config.n_layers != 2:
        return f"it has {config.n_layers} layer; the flag needs a layer before the last"
    if not config.d_mlp[-1]:
        return "it has no MLP"
    if config.act_fn != "relu":
        return f"its neurons are {config.act_fn}: only ReLU can be scaled and silenced exactly"
    if config.attn_mix != 1 or not config.causal:
        return "its attention is mixed or not causal"
    return None


def _padded(w: Tensor, axis: int, n: int) -> Tensor:
    shape = list(w.shape)
    shape[axis] = n
    return torch.cat([w, w.new_zeros(shape)], axis)


def _kind(name: str) -> str:
    return name.rsplit(".", 1)[-1]


@dataclass
class Draft:
    """A two-layer assign-and-add model that is being rewritten."""

    config: ModelConfig
    weights: dict[str, Tensor]
    """Parameter name -> float64 tensor."""
    task: AssignAdd
    free_heads: list[list[int]]
    """Per layer, the heads that do nothing yet."""

    @classmethod
    def of(cls, base: Checkpoint) -> Draft:
        """Start from a trained model. Raises `InputError` with the reason where it cannot be rewritten."""
        if reason := why_not_rewritable(base):
            raise InputError(f"no control can be made of this model: {reason}")
        assert isinstance(base.task, AssignAdd)
        weights = {name: w.detach().cpu().double().clone() for name, w in base.weights.items()}
        return cls(base.config, weights, base.task, [[] for _ in range(base.config.n_layers)])

    def widen(self, n: int) -> list[int]:
        """Add n residual dimensions that nothing reads or writes; return their places."""
        for name, w in self.weights.items():
            if (axis := D_MODEL_AXIS.get(_kind(name))) is not None:
                self.weights[name] = _padded(w, axis, n)
        start = self.config.d_model
        self.config = replace(self.config, d_model=start + n)
        return list(range(start, start + n))

    def new_head(self, layer: int) -> int:
        """Return a head of `layer` that does nothing yet; both layers get one more where none is left."""
        if not self.free_heads[layer]:
            for name, w in self.weights.items():
                if ".attn." in name and _kind(name) in PER_HEAD:
                    self.weights[name] = _padded(w, 0, 1)
            for free in self.free_heads:
                free.append(self.config.n_heads)
            self.config = replace(self.config, n_heads=self.config.n_heads + 1)
        return self.free_heads[layer].pop(0)

    def attn(self, layer: int, name: str) -> Tensor:
        """A layer's attention parameter, to be written into."""
        return self.weights[f"blocks.{layer}.attn.{name}"]

    @property
    def w_e(self) -> Float[Tensor, "vocab d_model"]:
        """Token embeddings, to be written into."""
        return self.weights["embed.W_E"]

    @property
    def w_pos(self) -> Float[Tensor, "pos d_model"]:
        """Position embeddings, to be written into."""
        return self.weights["pos_embed.W_pos"]

    @property
    def w_u(self) -> Float[Tensor, "d_model vocab"]:
        """Unembedding, to be written into."""
        return self.weights["unembed.W_U"]

    @property
    def equals_id(self) -> int:
        """Token id of `=`."""
        return self.task.vocab.ids[vocab.EQUALS]

    @property
    def neurons(self) -> Neurons:
        """The last MLP's neurons, all ungated."""
        mlp = f"blocks.{self.config.n_layers - 1}.mlp."
        w_in = self.weights[mlp + "W_in"]
        b_in = self.weights.get(mlp + "b_in", w_in.new_zeros(w_in.shape[1]))
        gates = np.zeros(w_in.shape[1], dtype=np.int64)
        return Neurons(w_in, b_in, self.weights[mlp + "W_out"], gates)

    @neurons.setter
    def neurons(self, neurons: Neurons) -> None:
        mlp = f"blocks.{self.config.n_layers - 1}.mlp."
        self.weights[mlp + "W_in"], self.weights[mlp + "W_out"] = neurons.w_in, neurons.w_out
        if self.config.mlp_bias:
            self.weights[mlp + "b_in"] = neurons.b_in
        self.config = replace(self.config, d_mlp=(*self.config.d_mlp[:-1], len(neurons)))

    @property
    def folded(self) -> Folded:
        """The draft as it stands, folded at `=`, float64."""
        return fold(self.config, self.weights, read=self.task.places["equals"])

    def rotate(self, rng: np.random.Generator) -> None:
        """Turn the residual basis by a random orthogonal matrix: exact, as nothing normalises the stream."""
        normal = torch.from_numpy(rng.standard_normal((self.config.d_model,) * 2))
        q, r = torch.linalg.qr(normal)
        q = q * r.diagonal().sign()
        for name, w in self.weights.items():
            if (axis := D_MODEL_AXIS.get(_kind(name))) is not None:
                self.weights[name] = torch.tensordot(w, q, ([axis], [0])).movedim(-1, axis)
