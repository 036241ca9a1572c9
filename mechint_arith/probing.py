"""Everything `mechint-arith probe` finds out about an assign-and-add checkpoint, as one value.

Measures and judges by calling the layers above; writes and prints nothing. `Findings.as_dict` is the schema of
`results.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mechint_arith import evaluation, sharing, verdict
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.reader import Reader, reader
from mechint_arith.sharing import JUDGED, Evidence, PairEvidence, RouteEvidence
from mechint_arith.stats import Estimate
from mechint_arith.tasks import task_to_dict
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.verdict import PairVerdict, Thresholds, Verdict

if TYPE_CHECKING:
    from mechint_arith.circuits.measured import RouteCircuit

SCHEMA = 1


@dataclass(frozen=True)
class RouteFrequencies:
    """Key frequencies of one route's logits over all number pairs, the mean over classes removed."""

    frequencies: tuple[int, ...]
    """Strongest first; empty where none stands out of the null."""
    shares: np.ndarray
    """float [freq]: energy in the block of each frequency over the energy of all, entry 0 being 0."""
    null: str
    """What key frequencies are told from."""


@dataclass(frozen=True)
class FrequencyAgreement:
    """Do two routes' neurons use the same frequencies? It tells copies of one algorithm from two algorithms."""

    frequency: Estimate
    """Energy-weighted share of neurons with one dominant frequency on both routes."""
    frequency_chance: float
    phase: Estimate
    """Energy-weighted mean cosine of phase shifts, 0 where frequencies differ."""
    phase_chance: float
    spectrum: Estimate
    """Overlap of the route-level spectra of the neurons."""
    spectrum_chance: float


