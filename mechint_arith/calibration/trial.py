"""Build one control and judge it, exactly as `probe --quick` would judge a model from elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mechint_arith import sharing, verdict
from mechint_arith.calibration.grid import Trial
from mechint_arith.errors import InputError
from mechint_arith.files import sha256
from mechint_arith.models import controls
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.controls.truth import no_share, planted_shares
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.models.reader import reader
from mechint_arith.stats import Estimate
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.pools import Mixture
from mechint_arith.training import Recipe, folded_forward, start, train


def build(trial: Trial, base: Checkpoint, donor: Checkpoint | None) -> Checkpoint:
    """Return the control of a trial."""
    if trial.make == "early":
        return early(base, seed=trial.seed, **trial.options)
    extra = {} if donor is None else {"donor": donor}
    made: Checkpoint = getattr(controls, trial.make)(
        base, **extra, **trial.options, seed=trial.seed
    )
    return made


def early(base: Checkpoint, *, steps: int, seed: int) -> Checkpoint:
    """Train a network of the base's shape from another seed, by the base's recipe, for a few steps only."""
    if "recipe" not in base.meta or not isinstance(base.task, AssignAdd):
        raise InputError("an early network needs an assign-and-add base that carries its recipe")
    told = base.meta["recipe"]
    recipe = Recipe(**{**told, "steps": steps, "betas": tuple(told["betas"])})
    state = train(
        start(initial_weights(base.config, seed), recipe),
        recipe,
        Mixture(base.task).sample,
        folded_forward(base.config, base.task.places["equals"]),
        seed=seed,
    )
    weights = {name: w.detach() for name, w in state.weights.items()}
    unknown = no_share(f"the network was trained for {steps} steps only")
    planted = {
        "kind": "early",
        "flag": None,
        "seed": seed,
        "options": {"steps": steps},
        "truth": planted_shares({}, np.zeros(0), None, unknown=unknown),
    }
    return Checkpoint(base.config, weights, base.task, steps, seed, {"planted": planted})


def run_trial(trial: Trial, bases: Sequence[str | Path]) -> dict[str, Any]:
    """Build, measure and judge one control; return plain JSON values.

    bases: the base networks' files. The prompts of the evidence are drawn from the trial's own seed.
    """
    began = time.monotonic()
    base = load_checkpoint(Path(bases[trial.base]))
    donor = None if trial.donor is None else load_checkpoint(Path(bases[trial.donor]))
    made = build(trial, base, donor)
    built = time.monotonic()
    assert isinstance(made.task, AssignAdd)
    model = reader(made.config, made.weights, read=made.task.places["equals"])
    evidence = sharing.evidence(model, made.task, quick=True, seed=trial.seed)
    judged = verdict.judge(evidence)
    planted = {key: value for key, value in made.meta["planted"].items() if key != "gates"}
    truth = planted.pop("truth")
    return {
        "trial": trial.as_dict(),
        "base": base_identity(bases[trial.base]),
        "planted": planted,
        "verdict": judged.as_dict(),
        "routes": {
            name: {
                "accuracy": route.accuracy.as_dict(),
                "zeroed": route.zeroed.as_dict(),
                "negative_share": route.negative_share,
            }
            for name, route in evidence.routes.items()
        },
        "pairs": {
            name: {
                "planted": truth[name],
                "verdict": judged.pairs[name].name,
                "branch": judged.pairs[name].branch,
                "reason": judged.pairs[name].reason,
                **{index: _estimate(getattr(evidence.pairs[name], index)) for index in INDICES},
            }
            for name in truth
        },
        "seconds": {
            "building": round(built - began, 2),
            "judging": round(time.monotonic() - built, 2),
        },
    }


INDICES = ("sigma", "swap", "overlap", "act")


def base_identity(path: str | Path) -> dict[str, str]:
    """Which file a base network is."""
    return {"file": Path(path).name, "sha256": sha256(path)}


def _estimate(estimate: Estimate) -> dict[str, float | int] | None:
    try:
        return estimate.as_dict()
    except ValueError:
        return None
