"""Circuits to draw: random ones, and a small pair of routes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mechint_arith.circuits.graph import About, Circuit, Edge, Node, Position

ABOUT = About("direct", "0" * 64, "mean margin", "zero", "noising", 0.25)


def edge(sender, receiver, effect):
    return Edge(sender, receiver, effect, effect - 0.1, effect + 0.1, 100, "logits")


@pytest.fixture
def random_circuit() -> Callable[..., Circuit]:
    """A function that makes a valid circuit of random nodes and edges over five positions."""

    def make(seed, *, n_nodes=12, n_edges=25):
        rng = np.random.default_rng(seed)
        names = [f"p{i}" for i in range(5)]
        nodes = [Node("logits", "logits", None, names[-1], "logits")]
        for i in range(n_nodes):
            kind = str(rng.choice(["embedding", "head", "mlp", "neurons"]))
            layer = None if kind == "embedding" else int(rng.integers(3))
            head = i if kind == "head" else None
            nodes.append(Node(f"n{i}", kind, layer, str(rng.choice(names)), f"{kind} {i}", head))
        chosen = {}
        for _ in range(n_edges):
            a, b = (nodes[i] for i in rng.choice(len(nodes), 2, replace=False))
            if a.height != b.height:
                low, high = sorted((a, b), key=lambda node: node.height)
                chosen[low.id, high.id] = edge(low.id, high.id, float(rng.normal()))
        positions = tuple(Position(name, name) for name in names)
        return Circuit(ABOUT, positions, tuple(nodes), tuple(chosen.values()))

    return make


@pytest.fixture
def pair() -> tuple[Circuit, Circuit]:
    """Two routes that share a head, an MLP, the logits and the edges between these."""
    positions = (Position("lhs", "7"), Position("rhs", "12"), Position("equals", "="))
    nodes = (
        Node("lhs", "embedding", None, "lhs", "7"),
        Node("rhs", "embedding", None, "rhs", "12"),
        Node("L1H0", "head", 1, "equals", "L1H0", 0),
        Node("MLP 1", "mlp", 1, "equals", "MLP 1"),
        Node("logits", "logits", None, "equals", "logits"),
    )
    edges = (
        edge("lhs", "L1H0", 3.0),
        edge("rhs", "L1H0", 2.5),
        edge("L1H0", "MLP 1", 6.0),
        edge("L1H0", "logits", -1.5),
        edge("MLP 1", "logits", 8.0),
    )
    direct = Circuit(ABOUT, positions, nodes, edges)
    indirect = Circuit(
        replace(ABOUT, route="indirect"),
        (Position("variable", "x"), Position("value", "7"), Position("equals", "=")),
        (
            Node("variable", "embedding", None, "variable", "x"),
            Node("value", "embedding", None, "value", "7"),
            Node("L0H0", "head", 0, "value", "L0H0", 0),
            *nodes[2:],
        ),
        (
            edge("variable", "L0H0", 2.0),
            edge("value", "L1H0", 2.8),
            edge("L0H0", "L1H0", 1.0),
            edge("L1H0", "MLP 1", 5.0),
            edge("MLP 1", "logits", 7.0),
        ),
    )
    return direct, indirect
