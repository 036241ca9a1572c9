"""`mechint-arith fourier`: which frequencies a model adds with, clock or pizza, and how it came about."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from mechint_arith.grokking import Grokking
    from mechint_arith.models.checkpoint import Checkpoint
    from mechint_arith.models.load import Hints
    from mechint_arith.modular_findings import ModularFindings
    from mechint_arith.route_frequencies import RouteFindings

    Found = ModularFindings | RouteFindings | Grokking


def fourier(
    ckpt: Annotated[
        Path,
        typer.Option(help="A checkpoint, or the folder of a modular run for its whole course."),
    ],
    out: o.Out = None,
    as_json: o.AsJson = False,
    seed: o.Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="No interventions and no measures by gradient.")
    ] = False,
    config: o.Config = None,
    layout: o.Layout = None,
    attn_coeff: o.AttnCoeff = None,
    task: o.TaskName = None,
    op: o.Op = None,
    equals: o.Equals = None,
    p: o.P = None,
    train_share: o.TrainShare = None,
    split_seed: o.SplitSeed = None,
    threads: o.Threads = 1,
) -> None:
    """Fourier analysis of modular and assign-and-add models, ours and other people's.

    Prints how the file was read, its accuracy over all pairs, and key frequencies with their null. Of a competent
    model also neuron clusters, clock or pizza, progress measures, and what happens when the key frequencies are
    removed; of an assign-and-add model all of this per route, and whether routes agree. With --out it writes
    `results.json` and `report.html`. A file that cannot be read exits with code 2 and one line.

    Example: `mechint-arith fourier --ckpt checkpoints/modular_add_p53/step_008000.safetensors`
    """
    o.require_writable(out)
    o.set_threads(threads)
    hints = o.hints(
        task=task,
        p=p,
        train_share=train_share,
        split_seed=split_seed,
        op=op,
        equals=equals,
        layout=layout,
        config=config,
        attn_coeff=attn_coeff,
    )
    if ckpt.is_dir():
        found: list[Found] = [_series(ckpt, hints, seed)]
    else:
        found = [analyse(ckpt, hints, seed=seed, quick=quick)]
    deliver(found, [ckpt], out=out, as_json=as_json)


def analyse(path: Path, hints: Hints, *, seed: int, quick: bool) -> ModularFindings | RouteFindings:
    """Measure one checkpoint, by the kind of its task."""
    from rich.console import Console

    from mechint_arith import modular_findings, route_frequencies
    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.tasks.modular import ModularTask

    checkpoint: Checkpoint = load_checkpoint(path, hints)
    kinds: dict[type, Callable[..., Any]] = {
        ModularTask: modular_findings.measure,
        AssignAdd: route_frequencies.measure,
    }
    if type(checkpoint.task) not in kinds:
        raise InputError(f"{path}: Fourier analysis is for modular and assign-and-add models")
    with Console(stderr=True).status(f"{path.name}: reading", spinner="line") as status:
        return kinds[type(checkpoint.task)](
            checkpoint,
            quick=quick,
            seed=seed,
            provenance=o.provenance(path, checkpoint),
            progress=lambda stage: status.update(f"{path.name}: {stage}"),
        )


def _series(folder: Path, hints: Hints, seed: int) -> Grokking:
    from rich.console import Console

    from mechint_arith.grokking import grokking
    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.models.series import checkpoint_files

    checkpoints = [load_checkpoint(path, hints) for path in checkpoint_files(folder)]
    with Console(stderr=True).status(f"{folder.name}: reading", spinner="line") as status:
        return grokking(
            checkpoints,
            seed=seed,
            progress=lambda stage: status.update(f"{folder.name}: {stage}"),
        )


def deliver(found: Sequence[Found], paths: list[Path], *, out: Path | None, as_json: bool) -> None:
    """Write and print what was found: one page each, or JSON of one or a list."""
    from rich.console import Console

    from mechint_arith.cli.fourier_summary import print_found
    from mechint_arith.files import write_json, write_text
    from mechint_arith.report_fourier import report

    console: Console = Console()
    for one, path in zip(found, paths, strict=True):
        folder = out if out is None or len(found) == 1 else out / path.stem
        if folder is not None:
            write_json(folder / "results.json", one.as_dict())
            write_text(folder / "report.html", report(one, path.name))
        if not as_json:
            print_found(console, one, path)
            if folder is not None:
                console.print(f"written: {folder}/results.json, {folder}/report.html")
    if as_json:
        values = [one.as_dict() for one in found]
        print(json.dumps(values[0] if len(values) == 1 else values, indent=1, allow_nan=False))
