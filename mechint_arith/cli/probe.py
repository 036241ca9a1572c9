"""`mechint-arith probe`: accuracy, evidence and verdict on one checkpoint, or a table over several."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError, naming

if TYPE_CHECKING:
    from mechint_arith.models.checkpoint import Checkpoint
    from mechint_arith.modular_findings import ModularFindings
    from mechint_arith.probing import Findings

    Found = Findings | ModularFindings


@o.outside_files()
def probe(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="More checkpoints, such as what a shell pattern finds."),
    ] = None,
    ckpt: o.Ckpt = None,
    out: o.Out = None,
    as_json: o.AsJson = False,
    seed: o.Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 1,000 number pairs, no Fourier analysis.")
    ] = False,
    table: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also write the summary table: .csv (everything) or .tex (what fits a page); repeatable."
        ),
    ] = None,
    threads: o.Threads = 1,
    *,
    hints: o.Hints,
) -> None:
    """Do the same MLP neurons serve direct inputs (7+12) and indirect ones (x=7, y=12, x+y)?

    Prints accuracy by pool, cell and stratum, what the MLP is needed for, and the sharing verdict with its
    reasons: **shared**, **partly shared**, **separate**, **not competent** or **inconclusive**. With --out it
    also writes `results.json` and `report.html`, one file with pictures that opens offline. A modular checkpoint
    gets its Fourier analysis, as `fourier` gives it, and linear probes, as `decode` gives them.

    Any verdict exits with code 0. A file that cannot be used is reported in one line, the others are measured all
    the same, and the exit code is 2.

    Example: `mechint-arith probe --ckpt checkpoints/assign_add_p59/step_023100.safetensors --out out/probe`
    """
    from rich.console import Console

    from mechint_arith.cli.probe_table import print_tables, write_tables

    paths = o.expand([*(ckpt or []), *(files or [])])
    if not paths:
        raise InputError("which checkpoint? give --ckpt FILE or --ckpt FOLDER")
    for name in table or ():
        if name.suffix not in (".csv", ".tex"):
            raise InputError(f"--table {name}: expected a name that ends in .csv or .tex")
    if out is not None and len({path.stem for path in paths}) < len(paths):
        raise InputError(
            "two checkpoints have one name, so their results would overwrite each other:"
            " probe them one folder at a time, or leave --out out"
        )
    o.require_writable(out, *(table or ()))
    o.set_threads(threads)
    console = Console()
    found: list[Found] = []
    places: list[Path] = []
    for path in paths:
        try:
            with naming(path):
                one = _measure(path, hints, seed=seed, quick=quick, out=out, alone=len(paths) == 1)
        except InputError as error:
            if len(paths) == 1:
                raise
            print(f"error: {error}", file=sys.stderr)
        else:
            found.append(one)
            places.append(path)
    if as_json:
        dicts = [one.as_dict() for one in found]
        o.print_json(dicts[0] if len(paths) == 1 else dicts)
    elif len(paths) == 1:
        _print(console, found[0], paths[0])
    else:
        print_tables(console, found, places)
    if table and found:
        write_tables(found, places, table)
    if out is not None and found and not as_json:
        written = (
            f"{out}/results.json, {out}/report.html"
            if len(paths) == 1
            else f"{out}/NAME/results.json and report.html of {len(found)} files"
        )
        console.print(f"written: {written}", markup=False, highlight=False, soft_wrap=True)
    if len(found) < len(paths):
        raise InputError(
            f"{len(found)} of {len(paths)} files measured; see the lines above for the others"
        )


def _measure(
    path: Path, hints: o.Hints, *, seed: int, quick: bool, out: Path | None, alone: bool
) -> Found:
    """Measure one checkpoint and, into a folder, write what was found. Raises `InputError`."""
    from rich.console import Console

    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.tasks.modular import ModularTask

    checkpoint = load_checkpoint(path, hints)
    measures: dict[type, Callable[..., Found]] = {AssignAdd: _assign_add, ModularTask: _modular}
    if type(checkpoint.task) not in measures:
        raise InputError("probe reads assign-and-add and modular models; `length` reads this one")
    with Console(stderr=True).status(f"{path.name}: reading", spinner="line") as status:

        def progress(stage: str) -> None:
            status.update(f"{path.name}: {stage}")

        options = {
            "quick": quick,
            "seed": seed,
            "provenance": o.provenance(path, checkpoint),
            "progress": progress,
        }
        found = measures[type(checkpoint.task)](checkpoint, options)
        if out is not None:
            progress("report")
            o.write_results(
                out if alone else out / path.stem, found.as_dict(), _report(found, path)
            )
    return found


def _assign_add(checkpoint: Checkpoint, options: dict[str, Any]) -> Findings:
    from mechint_arith.probing import probe as run_probe

    return run_probe(checkpoint, **options)


def _modular(checkpoint: Checkpoint, options: dict[str, Any]) -> ModularFindings:
    from dataclasses import replace

    from mechint_arith.decoding import decode
    from mechint_arith.modular_findings import measure

    found = measure(checkpoint, **options)
    if options.pop("quick"):
        return found
    try:
        return replace(found, decoded=decode(checkpoint, **options))
    except InputError as reason:
        return replace(found, not_decoded=str(reason))


def _report(found: Found, path: Path) -> str:
    from mechint_arith.modular_findings import ModularFindings

    if isinstance(found, ModularFindings):
        from mechint_arith.report.fourier import report

        return report(found, path.name)
    from mechint_arith.report.findings import findings_report

    return findings_report(found)


def _print(console: Any, found: Found, path: Path) -> None:
    from mechint_arith.modular_findings import ModularFindings

    if isinstance(found, ModularFindings):
        from mechint_arith.cli.fourier_summary import print_found

        print_found(console, found, path)
    else:
        from mechint_arith.cli.summary import print_findings

        print_findings(console, found, path)
