"""Clean and corrupted assign-and-add prompts that differ in one token: an operand's number, or the variable asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks.assign_add import ROUTES, SIDES, AssignAdd, finish, matched
from mechint_arith.tasks.batch import Batch, concatenate
from mechint_arith.tasks.checked import amount, place

OPERANDS = {"lhs": "a", "rhs": "b"}
CHANGES = (*OPERANDS, *(f"variable of {operand}" for operand in OPERANDS))
"""What a partner may have another of."""
DRAWS = 50
"""Rounds of drawing prompts in which another variable can be asked for."""

MOST = 1_000_000
"""Prompts drawn at once."""


def contrasting(
    task: AssignAdd, route: str, n: int, *, change: str = "lhs", seed: int = 0
) -> tuple[Batch, Batch]:
    """Return n clean prompts of a route and their corrupted partners, rows aligned; one token differs.

    change: `lhs` or `rhs` gives that operand another number, in the query itself or in its assignment;
    `variable of lhs` or `variable of rhs` asks for another assigned variable in its stead, with another number, so
    that the partner's `value of lhs` stands where that one is assigned. The answers always differ. Number pairs of
    clean prompts are seen ones, variable pairs of both are those of training.
    Raises `InputError` for unknown names, for a variable that the route does not ask for, and for a task too small.
    """
    if not isinstance(task, AssignAdd):
        raise InputError("contrasts of routes need an assign-and-add task")
    place(route, ROUTES, "route")
    if change not in CHANGES:
        raise InputError(f"change is one of {', '.join(CHANGES)}; not {change!r}")
    if not 1 <= n <= MOST:
        raise InputError(f"1 to {MOST:,} prompts can be drawn at once, not {n}")
    rng = np.random.default_rng((amount(seed, "the seed"), 500))
    if change in OPERANDS:
        return _other_number(task, _prompts(task, route, n, rng), change, rng)
    operand = change.removeprefix("variable of ")
    if route not in ("both", "left" if operand == "lhs" else "right"):
        raise InputError(f"the route {route} asks for no {change}: change lhs or rhs")
    return _other_variable(task, route, n, operand, rng)


def _prompts(task: AssignAdd, route: str, n: int, rng: np.random.Generator) -> Batch:
    seen = task.pairs(held=False)
    return matched(task, seen[rng.integers(0, len(seen), n)], rng)[route]


def _other_number(
    task: AssignAdd, clean: Batch, change: str, rng: np.random.Generator
) -> tuple[Batch, Batch]:
    n, number = len(clean), OPERANDS[change]
    other = (clean.factors[number] + rng.integers(1, task.p, n)) % task.p
    tokens = clean.tokens.copy()
    tokens[np.arange(n), clean.positions[f"value of {change}"]] = other
    factors = {**clean.factors, number: other}
    factors["pair"] = factors["a"] * task.p + factors["b"]
    labels = (factors["a"] + factors["b"]) % task.p
    return clean, replace(clean, tokens=tokens, labels=labels, factors=factors)


def _other_variable(
    task: AssignAdd, route: str, n: int, operand: str, rng: np.random.Generator
) -> tuple[Batch, Batch]:
    """Draw prompts until n of them assign a variable that may be asked for instead; prompts without are left."""
    found: list[Batch] = []
    starts: list[np.ndarray] = []
    for _ in range(DRAWS):
        drawn = _prompts(task, route, n, rng)
        fits = _alternatives(task, drawn, operand)
        rows = np.flatnonzero(fits.any(1))
        found.append(drawn[rows])
        starts.append(np.where(fits, rng.random(fits.shape), -1.0).argmax(1)[rows])
        if sum(map(len, found)) >= n:
            break
    else:
        raise InputError(
            f"this task is too small for another variable of {operand}: too few prompts assign one"
        )
    clean, start = concatenate(found)[:n], np.concatenate(starts)[:n]
    return clean, _asking(task, clean, operand, start)


def _alternatives(task: AssignAdd, batch: Batch, operand: str) -> np.ndarray:
    """Return where an assignment starts whose variable may be asked for instead: bool [batch prefix]."""
    prefix = batch.tokens[:, : task.places["plus"]]
    value = batch.tokens[:, 1 : prefix.shape[1] + 1]
    side, other = SIDES if operand == "lhs" else SIDES[::-1]
    allowed = np.isin(prefix, task.variable_ids[task.variables(side)])
    taken = task.variable_ids[0] + batch.factors[f"{other} variable"][:, None]
    return allowed & (prefix != taken) & (value != batch.factors[OPERANDS[operand]][:, None])


def _asking(task: AssignAdd, clean: Batch, operand: str, start: np.ndarray) -> Batch:
    """Return the prompts with the variable assigned at `start` int [batch] asked for as an operand."""
    prefix = clean.tokens[:, : task.places["plus"]]
    every, factors = np.arange(len(clean)), dict(clean.factors)
    k = list(OPERANDS).index(operand)
    at = np.stack([clean.positions[f"variable of {name}"] for name in OPERANDS], 1)
    at[:, k] = start
    factors[f"{SIDES[k]} variable"] = prefix[every, start] - task.variable_ids[0]
    factors[OPERANDS[operand]] = prefix[every, start + 1]
    names = ("form", "a", "b", "left variable", "right variable", "assignments")
    form, a, b, left, right, count = (factors[name] for name in names)
    return finish(task, prefix, at, form, a, b, left, right, count)
