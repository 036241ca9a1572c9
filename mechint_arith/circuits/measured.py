"""The circuit of one route of assign-and-add, measured: which edges carry the answer, and how much of it.

Clean prompts are matched ones of seen pairs off the diagonal; each has a corrupted partner with the same layout
and every variable and number changed (`tasks.counterparts`). Noising an edge puts the corrupted write on that edge
alone, in the clean run; denoising the clean write, in the corrupted run. The effect is the share of the metric's
gap between the two runs that this moves (ratio of means; clustered bootstrap over unordered number pairs).
Sources: Wang et al., arXiv 2211.00593, sections 3 and 4; Goldowsky-Dill et al., arXiv 2304.05969.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mechint_arith.circuits import graph_file
from mechint_arith.circuits.faithfulness import completeness_gap
from mechint_arith.circuits.graph import About, Circuit, Edge
from mechint_arith.circuits.places import masks, nodes_of, positions_of
from mechint_arith.circuits.wiring import Ends, Flow, Wiring
from mechint_arith.errors import InputError
from mechint_arith.interventions.contrast import Metric, measuring, named_metric
from mechint_arith.interventions.effects import Axis, Effects, clusters_of
from mechint_arith.interventions.patching import DIRECTIONS
from mechint_arith.metrics import finite
from mechint_arith.models.staged import Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.counterparts import counterparts

COMPETENT = 0.90
"""Lower limit of accuracy from which a circuit is claimed; the verdict's rule uses the same."""
N_PAIRS = 400


@dataclass(frozen=True)
class Faithfulness:
    """What a pruned circuit carries; shares of the gap between the clean and the corrupted run."""

    alone: Estimate
    """Denoising: every edge outside the circuit carries the corrupted run's write (sufficiency; 1: all of it)."""
    without: Estimate
    """Noising: every edge of the circuit does, the others are clean (necessity; 0: nothing is left)."""
    accuracy: Estimate
    """Share right with the circuit alone."""
    gap: float
    """Completeness: largest |circuit without a node - model without it| over the circuit's nodes."""
    worst: str
    """Id of that node."""
    n_edges: int
    """Edges kept."""
    n_all: int
    """Edges measured."""


@dataclass(frozen=True)
class RouteCircuit:
    """A route's pruned circuit and how far it can be trusted."""

    circuit: Circuit
    faithfulness: Faithfulness
    accuracy: Estimate
    """Of the whole model on the clean prompts."""
    n_unsure: int = 0
    """Edges, kept or not, whose interval holds the threshold: other prompts may decide otherwise."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `circuit` is what `graph_file` reads."""
        f = self.faithfulness
        return {
            "route": self.circuit.about.route,
            "accuracy": self.accuracy.as_dict(),
            "n_unsure": self.n_unsure,
            "faithfulness": {
                "alone": f.alone.as_dict(),
                "without": f.without.as_dict(),
                "accuracy": f.accuracy.as_dict(),
                "gap": f.gap,
                "worst": f.worst,
                "n_edges": f.n_edges,
                "n_all": f.n_all,
            },
            "circuit": graph_file.to_json(self.circuit),
        }


