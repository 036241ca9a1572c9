"""Sites found in a model and a batch: where they are in each row, and how to read and write there.

`find` checks a site against the model's shape before anything runs, and says why a change there could not reach
the answer; `locate` refuses such sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.inert import why_inert
from mechint_arith.interventions.site import ENTRIES, Position, Positions, Site, listed, width_of
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.staged import reads_of
from mechint_arith.models.stages import stages_of
from mechint_arith.tasks.batch import Batch


@dataclass(frozen=True)
class Located:
    """A site found in a model and a batch: how to take its values out of an activation and put others in."""

    site: Site
    positions: Int[Tensor, "_ n"] | None
    """Where it is in each row (or once for all rows, [1 n]); None: everywhere."""
    keys: Int[Tensor, "_ m"] | None
    """Key positions in each row (or [1 m]); None: all of them."""
    present: Bool[Tensor, " batch"] | None = None
    """Whether a row has every named position, None: all do; rows without them hold 0 in `positions`."""
    inert: str | None = None
    """Why no change here can reach the answer; None where one can."""

    def rows_with(self, n: int) -> Bool[Tensor, " batch"]:
        """Return which of a batch's n rows have every named position."""
        return torch.ones(n, dtype=torch.bool) if self.present is None else self.present

    def among(self, rows: slice) -> Located:
        """Return the same for some rows of the batch, counted from 0."""
        positions, keys = (
            found if found is None or len(found) == 1 else found[rows]
            for found in (self.positions, self.keys)
        )
        present = None if self.present is None else self.present[rows]
        if positions is self.positions and keys is self.keys and present is self.present:
            return self
        return replace(self, positions=positions, keys=keys, present=present)

    def take(
        self,
        value: Tensor,
        rows: Int[Tensor, " row"],
        columns: Int[Tensor, " column"] | None,
        *,
        table: bool = False,
    ) -> Tensor:
        """Return the site's part of an activation, [row n width], [row n head width] or [row n entry].

        value: one activation per element of `rows`, or with `table` one per example, of which `rows` are taken.
        columns: the positions along its position axis; None: all.
        """
        grid = value.transpose(1, 2) if self.site.hook in ENTRIES else value
        index = self._index(rows, columns)
        if index is None:
            part = grid[rows] if table else grid
        elif table:
            at = index[1]
            part = grid[rows[:, None], at]
        else:
            part = grid[index]
        if self.site.head is not None:
            part = part[:, :, self.site.head]
        if self.keys is not None:
            part = part.gather(-1, self.key_index(rows, part))
        return part if self.site.neurons is None else part[..., list(self.site.neurons)]

    def put(
        self,
        value: Tensor,
        rows: Int[Tensor, " row"],
        columns: Int[Tensor, " column"] | None,
        new: Tensor,
    ) -> Tensor:
        """Write `new`, shaped like `take`'s result or broadcast to it, into an activation in place; return that.

        With a subspace only the coordinates within it change: x + (new - x) B B^T.
        """
        site, new = self.site, new.to(value.dtype)
        grid = value.transpose(1, 2) if site.hook in ENTRIES else value
        index = self._index(rows, columns)
        part = grid if index is None else grid[index]
        inner = part if site.head is None else part[:, :, site.head]
        if site.subspace is not None:
            basis = site.subspace.to(inner)
            new = inner + (new - inner) @ basis @ basis.mT
        if self.keys is not None:
            keys = self.key_index(rows, inner)
            new = inner.scatter(-1, keys, new.expand(keys.shape))
        elif site.neurons is not None:
            inner = inner.clone()
            inner[..., list(site.neurons)] = new
            new = inner
        if index is None:
            index = (slice(None),)
        if site.head is not None:
            index = (
                (*index, site.head) if len(index) == 2 else (slice(None), slice(None), site.head)
            )
        grid[index] = new
        return value

    def changes(self, old: Tensor, new: Tensor) -> Bool[Tensor, " row"]:
        """Return which rows would differ from `old` (as `take` gives it) with `new` put in."""
        if self.site.subspace is not None:
            basis = self.site.subspace.to(old)
            old, new = old @ basis, new.to(old).expand_as(old) @ basis
        return (old != new).flatten(1).any(1)

    def at(self, rows: Int[Tensor, " row"]) -> Int[Tensor, "row n"] | None:
        """Return the positions in some rows, or None for a site that is everywhere."""
        return None if self.positions is None else _of_rows(self.positions, rows)

    def _index(
        self, rows: Int[Tensor, " row"], columns: Int[Tensor, " column"] | None
    ) -> tuple[Any, ...] | None:
        if self.positions is None:
            return None
        alike = len(self.positions) == 1
        at = self.positions[0] if alike else self.positions[rows]
        if columns is not None:
            at = torch.searchsorted(columns, at).clamp_max(len(columns) - 1)
        return (slice(None), at) if alike else (_counted(len(rows))[:, None], at)

    def key_index(self, rows: Int[Tensor, " row"], part: Tensor) -> Tensor:
        """Return the key positions along the last axis of the query rows `part`, [row n m] or [row n head m]."""
        assert self.keys is not None
        keys = _of_rows(self.keys, rows)
        keys = keys.reshape(len(rows), *(1,) * (part.ndim - 2), keys.shape[1])
        return keys.expand(*part.shape[:-1], -1)


def _counted(n: int) -> Int[Tensor, " row"]:
    return torch.arange(n)


