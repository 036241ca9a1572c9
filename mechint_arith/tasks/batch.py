"""The value every task makes and every analysis takes: sequences with their labels and what is known of them.

No task's own rules belong here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class Batch:
    """Sequences, labels, and the named places and factors that analyses select by."""

    tokens: Array
    """int64 [batch pos]: token ids."""
    labels: Array
    """int64 [batch], or [batch answer] where an answer has several tokens: right classes."""
    read: int
    """Position whose logits give the (first) answer; answer token i is read at position read + i."""
    positions: Mapping[str, Array] = field(default_factory=dict)
    """Name -> int64 [batch]: where a named token stands; -1 in rows that do not have it."""
    factors: Mapping[str, Array] = field(default_factory=dict)
    """Name -> [batch]: what a row was built from (form, operands, variables, number of assignments, …)."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        """Return sizes, read position and names in one line."""
        rows, length = self.tokens.shape
        answers = "" if self.labels.ndim == 1 else f", answers of {self.labels.shape[1]} tokens"
        names = ", ".join(self.positions) or "none"
        return (
            f"Batch({rows} x {length} tokens, read at {self.read}{answers};"
            f" positions: {names}; factors: {', '.join(self.factors) or 'none'})"
        )

    def __getitem__(self, rows: Array | slice) -> Batch:
        """Return the selected rows (slice, index array or boolean mask)."""
        return Batch(
            self.tokens[rows],
            self.labels[rows],
            self.read,
            {name: values[rows] for name, values in self.positions.items()},
            {name: values[rows] for name, values in self.factors.items()},
        )


def concatenate(batches: list[Batch]) -> Batch:
    """Stack batches of one task; keeps the names that all of them have."""
    first = batches[0]
    if any(b.read != first.read or b.tokens.shape[1] != first.tokens.shape[1] for b in batches):
        raise ValueError("batches of different layouts cannot be stacked")

    def stacked(maps: list[Mapping[str, Array]]) -> dict[str, Array]:
        shared = [name for name in maps[0] if all(name in m for m in maps)]
        return {name: np.concatenate([m[name] for m in maps]) for name in shared}

    return Batch(
        np.concatenate([b.tokens for b in batches]),
        np.concatenate([b.labels for b in batches]),
        first.read,
        stacked([b.positions for b in batches]),
        stacked([b.factors for b in batches]),
    )
