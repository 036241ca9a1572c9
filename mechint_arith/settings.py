"""Settings files in TOML: read, and of the shape that their reader expects."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mechint_arith.errors import InputError

WORDS: dict[type, str] = {dict: "a table", list: "a list", str: "a text"}


def read_toml(path: str | os.PathLike[str], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Read a TOML file whose entries are among those named, each of its kind.

    Raises `InputError` naming the file and what is wrong with it.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path} is no regular file; give a TOML file")
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    if unknown := sorted(set(found) - set(kinds)):
        raise InputError(f"{path}: unknown {unknown[0]!r}; expected {', '.join(kinds)}")
    for name, value in found.items():
        if not isinstance(value, kinds[name]):
            raise InputError(f"{path}: {name} must be {WORDS[kinds[name]]}, not {value!r:.40}")
    return found


def require_file_name(name: str) -> str:
    """Return a name that can stand for one folder inside another. Raises `InputError` where it cannot."""
    if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(name.encode()) > 200:
        raise InputError(f"{name!r:.60} cannot be the name of a folder")
    return name
