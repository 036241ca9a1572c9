"""Mechanistic interpretability of small transformers that do arithmetic.

    import mechint_arith as ma
    model = ma.load("checkpoints/…/step_020000.safetensors")
    ma.ask(model, "a 7 b 12 + a b =").answer
    ma.probe(model).verdict.name

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
    "measure_circuits": "api",
    "draw": "figures.diagram",
    "judge": "verdict",
    "patch": "interventions.patching",
    "sweep": "interventions.patching",
    "matched": "tasks.assign_add",
    "contrasting": "tasks.contrasts",
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
    return sorted([*globals(), *_HOME])