def _of_rows(table: Int[Tensor, "batch n"], rows: Int[Tensor, " row"]) -> Int[Tensor, "row n"]:
    return table.expand(len(rows), -1) if len(table) == 1 else table[rows]


def find(
    site: Site,
    config: ModelConfig,
    batch: Batch,
    *,
    between_runs: bool = True,
    partly: bool = False,
) -> Located:
    """Find a site in a model and a batch, and say whether a change there can reach the answer (`inert`).

    between_runs: whether the new value comes from another run, so that places which are alike in every run are
    inert too. partly: rows that lack a named position are left out (`present`) instead of refused.
    Raises `InputError` where the site matches nothing.
    """
    _check_shape(site, config)
    positions, present = _positions(site, site.position, batch)
    keys, also = _positions(site, site.key, batch)
    if present is not None and also is not None:
        present = present & also
    present = also if present is None else present
    if present is not None and not present.any():
        raise InputError(f"site {site}: no row of the batch has this position")
    if present is not None and not partly:
        raise InputError(
            f"site {site}: {int((~present).sum())} of {len(batch)} rows lack this position;"
            " select the others, or let them be left out"
        )
    held, keyed = (
        found
        if found is None
        else (found if len(found) == 1 or present is None else found[present]).numpy()
        for found in (positions, keys)
    )
    reason = why_inert(
        config,
        site.hook,
        site.layer,
        held,
        keyed,
        reads=reads_of(batch),
        between_runs=between_runs,
    )
    return Located(site, positions, keys, present, reason)


def locate(
    site: Site,
    config: ModelConfig,
    batch: Batch,
    *,
    between_runs: bool = True,
    partly: bool = False,
) -> Located:
    """Find a site as `find` does. Raises `InputError` also where no change there can reach the answer."""
    found = find(site, config, batch, between_runs=between_runs, partly=partly)
    if found.inert:
        raise InputError(f"{site} cannot change the answer: {found.inert}")
    return found


def _check_shape(site: Site, config: ModelConfig) -> None:
    if not 0 <= site.layer < config.n_layers:
        raise InputError(f"site {site}: the model has layers 0 to {config.n_layers - 1}")
    if site.hook not in stages_of(config, site.layer):
        lacks = "content scores" if site.hook in ("q", "k") else "an MLP"
        raise InputError(f"site {site}: layer {site.layer} lacks {lacks}, so nothing is there")
    if site.head is not None and not 0 <= site.head < config.n_heads:
        raise InputError(f"site {site}: the model has heads 0 to {config.n_heads - 1}")
    n_neurons = config.d_mlp[site.layer]
    if site.neurons is not None and not 0 <= min(site.neurons) <= max(site.neurons) < n_neurons:
        raise InputError(f"site {site}: layer {site.layer} has neurons 0 to {n_neurons - 1}")
    width = width_of(site, config)
    if site.subspace is not None and len(site.subspace) != width:
        raise InputError(f"site {site}: its basis has {len(site.subspace)} rows, expected {width}")


def _positions(
    site: Site, positions: Positions, batch: Batch
) -> tuple[Int[Tensor, "_ n"] | None, Bool[Tensor, " batch"] | None]:
    """Return where named positions are, [batch n] or once for all rows [1 n], and which rows have them (None: all)."""
    if positions is None:
        return None, None
    columns = [_column(site, position, batch) for position in listed(positions)]
    if all(len(column) == 1 for column in columns):
        return torch.from_numpy(np.stack(columns, 1)), None
    found = torch.from_numpy(np.stack([np.broadcast_to(c, len(batch)) for c in columns], 1))
    present = (found >= 0).all(1)
    if present.all():
        return found[:1] if (found == found[0]).all() else found, None
    return found.where(present[:, None], torch.zeros_like(found)), present


def _column(site: Site, position: Position, batch: Batch) -> np.ndarray:
    length = batch.tokens.shape[1]
    if isinstance(position, str):
        if position not in batch.positions:
            known = ", ".join(batch.positions) or "none"
            raise InputError(f"site {site}: no position {position!r} here; known: {known}")
        return np.asarray(batch.positions[position], np.int64)
    if not 0 <= position < length:
        raise InputError(f"site {site}: position {position} is not within 0 to {length - 1}")
    return np.array([position])


def position_names(batches: Sequence[Batch]) -> tuple[str, ...]:
    """Return a name for every position: the first that all rows of all batches give it, else its index."""
    length = batches[0].tokens.shape[1]
    names = [str(i) for i in range(length)]
    for name in reversed(list(batches[0].positions)):
        found = [b.positions[name] for b in batches if name in b.positions]
        everywhere = np.unique(np.concatenate(found))
        if len(found) == len(batches) and len(everywhere) == 1 and everywhere[0] >= 0:
            names[everywhere[0]] = name
    return tuple(names)


def named_positions(batches: Sequence[Batch]) -> tuple[str, ...]:
    """Return the named positions that every row of all batches has, one name for each place.

    Those that stand elsewhere in each row come first, as the batch lists them, then the others by place.
    """
    found: dict[str, np.ndarray] = {}
    for name in batches[0].positions:
        if all(name in batch.positions for batch in batches):
            at = np.concatenate([batch.positions[name] for batch in batches])
            if (at >= 0).all() and not any((at == other).all() for other in found.values()):
                found[name] = at
    moving = [name for name, at in found.items() if (at != at[0]).any()]
    fixed = sorted(found.keys() - set(moving), key=lambda name: int(found[name][0]))
    return (*moving, *fixed)
