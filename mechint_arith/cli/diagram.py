"""`mechint-arith diagram`: measure the circuit of a route, or of two, and draw it for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError, naming

if TYPE_CHECKING:
    from mechint_arith.circuits.measured import RouteCircuit

CHOICES = {
    "direct": ("direct",),
    "left": ("left",),
    "right": ("right",),
    "indirect": ("both",),
    "both": ("direct", "both"),
}
"""What --route may say -> routes of the task; `indirect` is a query of two variables."""


@o.outside_files(without=o.MODULAR)
def diagram(
    ckpt: o.OneCkpt,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="File to draw into: .pdf, .svg, .png or .tikz (LaTeX); repeatable.",
            show_default="circuit.pdf",
        ),
    ] = None,
    route: Annotated[
        str,
        typer.Option(
            help="direct (7 + 12), indirect (x + y), left (x + 12), right (7 + y), or both: direct and"
            " indirect side by side, with what they share highlighted."
        ),
    ] = "both",
    threshold: Annotated[
        float,
        typer.Option(
            help="Smallest effect of an edge that is drawn, as a share of the gap between clean and"
            " corrupted runs.",
            callback=o.at_least(0),
        ),
    ] = 0.05,
    direction: Annotated[
        str,
        typer.Option(
            help="noising (corrupted writes into the clean run) or denoising (the reverse)."
        ),
    ] = "noising",
    pairs: Annotated[
        int, typer.Option(help="Number pairs to measure on.", callback=o.at_least(1))
    ] = 400,
    width: Annotated[
        float | None,
        typer.Option(
            help="Width in cm; a column of a paper has 8.", callback=o.at_least(1, most=200)
        ),
    ] = None,
    dpi: Annotated[
        int,
        typer.Option(help="Pixels per inch of a .png.", callback=o.at_least(30, most=2400)),
    ] = 300,
    json: Annotated[
        Path | None, typer.Option(help="Also write the circuits with all their numbers.")
    ] = None,
    seed: o.Seed = 0,
    threads: o.Threads = 1,
    *,
    hints: o.Hints,
) -> None:
    """Draw the circuit of a route: which parts of the model carry the answer, and how strongly.

    Every edge is measured by path patching between matched clean and corrupted prompts; what is left above the
    threshold is drawn, and its faithfulness printed. Layers go upward, positions across. No browser and no
    system program is needed. A model that is not competent on a route gets no circuit.

    Example: `mechint-arith diagram --ckpt checkpoints/assign_add_p59/step_023100.safetensors --out circuit.pdf`
    """
    from rich.console import Console

    from mechint_arith.circuits.routes import circuits_of
    from mechint_arith.figures.diagram import SUFFIXES, save
    from mechint_arith.models.load import load_checkpoint
    from mechint_arith.models.transformer import Transformer
    from mechint_arith.tasks.assign_add import AssignAdd

    if route not in CHOICES:
        raise InputError(f"--route {route}: choose from {', '.join(CHOICES)}")
    files = out or [Path("circuit.pdf")]
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            raise InputError(f"--out {file}: the name should end in {', '.join(SUFFIXES)}")
    o.require_writable(None, *files, json)
    o.set_threads(threads)
    checkpoint = load_checkpoint(ckpt, hints)
    if not isinstance(checkpoint.task, AssignAdd):
        raise InputError(f"{ckpt}: circuits of routes need an assign-and-add model")
    made = o.provenance(ckpt, checkpoint)
    console, errors = Console(), Console(stderr=True)
    with naming(ckpt), errors.status(f"{ckpt.name}: measuring every edge", spinner="line"):
        model = Transformer(checkpoint.config, checkpoint.weights).eval().requires_grad_(False)
        found = circuits_of(
            model,
            checkpoint.task,
            CHOICES[route],
            threshold=threshold,
            name=made["sha256"],
            n_pairs=pairs,
            direction=direction,
            seed=seed,
        )
    for file in files:
        save([one.circuit for one in found], file, width=width, dpi=dpi)
    if json is not None:
        _write(found, json, made)
        files.append(json)
    for one in found:
        for line in summary(one):
            console.print(line, highlight=False, soft_wrap=True)
    written = ", ".join(map(str, files))
    console.print(f"written: {written}", markup=False, highlight=False, soft_wrap=True)


def summary(one: RouteCircuit) -> list[str]:
    """Return what is said of a circuit: how it was measured, and how faithful it is."""
    f, about = one.faithfulness, one.circuit.about
    return [
        f"{about.route}: {f.n_edges} of {f.n_all} edges have an effect of at least {about.threshold:g}"
        f" ({about.direction}, {about.ablation} ablation, {about.metric}, n = {f.alone.n} number pairs)",
        f"  the circuit alone (all else corrupted) keeps {_interval(f.alone)} of the gap,"
        f" and answers {_interval(f.accuracy)} right (whole model {one.accuracy.value:.3f})",
        f"  with the circuit corrupted (all else clean) {_interval(f.without)} is left;"
        f" completeness gap at most {f.gap:.3f} (without {f.worst})",
        f"  {one.n_unsure} edges are too near the cut to be sure: their intervals hold {about.threshold:g}",
    ]


def _interval(e: Any) -> str:
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def _write(found: tuple[RouteCircuit, ...], path: Path, made: dict[str, Any]) -> None:
    from mechint_arith.files import write_json

    circuits = [one.as_dict() for one in found]
    write_json(path, {"schema": "mechint_arith.circuits", "version": 1, **made, "routes": circuits})
