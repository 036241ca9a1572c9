"""What was planted, as a share of effect per route pair.

Truth comes from the gates that were built in and from exact neuron effects, not from any index of sharing. A
neuron counts as shared by two routes if its gate is open on both; its weight is its effect on the mean margin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.models.controls.flags import alive, form_of
from mechint_arith.models.folded import Folded
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

ROUTE_PAIRS = (
    ("direct", "left"),
    ("direct", "right"),
    ("direct", "both"),
    ("left", "right"),
    ("left", "both"),
)


def mean_margin_map(folded: Folded) -> Float[Tensor, "neuron vocab"]:
    """D[i, y] = p / (p - 1) (W_L[i, y] - mean_c W_L[i, c]): what a unit of neuron i adds to y's mean margin."""
    p = folded.w_logit.shape[1]
    return p / (p - 1) * (folded.w_logit - folded.w_logit.mean(1, keepdim=True))


def effects(
    folded: Folded, task: AssignAdd, rng: np.random.Generator, *, n_pairs: int = 4000
) -> dict[str, np.ndarray]:
    """Return route -> e, float64 [neuron]: the loss of mean margin from zeroing each neuron, mean over pairs.

    Matched prompts on all p^2 number pairs, or on `n_pairs` random ones where there are more. Exact, as the
    mean margin is linear in the neurons: e(i) = mean_x post_i(x) D[i, y(x)].
    """
    pair = np.arange(task.p**2)
    if len(pair) > n_pairs:
        pair = rng.choice(pair, n_pairs, replace=False)
    d = mean_margin_map(folded)
    found = {}
    for route, batch in matched(task, pair, rng).items():
        with torch.no_grad():
            post = folded(torch.from_numpy(batch.tokens)).post
            unit = d[:, torch.from_numpy(batch.labels)].T
            found[route] = (post * unit).double().mean(0).numpy()
    return found


def planted_shares(
    effect: Mapping[str, np.ndarray],
    gates: np.ndarray,
    flag: str | None,
    *,
    unknown: Mapping[str, str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return `direct-left`, … -> the share of each route's positive effect that lies in neurons open to both.

    effect: route -> [neuron]; gates: int [neuron]. Each entry has the two routes' shares by name and `share`,
    the smaller of them. For pairs in `unknown`, and where a route has no positive effect, `share` is None and
    `why` says so.
    """
    is_open = dict(zip(ROUTES, alive(gates, flag).T, strict=True))
    result: dict[str, dict[str, Any]] = {}
    for first, second in ROUTE_PAIRS:
        name = f"{first}-{second}"
        if unknown and name in unknown:
            result[name] = {"share": None, "why": unknown[name]}
            continue
        both = is_open[first] & is_open[second]
        entry: dict[str, Any] = {}
        for route in (first, second):
            positive = np.maximum(effect[route], 0)
            total = float(positive.sum())
            entry[route] = float(positive[both].sum()) / total if total > 0 else None
        shares = [entry[first], entry[second]]
        entry["share"] = None if None in shares else min(shares)
        if entry["share"] is None:
            entry["why"] = "the last MLP has no effect on one route"
        result[name] = entry
    return result


def no_share(why: str, *, routes: Collection[str] = ROUTES) -> dict[str, str]:
    """Return pair of routes -> `why`, for the pairs that have one of `routes`."""
    return {f"{a}-{b}": why for a, b in ROUTE_PAIRS if a in routes or b in routes}


def across(flag: str) -> list[str]:
    """Return the pairs of routes of which one sets the flag and the other does not."""
    is_set = dict(zip(ROUTES, form_of(flag).routes, strict=True))
    return [f"{a}-{b}" for a, b in ROUTE_PAIRS if is_set[a] != is_set[b]]
