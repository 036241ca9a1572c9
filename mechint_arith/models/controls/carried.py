"""Facts about numbers carried to `=` beside the model's own values, and new directions of the unembedding.

A table over the numbers lies in new residual dimensions; copies of the last layer's heads attend as the
originals do and move it to `=`. So an MLP may be planted that reads what the base never brought there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.controls.draft import Draft


def waves(p: int, frequencies: list[int]) -> Float[Tensor, "number wave"]:
    """Return cos and sin of 2 pi k n / p for numbers n and each frequency k, side by side, float64."""
    angle = 2 * np.pi * np.outer(np.arange(p), frequencies) / p
    return torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], 2).reshape(p, -1))


def check_frequencies(frequencies: Sequence[int], p: int) -> None:
    """Raise `InputError` unless these are different frequencies of numbers modulo p, at least one."""
    highest = (p - 1) // 2
    wrong = [k for k in frequencies if not 1 <= k <= highest]
    if wrong or len(set(frequencies)) < len(frequencies) or not frequencies:
        raise InputError(
            f"expected different frequencies from 1 to {highest}; got {list(frequencies)}"
        )


def least_used(draft: Draft, n: int) -> list[int]:
    """Return the n frequencies with the least energy in the numbers' images under the last attention layer.

    Raises `InputError` where there are not so many.
    """
    p = draft.task.p
    highest = (p - 1) // 2
    if not 1 <= n <= highest:
        raise InputError(f"expected 1 to {highest} frequencies; got {n}")
    images = draft.folded.values[:, 0, :p].sum(0)
    spectrum = (waves(p, list(range(1, highest + 1))).T @ images).square().sum(1)
    energy = spectrum.reshape(-1, 2).sum(1)
    return sorted((energy.argsort()[:n] + 1).tolist())


def carry(draft: Draft, table: Float[Tensor, "number column"]) -> list[int]:
    """Add dimensions that hold, at `=`, the sum of each head's attention times the table row of what it attends to.

    Every head of the last layer gets a twin with its queries and keys, whose values are the table. Returns the
    dimensions, one per column. Raises `InputError` for more columns than a head can move.
    """
    columns = table.shape[1]
    if columns > draft.config.d_head:
        raise InputError(f"a head of width {draft.config.d_head} cannot carry {columns} columns")
    last = draft.config.n_layers - 1
    originals = [h for h in range(draft.config.n_heads) if h not in draft.free_heads[last]]
    at = draft.widen(columns)
    draft.w_e[: len(table), at] = table
    for head in originals:
        twin = draft.new_head(last)
        names = ("W_Q", "W_K", "b_Q", "b_K") if draft.config.attn_bias else ("W_Q", "W_K")
        for name in names:
            draft.attn(last, name)[twin] = draft.attn(last, name)[head]
        for column, dimension in enumerate(at):
            draft.attn(last, "W_V")[twin, dimension, column] = 1
            draft.attn(last, "W_O")[twin, column, dimension] = 1
    return at


def new_outputs(draft: Draft, table: Float[Tensor, "column vocab"]) -> list[int]:
    """Add dimensions that nothing writes yet and whose unembedding is the table's rows; return their places."""
    at = draft.widen(len(table))
    draft.w_u[at] = table
    return at
