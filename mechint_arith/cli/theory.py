"""`mechint-arith theory`: what a model is predicted to do at other lengths, and why; no model is run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mechint_arith.tasks.digits import DigitsTask


def theory(
    op: Annotated[str, typer.Option(help="add or mul.")] = "add",
    mod: Annotated[int | None, typer.Option(help="Modulus; none: the plain result.")] = None,
    digits: Annotated[int, typer.Option(help="Longest operands in training.")] = 4,
    to: Annotated[int, typer.Option(help="Longest operands in tests.")] = 7,
    base: Annotated[int, typer.Option(help="Base of the digits.")] = 10,
    encoding: Annotated[str, typer.Option(help="absolute, relative, rotary or none.")] = "absolute",
    order: Annotated[str, typer.Option(help="Operands' order: lsd or msd.")] = "lsd",
    arrangement: Annotated[str, typer.Option(help="blocks, interleaved or repeated.")] = "blocks",
    single_b: Annotated[bool, typer.Option(help="n-digit by 1-digit multiplication.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Predict accuracy at other lengths from the task and the position encoding alone.

    Rates are exact. "not 1" means that the theory names no rate, only that longer inputs are not always right.

    Example: `mechint-arith theory --op add --mod 101 --digits 4 --to 7`
    """
    from mechint_arith.tasks.digits import DigitsTask

    task = DigitsTask(
        op=op,
        digits=digits,
        longest=to,
        modulus=mod,
        base=base,
        order=order,
        arrangement=arrangement,
        single_b=single_b,
    )
    values = predictions(task, encoding)
    if as_json:
        print(json.dumps(values, indent=1))
    else:
        _print(values, task, encoding)


def predictions(task: DigitsTask, encoding: str) -> dict[str, Any]:
    """Return predicates, reasons and one row per length as plain JSON values; shares as exact fractions too."""
    from dataclasses import asdict

    from mechint_arith.theory import forecast, predict

    place = (task.op, task.modulus, task.base, task.digits)
    options: dict[str, Any] = {
        "encoding": encoding,
        "layout": task.layout,
        "shorter": task.shows_shorter,
        "single_b": task.single_b,
    }
    found = asdict(predict(*place, **options))
    found |= {"limit": float(found["limit"]), "reasons": list(found["reasons"])}
    rows = []
    for row in forecast(*place, range(1, task.longest + 1), **options):
        shares = {
            name: None if value is None else {"value": float(value), "exact": str(value)}
            for name, value in (("truncated", row.truncated), ("accuracy", row.accuracy))
        }
        rows.append(asdict(row) | shares)
    return {**found, "lengths": rows}


def _print(values: dict[str, Any], task: DigitsTask, encoding: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    modulo = f" mod {task.modulus}" if task.modulus else ""
    table = Table(
        title=f"{task.op}{modulo}, base {task.base}, {task.digits} digits, {encoding} positions"
    )
    for heading in ("digits", "region", "predicted", "truncated function"):
        table.add_column(heading, justify="left" if heading == "region" else "right")
    for row in values["lengths"]:
        predicted, truncated = (
            missing if row[key] is None else f"{row[key]['value']:.3%}"
            for key, missing in (("accuracy", "not 1"), ("truncated", "unknown"))
        )
        table.add_row(str(row["length"]), row["region"], predicted, truncated)
    console.print(table)
    for reason in values["reasons"]:
        console.print(f"• {reason}", highlight=False)
