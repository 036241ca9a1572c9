"""Interchange at the read position by the folded form: a few matrix products on runs that are already there.

The same as `interchange` does through stages or hooks, for the last layer's MLP; for thousands of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.folded import Run
from mechint_arith.models.reader import Reader

HOOKS = ("resid_mid", "mlp_in", "post", "mlp_out")


def swapped_logits(
    model: Reader,
    base: Run,
    source: Run,
    hook: str,
    *,
    neurons: Sequence[int] | None = None,
    subspace: Float[Tensor, "width rank"] | None = None,
) -> Float[Tensor, "batch vocab"]:
    """Return the base runs' logits with the source runs' value of a last-layer site at the read position.

    hook: `resid_mid`, `mlp_in` (the MLP alone reads it), `post` or `mlp_out`. neurons: some of `post`. subspace:
    orthonormal columns; only these directions are swapped (not of `mlp_out`, which is not kept in a run).
    Raises `InputError` for other hooks and parts.
    """
    if hook not in HOOKS:
        raise InputError(f"no hook {hook!r} here: choose from {', '.join(HOOKS)}")
    if neurons is not None and (hook != "post" or subspace is not None):
        raise InputError(f"neurons are of post, alone; got {hook}")
    if subspace is not None and hook == "mlp_out":
        raise InputError("a run keeps no mlp_out; use interchange.interchange for its subspaces")
    if hook == "resid_mid":
        return model.after_mid(_mixed(base.resid_mid, source.resid_mid, subspace))[1]
    if hook == "mlp_in":
        mid = _mixed(base.resid_mid, source.resid_mid, subspace)
        return model.logits_from(base.resid_mid, model.after_mid(mid)[0])
    if neurons is None:
        return model.logits_from(base.resid_mid, _mixed(base.post, source.post, subspace))
    chosen = torch.tensor(list(neurons))
    moved = source.post[:, chosen] - base.post[:, chosen]
    return base.logits + moved @ model.w_logit[chosen]


def _mixed(
    base: Float[Tensor, "batch width"],
    source: Float[Tensor, "batch width"],
    subspace: Float[Tensor, "width rank"] | None,
) -> Float[Tensor, "batch width"]:
    if subspace is None:
        return source
    basis = subspace.to(base)
    return base + (source - base) @ basis @ basis.mT
