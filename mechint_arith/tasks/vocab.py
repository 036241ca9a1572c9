"""Token ids and their symbols. This is the only file that knows which id means what.

No sequence is built here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import SupportsIndex

from mechint_arith.errors import InputError

PLUS, EQUALS, PAD = "+", "=", "PAD"


@dataclass(frozen=True)
class Vocab:
    """An ordered set of symbols; a token id is a place in it."""

    symbols: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Symbol -> token id."""
        return {symbol: i for i, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the ids of `symbols`. Raises `InputError` naming the first unknown one."""
        found = []
        for symbol in symbols:
            if symbol not in self.ids:
                raise InputError(
                    f"unknown symbol {symbol!r:.40}: this model reads numbers 0 to {self.n_numbers - 1}"
                    f" and {' '.join(self.symbols[self.n_numbers :])}"
                )
            found.append(self.ids[symbol])
        return found

    def decode(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """Return the symbols of token ids."""
        return [self.symbols[int(i)] for i in ids]

    @cached_property
    def n_numbers(self) -> int:
        """How many of the leading symbols are numbers."""
        return sum(symbol.isdigit() for symbol in self.symbols)


def variable_names(n: int) -> tuple[str, ...]:
    """Return n variable names: a, b, … z, then a1, b1, …"""
    letters = ascii_lowercase
    return tuple(letters[i % 26] + (str(i // 26) if i >= 26 else "") for i in range(n))


def assign_add(p: int, n_vars: int) -> Vocab:
    """Numbers 0..p-1, `+`, `=`, `PAD`, then the variables: p + 3 + n_vars ids."""
    return Vocab((*map(str, range(p)), PLUS, EQUALS, PAD, *variable_names(n_vars)))


def modular(p: int, *, equals: bool = True) -> Vocab:
    """Numbers 0..p-1 and, where the layout has one, a closing `=`."""
    return Vocab((*map(str, range(p)), *((EQUALS,) if equals else ())))


def digits(base: int, *, separators: tuple[str, ...] = ()) -> Vocab:
    """Digits 0..base-1 and, where the format has them, separators such as `+` and `=`."""
    return Vocab((*map(str, range(base)), *separators))
