"""The Fourier basis over Z_p, and spectra of arrays over one number.

Components have names: `const`, then `cos k` and `sin k` for 0 < k < p/2, then, for an even p, the Nyquist
component `cos p/2`, which has no sine. k and p - k are one frequency. An array over values has an axis of
length p: drop the row of `=` first. Everything is float64 NumPy; torch tensors are accepted and copied.
Arrays over two numbers belong in `pairs`, conclusions from spectra in `frequencies`.

Source: Nanda et al. 2023, arXiv 2301.05217, section 4.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np

from mechint_arith.errors import InputError

Array = np.ndarray

ROUNDING = 1e-20
"""Energy below this share of an array's own counts as none: the rounding of a constant."""


@dataclass(frozen=True, eq=False)
class Basis:
    """The orthonormal Fourier basis of functions on 0..p-1."""

    p: int
    """Modulus: number of values, and of components."""
    names: tuple[str, ...]
    """Name of each component."""
    frequency: Array
    """int64 [component]: the frequency of each component, 0 for `const`."""
    rows: Array
    """float64 [component value]: orthonormal rows."""

    @property
    def nyquist(self) -> str | None:
        """Name of the component (-1)^j / sqrt(p) of an even p; None for an odd p."""
        return None if self.p % 2 else f"cos {self.p // 2}"

    def index(self, name: str) -> int:
        """Return the place of a named component. Raises `InputError` for a name this basis lacks."""
        if name not in self.names:
            raise InputError(
                f"no component {name!r} for p = {self.p}: expected const, cos 1 to cos {self.p // 2}"
                f" or sin 1 to sin {(self.p - 1) // 2}"
            )
        return self.names.index(name)

    def of(self, k: int) -> Array:
        """Return the rows of frequency k: float64 [component value], 2 of them, 1 for 0 and Nyquist."""
        return self.rows[self.frequency == fold(k, self.p)]


@lru_cache(maxsize=None, typed=True)
def basis(p: Any) -> Basis:
    """Return the Fourier basis over Z_p.

    Rows: 1/sqrt(p); sqrt(2/p) cos(2 pi k j/p) and sqrt(2/p) sin(2 pi k j/p) for 0 < k < p/2; (-1)^j/sqrt(p)
    for an even p. Raises `InputError` for p < 2.
    """
    p = check_modulus(p)
    j = np.arange(p)
    names, frequency, rows = ["const"], [0], [np.full(p, 1 / math.sqrt(p))]
    for k in range(1, (p + 1) // 2):
        angle = 2 * np.pi * (k * j % p) / p
        names += [f"cos {k}", f"sin {k}"]
        frequency += [k, k]
        rows += [math.sqrt(2 / p) * np.cos(angle), math.sqrt(2 / p) * np.sin(angle)]
    if p % 2 == 0:
        names.append(f"cos {p // 2}")
        frequency.append(p // 2)
        rows.append((-1.0) ** j / math.sqrt(p))
    arrays = np.array(frequency), np.array(rows)
    for array in arrays:
        array.setflags(write=False)
    return Basis(p, tuple(names), *arrays)


def check_modulus(p: Any) -> int:
    """Return p as an int. Raises `InputError` unless it is a whole number of at least 2."""
    try:
        number = operator.index(p)
    except TypeError:
        number = 0
    if number < 2 or isinstance(p, bool):
        raise InputError(f"a modulus is a whole number of at least 2; got {p!r}")
    return number


def fold(k: int, p: int) -> int:
    """Return the frequency that k names, 0..p//2, as k and p - k are one."""
    return min(k % p, -k % p)


def folded(frequencies: Iterable[SupportsIndex], p: int) -> tuple[int, ...]:
    """Return distinct folded frequencies in order of appearance. Raises `InputError` for the constant."""
    found = dict.fromkeys(fold(operator.index(k), p) for k in frequencies)
    if 0 in found:
        raise InputError(
            f"frequency 0 is the constant, which is not a choice: name frequencies 1 to {p // 2}"
        )
    return tuple(found)


def period(k: int, p: int) -> int:
    """Return how many values one repeat of frequency k spans: p / gcd(k, p)."""
    return p // math.gcd(k, p)


def float64(x: Any) -> Array:
    """Return a torch tensor or anything array-like as a float64 array. Raises `InputError` for NaN or infinity."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    values = np.asarray(x, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError("expected finite numbers; got NaN or infinity")
    return values


def transform(x: Any, *, axis: int = 0) -> Array:
    """Return the coefficients along one value axis, which becomes the axis `component`.

    x: [... value ...]. Same unit as x; energy is kept exactly (Parseval).
    """
    values = np.moveaxis(float64(x), axis, 0)
    coefficients = np.tensordot(basis(len(values)).rows, values, axes=1)
    return np.moveaxis(coefficients, 0, axis)


def inverse(coefficients: Any, *, axis: int = 0) -> Array:
    """Return the array over values that has these coefficients [... component ...]."""
    values = np.moveaxis(float64(coefficients), axis, 0)
    return np.moveaxis(np.tensordot(basis(len(values)).rows.T, values, axes=1), 0, axis)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Energy by frequency, summed over all other axes."""

    p: int
    """Modulus."""
    energy: Array
    """float64 [freq], frequencies 0..p//2: squared norm of each frequency's components."""

    @property
    def shares(self) -> Array:
        """float64 [freq]: share of the energy without the constant; 0 at frequency 0, all 0 for a constant."""
        rest = np.array([0.0, *self.energy[1:]])
        return rest / rest.sum() if rest.sum() > 0 else rest

    def strongest(self, n: int) -> tuple[int, ...]:
        """Return the n frequencies of most energy, strongest first, without the constant."""
        return tuple(int(k) for k in 1 + np.argsort(-self.energy[1:], kind="stable")[:n])


def energy_by_frequency(x: Any, *, axis: int = 0) -> Array:
    """Return float64 [freq ...]: energy of frequencies 0..p//2 along a value axis, other axes kept in order."""
    squares = np.moveaxis(transform(x, axis=axis), axis, 0) ** 2
    starts = np.flatnonzero(np.diff(basis(len(squares)).frequency, prepend=-1))
    return np.add.reduceat(squares, starts, axis=0)


def spectrum(x: Any, *, axis: int = 0) -> Spectrum:
    """Return the energy by frequency along a value axis: W_E[:p], or W_out W_U with axis=1."""
    energy = energy_by_frequency(x, axis=axis)
    return Spectrum(float64(x).shape[axis], energy.reshape(len(energy), -1).sum(1))
