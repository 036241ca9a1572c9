"""Everything `mechint-arith fourier` and `probe` find out about a modular checkpoint, as one value.

A circuit is claimed only of a model that is competent: whose accuracy on held-out pairs (on all pairs, where the
split is not known) has a lower limit of at least `COMPETENT`. Spectra are shown in any case. Writes and prints
nothing; `ModularFindings.as_dict` is the schema of `results.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mechint_arith import modular_circuit as parts
from mechint_arith.errors import InputError
from mechint_arith.interventions.frequencies import (
    FrequencyEffect,
    effects,
    modular_table,
    record,
)
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.modular_accuracy import scores, split_known
from mechint_arith.modular_circuit import Circuit, Frequencies, Progress
from mechint_arith.probes.frequencies import NeuronFrequencies
from mechint_arith.stats import Estimate
from mechint_arith.tasks import task_to_dict
from mechint_arith.tasks.additive import additive_view, why_not_additive
from mechint_arith.tasks.modular import ModularTask

if TYPE_CHECKING:
    from mechint_arith.decoding import Decodings

SCHEMA = 1
COMPETENT = 0.90
"""Least lower limit of accuracy for a circuit to be claimed."""


@dataclass(frozen=True, eq=False)
class ModularFindings:
    """What was found on one modular checkpoint."""

    checkpoint: Checkpoint
    provenance: Mapping[str, Any]
    """File, its sha256, command, versions, how it was read."""
    accuracy: Mapping[str, Estimate]
    """`all`, and where the split is known `seen`, `held` and the strata of held-out pairs."""
    loss: Mapping[str, float]
    """Mean cross entropy in nats over the same pairs as `all`, `seen`, `held`."""
    order: str | None
    """In which order of numbers the task is addition; None where it is in none."""
    frequencies: Frequencies | None
    neurons: NeuronFrequencies | None
    progress: Progress | None
    circuit: Circuit | None
    effects: tuple[FrequencyEffect, ...]
    """Key frequencies kept and removed at each site; empty where no circuit is claimed."""
    no_circuit: str | None
    """Why no circuit is claimed, or None."""
    decoded: Decodings | None = None
    """What linear probes find; None where there are none."""
    not_decoded: str = "left out; `mechint-arith decode` gives them"
    """Why there are no linear probes, where there are none."""

    @property
    def kind(self) -> str:
        """`clock`, `pizza`, `neither clearly`, or `none` where no circuit is claimed."""
        return "none" if self.circuit is None else self.circuit.kind

    @property
    def clusters(self) -> dict[int, int]:
        """Frequency -> number of neurons of which it explains most; empty where no circuit is claimed."""
        if self.neurons is None or self.circuit is None:
            return {}
        found = self.neurons.clusters(least=parts.CLUSTERED)
        return {k: len(neurons) for k, neurons in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: the schema of `results.json`."""
        source = self.checkpoint.meta.get("source") or {}
        f = self.frequencies
        return {
            "schema": SCHEMA,
            "kind": "modular",
            **self.provenance,
            "layout": source.get("layout", "mechint-arith"),
            "ignored_keys": source.get("ignored", []),
            "dtype": source.get("dtype", "float32"),
            "model": self.checkpoint.config.as_dict(),
            "task": task_to_dict(self.checkpoint.task),
            "step": self.checkpoint.step,
            "seed": self.checkpoint.seed,
            "accuracy": {name: e.as_dict() for name, e in self.accuracy.items()},
            "loss": dict(self.loss),
            "order": self.order,
            "frequencies": [] if f is None else list(f.strongest),
            "embedding": None if f is None else _key(f.embedding_key),
            "logits": None
            if f is None
            else {
                "key": list(f.logits.frequencies),
                "shares": _rounded(f.logits.shares),
                "sum_shares": _rounded(f.logits.sum_shares),
                "null": f.logits.lhs.statement,
            },
            "circuit": {
                "claimed": self.circuit is not None,
                "reason": self.no_circuit,
                "kind": self.kind,
                "key_frequencies": list(f.key) if f is not None and self.circuit else [],
                "neuron_clusters": {str(k): n for k, n in self.clusters.items()},
                "clock_or_pizza": None if self.circuit is None else _circuit(self.circuit),
                "interventions": [e.as_dict() for e in self.effects],
            },
            "neurons": None
            if self.neurons is None
            else {
                "frequency": self.neurons.frequency.tolist(),
                "fraction": _rounded(self.neurons.fraction),
            },
            "progress": None if self.progress is None else parts.progress_dict(self.progress),
            "decoding": {"reason": self.not_decoded, "decodings": []}
            if self.decoded is None
            else {"reason": None, "decodings": self.decoded.entries()},
        }


