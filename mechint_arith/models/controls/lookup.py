"""A control whose last MLP is not needed on direct queries: attention alone adds there.

With two positions in reach, attention's output is (v1 + v2) / 2 + tanh(s / 2) (v1 - v2) / 2 for a score
difference s, and s is bilinear in what query and key hold. So one head writes cos w(a + b) = cos wa cos wb -
sin wa sin wb along a direction of our choice, and two heads per frequency give the logits G cos w(a + b - c),
the sum that networks learn with their MLP (Nanda et al., arXiv 2301.05217). No MLP before the last is involved,
and the model folds. A low-rank attention map cannot copy the MLP's own logits exactly, so here it outweighs them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.controls.carried import new_outputs, waves
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.finish import Plan, finish
from mechint_arith.models.controls.flags import SCORE, add_flag
from mechint_arith.models.controls.neurons import SET
from mechint_arith.models.controls.truth import no_share
from mechint_arith.models.folded import Folded
from mechint_arith.tasks.assign_add import AssignAdd, matched

SWING = 1.0
"""Largest score difference s: tanh(s / 2) is s / 2 to within a twelfth, far less than the gap between answers."""


def attention_adds(
    base: Checkpoint, *, n_frequencies: int = 2, mlp: str = "kept", seed: int
) -> Checkpoint:
    """Plant a sum by attention on direct queries, so that they do without the MLP.

    mlp: `kept`, the MLP still runs on direct queries, and is redundant; `silent`, a flag (any variable) shuts
    every neuron there. Frequencies are those whose waves tell the answers apart best. On the other routes
    nothing changes: an operand that is a variable leaves the scores even and the two values cancel.
    Raises `InputError` for an unknown `mlp`, too many frequencies, or a model that cannot be rewritten.
    """
    if mlp not in ("kept", "silent"):
        raise InputError(f"mlp is 'kept' or 'silent' on direct queries; got {mlp!r}")
    rng = np.random.default_rng((seed, 0))
    draft = Draft.of(base)
    p = draft.task.p
    if not 1 <= n_frequencies <= (p - 1) // 2:
        raise InputError(f"expected 1 to {(p - 1) // 2} frequencies; got {n_frequencies}")
    flag = add_flag(draft, "any") if mlp == "silent" else None
    frequencies, gap = best_frequencies(p, n_frequencies)
    gain = 2 * spread_without_mlp(draft.folded, draft.task, rng) / gap
    _plant_sum(draft, frequencies, gain)
    neurons = draft.neurons if flag is None else draft.neurons.gated(SET)
    unknown = no_share("the last MLP is not needed on direct queries", routes=("direct",))
    options = {"frequencies": frequencies, "mlp": mlp, "gain": gain}
    plan = Plan("attention adds", seed, "any" if flag else None, options, unknown)
    return finish(base, draft, neurons, plan, rng, flag=flag)


def best_frequencies(p: int, n: int) -> tuple[list[int], float]:
    """Return the n frequencies with the largest gap, and that gap: min over d != 0 of sum_k 1 - cos(2 pi k d / p).

    By symmetry one of them may be 1 where p is prime; for other p all sets are tried.
    """
    everything = range(1, (p - 1) // 2 + 1)
    d = np.arange(1, p)

    def gap(chosen: tuple[int, ...]) -> float:
        return float((1 - np.cos(2 * np.pi * np.outer(chosen, d) / p)).sum(0).min())

    best = max(combinations(everything, n), key=gap)
    return list(best), gap(best)


def spread_without_mlp(folded: Folded, task: AssignAdd, rng: np.random.Generator) -> float:
    """Return by how many logits the skip path favours a wrong answer at most, over direct queries."""
    prompts = matched(task, np.arange(task.p**2), rng)["direct"]
    skip = folded(torch.from_numpy(prompts.tokens)).resid_mid @ folded.w_u
    answer = skip.gather(1, torch.from_numpy(prompts.labels)[:, None])
    return float((skip - answer).max())


def _plant_sum(draft: Draft, frequencies: list[int], gain: float) -> None:
    """Write the heads: layer 0 brings a's waves to `=`; layer 1 compares them with b's waves at `rhs`.

    Its heads weigh `rhs` (value +1) against `+` (value -1), which a score of `SCORE` holds above all else.
    """
    places, p = draft.task.places, draft.task.p
    table = waves(p, frequencies)
    n = table.shape[1]
    constant, is_lhs, is_compared, sign = draft.widen(4)
    own, moved = draft.widen(n), draft.widen(n)
    draft.w_e[draft.equals_id, constant] = 1
    draft.w_e[:p, own] = table
    draft.w_pos[places["lhs"], is_lhs] = 1
    for place, value in (("rhs", 1.0), ("plus", -1.0)):
        draft.w_pos[places[place], is_compared] = 1
        draft.w_pos[places[place], sign] = value
    reach = (SCORE * draft.config.d_head**0.5) ** 0.5
    head = draft.new_head(0)
    draft.attn(0, "W_Q")[head, constant, 0] = reach
    draft.attn(0, "W_K")[head, is_lhs, 0] = reach
    for i in range(n):
        draft.attn(0, "W_V")[head, own[i], i] = 1
        draft.attn(0, "W_O")[head, i, moved[i]] = 1
    outputs = new_outputs(draft, 2 * gain / SWING * table.T)
    swing = (SWING * draft.config.d_head**0.5) ** 0.5
    for i in range(n):
        wave = i - i % 2
        head = draft.new_head(1)
        query, key = draft.attn(1, "W_Q")[head], draft.attn(1, "W_K")[head]
        query[constant, 0], key[is_compared, 0] = reach, reach
        query[moved[wave], 1] = query[moved[wave + 1], 2] = swing
        if i % 2 == 0:  # cos w(a + b)
            key[own[wave], 1], key[own[wave + 1], 2] = swing, -swing
        else:  # sin w(a + b)
            key[own[wave + 1], 1] = key[own[wave], 2] = swing
        draft.attn(1, "W_V")[head, sign, 0] = 1
        draft.attn(1, "W_O")[head, 0, outputs[i]] = 1
