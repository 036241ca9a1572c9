"""`mechint-arith decode`: linear probes, with their control tasks, for what a model holds where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import naming

WIDTH = 140
"""Columns of the table where no terminal says otherwise."""


@o.outside_files()
def decode(
    ckpt: o.OneCkpt,
    out: Annotated[
        Path | None, typer.Option(help="Folder for decoding.json and decoding.html.")
    ] = None,
    as_json: o.AsJson = False,
    kind: Annotated[str, typer.Option(help="ridge (closed form) or logistic.")] = "ridge",
    controls: Annotated[
        int, typer.Option(help="Control tasks per probe.", callback=o.at_least(1))
    ] = 3,
    seed: o.Seed = 0,
    threads: o.Threads = 1,
    *,
    hints: o.Hints,
) -> None:
    """Which quantity can a linear probe read, where, and does it carry over from direct to indirect inputs?

    Probes are fitted on training pairs and tested on held-out ones, each beside control tasks with random labels.

    Example: `mechint-arith decode --ckpt checkpoints/modular_add_p53/step_008000.safetensors`
    """
    from rich.console import Console
    from rich.table import Table

    from mechint_arith.decoding import decode as run_decode
    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.report.decoding import COLUMNS, decoding_report, rows

    o.require_writable(out)
    o.set_threads(threads)
    checkpoint = load_checkpoint(ckpt, hints)
    reading = Console(stderr=True).status(f"{ckpt.name}: reading", spinner="line")
    with naming(ckpt), reading as status:
        found = run_decode(
            checkpoint,
            kind=kind,
            n_controls=controls,
            seed=seed,
            provenance=o.provenance(ckpt, checkpoint),
            progress=lambda stage: status.update(f"{ckpt.name}: {stage}"),
        )
    if out is not None:
        page = decoding_report(found, ckpt.name)
        o.write_results(out, found.as_dict(), page, names=("decoding.json", "decoding.html"))
    if as_json:
        o.print_json(found.as_dict())
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    grid = Table(*COLUMNS, title=f"{ckpt.name}: tested on {found.split}", box=None)
    for row in rows(found):
        grid.add_row(*row)
    console.print(grid)
