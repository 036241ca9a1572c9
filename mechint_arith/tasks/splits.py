"""Seeded splits of all ordered number pairs into seen and held-out ones, and the strata of the latter.

A pair (a, b) is known by its place a * p + b in lexicographic order. No sequence is built here.
Source of the seed-42 rule: the released run of arXiv 2605.31497.
"""

import random

import numpy as np

STRATA = ("mirror seen", "mirror held", "diagonal")


def seen_pairs(p: int, share: float, seed: int) -> np.ndarray:
    """Return a mask bool [p * p] of the training pairs: floor(share * p^2) pairs drawn without replacement."""
    seen = np.zeros(p * p, dtype=bool)
    seen[random.Random(seed).sample(range(p * p), int(share * p * p))] = True
    return seen


def mirror(pair: np.ndarray, p: int) -> np.ndarray:
    """Return the ids of the pairs with their two numbers exchanged."""
    return pair % p * p + pair // p


def strata(pair: np.ndarray, seen: np.ndarray, p: int) -> np.ndarray:
    """Return int [pair] into `STRATA`: whether the mirrored pair was seen, was held out, or is the pair itself.

    Addition commutes, so a held-out pair whose mirror was seen is nearly a training point.
    """
    diagonal = pair // p == pair % p
    return np.where(diagonal, 2, np.where(seen[mirror(pair, p)], 0, 1))
