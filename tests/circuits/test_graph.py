"""Circuits refuse what is not one, lose only what leads nowhere, and know what they share."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mechint_arith.circuits.graph import About, Circuit, Edge, Node, Position, common
from mechint_arith.errors import InputError

ABOUT = About("direct", "0" * 64, "mean margin", "mean per position", "denoising")
POSITIONS = (Position("lhs", "7"), Position("rhs", "12"), Position("equals", "="))
NODES = (
    Node("lhs", "embedding", None, "lhs", "7"),
    Node("rhs", "embedding", None, "rhs", "12"),
    Node("L0H0", "head", 0, "equals", "L0H0", 0),
    Node("L1H0", "head", 1, "equals", "L1H0", 0),
    Node("MLP 1", "mlp", 1, "equals", "MLP 1"),
    Node("logits", "logits", None, "equals", "logits"),
)


def edge(sender, receiver, effect):
    return Edge(sender, receiver, effect, effect - 0.1, effect + 0.1, 100, "logits")


EDGES = (
    edge("lhs", "L0H0", 0.2),
    edge("lhs", "L1H0", 3.0),
    edge("rhs", "L1H0", 2.5),
    edge("L0H0", "MLP 1", 0.4),
    edge("L1H0", "MLP 1", 6.0),
    edge("L1H0", "logits", -1.5),
    edge("MLP 1", "logits", 8.0),
)
CIRCUIT = Circuit(ABOUT, POSITIONS, NODES, EDGES)


def with_edges(*edges):
    return replace(CIRCUIT, edges=edges)


def test_every_problem_is_named_at_once():
    nodes = (
        *NODES,
        NODES[0],
        Node("odd", "expert", 0, "lhs", "?"),
        Node("lost", "mlp", 0, "nowhere", "MLP 0"),
        Node("W_E", "embedding", 0, "lhs", "W_E"),
        Node("L2", "mlp", None, "lhs", "MLP"),
        Node("headless", "head", 0, "lhs", "head"),
        Node("headed", "mlp", 0, "lhs", "MLP 0", 3),
    )
    edges = (
        *EDGES,
        EDGES[0],
        edge("ghost", "logits", 1.0),
        edge("MLP 1", "L1H0", 1.0),
        edge("L1H0", "L1H0", 1.0),
        Edge("rhs", "logits", math.nan, 0.0, 1.0, 5, "logits"),
        Edge("lhs", "logits", 1.0, 2.0, 0.0, 0, "nats"),
    )
    with pytest.raises(InputError) as caught:
        Circuit(ABOUT, (*POSITIONS, POSITIONS[0]), nodes, edges)
    message = str(caught.value)
    for part in (
        "position 'lhs' is listed twice",
        "node id 'lhs' is used twice",
        "'odd' has kind 'expert', expected one of embedding, head",
        "'lost' stands at 'nowhere'",
        "'W_E' is of kind embedding and has no layer; got 0",
        "'L2' needs a layer",
        "'headless' is of kind head with head None",
        "'headed' is of kind mlp with head 3",
        "edge 'lhs' -> 'L0H0' is listed twice",
        "no node 'ghost'",
        "'MLP 1' -> 'L1H0' does not lead upward",
        "'L1H0' -> 'L1H0' does not lead upward",
        "'rhs' -> 'logits' has effect nan",
        "'lhs' -> 'logits' has effect 1.0 in [2.0, 0.0]",
        "rests on n = 0",
        "several units (logits, nats)",
    ):
        assert part in message
    assert "\n" not in message


def test_two_heads_of_one_layer_cannot_read_each_other():
    twin = Node("L0H1", "head", 0, "equals", "L0H1", 1)
    with pytest.raises(InputError, match="does not lead upward"):
        replace(CIRCUIT, nodes=(*NODES, twin), edges=(edge("L0H0", "L0H1", 1.0),))


def test_pruning_keeps_what_lies_on_a_path_to_the_logits():
    pruned = CIRCUIT.prune(0.5)
    assert [e.ends for e in pruned.edges] == [
        ("lhs", "L1H0"),
        ("rhs", "L1H0"),
        ("L1H0", "MLP 1"),
        ("L1H0", "logits"),
        ("MLP 1", "logits"),
    ]
    assert "L0H0" not in pruned.by_id
    assert pruned.about.threshold == 0.5


def test_an_edge_that_is_strong_but_leads_nowhere_goes():
    loose = with_edges(edge("lhs", "L0H0", 9.0), edge("L0H0", "MLP 1", 0.1), EDGES[-1])
    pruned = loose.prune(1.0)
    assert [e.ends for e in pruned.edges] == [("MLP 1", "logits")]
    assert [n.id for n in pruned.nodes] == ["MLP 1", "logits"]


def test_pruning_by_hand_agrees_with_reachability_in_random_circuits():
    rng = np.random.default_rng(0)
    for _ in range(20):
        circuit = random_circuit(rng)
        threshold = float(rng.uniform(0, 2))
        strong = [e for e in circuit.edges if abs(e.effect) >= threshold]
        reach = {n.id for n in circuit.nodes if n.kind == "logits"}
        while more := {e.sender for e in strong if e.receiver in reach} - reach:
            reach |= more
        pruned = circuit.prune(threshold)
        assert {n.id for n in pruned.nodes} == reach
        assert {e.ends for e in pruned.edges} == {e.ends for e in strong if e.receiver in reach}


def test_pruning_twice_records_the_larger_threshold():
    assert CIRCUIT.prune(2.0).prune(0.5).about.threshold == 2.0
    assert CIRCUIT.prune(0.5).prune(2.0) == CIRCUIT.prune(2.0)


def test_everything_pruned_leaves_the_logits():
    assert [n.id for n in CIRCUIT.prune(100.0).nodes] == ["logits"]
    assert CIRCUIT.prune(100.0).unit == ""


@pytest.mark.parametrize("threshold", [-1.0, math.nan])
def test_a_threshold_is_a_number_from_0(threshold):
    with pytest.raises(InputError, match="a threshold is a number from 0"):
        CIRCUIT.prune(threshold)


def test_common_counts_presence():
    other = with_edges(edge("lhs", "L1H0", -0.01), EDGES[-1])
    shared = common(CIRCUIT, replace(other, nodes=NODES[1:] + NODES[:1]))
    assert shared.nodes == {n.id for n in NODES}
    assert shared.edges == {("lhs", "L1H0"), ("MLP 1", "logits")}


def test_one_id_for_two_places_is_refused():
    moved = replace(NODES[2], layer=1)
    with pytest.raises(InputError, match=r"node 'L0H0' is .* in one circuit and .* in the other"):
        common(CIRCUIT, Circuit(ABOUT, POSITIONS, (moved,), ()))


def test_a_label_may_differ_between_circuits():
    renamed = replace(NODES[0], label="x")
    assert common(CIRCUIT, Circuit(ABOUT, POSITIONS, (renamed,), ())).nodes == {"lhs"}


def test_numpy_numbers_become_plain_ones():
    plain = Edge("a", "b", np.float64(1), np.float64(0), np.float64(2), 3, "logits")
    assert {type(plain.effect), type(plain.low)} == {float}
    assert type(plain.n) is int


def test_the_table_has_one_row_per_edge():
    table = CIRCUIT.table()
    assert len(table) == len(EDGES)
    row = table.iloc[1]
    assert (row.sender_label, row.sender_position) == ("7", "lhs")
    assert (row.receiver_label, row.receiver_position, row.effect) == ("L1H0", "equals", 3.0)
    assert list(with_edges().table().columns) == list(table.columns)


def random_circuit(rng, *, n_nodes=12, n_edges=25):
    """A valid circuit of random nodes and edges over five positions."""
    names = [f"p{i}" for i in range(5)]
    nodes = [Node("logits", "logits", None, names[-1], "logits")]
    for i in range(n_nodes):
        kind = str(rng.choice(["embedding", "head", "mlp", "neurons"]))
        layer = None if kind == "embedding" else int(rng.integers(3))
        head = i if kind == "head" else None
        nodes.append(Node(f"n{i}", kind, layer, str(rng.choice(names)), f"{kind[:4]} {i}", head))
    chosen = {}
    for _ in range(n_edges):
        a, b = (nodes[i] for i in rng.choice(len(nodes), 2, replace=False))
        if a.height != b.height:
            low, high = sorted((a, b), key=lambda node: node.height)
            chosen[low.id, high.id] = edge(low.id, high.id, float(rng.normal()))
    positions = tuple(Position(name, name) for name in names)
    return Circuit(ABOUT, positions, tuple(nodes), tuple(chosen.values()))
