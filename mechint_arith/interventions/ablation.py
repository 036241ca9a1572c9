"""Ablation: replace what stands at a site by something that knows nothing of the input, or less.

Kinds, named in every result:
* `zero`;
* `mean pooled`: the mean over a reference batch, per position; over mixed routes it leaks the route;
* `mean per route`: the mean over the reference's rows of the same route;
* `resample`: the value on another reference row of the same route, with another answer. Donors from another route
  would make separate modules look shared;
* `optimal constant`: the constant with the least loss on the reference (`constants`).
Any site can be ablated: whole activations, heads, neurons, or a subspace (of frequencies, of one direction).
Cutting attention entries belongs in `edges`, every neuron of the last MLP at once in `neurons`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.constants import optimal_constants
from mechint_arith.interventions.contrast import Metric, measuring, named_metric
from mechint_arith.interventions.effects import Axis, Effects, clusters_of
from mechint_arith.interventions.located import Located, find, locate
from mechint_arith.interventions.patching import taking
from mechint_arith.interventions.recording import BUDGET
from mechint_arith.interventions.references import averages, others, routes
from mechint_arith.interventions.running import Cell, MakeCells, Patch, run_patched
from mechint_arith.interventions.site import Site
from mechint_arith.models.staged import Record, Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

KINDS = ("zero", "mean pooled", "mean per route", "resample", "optimal constant")

Group = tuple[Site, ...]
"""Sites that are ablated together."""


def ablate(
    model: Transformer,
    batch: Batch,
    sites: Site | Sequence[Site | Group],
    kinds: str | Sequence[str] = "zero",
    metric: str | Metric = "mean margin",
    *,
    reference: Batch | None = None,
    seed: int = 0,
    partly: bool = False,
    budget: int = BUDGET,
) -> Effects:
    """Ablate each site (or each tuple of sites together) in each way; axes `ablation`, `site`.

    batch: the inputs to measure on. reference: where means, donors and constants come from, by default the same
    batch. metric: as in `patching.patch`, of the right answer. seed: draws the donors. partly: leave out rows
    that lack a site's position.
    Raises `InputError` for an unknown kind, for a site that matches nothing or cannot change the answer, and where
    the reference lacks a route of the batch.
    """
    groups, kinds = grouped(sites), (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"no ablation {unknown[0]!r}: choose from {', '.join(KINDS)}")
    reference = batch if reference is None else reference
    function, name = named_metric(metric)
    measure = measuring(function, batch.labels, batch.labels)
    config = model.config
    at = [
        tuple(locate(s, config, batch, between_runs=False, partly=partly) for s in group)
        for group in groups
    ]
    patched, base = [], np.empty(0)
    for kind in kinds:
        if kind == "resample":
            donors = [reference[others(batch, reference, np.random.default_rng(seed))]]
            make = _resampling(Staged(model, reads_of(batch)), at, donors[0], partly)
        else:
            values = _constants(model, kind, groups, batch, reference, partly, budget)
            donors, make = [], _replacing(at, values)
        found = run_patched(model, batch, donors, make, measure, budget=budget)
        patched.append(found.patched.numpy())
        base = found.base.numpy()
    axes = (Axis("ablation", kinds), Axis("site", tuple(" + ".join(map(str, g)) for g in groups)))
    return Effects(
        axes,
        np.stack(patched),
        base,
        None,
        clusters_of(batch),
        np.arange(len(batch)),
        name,
        "ablation",
    )


def grouped(sites: Site | Sequence[Site | Group]) -> list[Group]:
    """Return sites as tuples of those that belong together. Raises `InputError` where there are none."""
    listed = [sites] if isinstance(sites, Site) else list(sites)
    if not listed:
        raise InputError("name at least one site")
    return [site if isinstance(site, tuple) else (site,) for site in listed]


def orthonormal(vectors: Tensor) -> Tensor:
    """Return an orthonormal basis [width rank] of the span of one vector [width] or of columns [width k].

    Raises `InputError` where the columns are not independent, as their span would be smaller than it seems.
    """
    columns = vectors[:, None] if vectors.ndim == 1 else vectors
    basis, triangle = torch.linalg.qr(columns)
    sizes = triangle.diagonal().abs()
    if columns.shape[1] > len(columns) or sizes.min() <= 1e-6 * sizes.max():
        raise InputError("the vectors of a subspace must be linearly independent")
    return basis


def _constants(
    model: Transformer,
    kind: str,
    groups: Sequence[Group],
    batch: Batch,
    reference: Batch,
    partly: bool,
    budget: int,
) -> list[list[Tensor]]:
    """Return what replaces each group's sites: [batch n …], or [1 …] once for all rows."""
    if kind == "zero":
        return [[torch.zeros(1) for _ in group] for group in groups]
    sites = [site for group in groups for site in group]
    per_route = kind == "mean per route"
    means = averages(model, reference, sites, per_route=per_route, partly=partly, budget=budget)
    numbers = sorted(means)
    mine = routes(batch) if per_route else np.zeros(1, np.int64)
    if missing := set(mine.tolist()) - set(numbers):
        raise InputError(f"the reference has no row of route {min(missing)}, which the batch has")
    rows = torch.from_numpy(np.searchsorted(numbers, mine))
    values = iter(torch.stack([means[k][i] for k in numbers])[rows] for i in range(len(sites)))
    result = [[next(values) for _ in group] for group in groups]
    if kind != "optimal constant":
        return result
    return [
        optimal_constants(model, reference, group, start, partly=partly, budget=budget)
        for group, start in zip(groups, result, strict=True)
    ]


def _replacing(
    cells: Sequence[tuple[Located, ...]], values: Sequence[Sequence[Tensor]]
) -> MakeCells:
    def put(at: Located, value: Tensor, rows: slice) -> Patch:
        here = value if len(value) == 1 else value[rows]
        return Patch(at.among(rows), lambda examples, _: here if len(here) == 1 else here[examples])

    def make(rows: slice, _: Record, __: Sequence[Record]) -> Sequence[Cell]:
        return [
            tuple(put(at, value, rows) for at, value in zip(cell, mine, strict=True))
            for cell, mine in zip(cells, values, strict=True)
        ]

    return make


def _resampling(
    staged: Staged, cells: Sequence[tuple[Located, ...]], donors: Batch, partly: bool
) -> MakeCells:
    sources = [
        tuple(
            find(at.site, staged.config, donors, between_runs=False, partly=partly) for at in cell
        )
        for cell in cells
    ]

    def make(rows: slice, _: Record, runs: Sequence[Record]) -> Sequence[Cell]:
        return [
            tuple(
                taking(staged, at.among(rows), source.among(rows), runs[0])
                for at, source in zip(cell, mine, strict=True)
            )
            for cell, mine in zip(cells, sources, strict=True)
        ]

    return make
