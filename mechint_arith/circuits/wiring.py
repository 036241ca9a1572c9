"""A model as a graph: its nodes write into the residual stream, and each edge can carry another run's write.

Cut an edge, and its receiver reads what the sender wrote in the other run; every other edge carries what its
sender writes now, so that changes flow on. One cut edge is path patching; all edges outside a circuit cut is the
circuit by itself. Exact, and additive: a receiver's input is the sum of what its edges carry.
Which prompts, which metric and what the numbers mean is said in `measured`.
Sources: Goldowsky-Dill et al., arXiv 2304.05969 (path patching); Conmy et al., arXiv 2304.14997 (edges).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Bool, Float, Int
from torch import Tensor

from mechint_arith.circuits.graph import Node
from mechint_arith.errors import InputError
from mechint_arith.models.staged import Staged
from mechint_arith.models.stages import StagedBlock

Ends = tuple[str, str]
"""Ids of an edge's sender and receiver."""
Masks = Mapping[str, Bool[Tensor, "batch pos"]]
"""Name of a position (or of a group of them) -> where it is in each row."""


@dataclass(frozen=True)
class Flow:
    """One run of a model, as its nodes see it."""

    writes: Mapping[str, Tensor]
    """Node id -> what it writes, [batch pos d_model], or [batch 1 d_model] at the read position."""
    streams: Mapping[tuple[int, str], Tensor]
    """Layer and `attn`, `mlp` or (last layer) `logits` -> the residual stream that is read there."""
    logits: Float[Tensor, "batch vocab"]


