"""Nodes of a circuit of assign-and-add: every part of a model, at positions named by role.

Two routes call the places alike that mean the same to them: the number of an operand stands at `value of lhs`, be
it in the query or in the prefix. All positions without a role are one, `elsewhere`, so that the nodes of a circuit
cover the model. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mechint_arith.circuits.graph import Node, Position
from mechint_arith.circuits.wiring import Masks
from mechint_arith.models.config import ModelConfig
from mechint_arith.tasks.assign_add import ROUTES
from mechint_arith.tasks.batch import Batch

ELSEWHERE = "elsewhere"
"""All positions that have no role: distractors, PADs, `+`."""
TOKENS = {"lhs": ("x", "7"), "rhs": ("y", "12")}
"""Variable and number that stand for all others in diagrams."""


def positions_of(route: str) -> tuple[Position, ...]:
    """Return the positions that have a role on a route, from left to right, with a token that stands for them."""
    form = ROUTES.index(route)
    indirect = {"lhs": form % 2 == 1, "rhs": form >= 2}
    prefix, query = [], []
    for side, (variable, number) in TOKENS.items():
        value = Position(f"value of {side}", number)
        if indirect[side]:
            prefix += [Position(f"variable of {side}", variable), value]
            query.append(Position(side, variable))
        else:
            query.append(value)
    return (*prefix, Position(ELSEWHERE, "…"), *query, Position("equals", "="))


def masks(batch: Batch, route: str) -> Masks:
    """Return where each position of `positions_of` is, bool [batch pos]."""
    columns = torch.arange(batch.tokens.shape[1])
    at = {
        position.name: torch.from_numpy(batch.positions[position.name])[:, None] == columns
        for position in positions_of(route)
        if position.name != ELSEWHERE
    }
    at[ELSEWHERE] = ~torch.stack(list(at.values())).any(0)
    return at


def nodes_of(
    config: ModelConfig,
    route: str,
    at: Masks,
    changed: Tensor,
    clusters: Mapping[str, Sequence[int]],
) -> tuple[Node, ...]:
    """Return every node of a model: embeddings that differ between the runs, heads and MLPs by position, logits.

    In the last layer only `equals` is read. changed: bool [batch pos], tokens that differ between the runs.
    clusters: node id -> neurons of the last MLP (what follows ` (` is not shown); none: the MLP is one node.
    """
    places = positions_of(route)
    found = [
        Node(f"embedding {place.name}", "embedding", None, place.name, place.label)
        for place in places
        if (at[place.name] & changed).any()
    ]
    for layer in range(config.n_layers):
        last = layer == config.n_layers - 1
        for place in [p for p in places if p.name == "equals" or not last]:
            where = "" if last else f" {place.name}"
            for head in range(config.n_heads):
                name, label = f"head {layer}.{head}{where}", f"L{layer}H{head}"
                found.append(Node(name, "head", layer, place.name, label, head))
            if last and clusters:
                found += [
                    Node(name, "neurons", layer, place.name, f"{len(chosen)} {name.split(' (')[0]}")
                    for name, chosen in clusters.items()
                ]
            elif config.d_mlp[layer]:
                label = f"MLP {layer}"
                found.append(Node(f"mlp {layer}{where}", "mlp", layer, place.name, label))
    return (*found, Node("logits", "logits", None, "equals", "logits"))
