"""Whether the fields of a dataclass hold what their annotations say: files and callers give any type for any field."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Union, get_args, get_origin, get_type_hints


def wrong_types(value: Any) -> Iterator[str]:
    """Yield one phrase per field of a dataclass instance whose value is not of the annotated type.

    Whole numbers count as real numbers, NumPy's as Python's; True, False, NaN and infinity are no numbers.
    """
    hints = get_type_hints(type(value))
    for field in fields(value):
        found, hint = getattr(value, field.name), hints[field.name]
        if not _fits(found, hint):
            yield f"{field.name} must be {_said(hint)}, not {found!r:.40}"


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if hint in (int, float):
        kind: Any = Integral if hint is int else Real
        return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    return isinstance(value, origin or hint)


def _said(hint: Any) -> str:
    """Return an annotation in words."""
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text",
        type(None): "null",
        tuple: "a list",
    }
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(_said, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each {_said(get_args(hint)[0])}"
    return words.get(hint, getattr(hint, "__name__", str(hint)))
