"""A control whose neurons all serve every route, but each far more strongly on one group of routes.

Which neurons are shared is then a matter of degree: an index that asks which neurons matter and one that asks how
much they matter must disagree. Accuracy is kept, logits are not, as a leaking copy is not proportional to its
original.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.finish import Plan, finish
from mechint_arith.models.controls.flags import add_flag
from mechint_arith.models.controls.neurons import joined
from mechint_arith.models.controls.truth import across, mean_margin_map
from mechint_arith.tasks.assign_add import matched
from mechint_arith.tasks.batch import concatenate


def leaky(base: Checkpoint, *, leak: float = 0.25, flag: str = "left", seed: int) -> Checkpoint:
    """Plant two copies of the MLP whose gates are too shallow: where it should be silent, a copy still leaks.

    leak: effect of a shut copy over that of an open one, on the mean margin over all routes; both write
    1 / (1 + leak) of the base's output. Raises `InputError` for a leak outside (0, 1), an unknown flag, or a
    model that cannot be rewritten.
    """
    if not 0 < leak < 1:
        raise InputError(f"a leak lies between 0 and 1; got {leak}")
    rng = np.random.default_rng((seed, 0))
    draft = Draft.of(base)
    added = add_flag(draft, flag)
    neurons = draft.neurons.weighted(1 / (1 + leak))
    depth = _shallow(draft, leak, rng)
    clear, is_set = neurons.w_in.clone(), neurons.w_in.clone()
    clear[added.dimension] -= depth
    is_set[added.dimension] += depth
    is_set[added.constant] -= depth
    both = joined(replace(neurons, w_in=clear), replace(neurons, w_in=is_set))
    why = "every neuron serves both routes, at different strengths"
    unknown = dict.fromkeys(across(flag), why)
    plan = Plan("leaky", seed, flag, {"leak": leak}, unknown)
    return finish(base, draft, both, plan, rng)


def _shallow(draft: Draft, leak: float, rng: np.random.Generator) -> torch.Tensor:
    """Return gate depths [neuron], a common share of each neuron's largest pre-activation, that leak so much."""
    prompts = concatenate(list(matched(draft.task, np.arange(draft.task.p**2), rng).values()))
    folded = draft.folded
    run = folded(torch.from_numpy(prompts.tokens))
    pre = run.resid_mid @ draft.neurons.w_in + draft.neurons.b_in
    unit = mean_margin_map(folded)[:, torch.from_numpy(prompts.labels)].T
    highest = pre.amax(0).clamp(min=0)

    def effect(share: float) -> float:
        return float(((pre - share * highest).relu() * unit).sum())

    if effect(0.0) <= 0:
        raise InputError("the base's MLP works against the right answer: nothing useful can leak")
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if effect(middle) > leak * effect(0.0) else (low, middle)
    return high * highest
