"""A circuit as a value: places in a model, the edges between them, and what was measured on each.

Nodes and edges with their effects, nothing else: no model is seen, nothing is measured or drawn here.
`graph_file` writes circuits to JSON, `faithfulness` scores what a circuit leaves out.
Source of the idea: Wang et al., "Interpretability in the Wild", arXiv 2211.00593, section 2.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mechint_arith.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("embedding", "head", "mlp", "neurons", "logits")
"""What a node can be, from the bottom of the model to its top."""


@dataclass(frozen=True)
class Position:
    """A place in the sequence."""

    name: str
    """Its name in words: `lhs`, `value of lhs`, `equals`."""
    label: str
    """The token shown there: `x`, `7`, `+`, `=`."""


@dataclass(frozen=True)
class Node:
    """A place in the model that writes into the residual stream, or the logits."""

    id: str
    """Names the place. Two circuits share a node where both use one id for it."""
    kind: str
    """One of `KINDS`."""
    layer: int | None
    """Block, from 0; None for embeddings (below every block) and logits (above every block)."""
    position: str
    """Name of the position it stands at."""
    label: str
    """Text to show: `L0H0`, `MLP 1`, `7`."""
    head: int | None = None
    """Head within its block, from 0; None for all other kinds."""

    @property
    def height(self) -> tuple[int, int, int]:
        """Where it stands in the order of computation; an edge leads from a smaller height to a larger one."""
        if self.layer is None:
            return (2, 0, 0) if self.kind == "logits" else (0, 0, 0)
        return (1, self.layer, 0 if self.kind == "head" else 1)

    @property
    def place(self) -> tuple[str, int | None, str, int | None]:
        """What it is, apart from its id and label: kind, layer, position, head."""
        return (self.kind, self.layer, self.position, self.head)


@dataclass(frozen=True)
class Edge:
    """What one node's write does as another node reads it."""

    sender: str
    """Id of the node that writes."""
    receiver: str
    """Id of the node that reads."""
    effect: float
    """Measured effect, in `unit`; its sign counts. NumPy numbers become Python's."""
    low: float
    """Lower end of its interval."""
    high: float
    """Upper end of its interval."""
    n: int
    """Independent units behind it (pairs of prompts, or clusters of them)."""
    unit: str
    """Unit of the three numbers: `logits`, `share of the mean margin`."""

    def __post_init__(self) -> None:
        for name in ("effect", "low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "n", operator.index(self.n))

    @property
    def ends(self) -> tuple[str, str]:
        """Ids of sender and receiver."""
        return (self.sender, self.receiver)


@dataclass(frozen=True)
class About:
    """How a circuit was measured."""

    route: str
    """Query form or route it answers: `direct`, `both`."""
    model: str
    """SHA-256 of the checkpoint, or another name that identifies it."""
    metric: str
    """What the effects are effects on: `mean margin`, `logit difference`."""
    ablation: str
    """What replaces a write: `zero`, `mean per position`, `resample`."""
    direction: str
    """`denoising` or `noising`; `attribution` for a gradient estimate."""
    threshold: float | None = None
    """Smallest |effect| that was kept; None where nothing was pruned."""


@dataclass(frozen=True)
class Circuit:
    """Nodes and edges with measured effects. Raises `InputError` naming every problem found."""

    about: About
    """How it was measured."""
    positions: tuple[Position, ...]
    """The sequence from left to right, as far as it is worth showing."""
    nodes: tuple[Node, ...]
    """Places in the model; ids are unique."""
    edges: tuple[Edge, ...]
    """Effects, at most one per sender and receiver, all in one unit."""

    def __post_init__(self) -> None:
        found = list(_problems(self))
        if found:
            raise InputError(f"not a circuit: {'; '.join(found)}")

    @cached_property
    def by_id(self) -> dict[str, Node]:
        """Id -> node."""
        return {node.id: node for node in self.nodes}

    @property
    def unit(self) -> str:
        """Unit of every effect; empty where there is no edge."""
        return self.edges[0].unit if self.edges else ""

    def prune(self, threshold: float) -> Circuit:
        """Return the circuit of edges with |effect| >= threshold that lie on a path to the logits.

        Nodes without such a path are dropped, logits are kept; the threshold is recorded in `about`.
        Raises `InputError` where the threshold is negative or not a number.
        """
        if not threshold >= 0:
            raise InputError(f"a threshold is a number from 0; got {threshold}")
        strong = [edge for edge in self.edges if abs(edge.effect) >= threshold]
        kept = {node.id for node in self.nodes if node.kind == "logits"}
        for edge in sorted(strong, key=lambda e: self.by_id[e.receiver].height, reverse=True):
            if edge.receiver in kept:
                kept.add(edge.sender)
        return Circuit(
            replace(self.about, threshold=max(threshold, self.about.threshold or 0.0)),
            self.positions,
            tuple(node for node in self.nodes if node.id in kept),
            tuple(edge for edge in strong if edge.receiver in kept),
        )

    def table(self) -> pd.DataFrame:
        """Return one row per edge: what the edge holds, and label and position of both its ends."""
        import pandas as pd

        columns = ["sender", "receiver", "sender_label", "sender_position", "receiver_label"]
        columns += ["receiver_position", "effect", "low", "high", "n", "unit"]
        rows = []
        for edge in self.edges:
            sender, receiver = self.by_id[edge.sender], self.by_id[edge.receiver]
            ends = (*edge.ends, sender.label, sender.position, receiver.label, receiver.position)
            rows.append((*ends, edge.effect, edge.low, edge.high, edge.n, edge.unit))
        return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class Common:
    """What two circuits share, by presence: an edge counts however large its effects are."""

    nodes: frozenset[str]
    """Ids of nodes in both."""
    edges: frozenset[tuple[str, str]]
    """(sender, receiver) of edges in both."""


def common(circuit_a: Circuit, circuit_b: Circuit) -> Common:
    """Return the nodes and edges that two circuits share.

    Raises `InputError` where one id names different places in the two.
    """
    nodes = circuit_a.by_id.keys() & circuit_b.by_id.keys()
    for name in sorted(nodes):
        here, there = circuit_a.by_id[name].place, circuit_b.by_id[name].place
        if here != there:
            raise InputError(f"node {name!r} is {here} in one circuit and {there} in the other")
    edges = {edge.ends for edge in circuit_a.edges} & {edge.ends for edge in circuit_b.edges}
    return Common(frozenset(nodes), frozenset(edges))


def _problems(circuit: Circuit) -> Iterator[str]:
    """Yield everything that keeps a circuit from being one."""
    places = [position.name for position in circuit.positions]
    yield from (f"position {name!r} is listed twice" for name in _repeated(places))
    yield from (
        f"node id {name!r} is used twice" for name in _repeated(n.id for n in circuit.nodes)
    )
    for node in circuit.nodes:
        yield from _node_problems(node, places)
    pairs = _repeated(edge.ends for edge in circuit.edges)
    yield from (f"edge {sender!r} -> {receiver!r} is listed twice" for sender, receiver in pairs)
    nodes = {node.id: node for node in circuit.nodes}
    for edge in circuit.edges:
        yield from _edge_problems(edge, nodes)
    units = sorted({edge.unit for edge in circuit.edges})
    if len(units) > 1:
        yield f"edges have several units ({', '.join(units)}); measure them in one"


def _node_problems(node: Node, places: list[str]) -> Iterator[str]:
    if node.kind not in KINDS:
        yield f"node {node.id!r} has kind {node.kind!r}, expected one of {', '.join(KINDS)}"
        return
    if node.position not in places:
        yield f"node {node.id!r} stands at {node.position!r}, which is not a position of the circuit"
    outside = node.kind in ("embedding", "logits")
    if outside and node.layer is not None:
        yield f"node {node.id!r} is of kind {node.kind} and has no layer; got {node.layer}"
    if not outside and (node.layer is None or node.layer < 0):
        yield f"node {node.id!r} needs a layer, counted from 0; got {node.layer}"
    if (node.kind == "head") != (node.head is not None and node.head >= 0):
        yield f"node {node.id!r} is of kind {node.kind} with head {node.head}; heads, and only they, have a number"


def _edge_problems(edge: Edge, nodes: dict[str, Node]) -> Iterator[str]:
    name = f"edge {edge.sender!r} -> {edge.receiver!r}"
    missing = [end for end in edge.ends if end not in nodes]
    if missing:
        yield f"{name} hangs in the air: no node {' and '.join(map(repr, missing))}"
    elif nodes[edge.sender].height >= nodes[edge.receiver].height:
        yield f"{name} does not lead upward in the model"
    numbers = (edge.effect, edge.low, edge.high)
    if not all(map(math.isfinite, numbers)) or edge.low > edge.high:
        yield f"{name} has effect {edge.effect} in [{edge.low}, {edge.high}], expected finite numbers, low <= high"
    if edge.n < 1:
        yield f"{name} rests on n = {edge.n}, expected at least 1"


def _repeated(names: Iterable) -> list:
    return [name for name, times in Counter(names).items() if times > 1]
