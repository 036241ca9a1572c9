"""`mechint-arith series`: every progress measure over the checkpoints of a run, and when what happened."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from mechint_arith.dynamics import Series
    from mechint_arith.phases import ChangePoint, Event

PHASE_CURVES = ("0var_held", "1var_held", "2var_held", "1var_restricted", "2var_restricted_2")
"""Curves whose joint change points are called the phases."""
PROGRESS_CURVES = {
    "ov1_mlp1": "addition through OV1 and MLP1",
    "attn0_previous_published": "values look at the token before",
    "attn0_operands_both": "= looks at both operands",
    "qk1_identity": "layer 1 matches identity (weights)",
    "identity_swap": "layer 1 matches identity (causal)",
    "bare_accuracy_deleted": "direct sums without = → operands",
    "sharing_index": "sharing index",
}

SHORT = {
    "ov1_mlp1": "OV1\nMLP1",
    "qk1_identity": "QK1\nident",
    "identity_swap": "ident\nswap",
    "sharing_index": "shar-\ning",
}
"""Measures in the printed table -> heading; table.csv and series.json have all measures by their own names."""


@o.outside_files(without=o.MODULAR)
def series(
    run: Annotated[
        Path, typer.Option(help="Folder of checkpoints: ours, or outside files with steps.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for series.json, table.csv and figures.")
    ] = Path("out/series"),
    measure: Annotated[
        list[str] | None, typer.Option(help="Only this measure; may be repeated.")
    ] = None,
    every: Annotated[int, typer.Option(help="Only steps that are multiples of this; 0: all.")] = 0,
    until: Annotated[int | None, typer.Option(help="Only steps up to this one.")] = None,
    n: Annotated[
        int, typer.Option("--n", help="Sequences per pool.", callback=o.at_least(1))
    ] = 2000,
    seed: o.Seed = 0,
    threads: o.Threads = 1,
    *,
    hints: o.Hints,
) -> None:
    """When does what happen? All progress measures over a run's checkpoints, phases and events.

    Finished checkpoints are kept in OUT/cache, so a stopped run goes on where it was.

    Example: `mechint-arith series --run checkpoints/assign_add_p59 --out out/series`
    """
    from rich.console import Console
    from rich.progress import Progress

    from mechint_arith.dynamics import checkpoints, measure_series
    from mechint_arith.figures.export import page as figure_page
    from mechint_arith.files import json_text, write_texts
    from mechint_arith.phases import events
    from mechint_arith.report.series import series_report

    o.require_writable(out)
    o.set_threads(threads)
    steps = [
        s
        for s in checkpoints(run)
        if (every < 1 or s % every == 0) and (until is None or s <= until)
    ]
    console = Console()
    with Progress(console=Console(stderr=True)) as bar:
        shown = bar.add_task("checkpoints", total=len(steps))
        found = measure_series(
            run,
            measure or None,
            cache=out / "cache",
            steps=steps,
            n=n,
            seed=seed,
            hints=hints,
            on_checkpoint=lambda done, _: bar.update(shown, completed=done),
        )
    happened = events(found)
    phases = _phases(found)
    figures = _figures(found, happened, phases)
    texts = {
        "series.json": json_text(summary(found, happened, phases)),
        "table.csv": _frame(found).to_csv(index=False),
        **{f"{name}.html": figure_page(figure) for name, figure in figures.items()},
        "report.html": series_report(found, happened, phases, figures, command=o.command()),
    }
    write_texts({out / name: text for name, text in texts.items()})
    _print(console, found, happened, phases)
    console.print(f"written: {out}/series.json, table.csv, report.html, figures")


def summary(found: Series, happened: dict[str, Event], phases: list[ChangePoint]) -> dict[str, Any]:
    """Return what `series.json` holds: the series, its events and its phases."""
    from dataclasses import asdict

    return {
        **found.as_dict(),
        "events": {name: event.as_dict() for name, event in happened.items()},
        "change_points": [asdict(point) for point in phases],
    }


def _phases(found: Series) -> list[ChangePoint]:
    """Return the change points of the pools' curves; none where checkpoints or pools are too few."""
    import numpy as np

    from mechint_arith.phases import PHASES, change_points

    names = [name for name in PHASE_CURVES if name in found.values]
    if len(found.steps) < 2 * (len(PHASES) + 1) or not names:
        return []
    return change_points(found.steps, np.stack([found.curve(name) for name in names], 1))


def _frame(found: Series) -> pd.DataFrame:
    import pandas as pd

    columns = {name: found.curve(name) for name in found.values}
    return pd.DataFrame({"step": found.steps, **columns})


def _figures(
    found: Series, happened: dict[str, Event], phases: list[ChangePoint]
) -> dict[str, go.Figure]:
    from mechint_arith.figures.series import event_times, phases_between, series_curves
    from mechint_arith.phases import PHASES
    from mechint_arith.tasks.pools import PAPER_POOLS

    shaded = phases_between(phases, PHASES, found.steps[-1]) if phases else []
    figures = {}
    if any(name in found.values for name in PAPER_POOLS):
        figures["accuracy"] = series_curves(
            found, PAPER_POOLS, phases=shaded, title="Accuracy by pool"
        )
    if any(name in found.values for name in PROGRESS_CURVES):
        figures["progress"] = series_curves(
            found, PROGRESS_CURVES, phases=shaded, unit="share", title="Progress measures"
        )
    if happened:
        figures["events"] = event_times({found.source: happened}, title="When what happened")
    return figures


def _print(
    console: Any, found: Series, happened: dict[str, Event], phases: list[ChangePoint]
) -> None:
    from rich.table import Table

    from mechint_arith.cli.probe_table import short
    from mechint_arith.phases import PHASES

    names = [
        name
        for name in (*PHASE_CURVES, "ov1_mlp1", "qk1_identity", "identity_swap", "sharing_index")
        if name in found.values
    ]
    grid = Table(title=f"Series of {len(found.steps)} checkpoints", header_style="bold", box=None)
    for name in ("step", *names):
        grid.add_column(SHORT.get(name, short(name)), justify="right", no_wrap=True)
    chosen = range(0, len(found.steps), max(1, len(found.steps) // 20))
    for i in sorted({*chosen, len(found.steps) - 1}):
        values = (found[name][i].value for name in names)
        cells = ("–" if math.isnan(value) else f"{value:.3f}" for value in values)
        grid.add_row(str(found.steps[i]), *cells)
    console.print(grid)
    for point, name in zip(phases, PHASES, strict=False):
        console.print(f"{name} begins: step {point.step} in ({point.low}, {point.high}]")
    ordered = sorted(happened.values(), key=lambda e: (e.step is None, e.step or 0))
    for event in ordered:
        if not event.name.startswith("cell "):
            when = "not reached" if event.step is None else f"step {event.step}"
            high = "open" if event.high is None else event.high
            lapses = f", {event.lapses} lapses" if event.lapses else ""
            console.print(f"{event.name}: {when} in ({event.low}, {high}]{lapses}", highlight=False)
    if in_cells := [event for event in ordered if event.name.startswith("cell ")]:
        reached = (
            f"{event.name.removeprefix('cell ')} {'–' if event.step is None else event.step}"
            for event in in_cells
        )
        console.print(f"cells reached (–: not): {', '.join(reached)}", highlight=False)
