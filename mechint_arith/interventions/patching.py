"""Activation patching: put the activations of one run into another, by site or over a whole grid of places.

Denoising puts clean activations into the corrupted run (is the place sufficient?), noising corrupted ones into
the clean run (is it necessary?). They are not symmetric, so both are measured unless one is asked for.
Paths between two places are `path`'s, gradient estimates `gradients`'.
Sources: Heimersheim & Nanda, arXiv 2404.15255; Zhang & Nanda, arXiv 2309.16042.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.contrast import Contrast, Metric, contrast
from mechint_arith.interventions.effects import Axis, Effects, Label
from mechint_arith.interventions.located import Located, find, named_positions, position_names
from mechint_arith.interventions.recording import BUDGET
from mechint_arith.interventions.running import Cell, MakeCells, Patch, run_patched
from mechint_arith.interventions.site import BY_HEAD, ENTRIES, Position, Site, listed
from mechint_arith.models.staged import Place, Record, Staged
from mechint_arith.models.stages import stages_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

DIRECTIONS = ("denoising", "noising")
ABSOLUTE = "absolute"
"""Every index of the sequence, whatever stands there."""

T = TypeVar("T")
Ends = tuple[Located, Located]
"""One site, found in the clean and in the corrupted batch."""


def patch(
    model: Transformer,
    clean: Batch,
    corrupted: Batch,
    sites: Site | Sequence[Site | tuple[Site, ...]],
    metric: str | Metric = "logit difference",
    *,
    direction: str = "both",
    partly: bool = False,
    budget: int = BUDGET,
) -> Effects:
    """Patch each site (or each tuple of sites together) from one run into the other; axes `direction`, `site`.

    clean, corrupted: batches [batch] that match row by row and have different answers; pairs with equal answers
    are left out and counted. metric: a name from `contrast.METRICS`, or a function of (logits, clean answer,
    corrupted answer). direction: `denoising`, `noising` or `both`. partly: leave out, and count, rows that lack
    a site's position. budget: bytes of activations held at a time.
    Raises `InputError` where a site matches nothing or cannot change the answer.
    """
    pair = contrast(clean, corrupted, metric)
    listed = [sites] if isinstance(sites, Site) else list(sites)
    together = [site if isinstance(site, tuple) else (site,) for site in listed]
    if not together:
        raise InputError("name at least one site to patch")
    cells = [tuple(ends_of(site, model, pair, partly) for site in group) for group in together]
    for found in itertools.chain(*itertools.chain(*cells)):
        if found.inert:
            raise InputError(f"{found.site} cannot change the answer: {found.inert}")
    axis = Axis("site", tuple(" + ".join(map(str, group)) for group in together))
    return _exchange(model, pair, (axis,), cells, direction, budget, "activation patching")


def sweep(
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
    partly: bool = False,
    budget: int = BUDGET,
) -> Effects:
    """Patch one hook at every place of a grid; axes `direction`, then those of `by`.

    by: `layer`, and any of `position`, `head` (q, k, v, z, pattern), `key` (pattern) and `neuron` (pre, post); by
    default layer, position, and head where there are heads. Without `position` all positions are patched
    together. layers: by default all that have the hook. positions: names or indices; by default the names that
    every row of both batches has, as a place such as `value of lhs` stands elsewhere in each prompt; `absolute`:
    every index of the sequence, which is also the default where batches name none.
    Cells that by the model's shape cannot change the answer are 0, unrun, and marked `inert`.
    Raises `InputError` where that is all of them. Otherwise as `patch`.
    """
    pair = contrast(clean, corrupted, metric)
    axes, sites = grid(model, pair, hook, by=by, layers=layers, positions=positions)
    cells = [(ends_of(site, model, pair, partly),) for site in sites]
    what = f"activation patching of {hook}"
    return _exchange(model, pair, axes, cells, direction, budget, what)


def grid(
    model: Transformer,
    pair: Contrast,
    hook: str,
    *,
    by: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    positions: Position | Sequence[Position] | None = None,
) -> tuple[tuple[Axis, ...], list[Site]]:
    """Return the axes of a sweep and the site of each cell, the last axis fastest."""
    config = model.config
    have = [layer for layer in range(config.n_layers) if hook in stages_of(config, layer)]
    layers = tuple(have if layers is None else layers)
    if not layers:
        raise InputError(f"no layer of this model has {hook}")
    by = tuple(by or ("layer", "position", *(("head",) if hook in BY_HEAD + ENTRIES else ())))
    places = _places(pair, positions)
    names = position_names([pair.clean, pair.corrupted])
    labels = tuple(names[place] if isinstance(place, int) else place for place in places)
    n_neurons = min(config.d_mlp[layer] for layer in layers)
    choices: dict[str, tuple[Axis, Sequence[Any]]] = {
        "layer": (Axis("layer", layers), layers),
        "position": (Axis("position", labels), places),
        "key": (Axis("key", labels), places),
        "head": (Axis("head", tuple(range(config.n_heads))), range(config.n_heads)),
        "neuron": (Axis("neuron", tuple(range(n_neurons))), [(n,) for n in range(n_neurons)]),
    }
    if by[:1] != ("layer",) or len(set(by)) < len(by) or not set(by) <= set(choices):
        raise InputError(
            f"a sweep goes by layer, then by some of {', '.join(choices)}, each once; got {by}"
        )
    fields = ["neurons" if name == "neuron" else name for name in by]
    sites = [
        Site(hook, **dict(zip(fields, values, strict=True)))
        for values in itertools.product(*(choices[name][1] for name in by))
    ]
    return tuple(choices[name][0] for name in by), sites


def _places(pair: Contrast, positions: Position | Sequence[Position] | None) -> Sequence[Position]:
    """Return the positions of a sweep: those asked for, else the named ones, else every index."""
    if positions is None:
        positions = named_positions([pair.clean, pair.corrupted]) or ABSOLUTE
    if isinstance(positions, str | int):
        every = range(pair.clean.tokens.shape[1])
        return every if positions == ABSOLUTE else (positions,)
    return positions


def ends_of(site: Site, model: Transformer, pair: Contrast, partly: bool) -> Ends:
    """Find a site in both batches of a contrast; a row is present where both have it."""
    clean = find(site, model.config, pair.clean, partly=partly)
    if not any(isinstance(p, str) for p in (*listed(site.position), *listed(site.key))):
        return clean, clean
    corrupted = find(site, model.config, pair.corrupted, partly=partly)
    if clean.present is None and corrupted.present is None:
        return clean, corrupted
    present = clean.rows_with(len(pair.rows)) & corrupted.rows_with(len(pair.rows))
    return replace(clean, present=present), replace(corrupted, present=present)


def _exchange(
    model: Transformer,
    pair: Contrast,
    axes: tuple[Axis, ...],
    cells: Sequence[tuple[Ends, ...]],
    direction: str,
    budget: int,
    what: str,
) -> Effects:
    """Put the donor run's values at each cell's sites."""
    reasons = [
        next((found.inert for ends in cell for found in ends if found.inert), None)
        for cell in cells
    ]
    staged = Staged(model, pair.reads)

    def making(live: Sequence[tuple[Ends, ...]], donor_is_clean: bool) -> MakeCells:
        def make(rows: slice, base: Record, donors: Sequence[Record]) -> Sequence[Cell]:
            known = _Differences(staged, base, donors[0])
            cells = []
            for cell in live:
                turned = (ends if donor_is_clean else ends[::-1] for ends in cell)
                found = ((at.among(rows), source.among(rows)) for source, at in turned)
                cells.append(
                    tuple(taking(staged, at, there, donors[0], known) for at, there in found)
                )
            return cells

        return make

    return run_directions(model, pair, axes, cells, reasons, making, direction, budget, what)


@dataclass(frozen=True)
class _Differences:
    """Where two runs differ, found once for all sites of a sweep."""

    staged: Staged
    base: Record
    donor: Record
    tables: dict[Place, Tensor] = field(default_factory=dict)
    """Stage -> bool [batch column]."""

    def at(self, at: Located, source: Located) -> Tensor | None:
        """Return in which examples the runs differ at a site; None for a site that is not one whole position."""
        site, place = at.site, (at.site.layer, at.site.hook)
        part = site.head is not None or site.neurons is not None or site.subspace is not None
        if at is not source or part or site.hook in ENTRIES or site.position is None:
            return None
        if at.positions is None or at.positions.shape != (1, 1):
            return None
        if place not in self.tables:
            differ = self.base.values[place] != self.donor.values[place]
            self.tables[place] = differ.flatten(2).any(2)
        column, columns = int(at.positions), self.staged.columns(place)
        if columns is not None:
            column = columns.tolist().index(column)
        return self.tables[place][:, column]


def taking(
    staged: Staged,
    at: Located,
    source: Located,
    donor: Record,
    known: _Differences | None = None,
) -> Patch:
    """Return the patch that puts a donor run's own value of a site there."""
    place = (source.site.layer, source.site.hook)
    columns, values = staged.columns(place), donor.values[place]
    changed = None if known is None else known.at(at, source)
    return Patch(
        at, lambda examples, _: source.take(values, examples, columns, table=True), changed
    )


