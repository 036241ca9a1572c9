"""From a draft to a checkpoint: hide the surgery, measure what it changed, record what was planted."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    options: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    """`direct-left`, … -> why no share can be told for this pair of routes."""


def finish(
    base: Checkpoint,
    draft: Draft,
    neurons: Neurons,
    plan: Plan,
    rng: np.random.Generator,
    *,
    flag: Flag | None = None,
) -> Checkpoint:
    """Return the rewritten model, its neurons shuffled and its basis turned, with the truth in `meta["planted"]`."""
    neurons = neurons.shuffled(rng)
    draft.neurons = neurons if flag is None else with_gates(draft, flag, neurons)
    draft.rotate(rng)
    dtype = next(iter(base.weights.values())).dtype
    weights = {name: w.to(dtype).contiguous() for name, w in draft.weights.items()}
    made = fold(draft.config, weights, read=draft.task.places["equals"])
    effect = effects(made, draft.task, np.random.default_rng((plan.seed, 1)))
    truth = planted_shares(effect, neurons.gates, plan.flag, unknown=plan.unknown)
    planted = {
        "kind": plan.kind,
        "flag": plan.flag,
        "seed": plan.seed,
        "options": plan.options,
        "gates": "".join(map(str, neurons.gates)),
        "truth": truth,
        "change": change(base, made, draft.task, plan.seed),
        "base": {"step": base.step, "seed": base.seed},
    }
    return Checkpoint(
        draft.config, weights, draft.task, base.step, base.seed, {**base.meta, "planted": planted}
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
