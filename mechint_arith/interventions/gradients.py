"""Attribution patching: the effect of every patch from one gradient, and how far it is from the exact effect.

Estimate of the change in the metric m where a donor's activation replaces the base's: (a_donor - a_base) . dm/da
at the base run; for denoising that is (a_clean - a_corrupted) . dm/da at the corrupted run. Exact where m is
linear between the two activations, so always to be shown beside its error.
Sources: Nanda, "Attribution patching" (2023); Syed et al., arXiv 2310.10348.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.contrast import Contrast, Metric, contrast
from mechint_arith.interventions.effects import Effects
from mechint_arith.interventions.patching import Ends, ends_of, grid, sweep
from mechint_arith.interventions.recording import BUDGET, example_bytes, has_hooks, undisturbed
from mechint_arith.interventions.site import Position
from mechint_arith.models.staged import Place, Record, Staged
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Attribution:
    """Estimated effects beside the exact ones."""

    estimate: Effects
    """`patched` is the metric that the gradient predicts."""
    exact: Effects
    """The same cells, patched."""

    @property
    def error(self) -> np.ndarray:
        """Estimated minus exact change, float64 [*axes example], in the metric's unit."""
        return self.estimate.patched - self.exact.patched

    @property
    def correlation(self) -> float:
        """Pearson correlation of estimated and exact mean change over the cells that are not inert; NaN if constant."""
        live = np.ones(self.exact.patched.shape[:-1], bool)
        if self.exact.inert is not None:
            live = ~self.exact.inert
        means = [np.nanmean(e.change, -1)[live] for e in (self.estimate, self.exact)]
        if any(len(x) < 2 or np.ptp(x) == 0 for x in means):
            return float("nan")
        return float(np.corrcoef(*means)[0, 1])

    def to_dataframe(self, kind: str | None = None) -> pd.DataFrame:
        """Return one row per cell: exact effect with its interval, estimate, error (in the unit of `kind`)."""
        table = self.exact.to_dataframe(kind)
        estimate = self.estimate.to_dataframe(kind)["effect"]
        place = table.columns.get_loc("effect")
        assert isinstance(place, int)
        table.insert(place + 1, "estimate", estimate)
        table.insert(place + 2, "error", estimate - table["effect"])
        return table


def attribution_patching(
    model: Transformer,
    clean: Batch,
    corrupted: Batch,
    hook: str,
    metric: str | Metric = "logit difference",
    *,
    by: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    positions: Position | Sequence[Position] | None = None,
    direction: str = "both",
    budget: int = BUDGET,
) -> Attribution:
    """Estimate every effect of a sweep by one gradient per direction, beside the exact sweep.

    Arguments and cells as in `patching.sweep`; the metric must be differentiable.
    Raises `InputError` where the model carries hooks (the gradient is taken without them).
    """
    if has_hooks(model):
        raise InputError("attribution patching runs without hooks; remove those on the model first")
    exact = sweep(
        model,
        clean,
        corrupted,
        hook,
        metric,
        by=by,
        layers=layers,
        positions=positions,
        direction=direction,
        budget=budget,
    )
    pair = contrast(clean, corrupted, metric)
    _, sites = grid(model, pair, hook, by=by, layers=layers, positions=positions)
    cells = [ends_of(site, model, pair, False) for site in sites]
    change = np.stack(
        [
            _estimates(model, pair, cells, name == "denoising", budget)
            for name in exact.axis("direction").labels
        ]
    ).reshape(exact.patched.shape)
    if exact.inert is not None:
        change[exact.inert] = 0
    estimate = replace(exact, patched=exact.base + change, what=f"attribution patching of {hook}")
    return Attribution(estimate, exact)


def _estimates(
    model: Transformer, pair: Contrast, cells: Sequence[Ends], donor_is_clean: bool, budget: int
) -> np.ndarray:
    """Return (a_donor - a_base) . dm/da, float64 [cell example]."""
    staged = Staged(model, pair.reads)
    places = sorted({(site.site.layer, site.site.hook) for site, _ in cells})
    base, donor = (pair.corrupted, pair.clean) if donor_is_clean else (pair.clean, pair.corrupted)
    step = max(1, budget // (4 * example_bytes(staged)))
    found = []
    for start in range(0, len(base), step):
        rows = slice(start, start + step)
        tokens, others = (torch.from_numpy(batch.tokens[rows]) for batch in (base, donor))
        with undisturbed(model):
            there = staged.record(others, places)
        with undisturbed(model, grad=True):
            here = staged.record(tokens, places)
            metric = pair.measure()(here.logits, start + torch.arange(len(tokens)))
            slopes = torch.autograd.grad(
                metric.sum(), [here.values[place] for place in places], allow_unused=True
            )
        gradient = dict(zip(places, slopes, strict=True))
        with torch.no_grad():
            found.append(
                torch.stack(
                    [
                        _estimate(staged, ends, rows, here, there, gradient, donor_is_clean)
                        for ends in cells
                    ]
                )
            )
    return torch.cat(found, 1).numpy()


def _estimate(
    staged: Staged,
    ends: Ends,
    rows: slice,
    here: Record,
    there: Record,
    gradient: Mapping[Place, Tensor | None],
    donor_is_clean: bool,
) -> Tensor:
    """Return one site's estimate per example, float64."""
    source, at = (end.among(rows) for end in (ends if donor_is_clean else ends[::-1]))
    place = (at.site.layer, at.site.hook)
    every = torch.arange(len(here.logits))
    slope = gradient[place]
    if at.inert or slope is None:
        return torch.zeros(len(every), dtype=torch.float64)
    columns = staged.columns(place)
    new = source.take(there.values[place], every, columns)
    old, slope = (at.take(x, every, columns) for x in (here.values[place].detach(), slope))
    # Hidden scores are minus infinity on both sides: no difference.
    difference = (new - old).where(new != old, 0).double()
    if at.site.subspace is not None:
        basis = at.site.subspace.to(difference)
        difference = difference @ basis @ basis.mT
    return (difference * slope).flatten(1).sum(1)
