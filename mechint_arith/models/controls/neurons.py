"""Neurons as columns to be copied, rescaled, gated, joined and shuffled.

A ReLU neuron read with W_in g and written with W_out / g is the same neuron (positive homogeneity). Which
residual dimension a gate reads is said in `flags`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

OPEN, CLEAR, SET = range(3)
"""Gates: always alive; alive only where the flag is clear (0); only where it is set."""


@dataclass(frozen=True)
class Neurons:
    """The hidden layer of an MLP."""

    w_in: Float[Tensor, "d_model neuron"]
    b_in: Float[Tensor, " neuron"]
    w_out: Float[Tensor, "neuron d_model"]
    gates: np.ndarray
    """`OPEN`, `CLEAR` or `SET`, int [neuron]."""

    def __len__(self) -> int:
        return self.w_in.shape[1]

    def __getitem__(self, rows: np.ndarray) -> Neurons:
        """Return the selected neurons (index array or boolean mask)."""
        at = torch.from_numpy(np.arange(len(self))[rows])
        return Neurons(self.w_in[:, at], self.b_in[at], self.w_out[at], self.gates[rows])

    def gated(self, gate: int) -> Neurons:
        """Return the same neurons, all marked with one gate."""
        return replace(self, gates=np.full(len(self), gate))

    def weighted(self, strength: float | Tensor) -> Neurons:
        """Return neurons that write `strength` times as much; a number or [neuron]."""
        factor = torch.as_tensor(strength, dtype=self.w_out.dtype)
        return replace(self, w_out=self.w_out * (factor[:, None] if factor.ndim else factor))

    def rescaled(self, rng: np.random.Generator, *, octaves: float = 1.0) -> Neurons:
        """Return the same functions with W_in g and W_out / g; log2 g is normal with that deviation."""
        g = torch.from_numpy(2 ** (octaves * rng.standard_normal(len(self))))
        return replace(self, w_in=self.w_in * g, b_in=self.b_in * g, w_out=self.w_out / g[:, None])

    def shuffled(self, rng: np.random.Generator) -> Neurons:
        """Return the same neurons in random order."""
        return self[rng.permutation(len(self))]


def joined(*parts: Neurons) -> Neurons:
    """Return all neurons of several sets side by side."""
    return Neurons(
        torch.cat([part.w_in for part in parts], 1),
        torch.cat([part.b_in for part in parts]),
        torch.cat([part.w_out for part in parts]),
        np.concatenate([part.gates for part in parts]),
    )
