"""What interventions did: one number per example and cell, on named axes, with intervals.

A value; nothing is run here. With base b, donor d and patched run p of one example, and m the metric:
* change: m(p) - m(b), in the metric's unit;
* normalised effect: (m(p) - m(b)) / (m(d) - m(b)): 0 where the patch did nothing, 1 where it moved the metric all
  the way to the donor's. For denoising (base corrupted, donor clean) this is the usual normalised effect; for
  noising (base clean, donor corrupted) it is 1 minus it. Taken as a ratio of means, which weighs prompts by their
  gap, or as a mean of ratios, which weighs them alike.
Intervals resample clusters of examples that share an unordered number pair.
Sources: Zhang & Nanda, arXiv 2309.16042; Heimersheim & Nanda, arXiv 2404.15255.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.interventions.summary import KINDS, Summary, summarise
from mechint_arith.stats import Estimate, unordered_pairs
from mechint_arith.tasks.batch import Batch

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
Label = str | int
SHOWN = 5
"""Cells that a printed result shows."""


@dataclass(frozen=True)
class Axis:
    """One axis of a table of effects."""

    name: str
    """`direction`, `layer`, `position`, `head`, `neuron`, `site`, …"""
    labels: tuple[Label, ...]
    """What stands along it, in order."""

    def index(self, label: Label) -> int:
        """Return the place of a label, which may be given as text. Raises `InputError` for an unknown one."""
        for i, known in enumerate(self.labels):
            if known == label or str(known) == str(label):
                return i
        known = ", ".join(map(str, self.labels))
        raise InputError(f"no {self.name} {label!r} here; known: {known}")


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
    """A metric under interventions, example by example."""

    axes: tuple[Axis, ...]
    """The table's axes."""
    patched: Array
    """float64 [*axes example]: the metric under each intervention; NaN where an example lacks the place."""
    base: Array
    """float64 [*axes example], or broadcast to it: the metric without intervention."""
    donor: Array | None
    """The same of the run that the values came from; None where they come from no run (an ablation)."""
    clusters: Array
    """int64 [example]: examples with one number count as dependent."""
    rows: Array
    """int64 [example]: which rows of the batch the examples are."""
    metric: str
    """What was measured: `logit difference`, …"""
    what: str
    """What was done, in words."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Reason -> rows of the batch that were left out everywhere."""
    inert: Array | None = None
    """bool [*axes]: cells that by the model's shape cannot change the answer; their change is 0 unrun."""

    def __post_init__(self) -> None:
        shape = (*(len(axis.labels) for axis in self.axes), len(self.rows))
        if self.patched.shape != shape:
            raise InputError(
                f"effects on {len(self.axes)} axes need values {shape}, not {self.patched.shape}"
            )

    def __repr__(self) -> str:
        """Return what was done, axes, size, and the cells with the largest effects, without intervals."""
        axes = " x ".join(f"{len(axis.labels)} {axis.name}" for axis in self.axes) or "one cell"
        left_out = sum(self.excluded.values())
        head = f"{self.what}: {self.metric}, {axes}, {len(self.rows)} examples"
        head += f" ({left_out} left out)" if left_out else ""
        kind = "change" if self.donor is None else KINDS[0]
        top, bottom = (np.nansum(x, -1) for x in self._terms(kind))
        means = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
        sizes = np.where(np.isfinite(means), np.abs(means), -1.0).ravel()
        lines = [f"Effects({head}; largest by {kind}:"]
        for cell in np.argsort(-sizes, kind="stable")[:SHOWN]:
            at = np.unravel_index(cell, means.shape)
            names = (
                _panel_name(axis, axis.labels[i]) for axis, i in zip(self.axes, at, strict=True)
            )
            lines.append(f"  {means[at]:+.3f}  {', '.join(names)}")
        return "\n".join(lines) + ")"

    @property
    def change(self) -> Array:
        """m(patched) - m(base), float64 [*axes example], in the metric's unit."""
        return self.patched - self.base

    @property
    def gap(self) -> Array:
        """m(donor) - m(base), float64, broadcast to [*axes example]. Raises `InputError` without a donor run."""
        if self.donor is None:
            raise InputError(
                f"{self.what}: the new values come from no run, so there is no effect to take a"
                " share of; summarise the 'change'"
            )
        return np.broadcast_to(self.donor - self.base, self.patched.shape)

    @property
    def per_example(self) -> Array:
        """Normalised effect of each example, float64 [*axes example]; NaN where its gap is 0."""
        gap = self.gap
        return np.divide(self.change, gap, out=np.full(gap.shape, np.nan), where=gap != 0)

    def axis(self, name: str) -> Axis:
        """Return an axis by name. Raises `InputError` for an unknown one."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise InputError(f"no axis {name!r}; axes: {', '.join(a.name for a in self.axes)}")

    def select(self, **labels: Label) -> Effects:
        """Return the effects at one label of one or more axes, which go: `effects.select(layer=1)`."""
        chosen: Any = [slice(None)] * len(self.axes)
        for name, label in labels.items():
            axis = self.axis(name)
            chosen[self.axes.index(axis)] = axis.index(label)
        index = (*chosen, slice(None))
        shape = self.patched.shape

        def at(values: Array) -> Array:
            return np.broadcast_to(values, shape)[index]

        return replace(
            self,
            axes=tuple(axis for axis in self.axes if axis.name not in labels),
            patched=self.patched[index],
            base=at(self.base),
            donor=None if self.donor is None else at(self.donor),
            inert=None if self.inert is None else np.asarray(self.inert[tuple(chosen)]),
        )

    def summary(
        self,
        kind: str | None = None,
        *,
        level: float = 0.95,
        n_resamples: int = 1000,
        seed: int = 0,
    ) -> Summary:
        """Return one number per cell with its interval.

        kind: `ratio of means` (the default where there is a donor run), `mean of ratios`, `change` (mean change in
        the metric's unit) or `level` (mean of the metric itself under the intervention). Each is a ratio of sums
        over examples, so one bootstrap serves them all: basic intervals, bias-corrected ones (which stay within
        the metric's range) for a level.
        """
        kind = kind or ("change" if self.donor is None else KINDS[0])
        if kind not in KINDS:
            raise InputError(f"a summary is one of {', '.join(KINDS)}, not {kind!r}")
        top, bottom = self._terms(kind)
        return summarise(
            kind,
            top,
            bottom,
            self.clusters,
            np.asarray(np.isfinite(self.patched).any(-1)),
            level=level,
            n_resamples=n_resamples,
            seed=seed,
        )

    def _terms(self, kind: str) -> tuple[Array, Array]:
        """Return numerator and denominator [*axes example] whose sums' ratio is asked for; NaN: left out."""
        change = self.change
        if kind == "ratio of means":
            return change, np.where(np.isfinite(change), self.gap, np.nan)
        if kind == "mean of ratios":
            change = self.per_example
        elif kind == "level":
            change = self.patched
        return change, np.where(np.isfinite(change), 1.0, np.nan)

    def estimate(self, kind: str | None = None, **labels: Label) -> Estimate:
        """Return one cell's number with its interval. Raises `InputError` where it is missing, with the reason."""
        cell = self.select(**labels)
        if cell.axes:
            open_axes = ", ".join(axis.name for axis in cell.axes)
            raise InputError(f"name a label of every axis; open: {open_axes}")
        found = cell.summary(kind)
        if found.missing[()] is not None:
            raise InputError(f"{self.what}: no value: {found.missing[()]}")
        return Estimate(float(found.value), float(found.low), float(found.high), int(found.n))

    def to_dataframe(self, kind: str | None = None, *, examples: bool = False) -> pd.DataFrame:
        """Return one row per cell (or per cell and example), with a column for every axis.

        Cells: effect, low, high, n, excluded, missing, inert. Examples: row of the batch, base, donor, patched.
        """
        import pandas as pd

        names = [axis.name for axis in self.axes]
        labels = [axis.labels for axis in self.axes]
        if examples:
            index = pd.MultiIndex.from_product([*labels, self.rows.tolist()], names=[*names, "row"])
            table = pd.DataFrame(index=index).reset_index()
            shape = self.patched.shape
            table["base"] = np.broadcast_to(self.base, shape).ravel()
            if self.donor is not None:
                table["donor"] = np.broadcast_to(self.donor, shape).ravel()
            table["patched"] = self.patched.ravel()
            return table
        found = self.summary(kind)
        cells = pd.MultiIndex.from_product(labels, names=names) if names else pd.RangeIndex(1)
        table = pd.DataFrame(index=cells).reset_index(drop=not names)
        columns = {"effect": found.value, "low": found.low, "high": found.high, "n": found.n}
        columns |= {"excluded": found.excluded, "missing": found.missing}
        for name, values in columns.items():
            table[name] = np.asarray(values).ravel()
        table["inert"] = False if self.inert is None else self.inert.ravel()
        return table

    def figure(self, kind: str | None = None, **options: Any) -> Any:
        """Return a grid of the effects: the last two axes as rows and columns, a panel per label of the others.

        options go to `figures.heatmap.patching_grid` (`title`, …).
        """
        from mechint_arith.figures.heatmap import patching_grid

        found = self.summary(kind)
        axes = self.axes if len(self.axes) > 1 else (Axis("", ("",)), *self.axes)
        shape = [len(axis.labels) for axis in axes]
        panels: dict[str, dict[str, Array]] = {"value": {}, "low": {}, "high": {}}
        for index in np.ndindex(*shape[:-2]):
            name = ", ".join(
                _panel_name(axis, axis.labels[i]) for axis, i in zip(axes, index, strict=False)
            )
            for what, table in panels.items():
                table[name] = getattr(found, what).reshape(shape)[index]
        units = {"change": f"change in {self.metric}", "level": self.metric}
        options = {
            "title": self.what,
            "unit": units.get(found.kind, "normalised effect"),
            "layer_name": axes[-2].name,
            "position_name": axes[-1].name,
        } | options
        return patching_grid(
            panels["value"],
            layers=axes[-2].labels,
            positions=axes[-1].labels,
            low=panels["low"],
            high=panels["high"],
            **options,
        )


def _panel_name(axis: Axis, label: Label) -> str:
    return f"{axis.name} {label}" if isinstance(label, int) else label


def clusters_of(batch: Batch) -> Array:
    """Return which rows depend on one another: int64 [batch], one id per unordered number pair.

    A batch that does not say its operands (factors `a` and `b`) has one cluster per row.
    """
    if "a" in batch.factors and "b" in batch.factors:
        return unordered_pairs(batch.factors["a"], batch.factors["b"])
    return np.arange(len(batch))
