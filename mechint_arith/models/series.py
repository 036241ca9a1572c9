"""A folder of checkpoints as a series ordered by step: our runs, or outside files with a step in their names."""

from __future__ import annotations

import re
from pathlib import Path

from mechint_arith.errors import InputError

SUFFIXES = (".safetensors", ".pth", ".pt")
NOT_MODELS = ("state.safetensors",)


def step_in_name(path: Path) -> int | None:
    """Return the last number in a file's name, taken as its step; None if it has none."""
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else None


def checkpoint_files(folder: str | Path) -> list[Path]:
    """Return the checkpoints of a folder, by step where their names have one, else by name.

    Raises `InputError` where there are none.
    """
    found = [
        path
        for path in Path(folder).iterdir()
        if path.suffix in SUFFIXES and path.name not in NOT_MODELS and not path.name.startswith(".")
    ]
    if not found:
        raise InputError(f"no checkpoints in {folder}: expected {', '.join(SUFFIXES)} files")
    return sorted(found, key=lambda path: (step_in_name(path) or 0, path.name))
