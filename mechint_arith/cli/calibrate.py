"""`mechint-arith calibrate`: the verdict's error rate on control models with planted truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from mechint_arith.calibration.scoring import Scores

BASES = (
    Path("checkpoints/bases"),
    Path("checkpoints/assign_add_p59/step_023100.safetensors"),
)


def calibrate(
    out: Annotated[Path, typer.Option(help="Folder for calibration.json, its tables, records.")],
    base: Annotated[
        list[Path] | None,
        typer.Option(
            help=f"A trained network, or a folder of them; by default {BASES[0]} and {BASES[1]}."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="First seed of the controls.")] = 20_000,
    workers: Annotated[int, typer.Option(help="Processes, one thread each; 0: this one.")] = 2,
    only: Annotated[
        list[str] | None, typer.Option(help="Only kinds whose name contains this; repeatable.")
    ] = None,
) -> None:
    """How often is the sharing verdict wrong?

    Rewrites trained networks so that it is known which neurons serve which route, judges every rewrite as `probe
    --quick` would, and reports the confusion table, the rates of false calls and the error of SIGMA. The rule
    is fixed beforehand; the controls come from seeds that nothing was chosen on. Finished controls are kept in
    `out/controls`: a stopped calibration goes on when called again.

    Example: `mechint-arith calibrate --out out/calibration`
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    from mechint_arith.calibration import table
    from mechint_arith.calibration.grid import trials
    from mechint_arith.calibration.running import base_files, run_trials, tasks_of
    from mechint_arith.calibration.scoring import score
    from mechint_arith.models.checkpoint import versions
    from mechint_arith.verdict import Thresholds

    if workers < 0:
        raise InputError(f"--workers cannot be negative: {workers}")
    bases = base_files(base or BASES)
    chosen = [
        trial
        for trial in trials(tasks_of(bases), seed=seed)
        if not only or any(text in trial.kind for text in only)
    ]
    if not chosen:
        raise InputError(f"no kind of control contains {' or '.join(only or [])}")
    o.require_writable(out)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, Elapsed(), Remaining(), console=Console(stderr=True)) as bar:
        shown = bar.add_task("controls", total=len(chosen))
        records = run_trials(
            chosen, bases, out, workers=workers, on_record=lambda _: bar.advance(shown)
        )
    scores = score(records)
    command = o.command()
    provenance = {
        "command": command,
        "versions": versions(),
        "seed": seed,
        "bases": list({r["base"]["sha256"]: r["base"] for r in records}.values()),
        "seconds": sum(sum(record["seconds"].values()) for record in records),
    }
    values, page = table.as_dict(scores, Thresholds(), provenance), table.markdown(scores, command)
    o.write_results(out, values, page, names=("calibration.json", "calibration.md"))
    _print(Console(), scores)
    Console().print(f"written: {out}/calibration.json, {out}/calibration.md")


def _print(console: Console, scores: Scores) -> None:
    from rich.table import Table

    from mechint_arith.verdict import NAMES

    title = f"{scores.n_controls} controls from {scores.n_bases} networks: pairs of routes"
    confusion = Table(title=title, header_style="bold")
    confusion.add_column("planted")
    for name in NAMES:
        confusion.add_column(name, justify="right")
    for planted in NAMES:
        counts = [scores.pairs[planted, name] for name in NAMES]
        if any(counts):
            confusion.add_row(planted, *map(str, counts))
    console.print(confusion)
    errors = Table(title="SIGMA minus planted share", header_style="bold")
    for name in ("kind", "pairs", "mean size", "largest", "goal"):
        errors.add_column(name, justify="left" if name == "kind" else "right")
    for kind, e in scores.sigma.items():
        goal = "–" if e.goal is None else f"{e.goal:.2f} {'met' if e.met else 'MISSED'}"
        errors.add_row(kind, str(e.n), f"{e.mean_absolute:.3f}", f"{e.largest:.3f}", goal)
    console.print(errors)
    for name, rate in scores.rates.items():
        if rate is not None:
            console.print(f"{name}: {rate}", highlight=False)
    unmet = [branch for branch, n in scores.branches.items() if not n]
    if unmet:
        console.print(f"no control met: {', '.join(unmet)}")
