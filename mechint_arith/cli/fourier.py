"""`mechint-arith fourier`: which frequencies a model adds with, clock or pizza, and how it came about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError, naming

if TYPE_CHECKING:
    from mechint_arith.grokking import Grokking
    from mechint_arith.models.checkpoint import Checkpoint
    from mechint_arith.modular_findings import ModularFindings
    from mechint_arith.route_frequencies import RouteFindings


@o.outside_files(without=o.ASSIGN_ADD)
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
    threads: o.Threads = 1,
    *,
    hints: o.Hints,
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
    with naming(ckpt):
        measure = _series if ckpt.is_dir() else _one
        found = measure(ckpt, hints, seed=seed, quick=quick)
    if out is not None:
        from mechint_arith.report.fourier import report

        o.write_results(out, found.as_dict(), report(found, ckpt.name))
    if as_json:
        o.print_json(found.as_dict())
        return
    from rich.console import Console

    from mechint_arith.cli.fourier_summary import print_found

    console = Console()
    print_found(console, found, ckpt)
    if out is not None:
        console.print(f"written: {out}/results.json, {out}/report.html")


def _one(path: Path, hints: o.Hints, *, seed: int, quick: bool) -> ModularFindings | RouteFindings:
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


def _series(folder: Path, hints: o.Hints, *, seed: int, quick: bool) -> Grokking:
    """Measure every checkpoint of a modular run; there is nothing for `quick` to leave out."""
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
