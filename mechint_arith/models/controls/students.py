"""Fit a fresh hidden layer, or a linear read-in, to what a planted MLP has to do.

Plain arrays in and out; no model is rewritten here.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


@torch.enable_grad()
def hidden_layer(
    x: Float[Tensor, "batch column"],
    target: Float[Tensor, "batch output"],
    n_neurons: int,
    rng: np.random.Generator,
    *,
    steps: int = 1000,
    batch: int = 1024,
    lr: float = 0.01,
) -> tuple[
    Float[Tensor, "column neuron"], Float[Tensor, " neuron"], Float[Tensor, "neuron output"]
]:
    """Return W_in, b and W_out, float64, with relu(x W_in + b) W_out close to the target in least squares.

    Adam on minibatches with a cosine rate from a random start, then W_out by ridge regression.
    """
    mean, scale = x.mean(0), x.std() + 1e-12
    size = target.std() + 1e-12
    inputs, outputs = ((x - mean) / scale).float(), (target / size).float()
    width = inputs.shape[1]
    reach = (inputs.square().sum(1).mean().clamp(min=1e-6)).sqrt()

    def drawn(*shape: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape)).float()

    w_in = (drawn(width, n_neurons) / reach * 1.5).requires_grad_()
    bias = (0.3 * drawn(n_neurons)).requires_grad_()
    w_out = (drawn(n_neurons, outputs.shape[1]) / n_neurons**0.5).requires_grad_()
    optimizer = torch.optim.Adam([w_in, bias, w_out], lr=lr)
    for step in range(steps):
        rows = torch.from_numpy(rng.integers(0, len(inputs), batch))
        optimizer.param_groups[0]["lr"] = lr * 0.5 * (1 + np.cos(np.pi * step / steps))
        error = torch.relu(inputs[rows] @ w_in + bias) @ w_out - outputs[rows]
        loss = error.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    w, b = w_in.detach().double() / scale, bias.detach().double()
    b = b - mean.double() @ w
    post = torch.relu(x.double() @ w + b)
    return w, b, regression(post, target.double(), ridge=1e-6)


def regression(
    x: Float[Tensor, "batch column"], target: Float[Tensor, "batch output"], *, ridge: float
) -> Float[Tensor, "column output"]:
    """Return the coefficients of least squares; `ridge` is a share of the mean squared column."""
    gram = x.T @ x
    gram = gram + ridge * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    return torch.linalg.solve(gram, x.T @ target)
