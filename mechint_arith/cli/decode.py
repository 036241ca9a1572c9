"""`mechint-arith decode`: linear probes, with their control tasks, for what a model holds where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mechint_arith.cli import options as o

WIDTH = 140
"""Columns of the table where no terminal says otherwise."""


def decode(
    ckpt: o.OneCkpt,
    out: Annotated[
        Path | None, typer.Option(help="Folder for decoding.json and decoding.html.")
    ] = None,
    as_json: o.AsJson = False,
    kind: Annotated[str, typer.Option(help="ridge (closed form) or logistic.")] = "ridge",
    controls: Annotated[int, typer.Option(help="Control tasks per probe.")] = 3,
    seed: o.Seed = 0,
    config: o.Config = None,
    attn_coeff: o.AttnCoeff = None,
    task: o.TaskName = None,
    threads: o.Threads = 1,
) -> None:
    """Which quantity can a linear probe read, where, and does it carry over from direct to indirect inputs?

    Probes are fitted on training pairs and tested on held-out ones, each beside control tasks with random labels.

    Example: `mechint-arith decode --ckpt checkpoints/modular_add_p53/step_008000.safetensors`
    """
    from rich.console import Console
    from rich.table import Table

    from mechint_arith.decoding import decode as run_decode
    from mechint_arith.files import write_json, write_text
    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.report_decoding import COLUMNS, decoding_report, rows

    o.require_writable(out)
    o.set_threads(threads)
    checkpoint = load_checkpoint(ckpt, o.hints(task=task, config=config, attn_coeff=attn_coeff))
    with Console(stderr=True).status(f"{ckpt.name}: reading", spinner="line") as status:
        found = run_decode(
            checkpoint,
            kind=kind,
            n_controls=controls,
            seed=seed,
            provenance=o.provenance(ckpt, checkpoint),
            progress=lambda stage: status.update(f"{ckpt.name}: {stage}"),
        )
    if out is not None:
        write_json(out / "decoding.json", found.as_dict())
        write_text(out / "decoding.html", decoding_report(found, ckpt.name))
    if as_json:
        print(json.dumps(found.as_dict(), indent=1, allow_nan=False))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    grid = Table(*COLUMNS, title=f"{ckpt.name}: tested on {found.split}", box=None)
    for row in rows(found):
        grid.add_row(*row)
    console.print(grid)
