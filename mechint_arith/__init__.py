"""Mechanistic interpretability of small transformers that do arithmetic.

    import mechint_arith as ma
    model = ma.load("checkpoints/…/step_020000.safetensors")
    ma.ask(model, "a 7 b 12 + a b =").answer
    ma.probe(model).verdict.name

Models and questions
    load                a checkpoint, ours or an outside file, as a hooked model
    ask                 one prompt: answers, attention at the last position, parts of the margin
    probe               accuracy, evidence and verdict of an assign-and-add model
    measure_sharing     the evidence alone: do the same neurons serve both routes?
    judge               evidence -> verdict
    measure_circuits    which part writes to which, route by route
    draw                … as a diagram

Prompts and places
    matched             the four forms of one question, row by row
    contrasting         clean and corrupted prompts that differ in one token
    Site                a place in a model: hook, layer, position, head, neurons

Interventions and attribution, each with to_dataframe() and figure()
    patch               activations of one run put into another, at chosen sites
    sweep               … at every place of a grid
    path_patch          … as one reader sees them
    ablate              sites replaced by what knows less: zero, means, other rows
    ablate_neurons      every neuron of the last MLP alone, exactly
    interchange         sites of one run put into another: is the answer the one that a causal model predicts?
    direct_logits       the logits as a sum over the parts of a model
    direct_attribution  a metric as a sum over them

Tasks and errors
    AssignAdd           x = 7, y = 12, x + y = ? modulo p
    ModularTask         a + b, a - b, … modulo p
    DigitsTask          arithmetic over digits
    InputError          the one exception for what a user can mend

Importing this is instant: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "load": "api",
    "ask": "api",
    "probe": "api",
    "measure_sharing": "api",
    "judge": "verdict",
    "measure_circuits": "api",
    "draw": "figures.diagram",
    "matched": "tasks.assign_add",
    "contrasting": "tasks.contrasts",
    "Site": "interventions.site",
    "patch": "interventions.patching",
    "sweep": "interventions.patching",
    "path_patch": "interventions.path",
    "ablate": "interventions.ablation",
    "ablate_neurons": "interventions.neurons",
    "interchange": "interventions.interchange",
    "direct_logits": "circuits.attribution",
    "direct_attribution": "circuits.attribution",
    "AssignAdd": "tasks.assign_add",
    "ModularTask": "tasks.modular",
    "DigitsTask": "tasks.digits",
    "InputError": "errors",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"mechint_arith.{_HOME[name]}"), name)
    raise AttributeError(f"module 'mechint_arith' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
