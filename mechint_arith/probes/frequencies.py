"""The dominant frequency of each neuron over all pairs, with its share of the energy and its phases.

Frequencies of a whole layer belong in `key_frequencies`, the comparison of two routes in `routes`.

Source: Nanda et al. 2023, arXiv 2301.05217, section 4.2 and appendix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes.fourier import ROUNDING
from mechint_arith.probes.pairs import blocks_of, over_pairs, transform_pairs

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class NeuronFrequencies:
    """The dominant frequency of each neuron over all pairs, and the waves found there."""

    p: int
    """Modulus."""
    frequency: Array
    """int64 [neuron]: the frequency whose 3x3 block has most energy; 0 where the neuron is constant."""
    fraction: Array
    """float64 [neuron]: share of the centred energy in that block; 0 where the neuron is constant."""
    energy: Array
    """float64 [neuron]: centred energy, summed over pairs, in squared activation."""
    by_frequency: Array
    """float64 [freq neuron]: energy of each block, entry 0 being 0."""
    phase: dict[str, Array]
    """`lhs`, `rhs`, `sum` -> float64 [neuron], radians: the wave is cos(w_k x - phase), x = a, b or a+b."""
    amplitude: dict[str, Array]
    """`lhs`, `rhs`, `sum` -> float64 [neuron]: amplitude of that wave, in the unit of the activation."""

    def clusters(self, *, least: float = 0.0) -> dict[int, Array]:
        """Return frequency -> neurons int64 [neuron] whose explained fraction is at least `least`."""
        chosen = (self.frequency > 0) & (self.fraction >= least)
        return {
            int(k): np.flatnonzero(chosen & (self.frequency == k))
            for k in np.unique(self.frequency[chosen])
        }


def neuron_frequencies(neurons: Any) -> NeuronFrequencies:
    """Return the dominant frequency, its share and its phases for each neuron.

    neurons: [a b neuron], activations over all pairs. Frequency: the k with the largest energy in the block
    {const, cos k, sin k} x {const, cos k, sin k}, the mean over pairs removed. Phases are read from the
    marginal waves over a and over b and from the sum directions; a wave without amplitude has phase 0.
    Raises `InputError` for another shape or numbers that are not finite.
    """
    values = over_pairs(neurons)
    if values.ndim != 3:
        raise InputError(f"expected activations [a b neuron]; got shape {values.shape}")
    p = len(values)
    centred = values - values.mean((0, 1))
    coefficients = transform_pairs(centred)
    by_frequency = blocks_of(coefficients)
    energy = (centred**2).sum((0, 1))
    energy[energy <= ROUNDING * (values**2).sum((0, 1))] = 0
    by_frequency[0] = 0
    by_frequency[:, energy == 0] = 0
    frequency = by_frequency.argmax(0)
    best = by_frequency.max(0)
    fraction = np.divide(best, energy, out=np.zeros_like(best), where=energy > 0)
    waves = _waves(coefficients, frequency)
    return NeuronFrequencies(
        p,
        frequency,
        np.minimum(fraction, 1),
        energy,
        by_frequency,
        {name: np.angle(wave) for name, wave in waves.items()},
        {name: np.abs(wave) for name, wave in waves.items()},
    )


def _waves(coefficients: Array, frequency: Array) -> dict[str, Array]:
    """Return lhs, rhs, sum -> complex128 [neuron]: amplitude times exp(i phase) at each neuron's frequency."""
    p, neuron = len(coefficients), np.arange(len(frequency))
    nyquist = 2 * frequency == p
    cosine = np.maximum(2 * frequency - 1, 0)
    sine = np.where(nyquist, 0, 2 * frequency)
    has_sine = (frequency > 0) & ~nyquist

    def at(over_a: Array | int, over_b: Array | int) -> Array:
        return coefficients[over_a, over_b, neuron]

    norm = np.where(nyquist, 1.0, np.sqrt(2.0)) / p * (frequency > 0)
    waves = {
        "lhs": norm * (at(cosine, 0) + 1j * has_sine * at(sine, 0)),
        "rhs": norm * (at(0, cosine) + 1j * has_sine * at(0, sine)),
    }
    both = np.where(has_sine, at(cosine, cosine) - at(sine, sine), at(cosine, cosine))
    turned = has_sine * (at(sine, cosine) + at(cosine, sine))
    return {**waves, "sum": (frequency > 0) / p * (both + 1j * turned)}
