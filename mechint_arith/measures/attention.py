"""Measures of attention on prompts, per query form, each with the attention mass beside the top-2 share.

For several heads the patterns are averaged. Prompts: seen pairs and allowed variables.
Source: arXiv 2605.31497; a top-2 share alone says nothing about how much weight the two places get.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mechint_arith.measures.subject import Subject, mean_of, share_of
from mechint_arith.models.folded import Run
from mechint_arith.stats import Estimate
from mechint_arith.tasks.assign_add import ROUTES
from mechint_arith.tasks.batch import Batch


def _weights(run: Run, layer: int, read: int) -> Tensor:
    """Return the read position's attention, mean over heads: [batch pos]."""
    pattern = run.patterns[layer].mean(1)
    return pattern[:, read] if pattern.ndim == 3 else pattern


def _two_places(weights: Tensor, places: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return whether the two largest weights are at `places` [batch 2], and the mass there."""
    wanted = torch.from_numpy(np.sort(places, 1))
    largest = weights.topk(2, dim=1).indices.sort(1).values
    mass = weights.gather(1, wanted).sum(1)
    return (largest == wanted).all(1), mass


def _places(batch: Batch, prefix: str) -> np.ndarray:
    names = [f"{prefix}{operand}" for operand in ("lhs", "rhs")]
    return np.stack([batch.positions[name] for name in names], 1)


def attn0_operands(subject: Subject) -> dict[str, Estimate]:
    """Share of prompts where the two largest of A0[=, :] are the operand positions, and the mass on them.

    `attn0_operands_published`: the top-2 share with all query forms pooled.
    """
    found, pooled = {}, []
    for route in ROUTES:
        batch, run = subject.route(route)
        top, mass = _two_places(_weights(run, 0, batch.read), _places(batch, ""))
        found[f"attn0_operands_{route}"] = share_of(top)
        found[f"attn0_operands_mass_{route}"] = mean_of(mass)
        pooled.append(top)
    return {**found, "attn0_operands_published": share_of(torch.cat(pooled))}


def attn0_previous(subject: Subject) -> dict[str, Estimate]:
    """Share of value tokens in the prefix whose largest A0 is at the token before, and the mass there.

    The unit is the value token; those of one prompt are not quite independent, so the limits are narrow.
    `attn0_previous_published`: the same with all query forms pooled.
    """
    found, pooled = {}, []
    task = subject.task
    for route in ROUTES:
        batch, run = subject.route(route)
        prefix = batch.tokens[:, : task.places["plus"]]
        rows, at = np.nonzero(prefix < task.p)
        weights = run.patterns[0].mean(1)[rows, at]
        before = torch.from_numpy(at - 1)
        top = weights.argmax(1) == before
        found[f"attn0_previous_{route}"] = share_of(top)
        mass = weights.gather(1, before[:, None])[:, 0]
        found[f"attn0_previous_mass_{route}"] = mean_of(mass)
        pooled.append(top)
    return {**found, "attn0_previous_published": share_of(torch.cat(pooled))}


def attn1_values(subject: Subject) -> dict[str, Estimate]:
    """Share of prompts where the two largest of A1[=, :] are the two value positions, and the mass on them.

    A direct operand is its own value position. `attn1_values_published`: query forms pooled.
    """
    found, pooled = {}, []
    for route in ROUTES:
        batch, run = subject.route(route)
        top, mass = _two_places(_weights(run, 1, batch.read), _places(batch, "value of "))
        found[f"attn1_values_{route}"] = share_of(top)
        found[f"attn1_values_mass_{route}"] = mean_of(mass)
        pooled.append(top)
    return {**found, "attn1_values_published": share_of(torch.cat(pooled))}


def attn1_direct(subject: Subject) -> dict[str, Estimate]:
    """Mean A1[=, lhs] and A1[=, rhs] on `PAD … + a b =`, all pairs: which operands the MLP gets directly."""
    batch, run = subject.prompts.bare, subject.run("bare")
    weights = _weights(run, 1, batch.read)
    places = {name: torch.from_numpy(batch.positions[name]) for name in ("lhs", "rhs")}
    return {
        f"attn1_direct_{name}": mean_of(weights.gather(1, place[:, None]))
        for name, place in places.items()
    }
