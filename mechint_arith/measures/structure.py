"""Measures of the weights alone: addition on an idealised path, the token before, variable identity.

Exact, so their intervals have no width. For several heads the best head (or pair of heads) counts.
Source: arXiv 2605.31497 and its released scripts; the variants are told apart by name.
"""

from __future__ import annotations

import numpy as np
import torch

from mechint_arith.circuits.weights import ov1_values, qk0_positions, qk1_variables
from mechint_arith.measures.subject import Subject, exact
from mechint_arith.models.folded import activate
from mechint_arith.stats import Estimate


def ov1_mlp1(subject: Subject) -> dict[str, Estimate]:
    """Share of all pairs with argmax act((u_a + u_b) W_in) W_out W_U = a + b, u = W_E W_V1 W_O1.

    An idealised path: attention weight 1 on both numbers, no skip connection.
    """
    model, p = subject.model, subject.task.p
    inputs = ov1_values(model, subject.task) @ model.w_in
    if model.b_in is not None:
        inputs = inputs + model.b_in / 2
    right = 0
    numbers = torch.arange(p)
    for a in range(p):
        logits = activate(model.config, inputs[a] + inputs) @ model.w_logit
        right += int((logits.argmax(-1) == (a + numbers) % p).sum())
    return {"ov1_mlp1": exact(right / p**2, p**2)}


def qk0_previous(subject: Subject) -> dict[str, Estimate]:
    """Share of prefix positions q >= 1 whose largest positional score among allowed keys is at q - 1.

    `strict`: keys k < q; `published`: k < q without k = q - 2; `with_self`: k <= q.
    """
    n = subject.task.places["plus"]
    scores = qk0_positions(subject.model).values[:, :n, :n]
    query, key = np.indices((n, n))
    allowed = {
        "strict": key < query,
        "published": (key < query) & (key != query - 2),
        "with_self": key <= query,
    }
    rows = np.arange(1, n)
    found = {}
    for name, mask in allowed.items():
        best = np.where(mask, scores, -np.inf)[:, 1:].argmax(-1)
        found[f"qk0_previous_{name}"] = exact((best == rows - 1).mean(1).max(), n - 1)
    return found


def qk1_identity(subject: Subject) -> dict[str, Estimate]:
    """Share of variables whose largest score in M = Y W_Q1 W_K1^T Y^T is with themselves, and the mean margin.

    Y = W_E[variables] W_V0 W_O0. Margin: M_ii minus the largest other entry of row i, before division by
    sqrt(d_head).
    """
    scores = qk1_variables(subject.model, subject.task).values
    n = scores.shape[-1]
    same = np.eye(n, dtype=bool)
    own = scores[..., same]
    margin = (own - np.where(same, -np.inf, scores).max(-1)).reshape(-1, n)
    best = margin.mean(1).argmax()
    return {
        "qk1_identity": exact((margin[best] > 0).mean(), n),
        "qk1_margin": exact(margin[best].mean(), n),
    }