class Measurement:
    """Every edge of one route, measured; `pruned` gives the circuit that is left at a threshold."""

    def __init__(
        self,
        model: Transformer,
        clean: Batch,
        corrupted: Batch,
        *,
        route: str,
        name: str = "",
        direction: str = "noising",
        metric: str | Metric = "mean margin",
        neurons: Mapping[str, Sequence[int]] | None = None,
        competent: float = COMPETENT,
        seed: int = 0,
    ) -> None:
        """Measure all edges; arguments as in `measure`, which makes the batches.

        Raises `InputError` where the model is not competent on the clean prompts.
        """
        if direction not in DIRECTIONS:
            raise InputError(f"an edge is measured by {' or '.join(DIRECTIONS)}; got {direction!r}")
        staged = Staged(model, reads_of(clean))
        self.route, self.seed, self.n = route, seed, len(clean)
        self.metric, self.metric_name = named_metric(metric)
        self._measure = measuring(self.metric, clean.labels, corrupted.labels)
        self._labels = clean.labels
        self._clusters = clusters_of(clean)
        self._memory: dict[str, dict[object, Tensor]] = {name: {} for name in DIRECTIONS}
        at = masks(clean, route)
        changed = torch.from_numpy(clean.tokens != corrupted.tokens)
        nodes = nodes_of(model.config, route, at, changed, neurons or {})
        self.wiring = Wiring(staged, nodes, at, neurons)
        with torch.no_grad():
            self.clean, self.corrupted = (
                self.wiring.flow(torch.from_numpy(batch.tokens)) for batch in (clean, corrupted)
            )
        self.accuracy = self._accuracy(finite(self.clean.logits))
        if self.accuracy.low < competent:
            raise InputError(
                f"no circuit is claimed for the {route} route: accuracy {self.accuracy} on seen pairs"
                f" is not clearly above {competent:g}"
            )
        edges = self._edges(direction)
        about = About(route, name, self.metric_name, "resample", direction)
        self.circuit = Circuit(about, positions_of(route), nodes, edges)

    def pruned(self, threshold: float) -> RouteCircuit:
        """Return the circuit of edges with |effect| >= threshold, with its faithfulness.

        Raises `InputError` where nothing is left.
        """
        circuit = self.circuit.prune(threshold)
        if not circuit.edges:
            raise InputError(f"no edge of the {self.route} route has an effect of {threshold:g}")
        kept = {edge.ends for edge in circuit.edges}
        rest = [edge for edge in self.wiring.edges if edge not in kept]
        alone, without = self._logits(rest), self._logits(kept)
        gaps = self._gaps(circuit, rest)
        worst = max(gaps, key=lambda name: gaps[name])
        sufficient, left = self._shares(
            [self._metric_of(alone), self._metric_of(without)], "denoising"
        )
        found = Faithfulness(
            sufficient,
            left,
            self._accuracy(alone),
            gaps[worst],
            worst,
            len(kept),
            len(self.wiring.edges),
        )
        unsure = sum(
            e.low <= cut < e.high for e in self.circuit.edges for cut in (threshold, -threshold)
        )
        return RouteCircuit(circuit, found, self.accuracy, unsure)

    def _gaps(self, circuit: Circuit, rest: Sequence[Ends]) -> dict[str, float]:
        """Return the incompleteness score of each single node of a circuit but the logits."""
        full, none = (self._mean(flow.logits) for flow in (self.clean, self.corrupted))
        gaps = {}
        for node in circuit.nodes:
            if node.kind == "logits":
                continue
            out = [edge for edge in self.wiring.edges if edge[0] == node.id]
            alone, whole = (self._mean(self._logits(cut)) for cut in ({*rest, *out}, out))
            gaps[node.id] = completeness_gap(alone, whole, full, none).value or 0.0
        return gaps

    def _edges(self, direction: str) -> tuple[Edge, ...]:
        unit = "share of the gap clean − corrupted"
        edges = self.wiring.edges
        values = [self._metric_of(self._logits([edge], direction)) for edge in edges]
        return tuple(
            Edge(*ends, e.value, e.low, e.high, e.n, unit)
            for ends, e in zip(edges, self._shares(values, direction), strict=True)
        )

    def _logits(self, cut: Collection[Ends], direction: str = "noising") -> Tensor:
        """Return the logits with some edges carrying the other run's writes."""
        with torch.no_grad():
            return self.wiring.run(*self._turned(direction), cut, memory=self._memory[direction])

    def _turned(self, direction: str) -> tuple[Flow, Flow]:
        """Return base and other run."""
        runs = (self.clean, self.corrupted)
        return runs if direction == "noising" else runs[::-1]

    def _metric_of(self, logits: Tensor) -> np.ndarray:
        return self._measure(logits[:, None], torch.arange(self.n)).numpy()

    def _mean(self, logits: Tensor) -> float:
        return float(self._metric_of(logits).mean())

    def _accuracy(self, logits: Tensor) -> Estimate:
        right = logits.argmax(-1).numpy() == self._labels
        return share(int(right.sum()), self.n)

    def _shares(self, values: Sequence[np.ndarray], direction: str) -> list[Estimate]:
        """Return the share of the gap from base to other run that each metric [batch] has covered."""
        base, other = (self._metric_of(flow.logits) for flow in self._turned(direction))
        table = Effects(
            (Axis("cut", tuple(range(len(values)))),),
            np.stack(values),
            base,
            other,
            self._clusters,
            np.arange(self.n),
            self.metric_name,
            "edges of a circuit",
        )
        found = table.summary("ratio of means", seed=self.seed)
        ends = zip(found.value, found.low, found.high, found.n, strict=True)
        return [Estimate(float(v), float(low), float(high), int(n)) for v, low, high, n in ends]


def measure(
    model: Transformer,
    task: AssignAdd,
    route: str,
    *,
    name: str = "",
    n_pairs: int = N_PAIRS,
    direction: str = "noising",
    metric: str | Metric = "mean margin",
    neurons: Mapping[str, Sequence[int]] | None = None,
    competent: float = COMPETENT,
    seed: int = 0,
) -> Measurement:
    """Measure every edge of a route on `n_pairs` clean and corrupted prompts.

    name: identifies the model in the result. neurons: node id (`shared neurons`) -> neurons of the last
    MLP that make one node together; by default the whole MLP is one. One seed gives all routes matched prompts.
    Raises `InputError` for an unknown route, a model that is not competent on it, and a task too small.
    """
    if route not in ROUTES:
        raise InputError(f"no route {route!r}: choose from {', '.join(ROUTES)}")
    clean, corrupted = prompts(task, n_pairs, seed)
    return Measurement(
        model,
        clean[route],
        corrupted[route],
        route=route,
        name=name,
        direction=direction,
        metric=metric,
        neurons=neurons,
        competent=competent,
        seed=seed,
    )


def prompts(
    task: AssignAdd, n_pairs: int, seed: int, *, apart: bool = False
) -> tuple[dict[str, Batch], dict[str, Batch]]:
    """Return clean and corrupted prompts of every route, all rows matched: seen pairs off the diagonal.

    apart: others of the same kind, to choose on what these are then to judge.
    """
    rng = np.random.default_rng((seed, 501 if apart else 500))
    seen = task.pairs(held=False)
    seen = seen[np.divmod(seen, task.p)[0] != np.divmod(seen, task.p)[1]]
    pair = np.resize(rng.permutation(seen), n_pairs)
    clean = matched(task, pair, rng)
    return clean, counterparts(task, clean, rng)
