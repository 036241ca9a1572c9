"""Training: recipes and a loop.

Which sequences a step sees depends on the seed and the step's number only, so a run that was stopped and taken
up again (`runs.py`) continues to bit-identical weights. Nothing here prints or writes; `on_step` is told all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import Weights, fold, why_not_foldable
from mechint_arith.models.separable import separable_logits, why_not_separable
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: AdamW on the cross entropy at the answer positions."""

    steps: int = 30_000
    batch: int = 512
    """Sequences per step; 0: the whole training set."""
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.02
    """On every tensor."""
    cosine: bool = False
    """Whether the rate falls to zero along a half cosine; otherwise it is constant."""
    loss_float64: bool = False
    """Whether the log-softmax is taken in float64."""

    def __post_init__(self) -> None:
        if isinstance(self.betas, list):
            object.__setattr__(self, "betas", tuple(self.betas))
        problems = list(wrong_types(self)) or list(self._problems())
        if problems:
            raise InputError("recipe: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        if self.steps < 1:
            yield f"steps must be at least 1, not {self.steps}"
        if self.batch < 0:
            yield f"batch cannot be negative: {self.batch}"
        if self.lr <= 0:
            yield f"lr must be positive, not {self.lr}"
        if self.weight_decay < 0:
            yield f"weight_decay cannot be negative: {self.weight_decay}"
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            yield f"betas must be two numbers from 0 to below 1, not {self.betas}"


Sampler = Callable[[int, np.random.Generator], Batch]
"""(number of sequences, generator) -> Batch."""
Forward = Callable[[Weights, Tensor, int], Tensor]
"""(weights, tokens [batch pos], number of answer tokens) -> logits [batch vocab] or [batch answer vocab]."""


def folded_forward(config: ModelConfig, read: int) -> Forward:
    """Return the forward function of the folded form."""
    return lambda weights, tokens, _: fold(config, weights, read=read)(tokens).logits


def closed_forward(config: ModelConfig, read: int) -> Forward:
    """Return the fastest exact forward function: separable (one layer), folded, or the plain pass."""
    if why_not_separable(config) is None:
        return lambda weights, tokens, _: separable_logits(config, weights, tokens, read=read)
    if why_not_foldable(config) is None:
        return folded_forward(config, read)
    network = Transformer(config)

    def plain(weights: Weights, tokens: Tensor, _: int) -> Tensor:
        return functional_call(network, dict(weights), (tokens,))[:, read]

    return plain


@dataclass
class State:
    """A training run in memory."""

    weights: dict[str, Tensor]
    """Parameter name -> leaf tensor."""
    optimizer: torch.optim.Optimizer
    step: int = 0
    """Steps taken so far."""
    losses: list[float] = field(default_factory=list)
    """Loss of every step since `on_step` last cleared it."""


def start(weights: Weights, recipe: Recipe, *, device: str = "cpu") -> State:
    """Return a run that has taken no step yet."""
    leaves = {name: w.detach().clone().to(device).requires_grad_() for name, w in weights.items()}
    optimizer = torch.optim.AdamW(
        leaves.values(),
        lr=recipe.lr,
        betas=recipe.betas,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    return State(leaves, optimizer)


def loss_of(logits: Tensor, labels: Tensor, *, float64: bool = False) -> Tensor:
    """Mean cross entropy over sequences and answer tokens, in nats."""
    if float64:
        logits = logits.double()
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def train(
    state: State,
    recipe: Recipe,
    sample: Sampler,
    forward: Forward,
    *,
    seed: int,
    on_step: Callable[[State], Any] = lambda state: None,
) -> State:
    """Train until `recipe.steps`, calling `on_step` after every step (and once before the first)."""
    if state.step == 0:
        on_step(state)
    device = next(iter(state.weights.values())).device
    while state.step < recipe.steps:
        batch = sample(recipe.batch, np.random.default_rng((seed, state.step)))
        tokens = torch.from_numpy(batch.tokens).to(device)
        labels = torch.from_numpy(batch.labels).to(device)
        if recipe.cosine:
            share = state.step / recipe.steps
            for group in state.optimizer.param_groups:
                group["lr"] = recipe.lr * 0.5 * (1 + np.cos(np.pi * share))
        n_answers = labels.shape[1] if labels.ndim > 1 else 1
        loss = loss_of(
            forward(state.weights, tokens, n_answers), labels, float64=recipe.loss_float64
        )
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        state.step += 1
        state.losses.append(loss.item())
        if not np.isfinite(state.losses[-1]):
            raise InputError(
                f"the loss is {state.losses[-1]} at step {state.step}: lower --lr or raise the precision"
            )
        on_step(state)
    return state
