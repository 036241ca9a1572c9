"""Command-line options that several commands share, and what every command does with a checkpoint file."""

from __future__ import annotations

import functools
import inspect
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.errors import InputError

if TYPE_CHECKING:
    from mechint_arith.models.checkpoint import Checkpoint
    from mechint_arith.models.load import Hints as Hints
else:
    Hints = object  # what commands annotate; the class itself would import torch


def at_least(
    low: float, *, most: float = math.inf
) -> Callable[[typer.CallbackParam, float | None], float | None]:
    """Return a check of an option's number, as `callback=` takes it; NaN does not pass either."""
    expected = f"be at least {low:g}" if most == math.inf else f"lie between {low:g} and {most:g}"

    def check(param: typer.CallbackParam, value: float | None) -> float | None:
        if value is not None and not low <= value <= most:
            raise InputError(f"{param.opts[0]} must {expected}, not {value}")
        return value

    return check


OUTSIDE = "Outside files"
Ckpt = Annotated[
    list[Path] | None, typer.Option(help="A checkpoint, or a folder of them; may be repeated.")
]
OneCkpt = Annotated[Path, typer.Option(help="A checkpoint.")]
Out = Annotated[Path | None, typer.Option(help="Folder for results.json and report.html.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of text.")]
Seed = Annotated[
    int,
    typer.Option(help="Seed of the evaluation prompts and of the bootstrap.", callback=at_least(0)),
]
Threads = Annotated[int, typer.Option(help="CPU threads; 0: torch's default.")]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="assign-add or modular, for a file that does not say.",
        rich_help_panel=OUTSIDE,
    ),
]
P = Annotated[
    int | None,
    typer.Option("--p", help="Modulus; by default read off the shapes.", rich_help_panel=OUTSIDE),
]
TrainShare = Annotated[
    float | None,
    typer.Option(help="Share of pairs seen in training (0.7).", rich_help_panel=OUTSIDE),
]
SplitSeed = Annotated[
    int | None, typer.Option(help="Seed of the split (42).", rich_help_panel=OUTSIDE)
]
NeverLeft = Annotated[
    int | None,
    typer.Option(help="How many last variables never stand left (2).", rich_help_panel=OUTSIDE),
]
NeverRight = Annotated[
    int | None,
    typer.Option(help="How many first variables never stand right (2).", rich_help_panel=OUTSIDE),
]

Op = Annotated[
    str | None,
    typer.Option(
        help="Operation of a modular model: add, sub, mul or div.", rich_help_panel=OUTSIDE
    ),
]
Equals = Annotated[
    bool | None,
    typer.Option(
        "--equals/--no-equals",
        help="Whether a modular model's sequences end in =.",
        rich_help_panel=OUTSIDE,
    ),
]
Layout = Annotated[
    str | None,
    typer.Option(help="transformer-lens, transposed or attention-mix.", rich_help_panel=OUTSIDE),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="JSON of an outside file; by default the one of the same name beside it.",
        rich_help_panel=OUTSIDE,
    ),
]
AttnCoeff = Annotated[
    float | None,
    typer.Option(help="c of an attention mix c softmax + (1 - c).", rich_help_panel=OUTSIDE),
]

OUTSIDE_FILES = {
    "task": TaskName,
    "p": P,
    "train_share": TrainShare,
    "split_seed": SplitSeed,
    "never_left": NeverLeft,
    "never_right": NeverRight,
    "op": Op,
    "equals": Equals,
    "layout": Layout,
    "config": Config,
    "attn_coeff": AttnCoeff,
}
"""Option -> how it is given, for every command that reads other people's files."""
MODULAR = ("op", "equals", "attn_coeff")
ASSIGN_ADD = ("never_left", "never_right")
"""Those of them that only models of one task have."""


def outside_files(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Any]:
    """Give a command all options of `OUTSIDE_FILES` in place of its parameter `hints`."""
    taken = {name: kind for name, kind in OUTSIDE_FILES.items() if name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            told = {name: given.pop(name) for name in taken}
            command(**given, hints=hints(**told))

        signature = inspect.signature(command, eval_str=True)
        own = [value for name, value in signature.parameters.items() if name != "hints"]
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, keyword, default=None, annotation=kind)
            for name, kind in taken.items()
        ]
        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def expand(paths: list[Path]) -> list[Path]:
    """Replace folders by the checkpoints in them, ordered by step. Raises `InputError` for a folder without any."""
    from mechint_arith.models.series import checkpoint_files

    files: list[Path] = []
    for path in paths:
        files += checkpoint_files(path) if path.is_dir() else [path]
    return files


def provenance(path: Path, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what every result records of its making: file, sha256, command, versions, how it was read."""
    from mechint_arith.files import sha256
    from mechint_arith.models.checkpoint import versions

    return {
        "file": path.name,
        "sha256": sha256(path),
        "command": command(),
        "versions": versions(),
        "source": checkpoint.meta.get("source"),
        "planted": checkpoint.meta.get("planted"),
    }


def command() -> str:
    """Return the command line that is running."""
    return shlex.join(["mechint-arith", *sys.argv[1:]])


def require_writable(folder: Path | None, *files: Path | None) -> None:
    """Raise `InputError` before any work where results could not be written: into `--out`, or to files."""
    from mechint_arith.files import check_writable

    if folder is not None:
        if os.path.isfile(folder):  # Path.is_file raises for names that are too long
            raise InputError(f"--out {folder} is a file; choose a folder")
        check_writable(folder / ".writable")
    for file in files:
        if file is not None:
            check_writable(file)


def write_results(
    folder: Path,
    values: Any,
    page: str,
    *,
    names: tuple[str, str] = ("results.json", "report.html"),
) -> None:
    """Write values as JSON and their report into a folder, both or neither."""
    from mechint_arith.files import json_text, write_texts

    write_texts({folder / names[0]: json_text(values), folder / names[1]: page})


def print_json(values: Any) -> None:
    """Print values as JSON on standard output."""
    from mechint_arith.files import json_text

    print(json_text(values), end="")


def set_threads(threads: int) -> None:
    """Use so many CPU threads; 0 leaves torch's default."""
    import torch

    if not 0 <= threads <= 1024:
        raise InputError(f"--threads must lie between 0 and 1024, not {threads}")
    if threads:
        torch.set_num_threads(threads)


def hints(**options: Any) -> Hints:
    """Collect what the user says of an outside file."""
    from mechint_arith.models.load import Hints

    return Hints(**options)
