"""Exact arithmetic on arrays of digits, vectorised over rows.

Numbers are int64 [batch width], least significant digit first, in any base B >= 2. No number is ever
put together, so nothing overflows at any width as long as width (B - 1)² < 2^62 and, for
remainders, p B < 2^63. No token and no task is known here.
"""

import numpy as np

Array = np.ndarray


def digits_of(numbers: Array, base: int, width: int) -> Array:
    """Return the lowest `width` digits of integers [batch] (int64, or Python integers of any size)."""
    rest, digits = np.asarray(numbers), []
    for _ in range(width):
        digits.append((rest % base).astype(np.int64))
        rest = rest // base
    return np.stack(digits, axis=1)


def numbers_of(digits: Array, base: int) -> Array:
    """Return the numbers [batch]: int64 where B^width < 2^63, else Python integers."""
    kind = np.int64 if base ** digits.shape[1] < 2**63 else object
    value = np.zeros(len(digits), kind)
    for digit in digits.T[::-1]:
        value = value * base + digit.astype(kind)
    return value


def length_of(digits: Array) -> Array:
    """Return int64 [batch]: how many digits each number has without leading zeros; 0 has one."""
    return np.maximum(1, ((digits != 0) * np.arange(1, digits.shape[1] + 1)).max(axis=1))


def add(a: Array, b: Array, base: int, width: int) -> Array:
    """Return the lowest `width` digits of a + b."""
    sums = np.zeros((len(a), max(width, a.shape[1], b.shape[1])), np.int64)
    sums[:, : a.shape[1]] = a
    sums[:, : b.shape[1]] += b
    return _carried(sums, base)[:, :width]


def multiply(a: Array, b: Array, base: int, width: int) -> Array:
    """Return the lowest `width` digits of a b; a and b may differ in width."""
    columns = np.zeros((len(a), max(width, a.shape[1] + b.shape[1])), np.int64)
    for i in range(a.shape[1]):
        columns[:, i : i + b.shape[1]] += a[:, i : i + 1] * b
    return _carried(columns, base)[:, :width]


def remainder(digits: Array, modulus: int, base: int) -> Array:
    """Return the numbers modulo p, int64 [batch]."""
    value = np.zeros(len(digits), np.int64)
    for digit in digits.T[::-1]:
        value = (value * base + digit) % modulus
    return value


def _carried(columns: Array, base: int) -> Array:
    """Turn column sums into digits, in place."""
    carry = np.zeros(len(columns), np.int64)
    for i in range(columns.shape[1]):
        carry, columns[:, i] = np.divmod(columns[:, i] + carry, base)
    return columns
