"""Command-line options that several commands share, and what every command does with a checkpoint file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.errors import InputError

if TYPE_CHECKING:
    from mechint_arith.models.checkpoint import Checkpoint
    from mechint_arith.models.load import Hints

OUTSIDE = "Outside files"
Ckpt = Annotated[
    list[Path] | None, typer.Option(help="A checkpoint, or a folder of them; may be repeated.")
]
OneCkpt = Annotated[Path, typer.Option(help="A checkpoint.")]
Out = Annotated[Path | None, typer.Option(help="Folder for results.json and report.html.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of text.")]
Seed = Annotated[int, typer.Option(help="Seed of the evaluation prompts and of the bootstrap.")]
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


def require_writable(folder: Path | None) -> None:
    """Raise `InputError` before any work where results could not be written."""
    from mechint_arith.files import replacing

    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; choose a folder")
    probe = folder / ".writable"
    with replacing(probe) as temporary:
        temporary.write_text("")
    probe.unlink(missing_ok=True)


def set_threads(threads: int) -> None:
    """Use so many CPU threads; 0 leaves torch's default."""
    import torch

    if threads < 0:
        raise InputError(f"--threads cannot be negative: {threads}")
    if threads > 1024:
        raise InputError(f"--threads can be 1024 at most, not {threads}")
    if threads:
        torch.set_num_threads(threads)


def hints(**options: Any) -> Hints:
    """Collect what the user says of an outside file."""
    from mechint_arith.models.load import Hints

    return Hints(**options)
