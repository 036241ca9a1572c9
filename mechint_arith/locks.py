"""Folders that one process at a time works in.

What is in them is said in `runs` and `sweeps`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from mechint_arith.errors import InputError


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], *, wait: bool = False) -> Iterator[None]:
    """Hold a folder for this process, made where it is missing; the lock ends with the process, however that ends.

    While another process holds it, `wait` for its end or raise `InputError`. Raises `InputError` as well where
    the folder cannot be written.
    """
    target = Path(folder)
    with contextlib.ExitStack() as held:
        try:
            target.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(open(target / ".lock", "w", encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{target} is in use by another process: wait for its end, or choose another folder"
            ) from error
        except OSError as error:
            raise InputError(
                f"cannot write to {target}: {error.strerror}; choose a folder you can write to"
            ) from error
        yield
