"""What an ablation may put in: means over a reference batch, and donors from it, within routes.

Nothing is ablated here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.located import locate
from mechint_arith.interventions.recording import BUDGET, runs
from mechint_arith.interventions.site import Site
from mechint_arith.models.staged import Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

TRIES = 100
"""How often a donor is drawn anew before a row is said to have none."""


def routes(batch: Batch) -> np.ndarray:
    """Return the number of each row's route, int64 [batch]; a task without query forms has one."""
    return np.asarray(batch.factors.get("form", np.zeros(len(batch), np.int64)))


def others(batch: Batch, reference: Batch, rng: np.random.Generator) -> np.ndarray:
    """Draw for each row a reference row of its route with another answer, int64 [batch].

    Raises `InputError` where a row has no such donor.
    """
    mine, theirs = routes(batch), routes(reference)
    answers, candidates = (b.labels.reshape(len(b), -1) for b in (batch, reference))
    drawn = np.full(len(batch), -1)
    for route in np.unique(mine):
        left, pool = np.flatnonzero(mine == route), np.flatnonzero(theirs == route)
        for _ in range(TRIES if len(pool) else 0):
            drawn[left] = pool[rng.integers(0, len(pool), len(left))]
            left = left[(answers[left] == candidates[drawn[left]]).all(1)]
            if not len(left):
                break
        if len(left):
            raise InputError(
                f"{len(left)} rows of route {route} have no reference row of their route with another"
                " answer; give a larger reference"
            )
    return drawn


def averages(
    model: Transformer,
    reference: Batch,
    sites: Sequence[Site],
    *,
    per_route: bool = False,
    partly: bool = False,
    budget: int = BUDGET,
) -> dict[int, list[Tensor]]:
    """Return the mean value of each site over a batch, per position: route -> site -> [n …].

    per_route: one mean per route, by its number; else one over all rows, as route 0.
    Raises `InputError` where no row of a route has a site's position.
    """
    staged = Staged(model, reads_of(reference))
    found = [locate(s, model.config, reference, between_runs=False, partly=partly) for s in sites]
    route_of = routes(reference) if per_route else np.zeros(len(reference), np.int64)
    numbers = np.unique(route_of).tolist()
    sums: dict[tuple[int, int], Tensor] = {}
    places = {(site.layer, site.hook) for site in sites}
    for rows, run in runs(staged, reference, places, budget):
        every = torch.arange(len(run.logits))
        for i, at in enumerate(found):
            place = (at.site.layer, at.site.hook)
            part = at.among(rows)
            values = part.take(run.values[place], every, staged.columns(place)).double()
            for number in numbers:
                mine = torch.from_numpy(route_of[rows] == number) & part.rows_with(len(every))
                sums[number, i] = sums.get((number, i), 0) + values[mine].sum(0)
    counts = {
        (number, i): int((route_of == number)[at.rows_with(len(reference)).numpy()].sum())
        for number in numbers
        for i, at in enumerate(found)
    }
    for (number, i), count in counts.items():
        if not count:
            raise InputError(f"site {sites[i]}: no row of route {number} has this position")
    dtype = model.unembed.W_U.dtype
    return {
        number: [(sums[number, i] / counts[number, i]).to(dtype) for i in range(len(sites))]
        for number in numbers
    }
