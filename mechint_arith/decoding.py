"""Which quantity is decodable where: operands, their sum and variables, at the residual stream and the neurons.

Linear probes on every number pair, split by pair: fitted on the task's training pairs, tested on its held-out ones.
Each stands beside control tasks (a random label per pair), and all are judged together by one declared rule
(`probes.decodable`). On assign-and-add, probes fitted on one route are tested on the other. That something is
decodable does not say that the model uses it: `interventions` asks that.

Sources: Hewitt & Liang 2019, arXiv 1909.03368; the probe of variables at value positions: arXiv 2605.31497.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.metrics import finite
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.reader import reader
from mechint_arith.models.transformer import Transformer
from mechint_arith.modular_accuracy import split_known
from mechint_arith.modular_findings import SCHEMA
from mechint_arith.probes.decodable import Decision, decodable
from mechint_arith.probes.linear import Probe, transfer
from mechint_arith.tasks import task_to_dict
from mechint_arith.tasks.assign_add import AssignAdd, matched
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.modular import ModularTask

ROUTES = ("direct", "both")
PENALTIES = (1e-6, 1e-4, 1e-2, 1.0)
CHUNK = 1024

Sites = dict[str, np.ndarray]


@dataclass(frozen=True)
class Decoding:
    """One quantity at one site."""

    site: str
    """Where: `resid_pre at =`, `value of lhs before the last layer`, …"""
    quantity: str
    """What: `a`, `b`, `sum`, `left variable`."""
    probes: Mapping[tuple[str, str], Probe]
    """(route fitted on, route tested on) -> probe; a modular model has one route."""
    decisions: Mapping[str, Decision]
    """Route -> whether the quantity counts as decodable there."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "site": self.site,
            "quantity": self.quantity,
            "probes": [
                {
                    "fitted_on": fitted,
                    "tested_on": tested,
                    "accuracy": p.accuracy.as_dict(),
                    "control": p.control.as_dict(),
                    "selectivity": p.selectivity.as_dict(),
                    "chance": p.chance,
                    "p_value": p.p_value,
                    "converged": p.converged,
                    "warnings": list(p.warnings),
                }
                for (fitted, tested), p in self.probes.items()
            ],
            "decodable": {
                route: {"decodable": d.decodable, "p_adjusted": d.p_adjusted, "reason": d.reason}
                for route, d in self.decisions.items()
            },
        }


@dataclass(frozen=True)
class Decodings:
    """Everything decoded from one checkpoint."""

    checkpoint: Checkpoint
    provenance: Mapping[str, Any]
    found: tuple[Decoding, ...]
    split: str
    """Which pairs the probes are tested on."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "schema": SCHEMA,
            "kind": "decoding",
            **self.provenance,
            "task": task_to_dict(self.checkpoint.task),
            "step": self.checkpoint.step,
            "split": self.split,
            "rule": "Holm-adjusted p at most .05, accuracy above chance, selectivity above 0",
            "decodings": self.entries(),
        }

    def entries(self) -> list[dict[str, Any]]:
        """One entry per site and quantity, as plain JSON values."""
        return [d.as_dict() for d in self.found]


def decode(
    checkpoint: Checkpoint,
    *,
    kind: str = "ridge",
    n_controls: int = 3,
    seed: int = 0,
    provenance: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Decodings:
    """Probe a modular or assign-and-add checkpoint.

    kind: `ridge` (closed form) or `logistic` (whether it converged is in the result). Raises `InputError` for a
    model of another task.
    """
    task = checkpoint.task
    if isinstance(task, AssignAdd):
        batches = _routes(task, seed)
        held: np.ndarray | None = ~task.seen
    elif isinstance(task, ModularTask):
        batches = {"all": task.batch()}
        held = np.asarray(batches["all"].factors["held"]) if split_known(checkpoint) else None
    else:
        raise InputError("linear probes are for modular and assign-and-add models")
    sites = {route: _sites(checkpoint, batch) for route, batch in batches.items()}
    first = next(iter(batches.values()))
    measured: dict[tuple[str, str], dict[tuple[str, str], Probe]] = {}
    for site, quantity in _questions(task, sites):
        progress(f"{quantity} at {site}")
        activations = {route: found[site] for route, found in sites.items() if site in found}
        labels = {route: _quantity(batches[route], quantity) for route in activations}
        measured[site, quantity] = transfer(
            activations,
            next(iter(labels.values())),
            first.factors["pair"],
            test=held,
            kind=kind,
            n_controls=n_controls,
            penalties=PENALTIES if kind == "ridge" else None,
            seed=seed,
        )
    own = {
        (*at, fitted): probe
        for at, probes in measured.items()
        for (fitted, tested), probe in probes.items()
        if fitted == tested
    }
    judged = decodable({" | ".join(name): probe for name, probe in own.items()})
    found = tuple(
        Decoding(
            site,
            quantity,
            probes,
            {
                route: judged[f"{site} | {quantity} | {route}"]
                for route, to in probes
                if route == to
            },
        )
        for (site, quantity), probes in measured.items()
    )
    split = "30 % of the pairs, at random" if held is None else "the held-out pairs of the task"
    return Decodings(checkpoint, dict(provenance or {}), found, split)


def _routes(task: AssignAdd, seed: int) -> dict[str, Batch]:
    batches = matched(task, np.arange(task.p**2), np.random.default_rng((seed, 600)))
    return {route: batches[route] for route in ROUTES}


@torch.no_grad()
def _sites(checkpoint: Checkpoint, batch: Batch) -> Sites:
    """Return site -> activations [row feature]; value positions only where they are not the query's own."""
    config, weights = checkpoint.config, checkpoint.weights
    model = reader(config, weights, read=batch.read)
    runs = [model(rows) for rows in torch.from_numpy(batch.tokens).split(CHUNK)]
    finite(torch.cat([run.logits for run in runs]))
    found = {
        "resid_pre at =": torch.cat([run.resid_pre for run in runs]),
        "resid_mid at =": torch.cat([run.resid_mid for run in runs]),
        "neurons at =": torch.cat([run.post for run in runs]),
    }
    if "value of lhs" in batch.positions and (batch.positions["variable of lhs"] >= 0).all():
        network = Transformer(config, weights).eval()
        rows = torch.arange(len(batch))
        before = torch.cat(
            [
                network(part, stop_at_layer=config.n_layers - 1)
                for part in torch.from_numpy(batch.tokens).split(CHUNK)
            ]
        )
        for place in ("lhs", "value of lhs"):
            found[f"{place} before the last layer"] = before[
                rows, torch.from_numpy(batch.positions[place])
            ]
    return {name: _numbers(x) for name, x in found.items() if x.shape[1]}


def _numbers(x: Tensor) -> np.ndarray:
    return x.double().numpy()


def _questions(task: Any, sites: Mapping[str, Sites]) -> list[tuple[str, str]]:
    """Return what is asked where: (site, quantity)."""
    shared = set.intersection(*(set(found) for found in sites.values()))
    names = [name for name in next(iter(sites.values())) if name in shared]
    if isinstance(task, ModularTask):
        # Before attention `=` has seen no operand.
        names = [name for name in names if name != "resid_pre at ="]
    questions = [(site, quantity) for site in names for quantity in ("a", "b", "sum")]
    places = [s for found in sites.values() for s in found if s.endswith("before the last layer")]
    return questions + [(s, q) for s in dict.fromkeys(places) for q in ("left variable", "a")]


def _quantity(batch: Batch, name: str) -> np.ndarray:
    if name == "sum":
        return batch.labels
    return np.asarray(batch.factors[name])
