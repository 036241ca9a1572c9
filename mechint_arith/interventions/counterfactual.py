"""What a causal model of the task predicts when one of its variables takes its value from another input.

The model: left -> value of left, right -> value of right, both -> answer. It knows numbers only; where a network
might hold a variable is `interchange`'s question.
Source: Geiger et al., arXiv 2106.02997.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks.batch import Batch

VARIABLES = ("left", "right", "sum")
"""Value of the left operand, value of the right one, and the answer."""

Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Operands int [batch] each -> answers int [batch] (or [batch answer])."""


def addition(p: int) -> Rule:
    """Return the rule (a + b) mod p."""
    return lambda a, b: (a + b) % p


def predicted(base: Batch, source: Batch, variable: str, rule: Rule) -> np.ndarray:
    """Return the answers for base inputs with one variable's value from the sources, shaped like their labels.

    Raises `InputError` for an unknown variable, batches without operands, and a rule that does not give the
    batches' own labels.
    """
    if variable not in VARIABLES:
        raise InputError(f"no variable {variable!r}: choose from {', '.join(VARIABLES)}")
    for name, batch in (("base", base), ("source", source)):
        if "a" not in batch.factors or "b" not in batch.factors:
            raise InputError(f"the {name} batch does not say its operands (factors a and b)")
        if not np.array_equal(rule(batch.factors["a"], batch.factors["b"]), batch.labels):
            raise InputError(
                f"the rule does not give the {name} batch's own answers; pass the task's as `rule`"
            )
    left = (source if variable in ("left", "sum") else base).factors["a"]
    right = (source if variable in ("right", "sum") else base).factors["b"]
    return rule(left, right)
