"""`mechint-arith sweep`: a grid of training runs on Dask, each in its own folder, resumable at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o

if TYPE_CHECKING:
    from mechint_arith.sweeps import Sweep

SHOWN = ("0var_held", "1var_held", "2var_held", "2var_restricted_2")


def sweep(
    file: Annotated[Path, typer.Argument(help="TOML: name, out, [base] options, [grid] of lists.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run folders; the file's `out` by default.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; a local cluster by default.")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(help="Local worker processes, one thread each.", callback=o.at_least(1)),
    ] = 2,
    results: Annotated[
        Path | None, typer.Option(help="Also write the results here (JSON).")
    ] = None,
) -> None:
    """Train every combination of a grid. Finished points are never run twice; stopped ones go on.

    Options are those of `train assign-add`, with underscores. A killed worker or a killed sweep loses nothing but
    the steps since the last checkpoint; call the same command again.

    Example: `mechint-arith sweep analyses/studies/two_var_frequency.toml --workers 1`

    A file may be as short as

    ```
    name = "decay"
    out = "runs/decay"
    [base]
    steps = 3000
    [grid]
    weight_decay = [0.02, 0.1]
    seed = [1, 2, 3]
    ```
    """
    from rich.console import Console
    from rich.progress import Progress

    from mechint_arith.files import write_json
    from mechint_arith.sweeps import dask_client, finished, read_sweep, run

    grid = read_sweep(file, out)
    o.require_writable(grid.out, results)
    console = Console()
    missing = sum(finished(point, grid.out) is None for point in grid.points)
    with (
        Progress(console=Console(stderr=True)) as bar,
        dask_client(scheduler, workers=min(workers, missing)) as client,
    ):
        shown = bar.add_task(grid.name, total=len(grid.points))
        found = run(grid, client, on_point=lambda _: bar.advance(shown))
    value = {
        "sweep": grid.name,
        "command": o.command(),
        "points": found,
        "over_seeds": over_seeds(found),
    }
    write_json(grid.out / "sweep.json", value)
    if results is not None:
        write_json(results, value)
    _print(console, grid, found)


def over_seeds(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average over seeds: per combination of the other settings, mean accuracy with Student's t interval."""
    from mechint_arith.stats import seeds

    groups: dict[str, list[dict[str, Any]]] = {}
    for result in found:
        rest = {name: value for name, value in result["varied"].items() if name != "seed"}
        groups.setdefault(repr(rest), []).append(result)
    rows = []
    for group in groups.values():
        rest = {name: value for name, value in group[0]["varied"].items() if name != "seed"}
        pools = [
            p for p in group[0]["accuracy"] if all(p in result["accuracy"] for result in group)
        ]
        values = {p: [result["accuracy"][p]["value"] for result in group] for p in pools}
        means = {
            p: seeds(x).as_dict() if len(x) > 1 else {"value": x[0], "n": 1}
            for p, x in values.items()
        }
        rows.append({"varied": rest, "accuracy": means})
    return rows


def _print(console: Any, grid: Sweep, found: list[dict[str, Any]]) -> None:
    from rich.table import Table

    varied = list(found[0]["varied"])
    pools = [pool for pool in SHOWN if pool in found[0]["accuracy"]]
    table = Table(title=f"{grid.name}: {len(found)} points", header_style="bold")
    for name in (*varied, *pools):
        table.add_column(name, justify="right", overflow="fold")
    for result in found:
        accuracy = result["accuracy"]
        cells = [f"{accuracy[p]['value']:.3f}" if p in accuracy else "–" for p in pools]
        table.add_row(*(str(result["varied"][name]) for name in varied), *cells)
    console.print(table)
    console.print(f"written: {grid.out}/sweep.json")
