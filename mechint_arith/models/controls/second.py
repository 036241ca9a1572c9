"""Controls in which another computation serves one group of routes: separate by algorithm, not by copy.

The base's neurons serve the routes where the flag is clear; where it is set, a fresh hidden layer does. Logits
then change, accuracy should not: both are measured and recorded with the truth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.controls.carried import (
    carry,
    check_frequencies,
    least_used,
    new_outputs,
    waves,
)
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.finish import Plan, finish
from mechint_arith.models.controls.flags import Flag, add_flag, form_of
from mechint_arith.models.controls.neurons import CLEAR, OPEN, SET, Neurons, joined
from mechint_arith.models.controls.students import hidden_layer, regression
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.tasks.batch import Batch, concatenate

N_PROMPTS = 12_000
"""Prompts that a fresh hidden layer is fitted on: every number pair under several prefixes."""


def second_algorithm(
    base: Checkpoint,
    *,
    flag: str = "left",
    frequencies: Sequence[int] | int | None = None,
    share: float = 0.0,
    fit_steps: int = 1000,
    seed: int,
) -> Checkpoint:
    """Plant an independently learned hidden layer on the routes that set the flag.

    Without `frequencies` it is distilled from the base's own MLP, from a random start, on the same inputs and
    into the same output directions. With them it adds by those frequencies only: cos and sin of its operands
    are carried to `=` in new dimensions and its outputs unembed by cos and sin of the answer; a number stands for
    so many that the base uses least. A `share` of
    every base neuron's output may stay common to all routes, the rest is split between the two algorithms.
    `fit_steps` counts the optimiser's steps.
    Raises `InputError` for an unknown flag, frequencies outside 1..(p - 1) / 2, or a model that cannot be
    rewritten.
    """
    if not 0 <= share < 1:
        raise InputError(f"the share that stays common lies in [0, 1); got {share}")
    rng = np.random.default_rng((seed, 0))
    draft = Draft.of(base)
    n_own = draft.config.d_model
    added = add_flag(draft, flag)
    task = draft.task
    if isinstance(frequencies, int):
        frequencies = least_used(draft, frequencies)
    if frequencies is None:
        reads = list(range(n_own))
    else:
        check_frequencies(frequencies, task.p)
        table = waves(task.p, list(frequencies))
        reads, writes = carry(draft, table), new_outputs(draft, table.T)
    prompts = _prompts(task, flag, rng)
    folded = draft.folded
    run = folded(torch.from_numpy(prompts.tokens))
    theirs = run.post @ folded.w_logit
    theirs = theirs - theirs.mean(1, keepdim=True)
    if frequencies is None:
        to_logits, to_residual = _row_space(draft.w_u)
        target = theirs @ to_logits.T
    else:
        target = table[prompts.labels]
        target = target * _mean_margin(theirs, prompts) / _mean_margin(target @ table.T, prompts)
        to_residual = torch.zeros(len(writes), draft.config.d_model, dtype=torch.float64)
        to_residual[range(len(writes)), writes] = 1
    w_in, bias, w_out = hidden_layer(
        run.resid_mid[:, reads], target, len(draft.neurons), rng, steps=fit_steps
    )
    student = _reading(draft, added, reads, w_in, bias, w_out @ to_residual)
    own = draft.neurons
    apart = own.weighted(1 - share).gated(CLEAR), student.weighted(1 - share).gated(SET)
    parts = [own.weighted(share).gated(OPEN)] if share else []
    options = {"frequencies": None if frequencies is None else list(frequencies), "share": share}
    plan = Plan("second algorithm", seed, flag, options)
    return finish(base, draft, joined(*parts, *apart), plan, rng, flag=added)


def transplanted(
    base: Checkpoint, donor: Checkpoint, *, flag: str = "left", seed: int
) -> Checkpoint:
    """Plant another network's MLP on the routes that set the flag.

    The donor's images of the numbers under its last attention layer are carried to `=`; the donor's MLP input
    is a linear function of these and of the base's residual stream, fitted by ridge regression; its outputs
    unembed by the donor's own W_out W_U. The donor's skip path is left behind.
    Raises `InputError` for a donor of another task, an unknown flag, or a model that cannot be rewritten.
    """
    rng = np.random.default_rng((seed, 0))
    draft, other = Draft.of(base), Draft.of(donor)
    task = draft.task
    sizes = [(t.p, t.n_vars, t.length) for t in (task, other.task)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"a donor must read the same prompts: it has (p, variables, length) {sizes[1]}, the base {sizes[0]}"
        )
    n_own = draft.config.d_model
    added = add_flag(draft, flag)
    images = other.folded.values[:, 0, : task.p].sum(0)
    images = images - images.mean(0)
    left, size, _ = torch.linalg.svd(images, full_matrices=False)
    kept = min(int((size > 1e-4 * size[0]).sum()), draft.config.d_head)
    reads = [*range(n_own), *carry(draft, left[:, :kept] * size[:kept])]
    u, s, v = torch.linalg.svd(other.folded.w_logit, full_matrices=False)
    rank = int((s > 1e-6 * s[0]).sum())
    writes = new_outputs(draft, v[:rank])
    prompts = _prompts(task, flag, rng)
    tokens = torch.from_numpy(prompts.tokens)
    mine, theirs = draft.folded(tokens).resid_mid[:, reads], other.folded(tokens).resid_mid
    middle = mine.mean(0)
    map_in = regression(mine - middle, theirs - theirs.mean(0), ridge=1e-7)
    fitted = (mine - middle) @ map_in + theirs.mean(0)
    explained = 1 - float(
        (fitted - theirs).square().sum() / (theirs - theirs.mean(0)).square().sum()
    )
    donated = other.neurons
    bias = (theirs.mean(0) - middle @ map_in) @ donated.w_in + donated.b_in
    w_out = torch.zeros(len(donated), draft.config.d_model, dtype=torch.float64)
    w_out[:, writes] = u[:, :rank] * s[:rank]
    student = _reading(draft, added, reads, map_in @ donated.w_in, bias, w_out)
    parts = draft.neurons.gated(CLEAR), student.gated(SET)
    options = {"donor seed": donor.seed, "donor step": donor.step, "input R2": explained}
    plan = Plan("transplanted", seed, flag, options)
    return finish(base, draft, joined(*parts), plan, rng, flag=added)


def _prompts(task: AssignAdd, flag: str, rng: np.random.Generator) -> Batch:
    """Every number pair under several random prefixes, on the routes that set the flag."""
    routes = [r for r, is_set in zip(ROUTES, form_of(flag).routes, strict=True) if is_set]
    repeats = max(1, N_PROMPTS // (task.p**2 * len(routes)))
    batches = matched(task, np.tile(np.arange(task.p**2), repeats), rng)
    return concatenate([batches[route] for route in routes])


def _mean_margin(logits: Float[Tensor, "batch vocab"], prompts: Batch) -> Tensor:
    labels = torch.from_numpy(prompts.labels)
    answer = logits.gather(1, labels[:, None])[:, 0]
    return (answer - logits.mean(1)).mean()


def _row_space(
    w_u: Tensor,
) -> tuple[Float[Tensor, "output vocab"], Float[Tensor, "output d_model"]]:
    """Return an orthonormal basis of what W_U can write into centred logits, and how to write each in d_model."""
    left, size, right = torch.linalg.svd(w_u - w_u.mean(1, keepdim=True), full_matrices=False)
    kept = size > 1e-3 * size[0]
    return right[kept], (left[:, kept] / size[kept]).T


def _reading(
    draft: Draft, flag: Flag, reads: list[int], w_in: Tensor, bias: Tensor, w_out: Tensor
) -> Neurons:
    """Return neurons that read some dimensions, and their bias from the one that is 1 at `=`."""
    full = torch.zeros(draft.config.d_model, w_in.shape[1], dtype=torch.float64)
    full[reads] = w_in
    full[flag.constant] = bias
    return Neurons(full, torch.zeros_like(bias), w_out, np.full(w_in.shape[1], SET))
