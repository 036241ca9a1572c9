"""Frequencies of an assign-and-add model: of its embeddings, of every route, and whether routes agree.

Nothing is claimed of a route that is not competent: whose accuracy over all number pairs has a lower limit below
`COMPETENT`. `RouteFindings.as_dict` is what `mechint-arith fourier` writes for such a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.interventions.frequencies import (
    FrequencyEffect,
    effects,
    intact,
    record,
    route_tables,
)
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.reader import reader
from mechint_arith.modular_findings import COMPETENT, SCHEMA
from mechint_arith.probes.fourier import Spectrum, spectrum
from mechint_arith.probes.key_frequencies import KeyFrequencies, key_frequencies
from mechint_arith.probing import FrequencyAgreement, RouteFrequencies, route_frequencies
from mechint_arith.stats import Estimate
from mechint_arith.tasks import task_to_dict
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd


@dataclass(frozen=True, eq=False)
class RouteFindings:
    """What was found on one checkpoint."""

    checkpoint: Checkpoint
    provenance: Mapping[str, Any]
    accuracy: Mapping[str, Estimate]
    """Route -> accuracy over all number pairs, one prompt each; interval over unordered pairs."""
    embedding: Spectrum
    embedding_key: KeyFrequencies
    routes: Mapping[str, RouteFrequencies]
    """Competent route -> key frequencies of its logits, the mean over classes removed."""
    agreement: Mapping[str, FrequencyAgreement]
    """Pair of competent routes -> agreement of their neurons' frequencies and phases."""
    effects: Mapping[str, tuple[FrequencyEffect, ...]]
    """Competent route -> its key frequencies kept and removed at each site."""
    no_circuit: str | None
    """Why no circuit is claimed of some route, or None."""

    @property
    def common(self) -> tuple[int, ...]:
        """Frequencies that are key on every competent route, in the order of the first."""
        lists = [f.frequencies for f in self.routes.values()]
        return tuple(k for k in lists[0] if all(k in other for other in lists)) if lists else ()

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        source = self.checkpoint.meta.get("source") or {}
        measures = ("frequency", "phase", "spectrum")
        return {
            "schema": SCHEMA,
            "kind": "assign-add frequencies",
            **self.provenance,
            "layout": source.get("layout", "mechint-arith"),
            "ignored_keys": source.get("ignored", []),
            "model": self.checkpoint.config.as_dict(),
            "task": task_to_dict(self.checkpoint.task),
            "step": self.checkpoint.step,
            "seed": self.checkpoint.seed,
            "accuracy": {name: e.as_dict() for name, e in self.accuracy.items()},
            "frequencies": list(self.embedding.strongest(10)),
            "embedding": {
                "key": list(self.embedding_key.frequencies),
                "shares": [round(float(x), 6) for x in self.embedding.shares],
                "null": self.embedding_key.statement,
            },
            "reason": self.no_circuit,
            "routes": {
                name: {
                    "key": list(f.frequencies),
                    "shares": [round(float(x), 6) for x in f.shares],
                    "null": f.null,
                }
                for name, f in self.routes.items()
            },
            "common": list(self.common),
            "agreement": {
                name: {
                    m: {**getattr(a, m).as_dict(), "chance": getattr(a, f"{m}_chance")}
                    for m in measures
                }
                for name, a in self.agreement.items()
            },
            "interventions": {
                name: [e.as_dict() for e in found] for name, found in self.effects.items()
            },
        }


def measure(
    checkpoint: Checkpoint,
    *,
    quick: bool = False,
    seed: int = 0,
    provenance: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> RouteFindings:
    """Measure the frequencies of an assign-and-add checkpoint; `quick` leaves interventions out.

    Raises `InputError` for a model of another task.
    """
    task = checkpoint.task
    if not isinstance(task, AssignAdd):
        raise InputError("routes belong to assign-and-add models")
    progress("accuracy")
    rng = np.random.default_rng((seed, 510))
    recorded = {
        route: record(checkpoint.config, checkpoint.weights, table)
        for route, table in route_tables(task, seed=seed).items()
    }
    accuracy = {route: intact(found, rng=rng).accuracy for route, found in recorded.items()}
    competent = [route for route in ROUTES if accuracy[route].low >= COMPETENT]
    progress("frequencies")
    rows = checkpoint.weights["embed.W_E"][: task.p]
    model = reader(checkpoint.config, checkpoint.weights, read=task.places["equals"])
    routes, agreement = route_frequencies(model, task, competent, seed) if competent else ({}, {})
    found: dict[str, tuple[FrequencyEffect, ...]] = {}
    for route in competent if not quick else ():
        progress(f"interventions on {route}")
        if routes[route].frequencies:
            key = routes[route].frequencies
            found[route] = effects(recorded[route], key, n_controls=2, rng=rng)
    left_out = [route for route in ROUTES if route not in competent]
    reason = None
    if left_out:
        listed = ", ".join(f"{route} {accuracy[route]}" for route in left_out)
        reason = f"accuracy over all pairs is below {COMPETENT} on {listed}: no circuit is claimed"
    return RouteFindings(
        checkpoint,
        dict(provenance or {}),
        accuracy,
        spectrum(rows),
        key_frequencies(rows, rng=rng),
        routes,
        agreement,
        found,
        reason,
    )
