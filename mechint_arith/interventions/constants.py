"""The constant that, put at a site for every input, leaves the least loss: optimal ablation.

Source: Li & Janson, "Optimal ablation for interpretability", arXiv 2409.09951.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.contrast import METRICS, measuring
from mechint_arith.interventions.located import Located, locate
from mechint_arith.interventions.recording import BUDGET, example_bytes, has_hooks, undisturbed
from mechint_arith.interventions.site import Site
from mechint_arith.models.staged import Place, Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch


def optimal_constants(
    model: Transformer,
    reference: Batch,
    sites: Sequence[Site],
    start: Sequence[Tensor],
    *,
    steps: int = 100,
    rate: float = 0.03,
    partly: bool = False,
    budget: int = BUDGET,
) -> list[Tensor]:
    """Return one constant per site, [1 n …] per position, with the least mean loss over a reference batch.

    start: where to begin, usually the means. steps: passes over the reference, by Adam with the given rate times
    the root mean square of the start. Of all constants passed on the way the best is returned, so the result is
    never worse on the reference than the start.
    Raises `InputError` where the model carries hooks (gradients are taken without them).
    """
    if has_hooks(model):
        raise InputError(
            "optimal constants are fitted without hooks; remove those on the model first"
        )
    staged = Staged(model, reads_of(reference))
    found = [locate(s, model.config, reference, between_runs=False, partly=partly) for s in sites]
    kept = torch.stack([at.rows_with(len(reference)) for at in found]).all(0).numpy()
    reference = reference[kept]
    found = [locate(s, model.config, reference, between_runs=False) for s in sites]
    loss = measuring(METRICS["loss"], reference.labels, reference.labels)
    constants = [value.detach().clone().requires_grad_() for value in start]
    rates = [rate * float(value.square().mean().sqrt()) + 1e-4 for value in start]
    adam = torch.optim.Adam(
        [{"params": [c], "lr": r} for c, r in zip(constants, rates, strict=True)]
    )
    step = max(1, budget // (4 * example_bytes(staged)))
    best, least = [c.detach().clone() for c in constants], float("inf")
    parts = [slice(i, i + step) for i in range(0, len(reference), step)]
    with undisturbed(model):
        runs = [staged.record(torch.from_numpy(reference.tokens[rows])) for rows in parts]
    for _ in range(steps):
        adam.zero_grad()
        total = 0.0
        for rows, run in zip(parts, runs, strict=True):
            every = torch.arange(len(run.logits))
            with undisturbed(model, grad=True):
                here = [at.among(rows) for at in found]
                logits = staged.rerun(run, every, _edits(staged, here, constants))
                part = loss(logits, rows.start + every).sum() / len(reference)
                grads = torch.autograd.grad(part, constants)
            for constant, grad in zip(constants, grads, strict=True):
                constant.grad = grad if constant.grad is None else constant.grad + grad
            total += float(part.detach())
        if total < least:
            best, least = [c.detach().clone() for c in constants], total
        adam.step()
    return best


def _edits(
    staged: Staged, sites: Sequence[Located], constants: Sequence[Tensor]
) -> Mapping[Place, Callable[[Tensor], Tensor]]:
    def edit(place: Place) -> Callable[[Tensor], Tensor]:
        def write(value: Tensor) -> Tensor:
            value = value.clone()
            every = torch.arange(len(value))
            for at, constant in zip(sites, constants, strict=True):
                if (at.site.layer, at.site.hook) == place:
                    at.put(value, every, staged.columns(place), constant)
            return value

        return write

    return {place: edit(place) for place in {(at.site.layer, at.site.hook) for at in sites}}
