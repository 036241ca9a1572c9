"""Clean and corrupted assign-and-add prompts that differ in one operand's number and in nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.checked import amount, place

OPERANDS = {"lhs": "a", "rhs": "b"}


def contrasting(
    task: AssignAdd, route: str, n: int, *, change: str = "lhs", seed: int = 0
) -> tuple[Batch, Batch]:
    """Return n clean prompts of a route and their corrupted partners, rows aligned.

    Number pairs are seen ones. The partner gives the operand `change` (`lhs` or `rhs`) another number, in the
    query itself or in its assignment, so the answers always differ. Raises `InputError` for unknown names.
    """
    place(route, ROUTES, "route")
    if change not in OPERANDS:
        raise InputError(f"change is lhs or rhs, not {change!r}")
    if n < 1:
        raise InputError(f"at least one prompt is needed, not {n}")
    rng = np.random.default_rng((amount(seed, "the seed"), 500))
    seen = task.pairs(held=False)
    clean = matched(task, seen[rng.integers(0, len(seen), n)], rng)[route]
    number = OPERANDS[change]
    other = (clean.factors[number] + rng.integers(1, task.p, n)) % task.p
    tokens = clean.tokens.copy()
    tokens[np.arange(n), clean.positions[f"value of {change}"]] = other
    factors = {**clean.factors, number: other}
    factors["pair"] = factors["a"] * task.p + factors["b"]
    labels = (factors["a"] + factors["b"]) % task.p
    return clean, replace(clean, tokens=tokens, labels=labels, factors=factors)
