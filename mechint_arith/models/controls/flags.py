"""Flags of the query's form, and neurons gated by them.

A flag is one residual dimension at `=`: 1 on some routes, 0 on the others. An added layer-0 head that attends
from `=` to the operands' positions writes it; large negative weights silence neurons by it, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.neurons import CLEAR, SET, Neurons
from mechint_arith.models.folded import Folded

SCORE = 30.0
"""Attention score by which the head prefers its target to all else: e^-30 of the flag leaks."""


@dataclass(frozen=True)
class Form:
    """Where a flag's head looks, and on which routes the flag is then set."""

    places: tuple[str, ...]
    """Operand positions the head prefers."""
    variables: float
    """How much a variable raises a key, in units of `SCORE`: among the operands, +1 prefers variables, -1 numbers."""
    routes: tuple[bool, bool, bool, bool]
    """Whether the flag is set on direct, left, right, both."""


FORMS: Mapping[str, Form] = {
    "left": Form(("lhs",), 0.0, (False, True, False, True)),
    "right": Form(("rhs",), 0.0, (False, False, True, True)),
    "any": Form(("lhs", "rhs"), 1.0, (False, True, True, True)),
    "both": Form(("lhs", "rhs"), -1.0, (False, False, False, True)),
}
"""Flag name -> form: the left operand, the right one, any or both of them are variables."""


@dataclass(frozen=True)
class Flag:
    """Where an added flag lies in the residual stream at `=`."""

    constant: int
    """Dimension that is 1 at `=` on every prompt."""
    dimension: int
    """Dimension that is `size` where the flag is set and 0 elsewhere."""
    size: float


def form_of(name: str) -> Form:
    """Return a flag's form by name. Raises `InputError` for an unknown one."""
    if name not in FORMS:
        raise InputError(f"no flag {name!r}: choose from {', '.join(FORMS)}")
    return FORMS[name]


def add_flag(draft: Draft, name: str, *, size: float = 1.0) -> Flag:
    """Add the head that writes a flag, and the residual dimensions it needs.

    The head's key is SCORE (2 [operand it looks at] + variables [variable]), its query 1 at `=`; so every other
    position lies at least SCORE below its target. Elsewhere it attends evenly and writes into a dimension that
    nothing reads there.
    """
    form = form_of(name)
    constant, place, variable, dimension = draft.widen(4)
    draft.w_e[draft.equals_id, constant] = 1
    draft.w_e[torch.from_numpy(draft.task.variable_ids), variable] = 1
    for where in form.places:
        draft.w_pos[draft.task.places[where], place] = 2
    head = draft.new_head(0)
    reach = (SCORE * draft.config.d_head**0.5) ** 0.5
    draft.attn(0, "W_Q")[head, constant, 0] = reach
    draft.attn(0, "W_K")[head, place, 0] = reach
    draft.attn(0, "W_K")[head, variable, 0] = reach * form.variables
    draft.attn(0, "W_V")[head, variable, 0] = 1
    draft.attn(0, "W_O")[head, 0, dimension] = size
    return Flag(constant, dimension, size)


def highest_input(folded: Folded, neurons: Neurons) -> Float[Tensor, " neuron"]:
    """Return a bound on each neuron's pre-activation at the read position, over all prompts.

    The residual stream there is a sum of convex mixtures of table rows (see `folded`), so the largest entry of
    each table bounds its mixture.
    """
    c, w = folded.config, neurons.w_in
    sizes = (c.d_vocab, folded.rows.shape[1] - c.d_vocab)
    token_rows, pos_rows = (folded.rows @ w).split(sizes, 1)
    bound = token_rows[0].amax(0) + pos_rows[0, folded.read] + folded.constant @ w + neurons.b_in
    bound = bound + (token_rows[1:].amax(1) + pos_rows[1:].amax(1)).sum(0)
    token_values, pos_values = (folded.values @ w).split(sizes, 2)
    return bound + (token_values.amax(2) + pos_values.amax(2)).sum((0, 1))


def with_gates(draft: Draft, flag: Flag, neurons: Neurons) -> Neurons:
    """Return neurons whose gates are in their weights: silent on every prompt where their gate is shut.

    A gate subtracts 1.1 times the neuron's highest possible pre-activation.
    """
    depth = 1.1 * highest_input(draft.folded, neurons).clamp(min=0)
    w_in = neurons.w_in.clone()
    clear, is_set = (torch.from_numpy(np.flatnonzero(neurons.gates == g)) for g in (CLEAR, SET))
    w_in[flag.dimension, clear] -= depth[clear] / flag.size
    w_in[flag.constant, is_set] -= depth[is_set]
    w_in[flag.dimension, is_set] += depth[is_set] / flag.size
    return Neurons(w_in, neurons.b_in, neurons.w_out, neurons.gates)


def alive(gates: np.ndarray, name: str | None) -> np.ndarray:
    """Return bool [neuron route]: on which routes each gate is open; without a flag, on all."""
    flag_set = np.array(form_of(name).routes if name else [False] * 4)
    shut = ((gates == CLEAR)[:, None] & flag_set) | ((gates == SET)[:, None] & ~flag_set)
    return ~shut
