"""`mechint-arith probe`: accuracy, evidence and verdict on one checkpoint, or a table over several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mechint_arith.probing import Findings


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
        Path | None, typer.Option(help="Also write the summary table: .csv or .tex.")
    ] = None,
    task: o.TaskName = None,
    p: o.P = None,
    train_share: o.TrainShare = None,
    split_seed: o.SplitSeed = None,
    never_left: o.NeverLeft = None,
    never_right: o.NeverRight = None,
    op: o.Op = None,
    equals: o.Equals = None,
    layout: o.Layout = None,
    config: o.Config = None,
    attn_coeff: o.AttnCoeff = None,
    threads: o.Threads = 1,
) -> None:
    """Do the same MLP neurons serve direct inputs (7+12) and indirect ones (x=7, y=12, x+y)?

    Prints accuracy by pool, cell and stratum, what the MLP is needed for, and the sharing verdict with its
    reasons: **shared**, **partly shared**, **separate**, **not competent** or **inconclusive**. With --out it
    also writes `results.json` and `report.html`, one file with pictures that opens offline. Any verdict exits
    with code 0; a file that cannot be read exits with code 2. A modular checkpoint gets its Fourier analysis, as
    `fourier` gives it.

    Example: `mechint-arith probe --ckpt checkpoints/assign_add_p59/step_023100.safetensors --out out/probe`
    """
    from rich.console import Console

    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.probing import probe as run_probe
    from mechint_arith.tasks.modular import ModularTask

    paths = o.expand([*(ckpt or []), *(files or [])])
    if not paths:
        raise InputError("which checkpoint? give --ckpt FILE or --ckpt FOLDER")
    if table is not None and table.suffix not in (".csv", ".tex"):
        raise InputError(f"--table {table}: expected a name that ends in .csv or .tex")
    if seed < 0:
        raise InputError(f"--seed cannot be negative: {seed}")
    if out is not None and len({path.stem for path in paths}) < len(paths):
        raise InputError(
            "two checkpoints have one name, so their results would overwrite each other:"
            " probe them one folder at a time, or leave --out out"
        )
    o.require_writable(out)
    o.set_threads(threads)
    hints = o.hints(
        task=task,
        p=p,
        train_share=train_share,
        split_seed=split_seed,
        never_left=never_left,
        never_right=never_right,
        op=op,
        equals=equals,
        layout=layout,
        config=config,
        attn_coeff=attn_coeff,
    )
    if isinstance(load_checkpoint(paths[0], hints).task, ModularTask):
        from mechint_arith.cli.fourier import analyse, deliver

        results = [analyse(path, hints, seed=seed, quick=quick) for path in paths]
        deliver(results, paths, out=out, as_json=as_json)
        return
    console, errors = Console(), Console(stderr=True)
    found: list[Findings] = []
    for path in paths:
        checkpoint = load_checkpoint(path, hints)
        with errors.status(f"{path.name}: reading", spinner="line") as status:

            def progress(stage: str, name: str = path.name) -> None:
                status.update(f"{name}: {stage}")

            findings = run_probe(
                checkpoint,
                quick=quick,
                seed=seed,
                provenance=o.provenance(path, checkpoint),
                progress=progress,
            )
            found.append(findings)
            if out is not None:
                progress("report")
                _write(findings, out if len(paths) == 1 else out / path.stem)
        if len(paths) == 1 and not as_json:
            from mechint_arith.cli.summary import print_findings

            print_findings(console, findings, path)
    if as_json:
        dicts = [findings.as_dict() for findings in found]
        print(json.dumps(dicts[0] if len(dicts) == 1 else dicts, indent=1, allow_nan=False))
    frame = summary_table(found)
    if len(paths) > 1 and not as_json:
        from mechint_arith.cli.summary import print_table

        print_table(console, frame)
    if table is not None:
        from mechint_arith.tables import write_table

        write_table(frame, table)
    if out is not None and not as_json:
        console.print(
            f"written: {out}/results.json, {out}/report.html"
            if len(paths) == 1
            else f"written: {out}",
            markup=False,
        )


def _write(findings: Findings, folder: Path) -> None:
    from mechint_arith.files import write_json, write_text
    from mechint_arith.report_findings import findings_report

    write_json(folder / "results.json", findings.as_dict())
    write_text(folder / "report.html", findings_report(findings))


def summary_table(found: list[Findings]) -> pd.DataFrame:
    """One row per checkpoint: step, pool accuracies, verdict, sharing index and its interval."""
    import pandas as pd

    from mechint_arith.tasks.pools import PAPER_POOLS

    rows = []
    for findings in found:
        row = {"file": findings.provenance["file"], "step": findings.checkpoint.step}
        row |= {
            name: findings.accuracy[name].value for name in PAPER_POOLS if name in findings.accuracy
        }
        index = findings.verdict.index
        row["verdict"] = findings.verdict.name
        known = findings.verdict.name != "not competent"  # an untrained network scores high
        for name, value in (("", index.value), (" low", index.low), (" high", index.high)):
            row[f"index{name}"] = value if known else float("nan")
        row["sha256"] = findings.provenance["sha256"][:12]
        rows.append(row)
    return pd.DataFrame(rows)
