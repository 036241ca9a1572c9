"""Labels: made printable, shortened, broken into lines, measured.

Measured in the font that matplotlib ships (DejaVu Sans) with a tenth to spare, so that other fonts fit the
same boxes: small sizes of LaTeX's Computer Modern are that much wider.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import Any

LONGEST = 24
"""Characters of a label that are shown at most."""

LINE = 1.2
"""Height of a line of text, em."""

FONT = "DejaVu Sans"

SPARE = 1.1
"""Room for text, as a multiple of its width in `FONT`."""


def spelled(text: str) -> str:
    """Return `text` with control characters spelled out (a newline as `\\n`)."""
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char)[0] == "C" or char in "\u2028\u2029"
        else char
        for char in text
    )


def printable(label: str) -> str:
    """Return `label` spelled out, with its middle left out where it is longer than `LONGEST`."""
    text = spelled(label)
    half = LONGEST // 2
    return f"{text[: half - 1]}…{text[-half:]}" if len(text) > LONGEST else text


def broken(label: str) -> tuple[str, ...]:
    """Return the lines of a label that is broken at every space."""
    return tuple(label.split()) or (label,)


def width(text: str) -> float:
    """Return the room that one line of text needs, in em."""
    return SPARE * sum(map(_advance, text))


def code(char: str) -> str:
    """Return the name of a character by its code, for where its letter cannot be set: `U+4E2D`."""
    return f"U+{ord(char):04X}"


def settable(text: str) -> str:
    """Return `text` with characters that `FONT` lacks named by their code."""
    return "".join(char if _font().get_char_index(ord(char)) else code(char) for char in text)


@functools.cache
def _advance(char: str) -> float:
    font = _font()
    glyph = font.get_char_index(ord(char))
    if not glyph:
        return sum(map(_advance, code(char)))
    return font.load_glyph(glyph).linearHoriAdvance / 65536 / 1000


@functools.cache
def _font() -> Any:
    from matplotlib import font_manager, ft2font

    font = ft2font.FT2Font(font_manager.findfont(FONT))
    font.set_size(1000, 72)
    return font
