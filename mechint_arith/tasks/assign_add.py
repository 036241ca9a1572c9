"""Assign-and-add: `x=7, y=12, x+y=?` modulo p. THE sequence builder: training, pools and analyses all use it.

A sequence is a prefix of assignments (`variable value`, adjacent) and PADs, then `+ lhs rhs =`; the answer
is read at `=`. The four query forms are the four routes: direct (two numbers), left or right (one variable
on that side), both (two variables). Source: arXiv 2605.31497. No model is known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types
from mechint_arith.memory import shortage
from mechint_arith.tasks import splits, vocab
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.checked import Ids, amount, within

ROUTES = ("direct", "left", "right", "both")
QUERIES = {"direct": "7 + 12", "left": "x + 12", "right": "7 + y", "both": "x + y"}
"""What a query of each route looks like."""
DIRECT, LEFT, RIGHT, BOTH = range(4)
N_OPERAND_VARIABLES = np.array([0, 1, 1, 2])
SIDES = ("left", "right")
TWO_VAR_RULES = ("weight", "rows")


@dataclass(frozen=True)
class AssignAdd:
    """The task: modulus, variables, sequence length, restrictions and split. Raises `InputError` naming every fault."""

    p: int = 59
    """Modulus; numbers are 0..p-1."""
    n_vars: int = 12
    """Number of variables."""
    length: int = 16
    """Tokens per sequence, query included."""
    never_right: int = 2
    """How many of the first variables never stand right in training."""
    never_left: int = 2
    """How many of the last variables never stand left in training."""
    train_share: float = 0.7
    """Share of the p^2 ordered number pairs that training sees."""
    split_seed: int = 42
    """Seed of the split into seen and held-out pairs."""
    two_var_frequency: float = 1.0
    """How often two-variable rows occur, relative to the full mixture."""
    two_var_rule: str = "weight"
    """`weight`: sampling weight, all pairs stay covered; `rows`: a fixed subset of rows is kept, as the paper's code does."""

    def __post_init__(self) -> None:
        if problems := list(wrong_types(self)) or list(self._problems()):
            raise InputError("assign-add task: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        if self.p < 2:
            yield f"p must be at least 2, not {self.p}"
        if self.n_vars < 2:
            yield f"at least 2 variables are needed, not {self.n_vars}"
        if self.length < 8:
            yield f"length must be at least 8 (two assignments and a query), not {self.length}"
        if lack := shortage(self._bytes):
            yield f"tables of {self.p}^2 pairs and {self.n_vars}^2 variable pairs need {lack}"
            return
        if min(self.never_left, self.never_right) < 0:
            yield "the numbers of restricted variables cannot be negative"
        elif self.n_vars >= 2:
            yield from self._variable_problems()
        if not 0 < self.train_share < 1:
            yield f"train_share must lie between 0 and 1, not {self.train_share}"
        elif self.p >= 2 and not 0 < int(self.train_share * self.p**2) < self.p**2:
            yield f"train_share {self.train_share} of {self.p**2} pairs leaves a side empty"
        if not 0 <= self.two_var_frequency <= 1:
            yield f"two_var_frequency must lie in [0, 1], not {self.two_var_frequency}"
        if self.two_var_rule not in TWO_VAR_RULES:
            yield f"two_var_rule must be one of {', '.join(TWO_VAR_RULES)}, not {self.two_var_rule!r}"

    def _variable_problems(self) -> Iterator[str]:
        left, right = (self.variables(side) for side in SIDES)
        if not len(self.variable_pairs()):
            yield (
                f"{self.never_left} + {self.never_right} restricted of {self.n_vars} variables leave"
                " no variable pair for two-variable queries"
            )
        elif self.two_var_rule == "rows" and len(right) == 1 and right[0] in left:
            yield (
                f"the rule 'rows' pairs every left variable with another one, but"
                f" {vocab.variable_names(self.n_vars)[right[0]]}, which may stand left, is the only one"
                " that may stand right: lower never_right, raise never_left or use the rule 'weight'"
            )

    @property
    def _bytes(self) -> int:
        """About the memory that drawing sequences takes whatever their number: the split and the variable pairs."""
        rows = self.n_vars * self.two_var_frequency if self.two_var_rule == "rows" else 0
        return self.p**2 * (60 + 120 * math.ceil(rows)) + 60 * self.n_vars**2

    @cached_property
    def vocab(self) -> vocab.Vocab:
        """Numbers, `+`, `=`, `PAD`, variables."""
        return vocab.assign_add(self.p, self.n_vars)

    @property
    def d_vocab_out(self) -> int:
        """Number of answer classes."""
        return self.p

    @property
    def max_assignments(self) -> int:
        """The most assignments that fit before the query."""
        return min(self.n_vars, (self.length - 4) // 2)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Position of each query token by name."""
        plus = self.length - 4
        return {"plus": plus, "lhs": plus + 1, "rhs": plus + 2, "equals": plus + 3}

    @property
    def variable_ids(self) -> np.ndarray:
        """Token ids of the variables, int [n_vars]."""
        return np.arange(self.p + 3, self.p + 3 + self.n_vars)

    @cached_property
    def seen(self) -> np.ndarray:
        """Mask bool [p * p] of the training pairs."""
        return splits.seen_pairs(self.p, self.train_share, self.split_seed)

    def pairs(self, *, held: bool) -> np.ndarray:
        """Ids a * p + b of the seen or held-out pairs, in order."""
        return np.flatnonzero(~self.seen if held else self.seen)

    def variables(self, side: str, *, restricted: bool = False) -> np.ndarray:
        """Variables that training shows (or, `restricted`, never shows) on a side, int [variable]."""
        every = np.arange(self.n_vars)
        banned = (
            every >= self.n_vars - self.never_left if side == "left" else every < self.never_right
        )
        return every[banned if restricted else ~banned]

    def variable_pairs(self, violations: int = 0) -> np.ndarray:
        """Ordered pairs of different variables (left, right) that break so many side rules, int [pair 2]."""
        return _pairs(self.n_vars, self.never_left, self.never_right, violations)


def _pairs(n_vars: int, never_left: int, never_right: int, violations: int = 0) -> np.ndarray:
    left, right = np.divmod(np.arange(n_vars * n_vars), n_vars)
    broken = (left >= n_vars - never_left).astype(int) + (right < never_right)
    return np.stack([left, right], 1)[(left != right) & (broken == violations)]


def _assignments(
    task: AssignAdd,
    required: np.ndarray,
    required_values: np.ndarray,
    n_assignments: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the prefix int64 [batch, length - 4] and where each required variable stands, int64 [batch 2].

    `required` int [batch 2] holds variables that must be assigned (-1: none) and `required_values` their
    numbers. The other assignments are distractors: distinct variables, uniform values, uniform order. The
    PADs fall independently and uniformly into the gaps around the assignments.
    """
    batch, width = len(required), task.length - 4
    rows = np.arange(batch)
    most = int(n_assignments.max(initial=0))
    prefix = np.full((batch, width), task.vocab.ids[vocab.PAD], dtype=np.int64)
    at = np.full((batch, 2), -1, dtype=np.int64)
    if most == 0:
        return prefix, at
    order = np.empty((task.n_vars, batch), dtype=np.int64)
    order[:] = np.arange(task.n_vars)[:, None]

    def exchange(i: np.ndarray | int, j: np.ndarray, where: np.ndarray = rows) -> None:
        mine, theirs = order[i, where].copy(), order[j, where]
        order[j, where] = mine
        order[i, where] = theirs

    # Required variables go to the front, a partial Fisher-Yates shuffle draws the distractors behind them.
    n_required = np.zeros(batch, dtype=np.int64)
    for k in range(2):
        present = np.flatnonzero(required[:, k] >= 0)
        variable = required[present, k]
        if k == 1:  # the first required variable's exchange may have moved this one
            first = required[present, 0]
            variable = np.where((variable == 0) & (first > 0), first, variable)
        exchange(n_required[present], variable, present)
        n_required[present] += 1
    uniform = rng.random((most, batch), dtype=np.float32)
    for j in range(min(most, task.n_vars - 1)):
        drawn = j + (uniform[j] * np.float32(task.n_vars - j)).astype(np.int64)
        np.minimum(drawn, task.n_vars - 1, out=drawn)
        if j < 2:
            drawn = np.where(n_required > j, j, drawn)
        exchange(j, drawn)
    value = rng.integers(0, task.p, size=(most, batch), dtype=np.int64)
    slot = np.full((2, batch), -1, dtype=np.int64)
    place = rng.random((2, batch))
    for k in range(2):
        present = np.flatnonzero(required[:, k] >= 0)
        front = n_required[present] - 1 if k == 1 else np.zeros(len(present), dtype=np.int64)
        free = n_assignments[present] - front
        target = (place[k, present] * free).astype(np.int64)
        source = front
        if k == 1:
            other = slot[0, present]
            target += (front > 0) & (target >= other)
            source = np.where((front > 0) & (other == front), 0, front)
        exchange(source, target, present)
        slot[k, present] = target
        value[target, present] = required_values[present, k]

    flat = prefix.ravel()
    start = np.zeros((most, batch), dtype=np.int64)
    for n in range(1, most + 1):
        group = np.flatnonzero(n_assignments == n)
        gap = rng.integers(0, n + 1, size=(width - 2 * n, len(group)), dtype=np.min_scalar_type(n))
        for i in range(n):
            start[i, group] = begin = 2 * i + (gap <= i).sum(0, dtype=np.int64)
            cell = group * width + begin
            flat[cell] = order[i, group] + task.variable_ids[0]
            flat[cell + 1] = value[i, group]
    for k in range(2):
        at[:, k] = np.where(slot[k] >= 0, start[slot[k], rows], -1)
    return prefix, at


def build(
    task: AssignAdd,
    form: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    n_assignments: np.ndarray,
    rng: np.random.Generator,
) -> Batch:
    """Build one sequence per row, with uniform distractors.

    All arrays are int [batch]: `form` indexes `ROUTES`; `a`, `b` are the numbers; `left`, `right` the operand
    variables (0..n_vars-1, read only where the form has one); `n_assignments` counts the operands' own.
    Raises `InputError` where the assignments do not fit, an operand has none, or a number or variable does not exist.
    """
    form = within(form, len(ROUTES), "forms")
    a, b = within(a, task.p, "numbers"), within(b, task.p, "numbers")
    for has, variable in ((form % 2 == 1, left), (form >= 2, right)):
        within(np.asarray(variable)[has], task.n_vars, "operand variables")
    if n_assignments.max(initial=0) > task.max_assignments:
        raise InputError(
            f"{n_assignments.max()} assignments asked for, but at most {task.max_assignments} fit"
            f" {task.n_vars} variables and length {task.length}"
        )
    if (n_assignments < N_OPERAND_VARIABLES[form]).any():
        raise InputError("every operand variable needs an assignment: n_assignments is too small")
    required = np.stack([np.where(form % 2 == 1, left, -1), np.where(form >= 2, right, -1)], 1)
    if ((form == BOTH) & (left == right)).any():
        raise InputError("the two operand variables must differ")
    prefix, at = _assignments(task, required, np.stack([a, b], 1), n_assignments, rng)
    return finish(task, prefix, at, form, a, b, left, right, n_assignments)


def finish(
    task: AssignAdd,
    prefix: np.ndarray,
    at: np.ndarray,
    form: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    n_assignments: np.ndarray,
) -> Batch:
    """Put the query behind the prefix and name the places; direct operands are their own value positions."""
    batch = len(form)
    has = {"lhs": form % 2 == 1, "rhs": form >= 2}
    tokens = np.empty((batch, task.length), dtype=np.int64)
    tokens[:, : task.length - 4] = prefix
    tokens[:, task.places["plus"]] = task.vocab.ids[vocab.PLUS]
    tokens[:, task.places["lhs"]] = np.where(has["lhs"], task.variable_ids[0] + left, a)
    tokens[:, task.places["rhs"]] = np.where(has["rhs"], task.variable_ids[0] + right, b)
    tokens[:, task.places["equals"]] = task.vocab.ids[vocab.EQUALS]
    positions = {name: np.full(batch, place) for name, place in task.places.items()}
    for k, operand in enumerate(("lhs", "rhs")):
        positions[f"variable of {operand}"] = np.where(has[operand], at[:, k], -1)
        positions[f"value of {operand}"] = np.where(
            has[operand], at[:, k] + 1, task.places[operand]
        )
    factors = {
        "form": form,
        "a": a,
        "b": b,
        "pair": a * task.p + b,
        "left variable": np.where(has["lhs"], left, -1),
        "right variable": np.where(has["rhs"], right, -1),
        "assignments": n_assignments,
    }
    return Batch(tokens, (a + b) % task.p, task.places["equals"], positions, factors)


def matched(
    task: AssignAdd, pair: Ids, rng: np.random.Generator, *, max_distractors: int = 4
) -> dict[str, Batch]:
    """Build, for each pair id, one prefix and its four queries: route -> Batch, rows aligned.

    The prefix assigns v1 := a, v2 := b (an allowed variable pair) and 0..max_distractors others; the four
    prompts differ only at `lhs` and `rhs`. Where fewer distractors fit, the range is cut. Raises `InputError` for a
    pair id that does not exist or a negative number of distractors.
    """
    pair = within(pair, task.p**2, "pair ids a * p + b")
    n = len(pair)
    a, b = np.divmod(pair, task.p)
    allowed = task.variable_pairs()
    left, right = allowed[rng.integers(0, len(allowed), n)].T
    most = min(amount(max_distractors, "max_distractors"), task.max_assignments - 2)
    count = 2 + rng.integers(0, most + 1, n)
    prefix, at = _assignments(task, np.stack([left, right], 1), np.stack([a, b], 1), count, rng)
    return {
        route: finish(task, prefix, at, np.full(n, form), a, b, left, right, count)
        for form, route in enumerate(ROUTES)
    }
