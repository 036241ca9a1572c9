"""The one exception for faults that the user can mend.

Whoever raises it says in one line what was expected, what came, and what to do.
The command line prints that line and exits with code 2.
"""


class InputError(ValueError):
    """A file, option or argument that cannot be used as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
