"""Keep or remove frequencies at a site and let the model go on from there.

A site's activations over all number pairs are projected: `keep` leaves their mean and the given frequencies,
otherwise those frequencies go and everything else stays; the mean over pairs stays in both. Sites: `embeddings`
(over the values, in W_E), `mlp_in` and `neurons` (the 3x3 blocks over both operands), `logits` (functions of
a+b). Each effect may stand beside the same done with random other frequencies. Which frequencies matter is found in
`probes`; what else can be patched is in `site`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.metrics import correct, finite, loss
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import Run
from mechint_arith.models.reader import Reader, reader
from mechint_arith.probes.fourier import folded
from mechint_arith.probes.projections import project
from mechint_arith.stats import Estimate, clustered_mean, unordered_pairs
from mechint_arith.tasks.additive import AdditiveView, additive_view
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.tasks.modular import ModularTask

SITES = ("embeddings", "mlp_in", "neurons", "logits")
CHUNK = 4096
"""Sequences per forward pass."""
RESAMPLES = 500


@dataclass(frozen=True, eq=False)
class PairTable:
    """One sequence for every pair (i, j), in the order of numbers in which the answer is i + j."""

    n: int
    """Values per operand."""
    tokens: Tensor
    """int64 [pair pos], i slowest."""
    labels: Tensor
    """int64 [pair]: the right class."""
    read: int
    """Position that is read."""
    numbers: tuple[np.ndarray, ...]
    """Token ids of the values in order, int64 [value]; two of them where the operands have their own."""

    def square(self, rows: Any) -> np.ndarray:
        """Return rows [pair ...] as float64 [i j ...]."""
        values = rows.double().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
        return values.reshape(self.n, self.n, *values.shape[1:])


def modular_table(task: ModularTask, view: AdditiveView | None = None) -> PairTable:
    """Return all pairs of a modular task that has an additive view. Raises `InputError` where it has none."""
    order = view or additive_view(task)
    a, b = order.pairs
    batch = task.batch((a * task.p + b).ravel())
    # In one vocabulary either order does: the other one runs backwards, which changes no frequency.
    numbers = (order.lhs, order.rhs + task.p) if task.diff_vocab else (order.lhs,)
    return PairTable(
        order.n,
        torch.from_numpy(batch.tokens),
        torch.from_numpy(batch.labels),
        batch.read,
        numbers,
    )


def route_tables(task: AssignAdd, *, seed: int = 0) -> dict[str, PairTable]:
    """Return route -> all pairs of an assign-and-add task, matched prompts with random distractors."""
    rng = np.random.default_rng((seed, 400))
    batches = matched(task, np.arange(task.p**2), rng)
    return {
        route: PairTable(
            task.p,
            torch.from_numpy(batches[route].tokens),
            torch.from_numpy(batches[route].labels),
            batches[route].read,
            (np.arange(task.p),),
        )
        for route in ROUTES
    }


@dataclass(frozen=True, eq=False)
class Recorded:
    """A model's run over a table of pairs, from which interventions go on."""

    config: ModelConfig
    weights: Mapping[str, Tensor]
    table: PairTable
    model: Reader
    run: Run


@torch.no_grad()
def record(config: ModelConfig, weights: Mapping[str, Tensor], table: PairTable) -> Recorded:
    """Run a model on all pairs and keep what interventions start from."""
    model = reader(config, weights, read=table.read)
    return Recorded(config, weights, table, model, _run(model, table.tokens))


def _run(model: Reader, tokens: Tensor) -> Run:
    runs = [model(rows) for rows in tokens.split(CHUNK)]
    return Run(
        finite(torch.cat([run.logits for run in runs])),
        torch.cat([run.resid_pre for run in runs]),
        torch.cat([run.resid_mid for run in runs]),
        torch.cat([run.post for run in runs]),
        (),
    )


