"""Curves over training: values with their intervals, on bands that show the phases of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures import style

Array = np.ndarray


LETTER = 0.014
"""Width of a letter of a phase's name, as a share of the axis."""


class Phase(NamedTuple):
    """A stretch of training."""

    name: str
    """What happens in it."""
    start: float
    """First step."""
    end: float
    """Last step."""


def curves(
    steps: Any,
    values: Any,
    *,
    low: Mapping[str, Any] | None = None,
    high: Mapping[str, Any] | None = None,
    phases: Sequence[Phase] = (),
    log: bool = False,
    x: str = "step",
    unit: str = "",
    title: str = "",
) -> go.Figure:
    """Return one curve per series, with a shaded interval where `low` and `high` have one for it.

    steps: [step], rising; values: series [step] by name (a mapping or a DataFrame), NaN where missing; low, high:
    ends of the intervals by the same names, or by some of them. phases: shaded in turn and named on top.
    log: logarithmic steps, all above 0. x: name of the steps; unit: of the values.
    Raises `InputError` for lengths that differ, steps that fall, or intervals with one end or without series.
    """
    at = style.array(steps, "step", "steps")
    if not (np.diff(at) > 0).all():
        raise InputError("steps should rise from each to the next, without gaps marked as NaN")
    if log and at[0] <= 0:
        raise InputError(
            f"a logarithmic axis needs steps above 0; got {at[0]:g}: leave it out or set log=False"
        )
    lines = style.series(values, "step", "values")
    style.same_length(len(at), "steps", **{f"values of {n!r}": v for n, v in lines.items()})
    bands = _intervals(lines, low or {}, high or {})
    traces = []
    for i, (name, line) in enumerate(lines.items()):
        if name in bands:
            traces += _band(at, *bands[name], style.colour(i), style.shown(name))
        traces.append(_line(at, line, i, style.shown(name), single=len(lines) == 1))
    chart = style.figure(
        traces,
        title=title,
        xaxis={"title": {"text": style.shown(x)}, "type": "log" if log else "linear"},
        yaxis={"title": {"text": style.shown(unit)}},
        hovermode="x unified",
        margin={"t": 90 if phases else 70},
        legend={"y": 1.09 if phases else 1.0},
    )
    for i, phase in enumerate(phases):
        _shade(chart, phase, i, _share(phase, at, log))
    return chart


def _intervals(
    lines: Mapping[str, Array], low: Mapping[str, Any], high: Mapping[str, Any]
) -> dict[str, tuple[Array, Array]]:
    names = {str(name) for name in low}
    if names != {str(name) for name in high} or not names <= lines.keys():
        raise InputError(
            "intervals need a low and a high end for series that are there;"
            f" got low for {sorted(names)}, high for {sorted(map(str, high))}, values for {list(lines)}"
        )
    bands = {}
    for name in names:
        ends = (style.array(low[name], "step", "low"), style.array(high[name], "step", "high"))
        style.same_length(len(lines[name]), f"series {name!r}", low=ends[0], high=ends[1])
        if (ends[0] > ends[1]).any():
            raise InputError(f"the interval of {name!r} has a low end above its high end")
        bands[name] = ends
    return bands


def _line(at: Array, values: Array, i: int, name: str, *, single: bool) -> go.Scatter:
    return go.Scatter(
        x=at,
        y=values,
        name=name,
        legendgroup=name,
        mode="lines+markers" if len(at) <= 40 else "lines",
        line={"color": style.colour(i), "dash": style.line_dash(i), "width": 2},
        marker={"size": 4},
        showlegend=not single,
        hovertemplate="%{y:.4g}",
    )


def _band(at: Array, low: Array, high: Array, colour: str, name: str) -> list[go.Scatter]:
    """Return two traces without a line, the area between them shaded."""
    quiet = {"x": at, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    group = {"legendgroup": name, "showlegend": False}
    fill = {"fill": "tonexty", "fillcolor": style.faded(colour, 0.22)}
    return [go.Scatter(y=low, **quiet, **group), go.Scatter(y=high, **quiet, **group, **fill)]


def _share(phase: Phase, at: Array, log: bool) -> float:
    """Return how much of the axis's length a phase takes. Raises `InputError` where it takes none."""
    if not phase.start < phase.end or (log and phase.start <= 0):
        raise InputError(
            f"phase {phase.name!r} should start{' above 0 and' if log else ''} before it ends;"
            f" got {phase.start} to {phase.end}"
        )
    scale = np.log if log else np.asarray
    ends = scale(np.array([phase.start, phase.end, at[0], at[-1]], float))
    return float((ends[1] - ends[0]) / max(ends[3] - ends[2], 1e-12))


def _shade(chart: go.Figure, phase: Phase, i: int, share: float) -> None:
    """Shade a phase; its name stands above it, or upright within it where it is narrow."""
    chart.add_vrect(
        x0=phase.start,
        x1=phase.end,
        fillcolor=style.LINE,
        opacity=0.28 if i % 2 else 0.12,
        line_width=0,
        layer="below",
    )
    log = chart.layout.xaxis.type == "log"
    start, end = np.log10(phase[1:]) if log else phase[1:]
    upright = len(phase.name) * LETTER > share
    chart.add_annotation(
        x=float(start if upright else (start + end) / 2),
        y=0.5 if upright else 1.0,
        yref="paper",
        xanchor="left" if upright else "center",
        yanchor="middle" if upright else "bottom",
        text=style.shown(phase.name),
        textangle=-90 if upright else 0,
        showarrow=False,
        font={"size": 11},
    )
