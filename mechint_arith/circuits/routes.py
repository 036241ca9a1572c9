"""Circuits of one route or of two side by side, the last MLP told apart by which route its neurons carry.

That two routes share "the MLP" is true by construction where there is one; whether they share its neurons is not.
So a pair of circuits has a node for the neurons that carry both routes and one for each route's own. Which those
are is decided by exact single-neuron effects, on other prompts than the edges are measured on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from mechint_arith.circuits.measured import (
    COMPETENT,
    N_PAIRS,
    RouteCircuit,
    measure,
    prompts,
)
from mechint_arith.errors import InputError
from mechint_arith.indices import COVER, covering
from mechint_arith.interventions.neurons import ablate_neurons
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import QUERIES, AssignAdd

THRESHOLD = 0.05
"""Smallest |effect| of an edge that is kept, as a share of the metric's gap."""
OTHERS = "other neurons"


def circuits_of(
    model: Transformer,
    task: AssignAdd,
    routes: Sequence[str],
    *,
    threshold: float = THRESHOLD,
    name: str = "",
    n_pairs: int = N_PAIRS,
    direction: str = "noising",
    competent: float = COMPETENT,
    seed: int = 0,
) -> tuple[RouteCircuit, ...]:
    """Measure and prune the circuits of one route, or of two on matched prompts.

    Two routes get nodes for the neurons they share and for each one's own; of the other neurons nothing is
    claimed, so the two circuits do not share that node. Arguments as in `measured.measure`.
    Raises `InputError` where the model is not competent on a route, or nothing is left of its circuit.
    """
    if not 1 <= len(routes) <= 2 or len(set(routes)) < len(routes):
        raise InputError(f"expected one route or two different ones; got {', '.join(routes)}")
    clusters: Mapping[str, list[int]] | None = None
    if len(routes) == 2:
        clusters = neuron_clusters(model, task, *routes, n_pairs=n_pairs, seed=seed)
    found = []
    for route in routes:
        neurons = None
        if clusters is not None:
            apart = {OTHERS: f"{OTHERS} ({route})"}
            neurons = {apart.get(k, k): chosen for k, chosen in clusters.items()}
        measured = measure(
            model,
            task,
            route,
            name=name,
            n_pairs=n_pairs,
            direction=direction,
            neurons=neurons,
            competent=competent,
            seed=seed,
        )
        found.append(measured.pruned(threshold))
    return tuple(found)


def neuron_clusters(
    model: Transformer,
    task: AssignAdd,
    route_a: str,
    route_b: str,
    *,
    n_pairs: int = N_PAIRS,
    seed: int = 0,
) -> dict[str, list[int]] | None:
    """Return the last MLP's neurons by what they carry: shared, one route only, neither; empty clusters are left out.

    A route is carried by the smallest set of neurons that holds 95 % of the positive effect on the mean margin.
    None where single neurons have no exact effect (no MLP in the last layer, or a norm behind it).
    """
    config = model.config
    if not config.d_mlp[-1] or config.norm != "none":
        return None
    clean, _ = prompts(task, n_pairs, seed, apart=True)
    one, two = (
        covering(torch.from_numpy(-ablate_neurons(model, clean[route]).change.mean(-1)), COVER)
        for route in (route_a, route_b)
    )
    clusters = {
        "shared neurons": one & two,
        f"neurons for {QUERIES[route_a]} only": one & ~two,
        f"neurons for {QUERIES[route_b]} only": two & ~one,
        OTHERS: ~one & ~two,
    }
    return {
        name: np.flatnonzero(chosen.numpy()).tolist()
        for name, chosen in clusters.items()
        if chosen.any()
    }
