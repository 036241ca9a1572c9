"""Write files so that a reader, or a killed process, never meets half of one.

Nothing here knows what is inside a file.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mechint_arith.errors import InputError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it into place if the block ends well.

    If the block or the move fails, `path` keeps its earlier content, and the temporary file and folders made for it
    are removed. Raises `InputError` where the folder cannot be written or the disk is full.
    """
    target = Path(path)
    made: list[Path] = []
    moved = False
    try:
        if target.is_dir():
            raise InputError(f"cannot write {target}: it is a folder; give the name of a file")
        made = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        os.close(handle)
    except OSError as error:
        _remove_empty(made)
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
        moved = True
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; an earlier file there is unchanged"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
        if not moved:
            _remove_empty(made)


def _remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the folders, the deepest first, that hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


class _NothingToWrite(Exception):
    pass


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` where no file could be written to `path`. Leaves everything as it was."""
    with contextlib.suppress(_NothingToWrite), replacing(path):
        raise _NothingToWrite


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write every text to its path (UTF-8), or none of them: if one fails, the earlier files stay."""
    with contextlib.ExitStack() as stack:
        for path, text in texts.items():
            stack.enter_context(replacing(path)).write_text(text, encoding="utf-8")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` in one step (UTF-8)."""
    write_texts({Path(path): text})


def json_text(value: Any) -> str:
    """Return `value` as JSON. Raises `InputError` for NaN and infinity, as JSON has neither."""
    try:
        return json.dumps(value, indent=1, allow_nan=False) + "\n"
    except ValueError as error:
        raise InputError("a result is NaN or infinite, which JSON cannot hold") from error


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as JSON in one step; NaN and infinity are refused."""
    write_text(path, json_text(value))


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
