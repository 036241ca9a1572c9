"""Every modular operation seen as addition: in which order numbers have to be read for it to be a sum.

Subtraction adds -b. Modulo a prime, multiplication of the numbers 1..p-1 adds discrete logarithms, and division
adds a negative one; 0, which has none, is left out. In that order the Fourier tools for a+b apply to all of them.
Modulo a composite number the coprime numbers need not form one cycle, so no such order is given.

Source: Chughtai et al. 2023, arXiv 2302.03025 (representations of cyclic groups).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks.modular import ModularTask


@dataclass(frozen=True, eq=False)
class AdditiveView:
    """The task as i + j modulo n: what stands at place i, j and i + j."""

    n: int
    """Modulus of the sum."""
    lhs: np.ndarray
    """int64 [value]: the number a at place i."""
    rhs: np.ndarray
    """int64 [value]: the number b at place j."""
    classes: np.ndarray
    """int64 [value]: the answer at place i + j."""
    statement: str
    """The order in words."""

    @property
    def labels(self) -> np.ndarray:
        """int64 [value value]: (i + j) mod n."""
        i = np.arange(self.n)
        return (i[:, None] + i) % self.n

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Index (a [value 1], b [1 value]) that takes a table over (a, b) to one over (i, j)."""
        return self.lhs[:, None], self.rhs[None, :]


def why_not_additive(task: ModularTask) -> str | None:
    """Return the reason why a task is no addition in any order, or None if it is one."""
    if task.labels != "rule":
        return "its answers are random, so there is no rule to find"
    if task.op in ("mul", "div"):
        if not is_prime(task.p):
            return (
                f"multiplication modulo {task.p}, which is not prime, is not one cycle of numbers"
            )
        if task.p < 5:
            return f"modulo {task.p} there are too few numbers besides 0"
    return None


def additive_view(task: ModularTask) -> AdditiveView:
    """Return the order of numbers in which a task is addition. Raises `InputError` where there is none."""
    if reason := why_not_additive(task):
        raise InputError(f"no order of numbers makes this an addition: {reason}")
    p, numbers = task.p, np.arange(task.p)
    if task.op == "add":
        return AdditiveView(p, numbers, numbers, numbers, "numbers in their order")
    if task.op == "sub":
        return AdditiveView(p, numbers, -numbers % p, numbers, "b in the order of -b")
    root = primitive_root(p)
    powers = np.array([pow(root, i, p) for i in range(p - 1)])
    rhs = powers if task.op == "mul" else powers[-np.arange(p - 1) % (p - 1)]
    statement = f"numbers in the order of their logarithm to base {root}, 0 left out"
    return AdditiveView(p - 1, powers, rhs, powers, statement)


def is_prime(n: int) -> bool:
    """Whether n is a prime number."""
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))


def primitive_root(p: int) -> int:
    """Return the smallest number whose powers are all of 1..p-1, p a prime."""
    factors = [q for q in range(2, p) if (p - 1) % q == 0 and is_prime(q)]
    return next(g for g in range(1, p) if all(pow(g, (p - 1) // q, p) != 1 for q in factors))
