"""What every progress measure is given: a folded model, and fixed prompts that all checkpoints share.

The prompts of a series are built once; a checkpoint's forward pass over a pool is done once and read by every
measure. No measure belongs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import SupportsFloat

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.metrics import finite
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.folded import Folded, Run, fold
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks import pools
from mechint_arith.tasks.assign_add import DIRECT, ROUTES, AssignAdd, finish
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.prompts import from_text
from mechint_arith.tasks.vocab import PAD

CHUNK = 500
"""Sequences per forward pass: small enough for a core's cache."""

SEEN = {"direct": "0var_seen", "left": "1var_seen", "right": "1var_seen", "both": "2var_seen"}
"""Route -> the pool whose rows of that form stand for it."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of a series: same task, same seed, same sequences at every checkpoint."""

    task: AssignAdd
    n: int = 2000
    """Sequences per pool."""
    n_cell: int = 200
    """Sequences per cell (variable x side)."""
    seed: int = 0

    @cached_property
    def pools(self) -> Mapping[str, Batch]:
        """Pool -> its sequences, the same as `evaluation.by_pool` draws."""
        names = pools.pool_names(self.task)
        return {
            name: pools.pool(self.task, name, self.n, np.random.default_rng((self.seed, i)))
            for i, name in enumerate(pools.POOLS)
            if name in names
        }

    @cached_property
    def cells(self) -> Batch:
        """One-variable sequences of every cell, seen pairs."""
        rng = np.random.default_rng((self.seed, 100))
        return pools.cells(self.task, self.n_cell, rng)

    @cached_property
    def bare(self) -> Batch:
        """`PAD … PAD + a b =` for every ordered pair, in lexicographic order."""
        task = self.task
        n = task.p**2
        none = np.full(n, -1)
        a, b = np.divmod(np.arange(n), task.p)
        prefix = np.full((n, task.length - 4), task.vocab.ids[PAD], dtype=np.int64)
        return finish(
            task,
            prefix,
            np.full((n, 2), -1),
            np.full(n, DIRECT),
            a,
            b,
            none,
            none,
            np.zeros(n, int),
        )

    @cached_property
    def template_direct(self) -> Batch:
        """Every pair as `a 7 b 2 c 51 PAD … + n1 n2 =`, the fixed prefix of the paper's comparisons."""
        return self._template("{a} {b}", "2")

    @cached_property
    def template_indirect(self) -> Batch:
        """Every pair as `a 7 b n1 c 51 PAD … + b n2 =`."""
        return self._template("b {b}", "{a}")

    def _template(self, query: str, value: str) -> Batch:
        task = self.task
        shown = [f"a {7 % task.p}", f"b {value}", f"c {51 % task.p}"]
        shown = shown[: min(task.n_vars, task.max_assignments)]
        pads = task.length - 4 - 2 * len(shown)
        form = f"{' '.join(shown)} PAD*{pads} + {query} ="
        pairs = (divmod(pair, task.p) for pair in range(task.p**2))
        return from_text(task, [form.format(a=a, b=b) for a, b in pairs])


@dataclass(frozen=True)
class Subject:
    """One checkpoint under measurement."""

    model: Folded
    prompts: Prompts
    _kept: dict[str, Run] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, checkpoint: Checkpoint, prompts: Prompts) -> Subject:
        """Fold a checkpoint for measurement.

        Raises `InputError` for another task than the prompts' and for a model that cannot be folded.
        """
        if checkpoint.task != prompts.task:
            raise InputError(
                f"a series has one task; expected {prompts.task}, got {checkpoint.task}: measure the"
                " checkpoints of different tasks one by one"
            )
        read = prompts.task.places["equals"]
        weights = {name: w.detach() for name, w in checkpoint.weights.items()}
        return cls(fold(checkpoint.config, weights, read=read), prompts)

    @property
    def task(self) -> AssignAdd:
        return self.prompts.task

    def batch(self, name: str) -> Batch:
        """Return a pool, `cells`, `bare` or a template."""
        found = self.prompts.pools.get(name)
        return getattr(self.prompts, name) if found is None else found

    def run(self, name: str) -> Run:
        """Return the (kept) forward pass over a pool, `cells`, `bare` or a template."""
        if name not in self._kept:
            self._kept[name] = forward(self.model, self.batch(name))
        return self._kept[name]

    def route(self, name: str) -> tuple[Batch, Run]:
        """Return the prompts of a route (seen pairs, allowed variables) and the run over them."""
        pool = SEEN[name]
        batch, run = self.prompts.pools[pool], self.run(pool)
        rows = np.flatnonzero(batch.factors["form"] == ROUTES.index(name))
        return batch[rows], rows_of(run, torch.from_numpy(rows))

    def hits(self, name: str) -> np.ndarray:
        """Return bool [batch]: which sequences of a pool, `cells` or `bare` are answered right."""
        return self.run(name).logits.argmax(-1).numpy() == self.batch(name).labels


def forward(model: Folded, batch: Batch) -> Run:
    """Run the model on a batch without gradients, a cache-sized chunk at a time."""
    with torch.no_grad():
        runs = [model(tokens) for tokens in torch.from_numpy(batch.tokens).split(CHUNK)]
    return Run(
        finite(torch.cat([run.logits for run in runs])),
        torch.cat([run.resid_pre for run in runs]),
        torch.cat([run.resid_mid for run in runs]),
        torch.cat([run.post for run in runs]),
        tuple(torch.cat(layer) for layer in zip(*(run.patterns for run in runs), strict=True)),
    )


def rows_of(run: Run, rows: Tensor) -> Run:
    """Return the selected rows of a run."""
    return Run(
        run.logits[rows],
        run.resid_pre[rows],
        run.resid_mid[rows],
        run.post[rows],
        tuple(pattern[rows] for pattern in run.patterns),
    )


def share_of(right: np.ndarray | Tensor) -> Estimate:
    """Return the share of true entries with its Wilson interval."""
    found = np.asarray(right)
    return share(int(found.sum()), found.size)


def exact(value: SupportsFloat, n: int) -> Estimate:
    """Return a number without sampling error, as it follows from the weights or from all n cases."""
    return Estimate(float(value), float(value), float(value), n)


def mean_of(values: np.ndarray | Tensor) -> Estimate:
    """Return the mean of independent rows with a normal interval, ± 1.96 standard errors."""
    x = np.asarray(values, float)
    half = 1.96 * float(x.std(ddof=1)) / np.sqrt(x.size) if x.size > 1 else 0.0
    return Estimate(float(x.mean()), float(x.mean() - half), float(x.mean() + half), x.size)
