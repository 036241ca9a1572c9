"""Assign-and-add samples: the training mixture, the named evaluation pools, cells and exhaustive sets.

Each is a choice of forms, pairs and variables handed to the one builder in `assign_add`.
Source: arXiv 2605.31497; the held-pair x restricted-variable pools are additions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks import vocab
from mechint_arith.tasks.assign_add import (
    BOTH,
    DIRECT,
    LEFT,
    RIGHT,
    ROUTES,
    SIDES,
    AssignAdd,
    build,
)
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.checked import amount, place, within


def _n_assignments(
    task: AssignAdd, form: np.ndarray, rng: np.random.Generator, *, training: bool
) -> np.ndarray:
    """Draw the number of assignments: uniform from 1 up; two-variable rows draw from 1 and are lifted to 2 in
    training, and draw from 2 in pools."""
    fewest = np.where((form == BOTH) & (not training), 2, 1)
    drawn = fewest + (rng.random(len(form)) * (task.max_assignments + 1 - fewest)).astype(np.int64)
    return np.where(form == BOTH, np.maximum(drawn, 2), drawn)


@dataclass(frozen=True)
class Mixture:
    """The training distribution, prepared once: draw batches with `sample`."""

    task: AssignAdd

    @cached_property
    def weights(self) -> np.ndarray:
        """Probability of each form, float [4]: per pair n_vars : left : right : left variables (12/10/10/10)."""
        task = self.task
        n_left, n_right = (len(task.variables(side)) for side in SIDES)
        both = n_left * task.two_var_frequency
        if task.two_var_rule == "rows":
            both = len(self._kept_rows) / len(task.pairs(held=False))
        weights = np.array([task.n_vars, n_left, n_right, both], dtype=float)
        return weights / weights.sum()

    @cached_property
    def _kept_rows(self) -> np.ndarray:
        """Two-variable rows kept by the paper's rule, int [row 2]: (left variable, pair)."""
        task = self.task
        pairs = task.pairs(held=False)
        kept = [
            (v, pair)
            for v in task.variables("left")
            for pair in pairs
            if random.Random(task.split_seed + int((v * 4 + BOTH) * task.p**2 + pair)).random()
            < task.two_var_frequency
        ]
        return np.array(kept, dtype=np.int64).reshape(-1, 2)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n training sequences."""
        task = self.task
        amount(n, "the number of sequences")
        seen = task.pairs(held=False)
        form = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(n), side="right")
        pair = seen[rng.integers(0, len(seen), n)]
        left = _choose(task.variables("left"), n, rng)
        right = _choose(task.variables("right"), n, rng)
        both = form == BOTH
        allowed = task.variable_pairs()
        left[both], right[both] = allowed[rng.integers(0, len(allowed), both.sum())].T
        if task.two_var_rule == "rows" and both.any():
            left[both], pair[both] = self._kept_rows[
                rng.integers(0, len(self._kept_rows), both.sum())
            ].T
            right[both] = self._partner(left[both], rng)
        a, b = np.divmod(pair, task.p)
        return build(
            task, form, a, b, left, right, _n_assignments(task, form, rng, training=True), rng
        )

    def _partner(self, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw an allowed right variable other than `left`."""
        right = self.task.variables("right")
        place = np.searchsorted(right, left)
        mine = (place < len(right)) & (right[np.minimum(place, len(right) - 1)] == left)
        drawn = (rng.random(len(left)) * (len(right) - mine)).astype(np.int64)
        return right[drawn + (mine & (drawn >= place))]


