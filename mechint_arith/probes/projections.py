"""Keep or remove frequencies: along a value axis, over pairs, or as directions of the residual stream.

The results are activations or logits to put back into a model. How they are put back belongs in
`interventions`; which frequencies matter belongs in `frequencies`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes.fourier import basis, check_modulus, float64, folded
from mechint_arith.probes.pairs import inverse_pairs, over_pairs, profile, spread, transform_pairs

Array = np.ndarray
Numbers = TypeVar("Numbers")


def project(
    x: Any, frequencies: Iterable[SupportsIndex], *, over: str, keep: bool = True, axis: int = 0
) -> Array:
    """Return x with only the constant and the given frequencies, or (`keep=False`) without the latter.

    `over` says where the frequencies live: `values` along `axis` of length p; for x [a b ...]: `blocks`
    ({const, cos k, sin k} over a times the same over b), `sum` (functions of a+b) or `difference` (of a-b).
    float64, the unit and shape of x. An orthogonal projection: kept plus removed is x plus its constant.
    Raises `InputError` for frequency 0, for another `over`, or for x without the axes named.
    """
    if over == "values":
        values = np.moveaxis(float64(x), axis, 0)
        part = _values_part(values, folded(frequencies, check_modulus(len(values))))
        kept = part + values.mean(0)
        return np.moveaxis(kept if keep else values - part, 0, axis)
    values = over_pairs(x)
    chosen = folded(frequencies, len(values))
    if over == "blocks":
        part = _blocks_part(values, chosen)
    elif over in ("sum", "difference"):
        part = spread(_values_part(profile(values, along=over), chosen), along=over)
    else:
        raise InputError(
            f"frequencies are projected over 'values', 'blocks', 'sum' or 'difference'; got {over!r}"
        )
    return part + values.mean((0, 1)) if keep else values - part


def _values_part(values: Array, frequencies: tuple[int, ...]) -> Array:
    frame = basis(len(values))
    rows = frame.rows[np.isin(frame.frequency, frequencies)]
    return np.tensordot(rows.T, np.tensordot(rows, values, axes=1), axes=1)


def _blocks_part(values: Array, frequencies: tuple[int, ...]) -> Array:
    coefficients = transform_pairs(values)
    frequency = basis(len(values)).frequency
    mask = np.zeros((len(values), len(values)), bool)
    for k in frequencies:
        block = (frequency == k) | (frequency == 0)
        mask |= np.outer(block, block)
    mask[0, 0] = False
    coefficients[~mask] = 0
    return inverse_pairs(coefficients)


def frequency_directions(matrix: Any, frequencies: Iterable[SupportsIndex]) -> Array:
    """Return an orthonormal basis of the span of a matrix's frequency directions: float64 [d_model direction].

    matrix: [value d_model], W_E without the row of `=`. Frequency k has the directions sum_j cos(w_k j) W_E[j]
    and sum_j sin(w_k j) W_E[j]. Directions of different frequencies are in general not orthogonal to each
    other, so removing this span takes something from the others too.
    Raises `InputError` where no direction is left (no frequency given, or all of them zero in the matrix).
    """
    values = float64(matrix)
    if values.ndim != 2:
        raise InputError(f"expected a matrix [value d_model]; got shape {values.shape}")
    frame = basis(len(values))
    spanning = frame.rows[np.isin(frame.frequency, folded(frequencies, len(values)))] @ values
    _, scale, rows = np.linalg.svd(spanning, full_matrices=False)
    largest = np.linalg.norm(values, 2)
    found = rows[scale > 1e-9 * largest] if largest else rows[:0]
    if not len(found):
        raise InputError("these frequencies have no direction in this matrix: name others")
    return np.ascontiguousarray(found.T)


def project_directions(x: Numbers, directions: Array, *, keep: bool = True) -> Numbers:
    """Return x [... d_model] within the span of orthonormal directions [d_model direction], or outside it.

    x: NumPy array or torch tensor; the result is of the same kind, dtype and device.
    """
    mine: Any = x
    onto = (
        mine.new_tensor(directions)
        if hasattr(mine, "new_tensor")
        else directions.astype(mine.dtype)
    )
    part = (mine @ onto) @ onto.T
    return part if keep else mine - part
