"""Where the digits of a, b and the answer stand in a sequence.

Digits are counted from the least significant one; the answer is always written from it. No token
ids and no arithmetic here. `theory.constant_offsets` judges a layout.

    blocks       a2 a1 a0 + b2 b1 b0 = c0 c1 c2     order msd, with separators
    blocks       a0 a1 a2 b0 b1 b2 c0 c1 c2         order lsd
    blocks       a0 a1 a2 b0 c0 c1 c2               one-digit b
    repeated     a0 a1 a2 b0 b0 b0 c0 c1 c2         one-digit b
    interleaved  a0 b0 a1 b1 a2 b2 c0 c1 c2         a one-digit b beside every digit of a
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechint_arith.errors import InputError

ORDERS = ("lsd", "msd")
ARRANGEMENTS = ("blocks", "interleaved", "repeated")


@dataclass(frozen=True)
class DigitLayout:
    """A format of fixed width. Raises `InputError` naming every fault."""

    operand_width: int
    """Slots for the digits of a, and of a b with several digits."""
    answer_width: int
    """Slots for the digits of the answer."""
    order: str = "lsd"
    """Operands with the least (`lsd`) or the most significant digit first (`msd`)."""
    arrangement: str = "blocks"
    """`blocks`, `interleaved`, or `repeated` for a one-digit b."""
    separators: bool = False
    """Whether the operator stands between a and b (blocks only), and `=` before the answer."""
    single_b: bool = False
    """Whether b has one digit."""

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InputError("digit layout: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        for name in ("operand_width", "answer_width"):
            if getattr(self, name) < 1:
                yield f"{name} must be at least 1, not {getattr(self, name)}"
        if self.order not in ORDERS:
            yield f"order must be one of {', '.join(ORDERS)}, not {self.order!r}"
        if self.arrangement not in ARRANGEMENTS:
            yield f"arrangement must be one of {', '.join(ARRANGEMENTS)}, not {self.arrangement!r}"
        if self.arrangement == "repeated" and not self.single_b:
            yield "a repeated b needs single_b"

    @cached_property
    def a_places(self) -> np.ndarray:
        """Position of digit i of a, int64 [operand_width]."""
        slots = np.arange(self.operand_width)
        if self.arrangement == "interleaved":
            slots = 2 * slots
        return slots if self.order == "lsd" else slots[::-1]

    @cached_property
    def b_places(self) -> np.ndarray:
        """Position of digit i of b, or of the copy of its one digit for i; int64 [operand_width]."""
        if self.arrangement == "interleaved":
            return self.a_places + 1
        start = self.operand_width + self.separators
        if self.single_b and self.arrangement == "blocks":
            return np.full(self.operand_width, start)
        return start + self.a_places

    @property
    def operator_place(self) -> int | None:
        """Position of the operator; None where there is none."""
        blocks = self.arrangement != "interleaved"
        return self.operand_width if self.separators and blocks else None

    @property
    def equals_place(self) -> int | None:
        """Position of `=`; None where there is none."""
        return int(self.b_places.max()) + 1 if self.separators else None

    @cached_property
    def answer_places(self) -> np.ndarray:
        """Position of answer digit i as a token, int64 [answer_width]."""
        start = int(max(self.a_places.max(), self.b_places.max())) + 1 + self.separators
        return start + np.arange(self.answer_width)

    @property
    def read_places(self) -> np.ndarray:
        """Position whose logits give answer digit i, int64 [answer_width]: the one before it."""
        return self.answer_places - 1

    @property
    def length(self) -> int:
        """Tokens per sequence, answer included."""
        return int(self.answer_places[-1]) + 1

    @cached_property
    def names(self) -> dict[str, int]:
        """Name of every position: `a digit 0`, `b digit 0`, `b copy 0`, `operator`, `equals`, `answer digit 0`."""
        b_name = "b copy" if self.single_b else "b digit"
        groups = [("a digit", self.a_places), (b_name, self.b_places)]
        if self.single_b and self.arrangement == "blocks":
            groups[1] = ("b digit", self.b_places[:1])
        groups.append(("answer digit", self.answer_places))
        named = {f"{name} {i}": int(p) for name, places in groups for i, p in enumerate(places)}
        marks = {"operator": self.operator_place, "equals": self.equals_place}
        return named | {name: place for name, place in marks.items() if place is not None}
