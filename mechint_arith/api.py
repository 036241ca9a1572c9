"""The few functions that a notebook starts from: `import mechint_arith as ma`.

Each takes a model as `load` returns it, or a `Checkpoint`; everything else is one import deeper.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from mechint_arith.asking import Answer
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.probing import Findings
from mechint_arith.sharing import Evidence
from mechint_arith.verdict import Thresholds

if TYPE_CHECKING:
    from mechint_arith.circuits.measured import RouteCircuit
    from mechint_arith.models.hooked import HookedTransformer


def load(path: str | os.PathLike[str], **hints: Any) -> HookedTransformer:
    """Load a checkpoint, ours or an outside file, as a hooked model in eval mode.

    `model.task` says what its tokens mean, `model.checkpoint` where it comes from. Hints for outside files are
    those of `models.load.Hints` (`task="assign-add"`, `p=59`, …). Raises `InputError` in one line.
    """
    from mechint_arith.models.hooked import HookedTransformer
    from mechint_arith.models.load import Hints, load_checkpoint

    known = [field.name for field in fields(Hints)]
    if unknown := [name for name in hints if name not in known]:
        raise InputError(f"load has no option {unknown[0]!r}: choose from {', '.join(known)}")
    checkpoint = load_checkpoint(path, Hints(**hints))
    model = HookedTransformer(checkpoint.config, checkpoint.weights, task=checkpoint.task).eval()
    model.checkpoint = checkpoint
    return model


def checkpoint_of(model: HookedTransformer | Checkpoint) -> Checkpoint:
    """Return a model as a checkpoint, with its present weights. Raises `InputError` for what is no model of ours."""
    if isinstance(model, Checkpoint):
        return model
    if not isinstance(getattr(model, "config", None), ModelConfig):
        raise InputError(f"expected a model as ma.load returns it, not {model!r:.60}")
    weights = {name: w.detach() for name, w in model.state_dict().items()}
    known = model.checkpoint
    if model.task is None:
        raise InputError("this model has no task: HookedTransformer(config, weights, task=…)")
    if known is None:
        return Checkpoint(model.config, weights, model.task)
    return replace(known, config=model.config, weights=weights, task=model.task)


def ask(model: HookedTransformer | Checkpoint, prompt: str, *, top: int = 5) -> Answer:
    """Run one prompt such as `a 7 b 12 + a b =`: answers, attention at `=`, parts of the margin."""
    from mechint_arith.asking import ask as run

    return run(checkpoint_of(model), prompt, top=top)


def probe(
    model: HookedTransformer | Checkpoint,
    *,
    quick: bool = False,
    seed: int = 0,
    thresholds: Thresholds | None = None,
) -> Findings:
    """Measure and judge an assign-and-add model: accuracy, evidence, verdict, frequencies."""
    from mechint_arith.probing import probe as run

    return run(checkpoint_of(model), quick=quick, seed=seed, thresholds=thresholds)


def measure_sharing(
    model: HookedTransformer | Checkpoint, *, quick: bool = False, seed: int = 0
) -> Evidence:
    """Return the evidence on whether the same MLP neurons serve both routes; `judge` turns it into a verdict."""
    from mechint_arith.models.reader import reader
    from mechint_arith.sharing import evidence
    from mechint_arith.tasks.assign_add import AssignAdd

    checkpoint = checkpoint_of(model)
    task = checkpoint.task
    if not isinstance(task, AssignAdd):
        raise InputError("sharing between routes needs an assign-and-add model")
    read = task.places["equals"]
    return evidence(
        reader(checkpoint.config, checkpoint.weights, read=read), task, quick=quick, seed=seed
    )


def measure_circuits(
    model: HookedTransformer | Checkpoint,
    routes: Sequence[str] = ("direct", "both"),
    *,
    threshold: float = 0.05,
    n_pairs: int = 400,
    direction: str = "noising",
    seed: int = 0,
) -> tuple[RouteCircuit, ...]:
    """Measure the circuits of one route or two of an assign-and-add model; `draw` takes their `circuit`.

    Raises `InputError` where the model is not competent on a route.
    """
    from mechint_arith.circuits.routes import circuits_of
    from mechint_arith.models.transformer import Transformer
    from mechint_arith.tasks.assign_add import AssignAdd

    checkpoint = checkpoint_of(model)
    if not isinstance(checkpoint.task, AssignAdd):
        raise InputError("circuits of routes need an assign-and-add model")
    network = Transformer(checkpoint.config, checkpoint.weights).eval().requires_grad_(False)
    return circuits_of(
        network,
        checkpoint.task,
        routes,
        threshold=threshold,
        n_pairs=n_pairs,
        direction=direction,
        seed=seed,
    )
