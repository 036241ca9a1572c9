"""What a caller hands to a sequence builder, checked before a sequence is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mechint_arith.errors import InputError

Ids = np.ndarray | Sequence[int]
"""Whole numbers in a row, as callers have them."""


def within(values: Any, n: int, what: str) -> np.ndarray:
    """Return whole numbers from 0 to n - 1 as int64. Raises `InputError` naming the first that is none."""
    found = np.asarray(values)
    if not len(found.shape):
        raise InputError(f"{what} should be an array; got {values!r}")
    if not found.size:
        return found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise InputError(f"{what} should be whole numbers; got {found.dtype}")
    if found.min() < 0 or found.max() >= n:
        wrong = found[(found < 0) | (found >= n)].flat[0]
        raise InputError(f"{what} go from 0 to {n - 1}; got {wrong}")
    return found.astype(np.int64, copy=False)


def amount(n: int, what: str) -> int:
    """Return n. Raises `InputError` where it is negative."""
    if n < 0:
        raise InputError(f"{what} cannot be negative: {n}")
    return n


def place(name: str, names: Sequence[str], what: str) -> int:
    """Return where a name stands among `names`. Raises `InputError` listing them where it does not."""
    if name not in names:
        raise InputError(f"no {what} {name!r}: choose from {', '.join(names)}")
    return names.index(name)