def _choose(choices: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return choices[rng.integers(0, len(choices), n)]


@dataclass(frozen=True)
class Pool:
    """A named evaluation set: which forms, which pairs, how many broken side rules."""

    forms: tuple[int, ...]
    held: bool
    violations: int = 0


POOLS: Mapping[str, Pool] = {
    "0var_seen": Pool((DIRECT,), False),
    "0var_held": Pool((DIRECT,), True),
    "1var_seen": Pool((LEFT, RIGHT), False),
    "1var_held": Pool((LEFT, RIGHT), True),
    "1var_restricted": Pool((LEFT, RIGHT), False, 1),
    "2var_seen": Pool((BOTH,), False),
    "2var_held": Pool((BOTH,), True),
    "2var_restricted_1": Pool((BOTH,), False, 1),
    "2var_restricted_2": Pool((BOTH,), False, 2),
    "1var_held_restricted": Pool((LEFT, RIGHT), True, 1),
    "2var_held_restricted_1": Pool((BOTH,), True, 1),
    "2var_held_restricted_2": Pool((BOTH,), True, 2),
}
PAPER_POOLS = tuple(POOLS)[:9]


def pool(task: AssignAdd, name: str, n: int, rng: np.random.Generator) -> Batch:
    """Draw n sequences of a pool, uniformly with replacement.

    Raises `InputError` for an unknown pool and for one that the task's restrictions leave empty.
    """
    place(name, tuple(POOLS), "pool")
    amount(n, "the number of sequences")
    rule = POOLS[name]
    forms = [form for form in rule.forms if _has_variables(task, form, rule.violations)]
    if not forms:
        raise InputError(f"pool {name} is empty: this task restricts too few variables")
    form = _choose(np.array(forms), n, rng)
    pair = _choose(task.pairs(held=rule.held), n, rng)
    left, right = np.full(n, -1), np.full(n, -1)
    for f, side, variable in ((LEFT, "left", left), (RIGHT, "right", right)):
        rows = form == f
        if rows.any():
            choices = task.variables(side, restricted=rule.violations > 0)
            variable[rows] = _choose(choices, int(rows.sum()), rng)
    if BOTH in forms:
        choices = task.variable_pairs(rule.violations)
        left, right = choices[rng.integers(0, len(choices), n)].T
    a, b = np.divmod(pair, task.p)
    return build(
        task, form, a, b, left, right, _n_assignments(task, form, rng, training=False), rng
    )


def _has_variables(task: AssignAdd, form: int, violations: int) -> bool:
    if form == DIRECT:
        return violations == 0
    if form == BOTH:
        return len(task.variable_pairs(violations)) > 0
    return len(task.variables(ROUTES[form], restricted=violations > 0)) > 0


def pool_names(task: AssignAdd) -> list[str]:
    """The pools that this task's restrictions do not leave empty, the paper's nine first."""
    return [
        name
        for name, rule in POOLS.items()
        if any(_has_variables(task, form, rule.violations) for form in rule.forms)
    ]


def cells(task: AssignAdd, n: int, rng: np.random.Generator, *, held: bool = False) -> Batch:
    """Draw n one-variable sequences for each cell (variable x side); factor `cell` = variable * 2 + side."""
    cell = np.repeat(np.arange(2 * task.n_vars), amount(n, "the number of sequences"))
    variable, side = np.divmod(cell, 2)
    a, b = np.divmod(_choose(task.pairs(held=held), len(cell), rng), task.p)
    form = np.where(side == 0, LEFT, RIGHT)
    count = _n_assignments(task, form, rng, training=False)
    batch = build(task, form, a, b, variable, variable, count, rng)
    return _with_factor(batch, "cell", cell)


def cell_name(task: AssignAdd, cell: int) -> str:
    """`a left`, `a right`, `b left`, …"""
    return f"{vocab.variable_names(task.n_vars)[cell // 2]} {SIDES[cell % 2]}"


def is_restricted(task: AssignAdd, cell: int) -> bool:
    """Whether training never shows this variable on this side."""
    return bool(np.isin(cell // 2, task.variables(SIDES[cell % 2], restricted=True)))


def _with_factor(batch: Batch, name: str, values: np.ndarray) -> Batch:
    return Batch(
        batch.tokens, batch.labels, batch.read, batch.positions, {**batch.factors, name: values}
    )


def on_pairs(task: AssignAdd, route: str, pair: np.ndarray, rng: np.random.Generator) -> Batch:
    """Draw one sequence of a route for each given pair id, with allowed variables.

    Raises `InputError` for an unknown route or a pair id that does not exist.
    """
    pair = within(pair, task.p**2, "pair ids a * p + b")
    form = np.full(len(pair), place(route, ROUTES, "route"))
    left, right = np.full(len(pair), -1), np.full(len(pair), -1)
    if route == "both":
        choices = task.variable_pairs()
        left, right = choices[rng.integers(0, len(choices), len(pair))].T
    elif route != "direct":
        left = right = _choose(task.variables(route), len(pair), rng)
    a, b = np.divmod(pair, task.p)
    count = _n_assignments(task, form, rng, training=False)
    return build(task, form, a, b, left, right, count, rng)


def exhaustive(
    task: AssignAdd,
    route: str,
    *,
    held: bool,
    violations: int = 0,
    rng: np.random.Generator,
) -> Batch:
    """Every pair x every operand variable (or variable pair) of a route once, each with its own random prefix."""
    form = place(route, ROUTES, "route")
    pairs = task.pairs(held=held)
    if form == DIRECT:
        variables = np.array([[-1, -1]])
    elif form == BOTH:
        variables = task.variable_pairs(violations)
    else:
        choices = task.variables(route, restricted=violations > 0)
        variables = np.stack([choices, choices], 1)
    a, b = np.divmod(np.repeat(pairs, len(variables)), task.p)
    left, right = np.tile(variables, (len(pairs), 1)).T
    forms = np.full(len(a), form)
    count = _n_assignments(task, forms, rng, training=False)
    return build(task, forms, a, b, left, right, count, rng)
