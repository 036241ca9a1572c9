"""Run many patches of one recorded run at once, within a memory budget, and leave the model as it was.

A cell is a set of patches made together; a row is one example under one cell. Rows of several cells are stacked
into one computation from the lowest patched layer on; a row whose patch changes nothing is not run at all, so its
effect is exactly 0. A model that carries hooks of its own is run the slow way, one cell at a time and from the
tokens on, so that those hooks see what they always see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.located import Located
from mechint_arith.interventions.recording import (
    BUDGET,
    crop,
    example_bytes,
    has_hooks,
    layer_bytes,
    record,
    undisturbed,
)
from mechint_arith.models.staged import Place, Record, Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

New = Callable[[Tensor, Callable[[], Tensor]], Tensor]
"""Example numbers int [row], and a function that gives what stands at a site -> what shall stand there, of that
shape or broadcast to it."""
Measure = Callable[[Tensor, Tensor], Tensor]
"""Logits [row read vocab] and their example numbers int [row] -> one number per row."""


@dataclass(frozen=True)
class Patch:
    """A place in the run that is changed, and what is put there."""

    at: Located
    new: New
    changed: Bool[Tensor, " batch"] | None = None
    """Which examples it changes, where that is known; None: found by comparing."""

    @property
    def place(self) -> Place:
        return self.at.site.layer, self.at.site.hook


Cell = tuple[Patch, ...]


MakeCells = Callable[[slice, Record, Sequence[Record]], Sequence[Cell]]
"""Some rows of the batches, the base run on them and the donor runs -> the cells to run."""


@dataclass(frozen=True)
class Measured:
    """A metric with and without interventions."""

    patched: Float[Tensor, "cell batch"]
    """float64; NaN where a row lacks a cell's positions."""
    base: Float[Tensor, " batch"]
    donors: tuple[Float[Tensor, " batch"], ...]
    """The metric of each donor run itself."""


