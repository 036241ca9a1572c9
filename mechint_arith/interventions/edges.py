"""Attention knock-outs: set entries of the pattern to 0, and let the rest of the row stand, or grow to fill it.

The two variants answer different questions, and their results differ: without renormalisation the query loses
what it got through the entry; with it the other keys get the weight, as if the entry had never been seen (for a
plain softmax: as if its score were minus infinity). Both are measured and named.
Source: Wang et al., arXiv 2211.00593; Geva et al., arXiv 2304.14767 (attention knockout).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.ablation import Group, grouped
from mechint_arith.interventions.contrast import Metric, measuring, named_metric
from mechint_arith.interventions.effects import Axis, Effects, clusters_of
from mechint_arith.interventions.located import Located, locate
from mechint_arith.interventions.recording import BUDGET
from mechint_arith.interventions.running import Cell, Patch, run_patched
from mechint_arith.interventions.site import Site
from mechint_arith.models.staged import Record
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

VARIANTS = ("not renormalised", "renormalised")


def knock_out(
    model: Transformer,
    batch: Batch,
    edges: Site | Sequence[Site | Group],
    metric: str | Metric = "correct",
    *,
    partly: bool = False,
    budget: int = BUDGET,
) -> Effects:
    """Cut each edge (or each tuple of edges together) in both ways; axes `rest of the row`, `edge`.

    edges: sites at `pattern` with a query `position` and `key` positions, such as
    `Site("pattern", 0, "equals", key=("lhs", "rhs"))`. A row whose every entry is cut stays 0 when renormalised.
    Raises `InputError` where a site is no such edge or cannot change the answer.
    """
    groups = grouped(edges)
    for site in (site for group in groups for site in group):
        if site.hook != "pattern" or site.position is None or site.key is None:
            raise InputError(
                f"{site} is no edge: expected a site at pattern with a query position and keys, such as"
                " Site('pattern', 0, 'equals', key='lhs')"
            )
    config = model.config
    at = [
        tuple(locate(s, config, batch, between_runs=False, partly=partly) for s in group)
        for group in groups
    ]
    function, name = named_metric(metric)
    measure = measuring(function, batch.labels, batch.labels)

    def make(rows: slice, _: Record, __: Sequence[Record]) -> Sequence[Cell]:
        here = [[edge.among(rows) for edge in cell] for cell in at]
        cut = [tuple(Patch(edge, _nothing) for edge in cell) for cell in here]
        return cut + [tuple(_refilled(edge) for edge in cell) for cell in here]

    found = run_patched(model, batch, [], make, measure, budget=budget)
    axes = (
        Axis("rest of the row", VARIANTS),
        Axis("edge", tuple(" + ".join(map(str, group)) for group in groups)),
    )
    return Effects(
        axes,
        found.patched.numpy().reshape(2, len(groups), -1),
        found.base.numpy(),
        None,
        clusters_of(batch),
        np.arange(len(batch)),
        name,
        "attention knock-out",
    )


def _nothing(_: Tensor, old: Callable[[], Tensor]) -> Tensor:
    return torch.zeros_like(old())


def _refilled(edge: Located) -> Patch:
    """Return the patch of the whole row: entries cut, the others scaled to the row's earlier sum."""
    row = replace(edge, site=replace(edge.site, key=None), keys=None)

    def new(examples: Tensor, old: Callable[[], Tensor]) -> Tensor:
        whole = old()
        cut = whole.scatter(-1, edge.key_index(examples, whole), 0.0)
        before, after = whole.sum(-1, keepdim=True), cut.sum(-1, keepdim=True)
        return cut * (before / after).where(after > 0, 0.0)

    return Patch(row, new)
