"""Circuits to JSON and back, exactly.

The text names its schema and version; anything that is not such a circuit is refused with every
problem found. What makes a circuit valid is decided in `graph`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from mechint_arith import files
from mechint_arith.circuits.graph import About, Circuit, Edge, Node, Position
from mechint_arith.errors import InputError

SCHEMA = "mechint_arith.circuit"
VERSION = 1

_MISFIT = object()
_LARGEST = 2**1000

Part = TypeVar("Part", About, Position, Node, Edge)


def to_json(circuit: Circuit) -> dict[str, Any]:
    """Return the circuit as plain values that JSON can hold: schema, version and every field."""
    fields = json.loads(json.dumps(dataclasses.asdict(circuit)))
    return {"schema": SCHEMA, "version": VERSION, **fields}


def from_json(value: Any) -> Circuit:
    """Return the circuit that `to_json` gave as `value`.

    Raises `InputError` for another schema, a later version, fields that are missing, unknown or of the wrong
    type, and for everything that `Circuit` refuses.
    """
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise InputError(f"expected a JSON object with schema {SCHEMA!r}")
    if value.get("version") != VERSION:
        raise InputError(
            f"circuit of version {value.get('version')!r}, this package reads version {VERSION}"
        )
    problems: list[str] = []
    about = _part(About, value.get("about"), "about", problems)
    positions = _parts(Position, value.get("positions"), "positions", problems)
    nodes = _parts(Node, value.get("nodes"), "nodes", problems)
    edges = _parts(Edge, value.get("edges"), "edges", problems)
    unknown = value.keys() - {"schema", "version", "about", "positions", "nodes", "edges"}
    problems += [f"unknown field {name!r}" for name in sorted(unknown)]
    if problems or about is None:
        raise InputError(f"not a circuit: {'; '.join(problems)}")
    return Circuit(about, positions, nodes, edges)


def write(circuit: Circuit, path: str | os.PathLike[str]) -> None:
    """Write the circuit to a JSON file in one step."""
    files.write_json(path, to_json(circuit))


def read(path: str | os.PathLike[str]) -> Circuit:
    """Read a circuit from a JSON file. Raises `InputError` naming the file and what is wrong with it."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    try:
        return from_json(value)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _parts(kind: type[Part], values: Any, where: str, problems: list[str]) -> tuple[Part, ...]:
    if not isinstance(values, list):
        problems.append(f"{where} should be a list")
        return ()
    found = [_part(kind, value, f"{where}[{i}]", problems) for i, value in enumerate(values)]
    return tuple(part for part in found if part is not None)


def _part(kind: type[Part], value: Any, where: str, problems: list[str]) -> Part | None:
    """Return `value` as a `kind`; where it is not one, add to `problems` and return None."""
    if not isinstance(value, dict):
        problems.append(f"{where} should be an object")
        return None
    before = len(problems)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if name in value:
            found[name] = _as(hint, value[name])
            if found[name] is _MISFIT:
                problems.append(f"{where}.{name} should be {_words(hint)}; got {value[name]!r:.60}")
        elif fields[name].default is dataclasses.MISSING:
            problems.append(f"{where}.{name} is missing")
    problems += [f"{where}.{name} is not a field" for name in value if name not in fields]
    return None if len(problems) > before else kind(**found)


def _as(hint: Any, value: Any) -> Any:
    """Return `value` as the type `hint` (a whole number may stand for a float), or `_MISFIT`."""
    for option in typing.get_args(hint) or (hint,):
        if type(value) is option:
            return value
        if option is float and type(value) is int and abs(value) < _LARGEST:
            return float(value)
    return _MISFIT


def _words(hint: Any) -> str:
    options = typing.get_args(hint) or (hint,)
    names = {str: "text", int: "a whole number", float: "a number", types.NoneType: "null"}
    return " or ".join(names[option] for option in options)