class Wiring:
    """A model's graph on one set of prompts. Raises `InputError` for models whose parts it cannot tell apart."""

    def __init__(
        self,
        staged: Staged,
        nodes: Sequence[Node],
        at: Masks,
        neurons: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Set up the graph.

        nodes: of which there is one `logits`; together they should cover the model. at: where each node's position
        is. neurons: those of each node of kind `neurons`.
        """
        config = staged.config
        if not config.attn_content or len(staged.reads) != 1:
            raise InputError(
                "a circuit is measured in models that attend by content and answer with one token"
            )
        self.staged, self.at = staged, at
        self.nodes = {node.id: node for node in sorted(nodes, key=lambda node: node.height)}
        self.neurons = {name: list(chosen) for name, chosen in (neurons or {}).items()}

    @cached_property
    def edges(self) -> tuple[Ends, ...]:
        """Every pair of nodes of which the first can be read by the second, bottom to top."""
        return tuple(
            (sender.id, receiver.id)
            for receiver in self.nodes.values()
            for sender in self.nodes.values()
            if sender.height < receiver.height and self._meet(sender, receiver)
        )

    @cached_property
    def senders(self) -> dict[str, list[str]]:
        """Node id -> ids of the nodes that it reads."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for sender, receiver in self.edges:
            found[receiver].append(sender)
        return found

    def flow(self, tokens: Int[Tensor, "batch pos"]) -> Flow:
        """Run the model and keep what every node writes and every part reads."""
        run = self.staged.record(tokens)
        last = self.staged.config.n_layers - 1
        streams, writes = {}, {}
        for layer in range(last + 1):
            streams[layer, "attn"] = run.values[layer, "resid_pre"]
            streams[layer, "mlp"] = run.values[layer, "resid_mid"]
        streams[last, "logits"] = run.values[last, "resid_post"]
        for node in self.nodes.values():
            if node.kind == "embedding":
                writes[node.id] = streams[0, "attn"] * self.at[node.position][..., None]
            elif node.layer is not None:
                writes[node.id] = self._written(node, self._computed(node, run.values))
        return Flow(writes, streams, run.logits[:, 0])

    def run(
        self,
        base: Flow,
        other: Flow,
        cut: Collection[Ends],
        *,
        memory: dict[object, Tensor] | None = None,
    ) -> Float[Tensor, "batch vocab"]:
        """Return the logits of the base run with some edges carrying the other run's writes.

        memory: for one pair of runs; keeps what heads do, which many cuts have in common.
        Raises `InputError` for an edge that is not there.
        """
        if unknown := set(cut) - set(self.edges):
            raise InputError(f"no edge {' -> '.join(min(unknown))} in this model")
        apart = {name: other.writes[name] - base.writes[name] for name, _ in cut}
        changed: dict[str, Tensor] = {}
        cut = frozenset(cut)
        for node in self.nodes.values():
            if node.kind == "embedding":
                continue
            parts = [
                (name, (apart if (name, node.id) in cut else changed)[name])
                for name in self.senders[node.id]
                if (name, node.id) in cut or name in changed
            ]
            if node.kind == "logits":
                return self._logits(base, [part for _, part in parts])
            if parts:
                fixed = all((name, node.id) in cut for name, _ in parts)
                key = (node.layer, node.kind, frozenset(name for name, _ in parts))
                store = memory if fixed and node.kind == "head" else None
                out = None if store is None else store.get(key)
                if out is None:
                    out = self._recomputed(node, base, [part for _, part in parts])
                    if store is not None:
                        store[key] = out
                changed[node.id] = self._written(node, out) - base.writes[node.id]
        raise InputError("a circuit needs a node for the logits")

    def _meet(self, sender: Node, receiver: Node) -> bool:
        """Whether some row has a position that the sender writes to and the receiver reads."""
        writes, reads = self.at[sender.position], self.at[receiver.position]
        if receiver.kind == "head" and not self.staged.config.causal:
            return True
        if receiver.kind == "head":
            reads = reads.flip(1).cumsum(1).flip(1) > 0
        return bool((writes & reads).any())

    def _block(self, node: Node) -> StagedBlock:
        assert node.layer is not None
        return self.staged.blocks[node.layer]

    def _computed(self, node: Node, values: Mapping[tuple[int, str], Tensor]) -> Tensor:
        """Return what a recorded run computed at a head (all heads' z) or at neurons."""
        assert node.layer is not None
        return values[node.layer, "z" if node.kind == "head" else "post"]

    def _recomputed(self, node: Node, base: Flow, parts: Sequence[Tensor]) -> Tensor:
        """Return the same with changes added to what the node reads."""
        block = self._block(node)
        assert node.layer is not None
        part = "attn" if node.kind == "head" else "mlp"
        stream = _plus(base.streams[node.layer, part], parts, self._reads(part))
        if part == "mlp":
            return block.compute("post", block.compute("pre", stream))
        straight = block.queries is not None
        keys = stream if straight else block.compute("k", stream)
        values = stream if straight else block.compute("v", stream)
        scores = block.compute("attn_scores", block.compute("q", stream), keys)
        return block.compute("z", block.compute("pattern", scores), values)

    def _written(self, node: Node, out: Tensor) -> Tensor:
        """Return what a node adds to the residual stream, given z or neurons; 0 where it is not."""
        block = self._block(node).block
        if node.kind == "head":
            write = out[:, :, node.head] @ block.attn.W_O[node.head]
        else:
            assert block.mlp is not None
            chosen = self.neurons.get(node.id, slice(None))
            write = out[..., chosen] @ block.mlp.W_out[chosen]
        if write.shape[1] == 1:
            return write
        return write * self.at[node.position][..., None]

    def _reads(self, part: str) -> int | None:
        """Return the position whose write a part needs; None: all."""
        return None if part == "attn" else self.staged.reads[0]

    def _logits(self, base: Flow, parts: Sequence[Tensor]) -> Float[Tensor, "batch vocab"]:
        last = self.staged.config.n_layers - 1
        stream = _plus(base.streams[last, "logits"], parts, self._reads("logits"))
        if stream.shape[1] > 1:
            stream = stream[:, list(self.staged.reads)]
        return self.staged.model.unembed(self.staged.model.read(stream))[:, 0]


def _plus(stream: Tensor, parts: Sequence[Tensor], read: int | None) -> Tensor:
    """Return a stream [batch pos d_model] plus changes; one that is kept at the read position takes those there."""
    for part in parts:
        if stream.shape[1] == 1 < part.shape[1]:
            part = part[:, read : read + 1]  # type: ignore[operator]
        stream = stream + part
    return stream