@dataclass(frozen=True)
class FrequencyEffect:
    """How a model does with some frequencies kept or removed at a site."""

    site: str
    """One of `SITES`; `intact` where nothing was done."""
    frequencies: tuple[int, ...]
    keep: bool
    """Whether they were kept and the others removed, or the reverse."""
    accuracy: Estimate
    """Share of pairs answered right; interval over unordered pairs."""
    loss: Estimate
    """Mean cross entropy in nats; interval over unordered pairs."""
    control: float | None = None
    """Mean accuracy after the same with as many random other frequencies; None where none was asked for."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "site": self.site,
            "frequencies": list(self.frequencies),
            "keep": self.keep,
            "accuracy": self.accuracy.as_dict(),
            "loss": self.loss.as_dict(),
            "control": self.control,
        }


def intact(recorded: Recorded, *, rng: np.random.Generator) -> FrequencyEffect:
    """Return how the model does without an intervention."""
    return FrequencyEffect("intact", (), True, *_score(recorded.table, recorded.run.logits, rng))


def intervene(
    recorded: Recorded,
    frequencies: Iterable[SupportsIndex],
    *,
    site: str,
    keep: bool,
    n_controls: int = 0,
    rng: np.random.Generator,
) -> FrequencyEffect:
    """Keep or remove frequencies at one site, and score what the model then answers.

    n_controls: how many sets of as many random other frequencies to do the same with. Raises `InputError` for
    frequency 0, an unknown site, or a site that the model lacks.
    """
    n = recorded.table.n
    chosen = folded(frequencies, n)
    logits = changed_logits(recorded, chosen, site=site, keep=keep)
    accuracy, losses = _score(recorded.table, logits, rng)
    others = [k for k in range(1, n // 2 + 1) if k not in chosen]
    control = None
    if n_controls and others:
        size = min(len(chosen), len(others))
        sets = [rng.choice(others, size, replace=False).tolist() for _ in range(n_controls)]
        control = float(np.mean([_right(recorded, picked, site, keep).mean() for picked in sets]))
    return FrequencyEffect(site, chosen, keep, accuracy, losses, control)


def _right(recorded: Recorded, frequencies: Iterable[int], site: str, keep: bool) -> np.ndarray:
    logits = changed_logits(recorded, frequencies, site=site, keep=keep)
    return correct(logits, recorded.table.labels).numpy()


@torch.no_grad()
def changed_logits(
    recorded: Recorded, frequencies: Iterable[SupportsIndex], *, site: str, keep: bool
) -> Tensor:
    """Return the logits [pair class] after keeping or removing frequencies at a site.

    Raises `InputError` as `intervene` does.
    """
    model, run, table = recorded.model, recorded.run, recorded.table

    def projected(x: Tensor, over: str) -> Tensor:
        square = project(table.square(x), frequencies, over=over, keep=keep)
        return torch.from_numpy(square.reshape(x.shape)).to(x)

    if site == "embeddings":
        w_e = recorded.weights["embed.W_E"].clone()
        for rows in table.numbers:
            values = project(w_e[rows], frequencies, over="values", keep=keep)
            w_e[rows] = torch.from_numpy(values).to(w_e)
        weights = {**recorded.weights, "embed.W_E": w_e}
        return _run(reader(recorded.config, weights, read=table.read), table.tokens).logits
    if site in ("mlp_in", "neurons") and not run.post.shape[1]:
        raise InputError(f"the model has no MLP, so there is nothing at {site}")
    if site == "mlp_in":
        # The skip connection past the MLP stays as it is.
        post, _ = model.after_mid(projected(run.resid_mid, "blocks"))
        return model.logits_from(run.resid_mid, post)
    if site == "neurons":
        return model.logits_from(run.resid_mid, projected(run.post, "blocks"))
    if site == "logits":
        return projected(run.logits, "sum")
    raise InputError(f"frequencies are changed at {', '.join(SITES)}; got {site!r}")


def _score(table: PairTable, logits: Tensor, rng: np.random.Generator) -> tuple[Estimate, Estimate]:
    i, j = np.divmod(np.arange(table.n**2), table.n)
    cluster = unordered_pairs(i, j)
    right = correct(logits, table.labels).double().numpy()
    losses = loss(logits, table.labels).numpy()
    options: dict[str, Any] = {"n_resamples": RESAMPLES, "rng": rng}
    return (
        clustered_mean(right, cluster, kind="bc", **options),
        clustered_mean(losses, cluster, kind="bc", **options),
    )


def effects(
    recorded: Recorded,
    frequencies: Iterable[SupportsIndex],
    *,
    n_controls: int = 5,
    rng: np.random.Generator,
) -> tuple[FrequencyEffect, ...]:
    """Return the intact model, then frequencies kept and removed at every site the model has."""
    chosen = folded(frequencies, recorded.table.n)
    sites = SITES if recorded.run.post.shape[1] else ("embeddings", "logits")
    return (
        intact(recorded, rng=rng),
        *(
            intervene(recorded, chosen, site=site, keep=keep, n_controls=n_controls, rng=rng)
            for site in sites
            for keep in (True, False)
        ),
    )
