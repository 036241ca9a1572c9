"""Accuracy by pool, cell and stratum, each with an interval and its n.

What the pools are is said in `tasks.pools`; what a model does with them is only measured here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mechint_arith.metrics import finite
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks import pools, splits
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.batch import Batch

Predictor = Callable[[Tensor], Tensor]
"""Tokens int [batch pos] -> logits [batch vocab] at the read position."""

POOL_SIZE = 2000
CHUNK = 8192
"""Sequences per forward pass."""


def hits(predict: Predictor, batch: Batch, *, chunk: int = CHUNK) -> np.ndarray:
    """Return bool [batch]: whether the model's answer is right."""
    tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    with torch.no_grad():
        right = [
            finite(predict(tokens[i : i + chunk])).argmax(-1) == labels[i : i + chunk]
            for i in range(0, len(tokens), chunk)
        ]
    return torch.cat(right).numpy()


def accuracy(predict: Predictor, batch: Batch, *, chunk: int = CHUNK) -> Estimate:
    """Share of right answers with its Wilson interval."""
    right = hits(predict, batch, chunk=chunk)
    return share(int(right.sum()), len(right))


def by_pool(
    predict: Predictor, task: AssignAdd, seed: int, *, n: int = POOL_SIZE, chunk: int = CHUNK
) -> dict[str, Estimate]:
    """Accuracy on every pool that the task's restrictions do not leave empty; pool name -> estimate."""
    return {
        name: accuracy(
            predict, pools.pool(task, name, n, np.random.default_rng((seed, i))), chunk=chunk
        )
        for i, name in enumerate(pools.POOLS)
        if name in pools.pool_names(task)
    }


def by_cell(
    predict: Predictor, task: AssignAdd, seed: int, *, n: int = 200, held: bool = False
) -> dict[str, Estimate]:
    """Accuracy of one-variable queries for each variable on each side; `a left` -> estimate.

    Restricted cells are all-or-nothing, so pool averages hide them.
    """
    batch = pools.cells(task, n, np.random.default_rng((seed, 100)), held=held)
    right, cell = hits(predict, batch), batch.factors["cell"]
    return {
        pools.cell_name(task, c): share(int(right[cell == c].sum()), n)
        for c in range(2 * task.n_vars)
    }


def by_stratum(
    predict: Predictor, task: AssignAdd, seed: int, *, n_variables: int = 4
) -> dict[str, dict[str, Estimate]]:
    """Accuracy on all held-out pairs by stratum, per route; route -> stratum -> estimate.

    Direct: each pair once. Indirect routes: each pair with `n_variables` random allowed variable choices.
    """
    held = task.pairs(held=True)
    result = {}
    for i, route in enumerate(("direct", "left", "right", "both")):
        rng = np.random.default_rng((seed, 200 + i))
        repeats = 1 if route == "direct" else n_variables
        batch = pools.on_pairs(task, route, np.repeat(held, repeats), rng)
        right = hits(predict, batch)
        stratum = splits.strata(batch.factors["pair"], task.seen, task.p)
        result[route] = {
            name: share(int(right[stratum == k].sum()), int((stratum == k).sum()))
            for k, name in enumerate(splits.STRATA)
            if (stratum == k).any()
        }
    return result