def _key(found: Any) -> dict[str, Any]:
    return {
        "key": list(found.frequencies),
        "periods": list(found.periods),
        "shares": _rounded(found.shares),
        "floor": found.floor,
        "null": found.statement,
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(x), 6) for x in values]


def _circuit(found: Circuit) -> dict[str, Any]:
    return {
        "gradient_symmetricity": found.symmetricity.mean.as_dict(),
        "distance_irrelevance": found.distance_irrelevance.mean.as_dict(),
        "circularity": found.circularity.mean,
        "rule": {"clock": list(parts.CLOCK), "pizza": list(parts.PIZZA)},
    }


def measure(
    checkpoint: Checkpoint,
    *,
    quick: bool = False,
    seed: int = 0,
    frequencies: tuple[int, ...] | None = None,
    provenance: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> ModularFindings:
    """Measure a modular checkpoint.

    quick: no interventions, and no measures by gradient. frequencies: those of the progress measures; by default
    the model's own key ones. Raises `InputError` for a model of another task.
    """
    task = checkpoint.task
    if not isinstance(task, ModularTask):
        raise InputError("this is no modular model: mechint-arith probe reads it")
    progress("accuracy")
    known = split_known(checkpoint)
    accuracy, losses = scores(checkpoint, known=known)
    reason = why_not_additive(task)
    found: dict[str, Any] = {
        "order": None,
        "frequencies": None,
        "neurons": None,
        "progress": None,
        "circuit": None,
        "effects": (),
    }
    if reason is None:
        try:
            reason = _analyse(
                checkpoint, task, accuracy, found, known, quick, seed, frequencies, progress
            )
        except InputError as error:
            # Weights that are constant, or blind to an operand, have no spectrum: that is a finding.
            reason = str(error)
    if reason is not None and "op" in (checkpoint.meta.get("source") or {}).get("assumed", {}):
        reason += "; the operation was assumed, --op says another"
    if reason is None and quick:
        reason = "left out with --quick"
    return ModularFindings(
        checkpoint, dict(provenance or {}), accuracy, losses, no_circuit=reason, **found
    )


def _analyse(
    checkpoint: Checkpoint,
    task: ModularTask,
    accuracy: Mapping[str, Estimate],
    found: dict[str, Any],
    known: bool,
    quick: bool,
    seed: int,
    frequencies: tuple[int, ...] | None,
    progress: Callable[[str], None],
) -> str | None:
    """Fill in what is found out about the additive view; return why no circuit is claimed, or None."""
    view = additive_view(task)
    found["order"] = view.statement
    recorded = record(checkpoint.config, checkpoint.weights, modular_table(task, view))
    progress("frequencies")
    spectra = parts.frequencies(recorded, view, rng=np.random.default_rng((seed, 500)))
    found |= {"frequencies": spectra, "neurons": parts.neuron_clusters(recorded)}
    train = task.seen.reshape(task.p, task.p)[view.pairs] if known else None
    chosen = spectra.key if frequencies is None else frequencies
    found["progress"] = parts.progress(recorded, view, chosen, train=train)
    if (reason := _why_no_claim(accuracy, spectra)) or quick:
        return reason
    progress("clock or pizza")
    circuit = parts.circuit(recorded, view, rng=np.random.default_rng((seed, 501)))
    progress("interventions")
    rng = np.random.default_rng((seed, 502))
    found |= {"circuit": circuit, "effects": effects(recorded, spectra.key, n_controls=2, rng=rng)}
    return None


def _why_no_claim(accuracy: Mapping[str, Estimate], spectra: Frequencies) -> str | None:
    judged = "held" if "held" in accuracy else "all"
    if accuracy[judged].low < COMPETENT:
        return f"accuracy on {judged} pairs is {accuracy[judged]}: below {COMPETENT} no circuit is claimed"
    if not spectra.key:
        return "no frequency stands out of the null, so no circuit is claimed"
    return None