def run_patched(
    model: Transformer,
    base: Batch,
    donors: Sequence[Batch],
    make_cells: MakeCells,
    measure: Measure,
    *,
    budget: int = BUDGET,
) -> Measured:
    """Record base and donor runs, then run every cell on the base, as many examples at a time as the budget allows.

    measure: takes example numbers of the whole batch.
    Raises `InputError` for a batch without rows and a value that does not fit its site.
    """
    if not len(base):
        raise InputError("the batch has no rows to run")
    staged = Staged(model, reads_of(base))
    hooked = has_hooks(model)
    step = max(1, budget // ((1 + len(donors)) * example_bytes(staged)))
    found: list[tuple[Tensor, ...]] = []
    with undisturbed(model):
        for start in range(0, len(base), step):
            rows = slice(start, start + step)
            tokens = torch.from_numpy(base.tokens[rows])
            run, *others = [
                record(staged, torch.from_numpy(batch.tokens[rows]), hooked=hooked)
                for batch in (base, *donors)
            ]

            def shifted(logits: Tensor, examples: Tensor, start: int = start) -> Tensor:
                return measure(logits, examples + start)

            every = torch.arange(len(tokens))
            unpatched = [shifted(r.logits, every).double() for r in (run, *others)]
            cells = make_cells(rows, run, others)
            found.append(
                (
                    run_cells(
                        staged,
                        run,
                        cells,
                        shifted,
                        unpatched[0],
                        tokens=tokens if hooked else None,
                        budget=budget,
                    ),
                    *unpatched,
                )
            )
    parts = [torch.cat(column, -1) for column in zip(*found, strict=True)]
    return Measured(parts[0], parts[1], tuple(parts[2:]))


def run_cells(
    staged: Staged,
    base: Record,
    cells: Sequence[Cell],
    measure: Measure,
    unpatched: Float[Tensor, " batch"],
    *,
    tokens: Int[Tensor, "batch pos"] | None = None,
    budget: int = BUDGET,
) -> Float[Tensor, "cell batch"]:
    """Return the measure of every example under every cell, float64; unchanged rows keep `unpatched`.

    base: the recorded run, every stage kept. tokens: its inputs, to run each cell alone with the hooks that are on
    the model; None: stacked, without hooks. Rows that lack a cell's positions are NaN.
    """
    result = unpatched.repeat(len(cells), 1)
    for i, cell in enumerate(cells):
        for patch in cell:
            if patch.at.present is not None:
                result[i, ~patch.at.present] = torch.nan
    for group in _groups(cells):
        rows = [_changed(staged, base, cells[i]) for i in group]
        if tokens is not None:
            for i, changed in zip(group, rows, strict=True):
                if len(changed):
                    logits = _hooked(staged, tokens[changed], cells[i], changed)
                    result[i, changed] = measure(logits, changed).double()
            continue
        lowest = min(layer for patch in cells[group[0]] for layer, _ in [patch.place])
        sizes = [layer_bytes(staged, i) for i in range(lowest, staged.config.n_layers)]
        step = max(1, budget // max(sizes))
        for chunk in _chunks(group, rows, step):
            examples = torch.cat([part for _, part in chunk])
            edits = _edits(staged, cells, chunk)
            logits = staged.rerun(base, examples, edits, moved=_moved(cells, chunk))
            values, start = measure(logits, examples).double(), 0
            for i, part in chunk:
                result[i, part] = values[start : start + part.shape[0]]
                start += part.shape[0]
    return result


def _groups(cells: Sequence[Cell]) -> list[list[int]]:
    """Return the numbers of cells that patch the same stages, together."""
    groups: dict[tuple[Place, ...], list[int]] = {}
    for i, cell in enumerate(cells):
        groups.setdefault(tuple(sorted({patch.place for patch in cell})), []).append(i)
    return list(groups.values())


def _changed(staged: Staged, base: Record, cell: Cell) -> Int[Tensor, " row"]:
    """Return the examples in which a cell would change something."""
    every = torch.arange(len(base.logits))
    changed = [
        _changes(staged, base, patch, every) if patch.changed is None else patch.changed
        for patch in cell
    ]
    result = changed[0] if len(cell) == 1 else torch.stack(changed).any(0)
    for patch in cell:
        if patch.at.present is not None:
            result = result & patch.at.present
    return torch.nonzero(result)[:, 0]


def _changes(
    staged: Staged, base: Record, patch: Patch, every: Int[Tensor, " row"]
) -> Bool[Tensor, " row"]:
    old = patch.at.take(base.values[patch.place], every, staged.columns(patch.place))
    new = patch.new(every, lambda: old)
    if new.shape != old.shape and not _broadcasts(new, old):
        raise InputError(
            f"site {patch.at.site}: a value of shape {list(new.shape)} does not fit"
            f" {list(old.shape)}"
        )
    return patch.at.changes(old, new)


def _broadcasts(new: Tensor, old: Tensor) -> bool:
    try:
        return torch.broadcast_shapes(new.shape, old.shape) == old.shape
    except RuntimeError:
        return False


def _chunks(
    group: Sequence[int], rows: Sequence[Tensor], step: int
) -> Iterator[list[tuple[int, Tensor]]]:
    """Yield stacks of (cell, examples) with at most `step` rows in all."""
    chunk: list[tuple[int, Tensor]] = []
    room = step
    for i, examples in zip(group, rows, strict=True):
        while examples.shape[0]:
            part, examples = examples[:room], examples[room:]
            chunk.append((i, part))
            room -= part.shape[0]
            if not room:
                yield chunk
                chunk, room = [], step
    if chunk:
        yield chunk


def _edits(
    staged: Staged, cells: Sequence[Cell], chunk: list[tuple[int, Tensor]]
) -> Mapping[Place, Callable[[Tensor], Tensor]]:
    """Return, for each patched stage, the function that writes every cell's values into its own rows."""

    def edit(place: Place) -> Callable[[Tensor], Tensor]:
        def write(value: Tensor) -> Tensor:
            start = 0
            for i, examples in chunk:
                part = value[start : start + examples.shape[0]]
                for patch in cells[i]:
                    if patch.place == place:
                        _write(staged, patch, part, examples)
                start += examples.shape[0]
            return value

        return write

    return {place: edit(place) for place in {patch.place for patch in cells[chunk[0][0]]}}


def _write(staged: Staged, patch: Patch, value: Tensor, examples: Int[Tensor, " row"]) -> None:
    columns = staged.columns(patch.place)
    new = patch.new(examples, lambda: patch.at.take(value, examples, columns))
    patch.at.put(value, examples, columns, new)


def _moved(cells: Sequence[Cell], chunk: list[tuple[int, Tensor]]) -> Tensor | None:
    """Return the positions [row n] at which stacked rows move the residual stream, if that is all they do."""
    moved = []
    for i, examples in chunk:
        cell = cells[i]
        at = cell[0].at.at(examples)
        if len(cell) > 1 or cell[0].place[1] != "resid_pre" or at is None:
            return None
        moved.append(at)
    return torch.cat(moved) if len({at.shape[1] for at in moved}) == 1 else None


def _hooked(
    staged: Staged, tokens: Int[Tensor, "row pos"], cell: Cell, examples: Int[Tensor, " row"]
) -> Float[Tensor, "row read vocab"]:
    """Return the logits under one cell by running the whole model with hooks."""

    def writer(patch: Patch) -> Callable[..., Tensor]:
        def write(value: Tensor, hook: Any) -> Tensor:
            value, inside = value.clone(), crop(staged, patch.place, value)
            part = value[inside]
            _write(staged, patch, part, examples)
            value[inside] = part
            return value

        return write

    hooks = [(patch.at.site.hook_name, writer(patch)) for patch in cell]
    model: Any = staged.model
    return model.run_with_hooks(tokens, fwd_hooks=hooks)[:, list(staged.reads)]
