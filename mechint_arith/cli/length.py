"""`mechint-arith length`: a trained digits model at every length, beside the theory's prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mechint_arith.length import CurvePoint, LengthReport

COLOURS = {"as predicted": "green", "not as predicted": "red", "not converged": "yellow"}


def length(
    ckpt: Annotated[
        Path, typer.Option(help="A checkpoint, or a run's folder for its whole curve.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and report.html.")
    ] = None,
    to: Annotated[
        int | None, typer.Option(help="Longest test; by default all there is room for.")
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Pairs per length.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the test pairs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads; 0: torch's default.")] = 1,
) -> None:
    """Score a digits model at every length and judge it against the theory.

    Each length is scored against the truth and against the truncated function, which ignores the digits beyond
    the training length. Intervals are 95 % Wilson intervals. The rules are `length.LengthThresholds`.

    Example: `mechint-arith length --ckpt runs/add/step_002000.safetensors --out out/length`
    """
    import json

    import torch

    from mechint_arith.files import write_json
    from mechint_arith.length import curve, digits_task, measure, run_checkpoints
    from mechint_arith.models.checkpoint import read

    if threads:
        torch.set_num_threads(threads)
    checkpoints = run_checkpoints(ckpt) if ckpt.is_dir() else [read(ckpt)]
    longest = digits_task(checkpoints[-1]).longest if to is None else to
    report = measure(checkpoints[-1], lengths=range(1, longest + 1), n=n, seed=seed)
    points = (
        curve(checkpoints, lengths=range(1, longest + 1), n=min(n, 1000), seed=seed)
        if ckpt.is_dir()
        else []
    )
    values = report.as_dict() | ({"curve": [p.as_dict() for p in points]} if points else {})
    if out is not None:
        from mechint_arith.cli.options import command
        from mechint_arith.files import write_text
        from mechint_arith.report_length import length_report

        write_json(out / "results.json", values)
        write_text(out / "report.html", length_report(report, points, command=command()))
    if as_json:
        print(json.dumps(values, indent=1))
    else:
        show(report, points)


def show(report: LengthReport, points: list[CurvePoint]) -> None:
    """Print a report's tables on standard output."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"in-domain hold-out {_percent(report.in_domain)}")
    for heading in ("digits", "region", "right %", "predicted %", "truncated %", "n", ""):
        table.add_column(heading, justify="left" if heading == "region" else "right")
    for row in report.rows:
        predicted = "not 100" if row.predicted is None else f"{100 * row.predicted:.2f}"
        table.add_row(
            str(row.length),
            row.region,
            _percent(row.accuracy),
            predicted,
            _percent(row.agreement),
            str(row.accuracy.n),
            "✓" if row.as_predicted else "✗",
        )
    console.print(table)
    for region, verdict in report.verdicts.items():
        console.print(f"{region}: [{COLOURS[verdict]}]{verdict}[/]")
    for reason in report.reasons:
        console.print(f"• {reason}", highlight=False)
    if points:
        console.print(_curve_table(points))


def _curve_table(points: list[CurvePoint]) -> object:
    from rich.table import Table

    table = Table(title="agreement with truncated function, %")
    lengths = list(points[0].agreement)
    for heading in ("step", "in domain", *map(str, lengths)):
        table.add_column(heading, justify="right")
    for point in points:
        shares = (point.in_domain, *(point.agreement[m] for m in lengths))
        table.add_row(str(point.step), *(f"{100 * share.value:.1f}" for share in shares))
    return table


def _percent(estimate: object) -> str:
    value, low, high = (100 * getattr(estimate, k) for k in ("value", "low", "high"))
    return f"{value:.2f} \\[{low:.2f}, {high:.2f}]"
