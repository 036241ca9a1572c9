"""`mechint-arith cells`: a whole table of length generalisation by one resumable command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mechint_arith.cli import options as o


def cells(
    table: Annotated[
        Path, typer.Argument(help="TOML file of cells; see analyses/length_cells.toml.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs.")],
    only: Annotated[
        str, typer.Option(help="Only cells or groups of these names, comma-separated.")
    ] = "",
    n: Annotated[
        int, typer.Option("--n", help="Pairs per length.", callback=o.at_least(1))
    ] = 10_000,
    summary: Annotated[
        Path | None,
        typer.Option(
            help="The table as JSON; OUT/cells.json by default. Runs it already holds are not done again."
        ),
    ] = None,
    dry: Annotated[bool, typer.Option(help="Train nothing; summarise what is there.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(help="Start no further run after so many minutes.", callback=o.at_least(0)),
    ] = None,
    threads: Annotated[int, typer.Option(help="CPU threads; 0: torch's default.")] = 1,
) -> None:
    """Train and measure every run of a table; finished runs are never done again.

    Stop it at any time and start it again: it goes on where it was, to the same bits.

    Example: `mechint-arith cells analyses/length_cells.toml --out runs/cells`

    A table may be as short as

    ```
    [task]
    digits = 3
    longest = 6
    [encoding.relative]
    positions = "relative"
    attn_content = false
    [[cell]]
    name = "add-relative"
    group = "mine"
    encoding = "relative"
    seeds = [1, 2]
    question = "Does relative addition go from 3 to 6 digits?"
    ```
    """
    import time

    from rich.console import Console

    from mechint_arith.cells import finish, read_table, runs_of_summary, summarise
    from mechint_arith.cli.train_digits import run_digits
    from mechint_arith.files import write_json

    found, source = read_table(table), table.name if table.is_absolute() else str(table)
    chosen = found.only([name for name in only.split(",") if name])
    console, began = Console(stderr=True), time.monotonic()
    target = summary or out / "cells.json"
    o.require_writable(out, target)
    known = runs_of_summary(found, target, n=n)
    runs = [] if dry else chosen.runs(out)
    for i, run in enumerate(runs, 1):
        if (run.cell.name, run.folder.seed) in known or run.measured(n):
            continue
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            console.print(f"{minutes:g} minutes are over: {len(runs) - i + 1} runs are left")
            break
        title = f"[{i}/{len(runs)}] {run.name}"
        run_digits(
            run.folder,
            every=1000,
            resume=True,
            threads=threads,
            title=title.replace("[", "\\["),
        )
        finish(run, n=n)
        write_json(target, summarise(found, out, source=source, n=n, known=known))
    values = summarise(found, out, source=source, n=n, known=known)
    write_json(target, values)
    _show(values)


def _show(values: dict) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="verdicts: runs as predicted / not as predicted / not converged")
    for heading in ("group", "cell", "in domain %", "downward", "upward", "missing seeds"):
        table.add_column(heading)
    for cell in values["cells"]:
        in_domain = " ".join(f"{100 * run['in_domain']['value']:.1f}" for run in cell["runs"])
        counts = [
            " / ".join(str(cell["verdicts"].get(region, {}).get(v, 0)) for v in VERDICTS)
            for region in ("downward", "upward")
        ]
        missing = " ".join(map(str, cell["missing"]))
        table.add_row(escape(cell["group"]), escape(cell["name"]), in_domain, *counts, missing)
    Console().print(table)


VERDICTS = ("as predicted", "not as predicted", "not converged")
