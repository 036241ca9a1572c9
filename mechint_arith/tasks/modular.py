"""Modular arithmetic on a pair of numbers: `a b =` with the answer (a op b) mod p read at `=`.

The whole problem is a table of at most p^2 pairs, so a batch is the table or a part of it. Layouts met in
outside files are options: no `=` (read at the second operand), and a vocabulary of its own for the second
operand. No model is known here. Source: Nanda et al. 2023, arXiv 2301.05217, section 3; layouts of
Zhong et al. 2023, arXiv 2306.17844.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types
from mechint_arith.memory import shortage
from mechint_arith.tasks import vocab
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.checked import Ids, within

OPERATIONS: Mapping[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
LABELS = ("rule", "random")
BYTES_PER_PAIR = 160
"""About the memory of the split and of a batch of all pairs, per pair."""


@dataclass(frozen=True)
class ModularTask:
    """The task: modulus, operation, layout and split. Raises `InputError` naming every fault."""

    p: int = 113
    """Modulus; numbers are 0..p-1. May be even or composite."""
    op: str = "add"
    """`add`, `sub`, `mul` or `div`; a div b exists only where b is coprime to p."""
    train_share: float = 0.3
    """Share of the pairs that training sees."""
    split_seed: int = 0
    """Seed of the split into seen and held-out pairs."""
    equals: bool = True
    """Whether a closing `=` follows the operands; without one the answer is read at the second operand."""
    diff_vocab: bool = False
    """Whether the second operand b is token p + b, so that the operands share no embedding."""
    labels: str = "rule"
    """`rule`: the right answers; `random`: a uniform answer per pair, which can only be memorised (a control)."""
    label_seed: int = 0
    """Seed of random answers."""

    def __post_init__(self) -> None:
        if problems := list(wrong_types(self)) or list(self._problems()):
            raise InputError("modular task: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        if self.p < 2:
            yield f"p must be at least 2, not {self.p}"
        if lack := shortage(BYTES_PER_PAIR * self.p**2):
            yield f"the table of {self.p}^2 pairs needs {lack}"
            return
        if self.label_seed < 0:
            yield f"label_seed cannot be negative: {self.label_seed}"
        if self.op not in OPERATIONS:
            yield f"op must be one of {', '.join(OPERATIONS)}, not {self.op!r}"
        if self.labels not in LABELS:
            yield f"labels must be one of {', '.join(LABELS)}, not {self.labels!r}"
        if not 0 < self.train_share < 1:
            yield f"train_share must lie between 0 and 1, not {self.train_share}"
        elif self.p >= 2 and self.op in OPERATIONS:
            n = int(self.valid.sum())
            if not 0 < int(self.train_share * n) < n:
                reason = (
                    f" (division has only the {n // self.p} divisors coprime to {self.p})"
                    if self.op == "div"
                    else ""
                )
                yield f"train_share {self.train_share} of {n} pairs leaves a side empty{reason}"

    @cached_property
    def vocab(self) -> vocab.Vocab:
        """Numbers, the second operand's own numbers (`0'`, `1'`, …) if it has them, `=` if there is one."""
        if not self.diff_vocab:
            return vocab.modular(self.p, equals=self.equals)
        numbers = [str(j) for j in range(self.p)]
        closing = [vocab.EQUALS] if self.equals else []
        return vocab.Vocab((*numbers, *(f"{number}'" for number in numbers), *closing))

    @property
    def d_vocab_out(self) -> int:
        """Number of answer classes."""
        return self.p

    @property
    def length(self) -> int:
        """Tokens per sequence."""
        return 3 if self.equals else 2

    @property
    def places(self) -> Mapping[str, int]:
        """Position of each token by name."""
        return {"lhs": 0, "rhs": 1, **({"equals": 2} if self.equals else {})}

    @cached_property
    def valid(self) -> np.ndarray:
        """Mask bool [p * p] of the pairs a * p + b that have an answer: all, but for division."""
        b = np.arange(self.p * self.p) % self.p
        if self.op != "div":
            return np.ones(len(b), dtype=bool)
        return np.gcd(b, self.p) == 1

    @cached_property
    def answers(self) -> np.ndarray:
        """Labels int64 [a b]; -1 where a pair has no answer."""
        a, b = np.ogrid[: self.p, : self.p]
        if self.labels == "random":
            drawn = np.random.default_rng(self.label_seed).integers(0, self.p, (self.p, self.p))
        elif self.op == "add":
            drawn = (a + b) % self.p
        elif self.op == "sub":
            drawn = (a - b) % self.p
        elif self.op == "mul":
            drawn = a * b % self.p
        else:
            inverse = [pow(j, -1, self.p) if math.gcd(j, self.p) == 1 else 0 for j in range(self.p)]
            drawn = a * np.array(inverse) % self.p
        return np.where(self.valid.reshape(self.p, self.p), drawn, -1).astype(np.int64)

    def answer(self, a: int, b: int) -> int:
        """Return the label of one pair. Raises `InputError` for other numbers, or a quotient that is none."""
        if not (0 <= a < self.p and 0 <= b < self.p):
            raise InputError(f"numbers modulo {self.p} are 0 to {self.p - 1}; got {a} and {b}")
        if self.answers[a, b] < 0:
            raise InputError(
                f"{a} / {b} modulo {self.p} does not exist: {b} and {self.p} have the common divisor"
                f" {math.gcd(b, self.p)}; divide by a number coprime to {self.p}"
            )
        return int(self.answers[a, b])

    @cached_property
    def seen(self) -> np.ndarray:
        """Mask bool [p * p] of the training pairs: floor(train_share * pairs) drawn without replacement."""
        ids = np.flatnonzero(self.valid)
        seen = np.zeros(self.p * self.p, dtype=bool)
        n = int(self.train_share * len(ids))
        seen[ids[random.Random(self.split_seed).sample(range(len(ids)), n)]] = True
        return seen

    def pairs(self, *, held: bool | None = None) -> np.ndarray:
        """Ids a * p + b of the seen or held-out pairs, or (None) of all that have an answer, in order."""
        if held is None:
            return np.flatnonzero(self.valid)
        return np.flatnonzero(self.valid & ~self.seen if held else self.seen)

    def batch(self, pairs: Ids | None = None) -> Batch:
        """Return one sequence per pair id, by default for every pair that has an answer, a slowest.

        Factors: a, b, pair, and held (bool: not in training). Raises `InputError` for an id without answer.
        """
        ids = within(self.pairs() if pairs is None else pairs, self.p**2, "pair ids a * p + b")
        if not self.valid[ids].all():
            raise InputError(f"pairs are ids a * {self.p} + b with b coprime to {self.p}")
        a, b = np.divmod(ids, self.p)
        columns = [a, b + self.p if self.diff_vocab else b]
        if self.equals:
            columns.append(np.full(len(ids), self.vocab.ids[vocab.EQUALS]))
        return Batch(
            np.stack(columns, 1).astype(np.int64),
            self.answers[a, b],
            self.length - 1,
            {name: np.full(len(ids), place) for name, place in self.places.items()},
            {"a": a, "b": b, "pair": ids, "held": ~self.seen[ids]},
        )

    def train(self) -> Batch:
        """Return the training pairs, each once: the full batch of the grokking set-up."""
        return self.batch(self.pairs(held=False))

    def held(self) -> Batch:
        """Return the held-out pairs, each once."""
        return self.batch(self.pairs(held=True))
