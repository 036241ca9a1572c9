"""`mechint-arith length`: a trained digits model at every length, beside the theory's prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import naming

if TYPE_CHECKING:
    from mechint_arith.length import CurvePoint, LengthReport

COLOURS = {"as predicted": "green", "not as predicted": "red", "not converged": "yellow"}


def length(
    ckpt: Annotated[
        Path, typer.Option(help="A checkpoint, or a run's folder for its whole curve.")
    ],
    out: o.Out = None,
    to: Annotated[
        int | None,
        typer.Option(
            help="Longest test; by default all there is room for.", callback=o.at_least(1)
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Pairs per length.", callback=o.at_least(1))] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the test pairs.", callback=o.at_least(0))] = 0,
    as_json: o.AsJson = False,
    threads: o.Threads = 1,
) -> None:
    """Score a digits model at every length and judge it against the theory.

    Each length is scored against the truth and against the truncated function, which ignores the digits beyond
    the training length. Intervals are 95 % Wilson intervals. The rules are `length.LengthThresholds`.

    Example: `mechint-arith length --ckpt checkpoints/digits/add_relative.safetensors --out out/length`
    """
    from mechint_arith.length import curve, digits_task, measure, run_checkpoints
    from mechint_arith.models.load import load_checkpoint

    o.require_writable(out)
    o.set_threads(threads)
    with naming(ckpt):
        checkpoints = run_checkpoints(ckpt) if ckpt.is_dir() else [load_checkpoint(ckpt)]
        longest = digits_task(checkpoints[-1]).longest if to is None else to
        lengths = range(1, longest + 1)
        report = measure(checkpoints[-1], lengths=lengths, n=n, seed=seed)
        points = (
            curve(checkpoints, lengths=lengths, n=min(n, 1000), seed=seed) if ckpt.is_dir() else []
        )
    values = report.as_dict() | ({"curve": [p.as_dict() for p in points]} if points else {})
    if out is not None:
        from mechint_arith.report.length import length_report

        o.write_results(out, values, length_report(report, points, command=o.command()))
    if as_json:
        o.print_json(values)
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
    if report.truncated:
        console.print(f"truncated function: [{COLOURS[report.truncated]}]{report.truncated}[/]")
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
