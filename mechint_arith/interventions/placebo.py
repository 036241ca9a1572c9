"""Places to swap instead of a site, for comparison: another basis, other neurons, or a move of the same length.

Source: norm-matched placebo of TransformerLens' `interchange`, extended to whole sites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.interventions.located import Located
from mechint_arith.interventions.running import Patch
from mechint_arith.interventions.site import Site
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.staged import Record, Staged

Ends = tuple[Located, Located]
"""A site in the base and in the source batch."""


def random_basis(width: int, rank: int, rng: np.random.Generator) -> Float[Tensor, "width rank"]:
    """Return an orthonormal basis of a uniformly random subspace."""
    basis, triangle = np.linalg.qr(rng.standard_normal((width, rank)))
    return torch.from_numpy(basis * np.sign(np.diag(triangle)))


def other_site(site: Site, config: ModelConfig, rng: np.random.Generator) -> Site | None:
    """Return the site with a random subspace of its rank, or as many random neurons; None for a whole site.

    Neurons are drawn from the others where there are enough of them.
    """
    if site.subspace is not None:
        width, rank = site.subspace.shape
        return replace(site, subspace=random_basis(width, rank, rng))
    if site.neurons is not None:
        every = np.arange(config.d_mlp[site.layer])
        others = np.setdiff1d(every, site.neurons)
        pool = others if len(others) >= len(site.neurons) else every
        drawn = rng.choice(pool, len(site.neurons), replace=False)
        return replace(site, neurons=tuple(sorted(drawn.tolist())))
    return None


def placebo(
    staged: Staged,
    real: Ends,
    elsewhere: Ends,
    rows: slice,
    base: Record,
    source: Record,
    seed: int,
) -> Patch:
    """Return the patch that moves each vector as far as the real interchange does, but elsewhere.

    elsewhere: the real site with another basis or other neurons, where it moves towards the source; a whole site
    moves along one random direction per example instead.
    """
    at, away = real[0].among(rows), elsewhere[0].among(rows)
    place = (at.site.layer, at.site.hook)
    columns = staged.columns(place)

    def move(ends: Ends, examples: Tensor) -> Tensor:
        here, there = (
            end.among(rows).take(run.values[place], examples, columns, table=True)
            for end, run in zip(ends, (base, source), strict=True)
        )
        difference = there - here
        if ends[0].site.subspace is not None:
            basis = ends[0].site.subspace.to(difference)
            difference = difference @ basis @ basis.mT
        return difference

    def new(examples: Tensor, old: Callable[[], Tensor]) -> Tensor:
        distance = move(real, examples).norm(dim=-1, keepdim=True)
        if elsewhere[0].site == at.site and at.site.subspace is None:
            direction = _directions(rows.start + examples, old(), seed)
        else:
            direction = move(elsewhere, examples)
        length = direction.norm(dim=-1, keepdim=True)
        return old() + direction * (distance / length).where(length > 0, 0.0)

    return Patch(away, new)


def _directions(examples: Tensor, like: Tensor, seed: int) -> Tensor:
    """Return one Gaussian direction per example, the same whenever it is asked for."""
    width = like.shape[-1]
    drawn = np.stack(
        [np.random.default_rng((seed, int(i))).standard_normal(width) for i in examples]
    )
    return torch.from_numpy(drawn).to(like).reshape(len(examples), *(1,) * (like.ndim - 2), width)
