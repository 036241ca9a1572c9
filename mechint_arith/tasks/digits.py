"""Arithmetic over digits: a + b or a b, plain or modulo p, in any base and several formats.

The task, its sequence builder, the training distribution, a seeded hold-out, and test sets of one
length. Answers are written from the least significant digit, zero-padded, and are part of the
sequence (teacher forcing): answer digit i is read one position before it stands.
Where things stand is in `digit_layout`, exact arithmetic in `numerals`; no model is known here.
Source: arXiv 2407.17963; least-significant-first operands and the other arrangements are additions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types
from mechint_arith.tasks import numerals, vocab
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.checked import amount, within
from mechint_arith.tasks.digit_layout import DigitLayout

Array = np.ndarray

OPERATORS = {"add": vocab.PLUS, "mul": "*"}
KINDS = ("uniform", "longer", "both")
MOST_DIGITS = 10_000
"""Longer numbers take minutes to write."""
MOST_DRAWS = 10_000_000
"""Pairs drawn in search of held-out ones before giving up."""


class Part(NamedTuple):
    """One part of a training mixture."""

    kind: str
    """`uniform`: operands uniform on [0, B^digits); `longer`: the longer operand has exactly `digits`
    digits (D); `both`: both have (D~). A one-digit b is 1..B-1 in `both`, else 0..B-1."""
    digits: int
    """Digits of the operands."""
    share: float = 1.0
    """Probability of this part, before held-out pairs are left out."""


@dataclass(frozen=True)
class DigitsTask:
    """Operation, format, training distribution and split. Raises `InputError` naming every fault."""

    op: str = "add"
    """`add` or `mul`."""
    digits: int = 3
    """n, the longest operands in training."""
    longest: int = 6
    """The longest operands in tests."""
    modulus: int | None = None
    """p; None: the plain sum or product."""
    base: int = 10
    """B."""
    operand_width: int | None = None
    """Slots per operand; None: longest + 1, so that a last carry has a slot with operand digits."""
    answer_width: int | None = None
    """Slots of the answer; None: operand_width, 2 longest for products, the digits of p - 1 for a modulus."""
    order: str = "lsd"
    """Operands with the least (`lsd`) or most significant digit first (`msd`, the paper's)."""
    arrangement: str = "blocks"
    """`blocks`, `interleaved`, or `repeated` (a one-digit b once for every digit of a)."""
    separators: bool = False
    """Whether the operator and `=` are written."""
    single_b: bool = False
    """n-digit by 1-digit multiplication."""
    train_on: tuple[Any, ...] = ()
    """Training mixture, kept as `Part`s: (kind, digits, share), …; empty: uniform on [0, B^n)."""
    held_share: float = 0.05
    """Share of the unordered pairs {a, b} that training never shows."""
    split_seed: int = 0
    """Seed of that split."""

    def __post_init__(self) -> None:
        parts = tuple(Part(*part) for part in self.train_on) or (Part("uniform", self.digits),)
        object.__setattr__(self, "train_on", parts)
        if problems := list(wrong_types(self)) or list(self._problems()):
            raise InputError("digits task: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        if self.op not in OPERATORS:
            yield f"op must be one of {', '.join(OPERATORS)}, not {self.op!r}"
        if self.single_b and self.op != "mul":
            yield f"single_b is for op 'mul', not {self.op!r}"
        if not 1 <= self.digits <= self.longest:
            yield f"needs 1 <= digits <= longest, not {self.digits} and {self.longest}"
        widths = (self.longest, self.digits, self.operand_width or 0, self.answer_width or 0)
        if max(widths) > MOST_DIGITS:
            yield f"numbers have {MOST_DIGITS} digits at most, not {max(widths)}"
            return
        if not 2 <= self.base <= 1000:
            yield f"base must lie between 2 and 1000, not {self.base}"
        if not 0 <= self.held_share < 1:
            yield f"held_share must lie in [0, 1), not {self.held_share}"
        if self.split_seed < 0:
            yield f"split_seed cannot be negative: {self.split_seed}"
        yield from self._part_problems()
        if self.op in OPERATORS and self.digits >= 1 and self.base >= 2:
            yield from self._number_problems()

    def _part_problems(self) -> Iterator[str]:
        for part in self.train_on:
            if part.kind not in KINDS:
                yield f"a training part is one of {', '.join(KINDS)}, not {part.kind!r}"
            if not 1 <= part.digits <= self.digits:
                yield f"a training part has 1 to {self.digits} digits, not {part.digits}"
            if not part.share > 0:
                yield f"the share of a training part must be positive, not {part.share}"
        if not math.isclose(total := sum(part.share for part in self.train_on), 1, abs_tol=1e-9):
            yield f"the shares of the training parts must sum to 1, not {total:g}"

    def _number_problems(self) -> Iterator[str]:
        top = self.base**self.digits - 1
        largest = 2 * top if self.op == "add" else top * (self.base - 1 if self.single_b else top)
        if self.modulus is not None:
            if not 2 <= self.modulus <= 10**9:
                yield f"modulus must lie between 2 and 10^9, not {self.modulus}"
            elif self.modulus > largest:
                yield f"modulus {self.modulus} never acts in training, n = {self.digits}"
        if self.slots < self.longest:
            yield f"operand_width {self.slots} is too narrow for {self.longest} digits"
        if self.answer_slots < self._longest_answer:
            yield (
                f"answer_width {self.answer_slots} is too narrow: answers have up to"
                f" {self._longest_answer} digits"
            )
        try:
            _ = self.layout
        except InputError as error:
            yield str(error).removeprefix("digit layout: ")

    @property
    def _longest_answer(self) -> int:
        """Digits of the largest answer in tests."""
        if self.modulus is not None:
            return _n_digits(self.modulus - 1, self.base)
        return 2 * self.longest if self.op == "mul" and not self.single_b else self.longest + 1

    @property
    def slots(self) -> int:
        """Operand width W."""
        return self.longest + 1 if self.operand_width is None else self.operand_width

    @property
    def answer_slots(self) -> int:
        """Answer width C."""
        if self.answer_width is not None:
            return self.answer_width
        plain_like_operands = self.modulus is None and (self.op == "add" or self.single_b)
        return self.slots if plain_like_operands else self._longest_answer

    @cached_property
    def layout(self) -> DigitLayout:
        """Where everything stands."""
        return DigitLayout(
            self.slots,
            self.answer_slots,
            order=self.order,
            arrangement=self.arrangement,
            separators=self.separators,
            single_b=self.single_b,
        )

    @cached_property
    def vocab(self) -> vocab.Vocab:
        """Digits and, with separators, the operator and `=`."""
        marks = (OPERATORS[self.op], vocab.EQUALS) if self.separators else ()
        return vocab.digits(self.base, separators=marks)

    @property
    def d_vocab_out(self) -> int:
        """Number of answer classes: the digits."""
        return self.base

    @property
    def length(self) -> int:
        """Tokens per sequence."""
        return self.layout.length

    @property
    def bare_answer_slots(self) -> int:
        """Answer slots that no operand digit belongs to: to a relative model a cue to the place."""
        return max(0, self.answer_slots - self.slots)

    @property
    def shows_shorter(self) -> bool:
        """Whether training has pairs in which both operands have fewer than n digits."""
        return any(part.kind == "uniform" or part.digits < self.digits for part in self.train_on)


def build(task: DigitsTask, a: Array, b: Array) -> Batch:
    """Return the sequences of the pairs a, b: digits int64 [batch operand_width], b [batch 1] if it has one digit.

    Factors: `a`, `b` (numbers), `length` (digits of the longer one), `held` (is the pair held out?). Raises
    `InputError` for what are no digits, or arrays of another shape.
    """
    a, b = (within(digits, task.base, f"digits of {x}") for x, digits in (("a", a), ("b", b)))
    expected = ((len(a), task.slots), (len(a), 1 if task.single_b else task.slots))
    if (a.shape, b.shape) != expected:
        raise InputError(f"digits of a and b should be {expected}; got {(a.shape, b.shape)}")
    layout, labels = task.layout, answers(task, a, b)
    tokens = np.zeros((len(a), layout.length), np.int64)
    tokens[:, layout.a_places] = a
    tokens[:, layout.b_places] = b
    tokens[:, layout.answer_places] = labels
    if layout.operator_place is not None:
        tokens[:, layout.operator_place] = task.vocab.ids[OPERATORS[task.op]]
    if layout.equals_place is not None:
        tokens[:, layout.equals_place] = task.vocab.ids[vocab.EQUALS]
    return Batch(
        tokens,
        labels,
        int(layout.read_places[0]),
        {name: np.full(len(a), place) for name, place in layout.names.items()},
        {
            "a": numerals.numbers_of(a, task.base),
            "b": numerals.numbers_of(b, task.base),
            "length": np.maximum(numerals.length_of(a), numerals.length_of(b)),
            "held": is_held(task, a, b),
        },
    )


def build_numbers(task: DigitsTask, a: Array, b: Array) -> Batch:
    """Return the sequences of the numbers a, b [batch] (int64 or Python integers).

    Raises `InputError` where one is negative or has too many digits.
    """
    widths = (task.slots, 1 if task.single_b else task.slots)
    for name, numbers, width in zip("ab", (a, b), widths, strict=True):
        if any(not 0 <= int(number) < task.base**width for number in np.asarray(numbers).ravel()):
            raise InputError(f"{name} must have at most {width} digits in base {task.base}")
    digits = [numerals.digits_of(x, task.base, w) for x, w in zip((a, b), widths, strict=True)]
    return build(task, *digits)


def answers(task: DigitsTask, a: Array, b: Array) -> Array:
    """Return the answer's digits, int64 [batch answer], of digits a, b [batch width]. Exact."""
    base, width, p = task.base, task.answer_slots, task.modulus
    if p is not None:
        left, right = (numerals.remainder(x, p, base) for x in (a, b))
        result = (left + right if task.op == "add" else left * right) % p
        return numerals.digits_of(result, base, width)
    operation = numerals.add if task.op == "add" else numerals.multiply
    return operation(a, b, base, width)


def operands(task: DigitsTask, batch: Batch) -> tuple[Array, Array]:
    """Return the digits a, b [batch width] that stand in the sequences of a batch."""
    a, b = (batch.tokens[:, places] for places in (task.layout.a_places, task.layout.b_places))
    return a, b[:, :1] if task.single_b else b


def truncated_labels(task: DigitsTask, batch: Batch, *, digits: int | None = None) -> Array:
    """Return the labels [batch answer] of the truncated function f(a mod B^n, b mod B^n).

    digits: n, by default the training length of the task.
    """
    kept = np.arange(task.slots) < (task.digits if digits is None else digits)
    a, b = operands(task, batch)
    return answers(task, a * kept, b * kept[: b.shape[1]])


def is_held(task: DigitsTask, a: Array, b: Array) -> Array:
    """Return bool [batch]: does the split hold the pair {a, b} out of training?

    A seeded hash of the digits decides, so the split needs no table, does not depend on the
    widths, and treats (a, b) and (b, a) alike.
    """
    if not task.held_share:
        return np.zeros(len(a), bool)
    rng = np.random.default_rng(task.split_seed)
    odd = rng.integers(2**63, size=task.slots, dtype=np.uint64) * 2 + 1
    mixed = np.zeros(len(a), np.uint64)
    for digits in (a, b):
        mixed += _scrambled(digits.astype(np.uint64) @ odd[: digits.shape[1]])
    return _scrambled(mixed) < np.uint64(task.held_share * 2**64)


def training_batch(task: DigitsTask, n: int, rng: np.random.Generator) -> Batch:
    """Draw n training sequences: the mixture `train_on` without held-out pairs."""
    return build(task, *_draw_split(task, n, rng, held=False))


def held_out_batch(task: DigitsTask, n: int, rng: np.random.Generator) -> Batch:
    """Draw n held-out sequences of the training mixture: the in-domain test.

    Raises `InputError` where no pair is held out.
    """
    return build(task, *_draw_split(task, n, rng, held=True))


def test_batch(task: DigitsTask, length: int, n: int, rng: np.random.Generator) -> Batch:
    """Draw n pairs of exactly `length` digits (D~), or take every such pair once if there are at most n.

    A one-digit b is 1..B-1. Pairs up to n digits may have been seen: factor `held` tells.
    Raises `InputError` for a length the task has no room for.
    """
    if not 1 <= length <= task.longest:
        raise InputError(f"test lengths are 1 to {task.longest} digits; got {length}")
    amount(n, "the number of pairs")
    low, high = task.base ** (length - 1), task.base**length
    b_low, b_high = (1, task.base) if task.single_b else (low, high)
    if (high - low) * (b_high - b_low) <= n:
        a, b = np.meshgrid(np.arange(low, high), np.arange(b_low, b_high), indexing="ij")
        return build_numbers(task, a.ravel(), b.ravel())
    return build(task, *_draw(task, Part("both", length), n, rng))


test_batch.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for a test


def _draw(task: DigitsTask, part: Part, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw n pairs of a part: digits a [n operand_width], b alike or [n 1]."""
    k, base = part.digits, task.base
    a = np.zeros((n, task.slots), np.int64)
    b = np.zeros((n, 1 if task.single_b else task.slots), np.int64)
    a[:, :k] = rng.integers(base, size=(n, k))
    if task.single_b:
        b[:, 0] = rng.integers(part.kind == "both", base, size=n)
        if part.kind != "uniform":
            a[:, k - 1] = rng.integers(1, base, size=n)
        return a, b
    b[:, :k] = rng.integers(base, size=(n, k))
    if part.kind == "both":
        a[:, k - 1], b[:, k - 1] = rng.integers(1, base, size=(2, n))
    elif part.kind == "longer":  # any top digits but (0, 0)
        a[:, k - 1], b[:, k - 1] = np.divmod(rng.integers(1, base**2, size=n), base)
    return a, b


def _draw_mixture(task: DigitsTask, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw n pairs of the training mixture, held out or not."""
    if len(task.train_on) == 1:
        return _draw(task, task.train_on[0], n, rng)
    counts = rng.multinomial(n, [part.share for part in task.train_on]).tolist()
    drawn = [_draw(task, p, c, rng) for p, c in zip(task.train_on, counts, strict=True)]
    order = rng.permutation(n)
    return tuple(np.concatenate(rows)[order] for rows in zip(*drawn, strict=True))  # type: ignore[return-value]


def _draw_split(
    task: DigitsTask, n: int, rng: np.random.Generator, *, held: bool
) -> tuple[Array, Array]:
    """Draw n pairs of the mixture from one side of the split, by rejection."""
    if n < 1:
        raise InputError(f"a batch needs at least one sequence; got {n}")
    share = task.held_share if held else 1 - task.held_share
    kept: list[tuple[Array, Array]] = []
    found = drawn = 0
    while found < n:
        if drawn > MOST_DRAWS or not share:
            raise InputError(
                f"found {found} of {n} {'held-out' if held else 'training'} pairs:"
                f" held_share is {task.held_share}; {'raise' if held else 'lower'} it"
            )
        size = min(int((n - found) / share * 1.1) + 16, MOST_DRAWS // 10)
        a, b = _draw_mixture(task, size, rng)
        rows = is_held(task, a, b) == held
        kept.append((a[rows], b[rows]))
        found, drawn = found + int(rows.sum()), drawn + size
    a, b = (np.concatenate(side)[:n] for side in zip(*kept, strict=True))
    return a, b


def _scrambled(x: Array) -> Array:
    """Return uint64 [batch], mixed so that every input bit moves every output bit.

    The finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _n_digits(number: int, base: int) -> int:
    """Return how many digits a non-negative number has; 0 has one."""
    digits = 1
    while number >= base**digits:
        digits += 1
    return digits