@dataclass(frozen=True, repr=False)
class Findings:
    """What a probe found on one checkpoint."""

    checkpoint: Checkpoint
    provenance: Mapping[str, Any]
    """File, its sha256, command, versions, the split assumed."""
    accuracy: Mapping[str, Estimate]
    """Pool -> accuracy."""
    cells: Mapping[str, Estimate]
    """`a left` … -> accuracy of one-variable queries on seen pairs."""
    restricted: tuple[str, ...]
    """The cells that training never shows."""
    strata: Mapping[str, Mapping[str, Estimate]]
    """Route -> stratum of held-out pairs -> accuracy."""
    evidence: Evidence
    verdict: Verdict
    frequencies: Mapping[str, RouteFrequencies]
    """Route -> key frequencies; empty where no claim is made."""
    agreement: Mapping[str, FrequencyAgreement]
    """Judged pair of routes -> agreement of frequencies; empty where no claim is made."""
    no_frequencies: str | None
    """Why no frequencies are given, or None."""
    circuits: tuple[RouteCircuit, ...] = ()
    """The direct and the two-variable route's, measured on matched prompts; empty where no claim is made."""
    no_circuit: str | None = None
    """Why no circuits are given, or None."""

    def __repr__(self) -> str:
        """Return checkpoint, accuracies and verdict in a few lines."""
        step = "" if self.checkpoint.step is None else f"step {self.checkpoint.step}, "
        pools = ", ".join(f"{name} {e.value:.3f}" for name, e in self.accuracy.items())
        return (
            f"Findings(p = {self.checkpoint.task.vocab.n_numbers}, {step}"
            f"{self.evidence.n_pairs} number pairs\n  accuracy: {pools}\n  {self.verdict!r})"
        )

    @property
    def assumed(self) -> str:
        """The split as it had to be assumed where the file does not say it: `split_seed 42, …`; else empty."""
        assumed = (self.provenance.get("source") or {}).get("assumed", {})
        return ", ".join(f"{name} {value}" for name, value in assumed.items())

    @property
    def accuracy_with_diagonal(self) -> dict[str, Estimate]:
        """Pool -> accuracy, and below each held-out pool that of its sums a + a, which hide in its mean."""
        diagonal = {
            "0var_held": {"0var_held a + a": "direct"},
            "1var_held": {"1var_held a + a left": "left", "1var_held a + a right": "right"},
            "2var_held": {"2var_held a + a": "both"},
        }
        found = {}
        for pool, accuracy in self.accuracy.items():
            found[pool] = accuracy
            for name, route in diagonal.get(pool, {}).items():
                if "diagonal" in self.strata.get(route, {}):
                    found[name] = self.strata[route]["diagonal"]
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: the schema of `results.json`, described in docs/results.md."""
        return {
            "schema": SCHEMA,
            "kind": "assign-add",
            **self.provenance,
            "model": self.checkpoint.config.as_dict(),
            "task": task_to_dict(self.checkpoint.task),
            "step": self.checkpoint.step,
            "seed": self.checkpoint.seed,
            "verdict": self.verdict.as_dict(),
            "accuracy": _estimates(self.accuracy),
            "cells": _estimates(self.cells),
            "restricted_cells": list(self.restricted),
            "strata": {route: _estimates(found) for route, found in self.strata.items()},
            "sharing": {
                "index": self.verdict.index.as_dict(),
                "pairs": {
                    name: _pair_dict(pair, self.verdict.pairs[name])
                    for name, pair in self.evidence.pairs.items()
                },
                "routes": {
                    name: _route_dict(route) for name, route in self.evidence.routes.items()
                },
                "n_prompts": self.evidence.n_prompts,
                "n_pairs": self.evidence.n_pairs,
                "n_resamples": self.evidence.n_resamples,
            },
            "frequencies": {
                "reason": self.no_frequencies,
                "routes": {
                    name: {
                        "key": list(f.frequencies),
                        "shares": [round(float(x), 6) for x in f.shares],
                        "null": f.null,
                    }
                    for name, f in self.frequencies.items()
                },
                "agreement": {
                    name: {
                        measure: {
                            **getattr(a, measure).as_dict(),
                            "chance": getattr(a, f"{measure}_chance"),
                        }
                        for measure in ("frequency", "phase", "spectrum")
                    }
                    for name, a in self.agreement.items()
                },
            },
            "circuits": {
                "reason": self.no_circuit,
                "routes": {one.circuit.about.route: one.as_dict() for one in self.circuits},
            },
        }


def _estimates(values: Mapping[str, Estimate | None]) -> dict[str, Any]:
    return {name: None if e is None else e.as_dict() for name, e in values.items()}


def _pair_dict(pair: PairEvidence, judged: PairVerdict) -> dict[str, Any]:
    return {
        "verdict": judged.name,
        "reason": judged.reason,
        "branch": judged.branch,
        **_estimates({k: getattr(pair, k) for k in ("sigma", "swap", "overlap", "act")}),
        "overlap_null": pair.overlap_null,
        "shared_count": pair.shared_count,
        "spearman": pair.spearman,
        "interchange": _estimates(pair.interchange),
    }


def _route_dict(route: RouteEvidence) -> dict[str, Any]:
    names = [
        *("accuracy", "accuracy_held", "accuracy_diagonal", "zeroed", "mean_own", "mean_pooled"),
        *("resampled", "mlp_only", "keep_set", "margin"),
    ]
    return {
        **_estimates({name: getattr(route, name) for name in names}),
        "negative_share": route.negative_share,
        "n_neurons": len(route.effect),
        "n_active": int(route.active.sum()),
        "n_chosen": int(route.chosen.sum()),
        "effect": [round(float(x), 6) for x in route.effect],
    }


Progress = Callable[[str], None]


def probe(
    checkpoint: Checkpoint,
    *,
    quick: bool = False,
    seed: int = 0,
    thresholds: Thresholds | None = None,
    provenance: Mapping[str, Any] | None = None,
    progress: Progress = lambda stage: None,
) -> Findings:
    """Measure and judge an assign-and-add checkpoint.

    `quick` uses at most 1,000 number pairs for the sharing evidence and leaves the frequencies out; every
    accuracy pool keeps its 2,000 sequences. Raises `InputError` for a model of another task.
    """
    task = checkpoint.task
    if not isinstance(task, AssignAdd):
        raise InputError("probe's sharing verdict needs an assign-and-add model")
    if seed < 0:
        raise InputError(f"the seed cannot be negative: {seed}")
    model = reader(checkpoint.config, checkpoint.weights, read=task.places["equals"])

    def predict(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens).logits

    from mechint_arith.tasks import pools

    progress("accuracy")
    accuracy = evaluation.by_pool(predict, task, seed)
    cells = evaluation.by_cell(predict, task, seed)
    restricted = tuple(
        pools.cell_name(task, c) for c in range(2 * task.n_vars) if pools.is_restricted(task, c)
    )
    strata = evaluation.by_stratum(predict, task, seed)
    progress("sharing")
    found = sharing.evidence(model, task, quick=quick, seed=seed)
    judged = verdict.judge(found, thresholds)
    frequencies: dict[str, RouteFrequencies] = {}
    agreement: dict[str, FrequencyAgreement] = {}
    competent = [
        name for name, r in found.routes.items() if r.accuracy.low >= judged.thresholds.competent
    ]
    reason = None
    if quick:
        reason = "left out with --quick"
    elif not competent:
        reason = "no route is competent, so no circuit is claimed"
    else:
        progress("frequencies")
        frequencies, agreement = route_frequencies(model, task, competent, seed)
    circuits: tuple[RouteCircuit, ...] = ()
    no_circuit: str | None = "left out with --quick"
    if not quick:
        progress("circuit")
        circuits, no_circuit = _circuits(checkpoint, task, judged, provenance or {}, seed)
    return Findings(
        checkpoint,
        dict(provenance or {}),
        accuracy,
        cells,
        restricted,
        strata,
        found,
        judged,
        frequencies,
        agreement,
        reason,
        circuits,
        no_circuit,
    )


def _circuits(
    checkpoint: Checkpoint,
    task: AssignAdd,
    judged: Verdict,
    provenance: Mapping[str, Any],
    seed: int,
) -> tuple[tuple[RouteCircuit, ...], str | None]:
    """Return the circuits of the direct and the two-variable route, or why none is claimed."""
    from mechint_arith.circuits.routes import circuits_of
    from mechint_arith.models.transformer import Transformer

    model = Transformer(checkpoint.config, checkpoint.weights).eval().requires_grad_(False)
    try:
        found = circuits_of(
            model,
            task,
            ("direct", "both"),
            name=str(provenance.get("sha256", "")),
            competent=judged.thresholds.competent,
            seed=seed,
        )
    except InputError as reason:
        return (), str(reason)
    return found, None


def route_frequencies(
    model: Reader, task: AssignAdd, routes: list[str], seed: int
) -> tuple[dict[str, RouteFrequencies], dict[str, FrequencyAgreement]]:
    """Return route -> key frequencies of its logits, and judged pair -> agreement of their neurons.

    Over all number pairs, one matched prompt each; routes: those that are competent.
    """
    from mechint_arith.probes.key_frequencies import Null, pair_key_frequencies
    from mechint_arith.probes.routes import compare_routes

    p = task.p
    batches = matched(task, np.arange(p * p), np.random.default_rng((seed, 400)))
    logits, neurons = {}, {}
    with torch.no_grad():
        for route in routes:
            run = model(torch.from_numpy(batches[route].tokens))
            centred = run.logits - run.logits.mean(1, keepdim=True)
            logits[route] = centred.double().unflatten(0, (p, p)).numpy()
            neurons[route] = run.post.double().unflatten(0, (p, p)).numpy()
    found = {}
    for route in routes:
        rng = np.random.default_rng((seed, 401, ROUTES.index(route)))
        key = pair_key_frequencies(logits[route], null=Null(n_permutations=199), rng=rng)
        found[route] = RouteFrequencies(key.frequencies, key.shares, key.lhs.statement)
    agreement = {}
    for name in JUDGED:
        one, two = name.split("-")
        if one in neurons and two in neurons:
            rng = np.random.default_rng((seed, 402, ROUTES.index(two)))
            c = compare_routes(neurons[one], neurons[two], rng=rng, n_groups=20, n_null=100)
            agreement[name] = FrequencyAgreement(
                c.frequency.estimate,
                c.frequency.chance,
                c.phase.estimate,
                c.phase.chance,
                c.spectrum.estimate,
                c.spectrum.chance,
            )
    return found, agreement
