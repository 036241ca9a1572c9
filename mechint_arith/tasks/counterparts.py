"""Corrupted prompts for assign-and-add: the layout of a clean prompt with every variable and every number changed.

Assignments and PADs stay where they are, so each named place holds the same kind of token in both runs and differs
in nothing but what it says. No model is known here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, finish
from mechint_arith.tasks.batch import Batch


def counterparts(
    task: AssignAdd, prompts: Mapping[str, Batch], rng: np.random.Generator
) -> dict[str, Batch]:
    """Return the corrupted partner of each prompt that `matched` built: route -> Batch, rows aligned.

    Each operand gets another variable (the two again an allowed pair) and another number (the two again a seen
    pair, with another sum); all variables are renamed consistently, all other numbers drawn anew.
    Raises `InputError` where the task is too small for that, or the route `both` is missing.
    """
    if "both" not in prompts:
        raise InputError(f"counterparts need the route both; got {', '.join(prompts) or 'none'}")
    both = prompts["both"]
    old = np.stack([both.factors["left variable"], both.factors["right variable"]], 1)
    new = _other_variables(task, old, rng)
    a, b = np.divmod(_other_pairs(task, both.factors["a"], both.factors["b"], rng), task.p)
    prefix = both.tokens[:, : task.length - 4].copy()
    first = task.variable_ids[0]
    names = _renamings(task.n_vars, old, new, rng)
    row, column = np.nonzero((prefix >= first) & (prefix < first + task.n_vars))
    prefix[row, column] = first + names[row, prefix[row, column] - first]
    row, column = np.nonzero(prefix < task.p)
    shift = rng.integers(1, task.p, len(row))
    prefix[row, column] = (prefix[row, column] + shift) % task.p
    at = np.stack([both.positions["variable of lhs"], both.positions["variable of rhs"]], 1)
    every = np.arange(len(both))
    for k, number in enumerate((a, b)):
        prefix[every, at[:, k] + 1] = number
    count = both.factors["assignments"]
    return {
        route: finish(task, prefix, at, np.full(len(both), form), a, b, new[:, 0], new[:, 1], count)
        for form, route in enumerate(ROUTES)
        if route in prompts
    }


def _other_variables(task: AssignAdd, old: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw for each row an allowed pair (left, right) that differs from `old` int [batch 2] on both sides."""
    choices = task.variable_pairs()
    fits = (old[:, None] != choices).all(2)
    return choices[_one_of(fits, "variable pair", rng)]


def _other_pairs(
    task: AssignAdd, a: np.ndarray, b: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw for each row a seen pair id whose two numbers and whose sum all differ from a, b, a + b."""
    choices = task.pairs(held=False)
    x, y = np.divmod(choices, task.p)
    fits = (x != a[:, None]) & (y != b[:, None]) & ((x + y - a[:, None] - b[:, None]) % task.p != 0)
    return choices[_one_of(fits, "number pair", rng)]


def _one_of(fits: np.ndarray, what: str, rng: np.random.Generator) -> np.ndarray:
    """Draw one true column per row of `fits` bool [batch choice], uniformly."""
    if not fits.any(1).all():
        raise InputError(
            f"this task is too small for corrupted prompts: some {what} has no other to stand in for it"
        )
    return np.where(fits, rng.random(fits.shape), -1.0).argmax(1)


def _renamings(
    n_vars: int, old: np.ndarray, new: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw for each row a permutation of the variables that takes `old` to `new` int [batch 2]: [batch variable]."""
    names = rng.permuted(np.tile(np.arange(n_vars), (len(old), 1)), axis=1)
    every = np.arange(len(old))
    for k in range(2):
        there = (names == new[:, k : k + 1]).argmax(1)
        names[every, there] = names[every, old[:, k]]
        names[every, old[:, k]] = new[:, k]
    return names