def run_directions(
    model: Transformer,
    pair: Contrast,
    axes: tuple[Axis, ...],
    cells: Sequence[T],
    reasons: Sequence[str | None],
    making: Callable[[Sequence[T], bool], MakeCells],
    direction: str,
    budget: int,
    what: str,
) -> Effects:
    """Run cells in one direction or both; those with a reason why they are inert are not run.

    making: (cells, whether the donor is the clean run) -> the function that makes patches of them.
    Raises `InputError` where every cell is inert.
    """
    inert = np.array([reason is not None for reason in reasons])
    if inert.all():
        raise InputError(f"{what}: no cell can change the answer: {reasons[0]}")
    live = [cell for cell, dead in zip(cells, inert, strict=True) if not dead]
    directions = directions_of(direction)
    shape = tuple(len(axis.labels) for axis in axes)
    patched = np.empty((len(directions), len(cells), len(pair.rows)))
    base, donor = np.empty((2, len(directions), *(1,) * len(axes), len(pair.rows)))
    for i, name in enumerate(directions):
        to_clean = name == "denoising"
        runs = (pair.corrupted, pair.clean) if to_clean else (pair.clean, pair.corrupted)
        found = run_patched(
            model, runs[0], [runs[1]], making(live, to_clean), pair.measure(), budget=budget
        )
        patched[i] = found.base.numpy()
        patched[i, ~inert] = found.patched.numpy()
        base[i], donor[i] = found.base.numpy(), found.donors[0].numpy()
    return Effects(
        (Axis("direction", directions), *axes),
        patched.reshape(len(directions), *shape, -1),
        base,
        donor,
        pair.clusters,
        pair.rows,
        pair.name,
        what,
        pair.excluded,
        np.broadcast_to(inert.reshape(shape), (len(directions), *shape)),
    )


def directions_of(direction: str) -> tuple[Label, ...]:
    """Return the directions meant by a word. Raises `InputError` for another word."""
    if direction == "both":
        return DIRECTIONS
    if direction not in DIRECTIONS:
        raise InputError(f"a direction is denoising, noising or both; got {direction!r}")
    return (direction,)
