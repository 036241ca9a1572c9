"""The one exception for faults that the user can mend.

Whoever raises it says in one line what was expected, what came, and what to do.
The command line prints that line and exits with code 2.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


class InputError(ValueError):
    """A file, option or argument that cannot be used as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put a file's name before the message of an `InputError` of the block that does not hold it yet."""
    name = str(path)
    is_word = not any(
        c in name for c in "./\\"
    )  # a folder `modular` is not named by "a modular task"
    try:
        yield
    except InputError as error:
        if str(error).startswith(name) or (name in str(error) and not is_word):
            raise
        raise InputError(f"{path}: {error}") from error
