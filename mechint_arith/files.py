"""Write files so that a reader, or a killed process, never meets half of one.

Nothing here knows what is inside a file.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mechint_arith.errors import InputError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it into place if the block ends well.

    If the block or the move fails, `path` keeps its earlier content and the temporary file is removed.
    Raises `InputError` where the folder cannot be written or the disk is full.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror}; choose a folder you can write to"
        ) from error
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; an earlier file there is unchanged"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` in one step (UTF-8)."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as JSON in one step; NaN and infinity are refused, as JSON has neither."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
