"""From a draft to a checkpoint: hide the surgery, measure what it changed, record what was planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.flags import Flag, with_gates
from mechint_arith.models.controls.neurons import Neurons
from mechint_arith.models.controls.truth import effects, planted_shares
from mechint_arith.models.folded import Folded, fold
from mechint_arith.tasks.assign_add import AssignAdd, matched


@dataclass(frozen=True)
class Plan:
    """What is planted, as it goes into the file."""

    kind: str
    seed: int
    flag: str | None = None
    options: dict[str, Any] | None = None
    no_truth: str | None = None
    """Why no share is planted: the reason the verdict should find, or None."""


def finish(
    base: Checkpoint,
    draft: Draft,
    neurons: Neurons,
    plan: Plan,
    rng: np.random.Generator,
    *,
    flag: Flag | None = None,
) -> Checkpoint:
    """Return the rewritten model, its neurons shuffled and its basis turned, with the truth in `meta["control"]`."""
    neurons = neurons.shuffled(rng)
    draft.neurons = neurons if flag is None else with_gates(draft, flag, neurons)
    draft.rotate(rng)
    dtype = next(iter(base.weights.values())).dtype
    weights = {name: w.to(dtype).contiguous() for name, w in draft.weights.items()}
    made = fold(draft.config, weights, read=draft.task.places["equals"])
    effect = effects(made, draft.task, np.random.default_rng((plan.seed, 1)))
    truth: dict[str, Any] = {"none": plan.no_truth}
    if plan.no_truth is None:
        truth = {"shares": planted_shares(effect, neurons.gates, plan.flag)}
    control = {
        "kind": plan.kind,
        "flag": plan.flag,
        "seed": plan.seed,
        "options": plan.options or {},
        "gates": "".join(map(str, neurons.gates)),
        "truth": truth,
        "change": change(base, made, draft.task, plan.seed),
        "base": {"step": base.step, "seed": base.seed},
    }
    return Checkpoint(
        draft.config, weights, draft.task, base.step, base.seed, {**base.meta, "control": control}
    )


def change(base: Checkpoint, made: Folded, task: AssignAdd, seed: int) -> dict[str, Any]:
    """Compare a rewrite with its base on matched prompts: the largest change of a logit, and accuracies by route.

    All p^2 pairs, or 1,000 random ones where there are more.
    """
    rng = np.random.default_rng((seed, 2))
    pair = np.arange(task.p**2)
    if len(pair) > 1000:
        pair = rng.choice(pair, 1000, replace=False)
    before = fold(base.config, base.weights, read=task.places["equals"])
    largest, accuracy = 0.0, {}
    for route, batch in matched(task, pair, rng).items():
        tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
        with torch.no_grad():
            old, new = before(tokens).logits, made(tokens).logits
        largest = max(largest, float((old - new).abs().max()))
        accuracy[route] = [
            float((logits.argmax(-1) == labels).double().mean()) for logits in (old, new)
        ]
    return {"largest logit change": largest, "accuracy before, after": accuracy}
