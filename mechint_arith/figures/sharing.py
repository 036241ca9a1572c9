"""Sharing at a glance: every neuron's effect on one route against its effect on another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mechint_arith.figures import style


def sharing_scatter(
    effect_a: Any,
    effect_b: Any,
    *,
    routes: tuple[str, str] = ("direct", "both"),
    groups: Sequence[object] | None = None,
    names: Sequence[object] | None = None,
    unit: str = "share of effect",
    title: str = "",
) -> go.Figure:
    """Return one point per neuron, with the diagonal on which equal effects lie.

    effect_a, effect_b: [neuron], effect on the two `routes`, both in `unit`. A shared neuron lies near the
    diagonal, one that serves a single route on an axis. groups: one per neuron (its key frequency, say), told
    apart by colour and listed in the legend; names: one per neuron, shown at the pointer, by default its number.
    Raises `InputError` where lengths differ.
    """
    first, second = (
        style.array(effect_a, "neuron", "effect_a"),
        style.array(effect_b, "neuron", "effect_b"),
    )
    style.same_length(len(first), "effect_a", effect_b=second)
    called = np.array(
        [f"neuron {i}" for i in range(len(first))] if names is None else list(map(str, names))
    )
    style.same_length(len(first), "effect_a", names=called)
    kinds = np.array([""] * len(first) if groups is None else list(map(str, groups)))
    style.same_length(len(first), "effect_a", groups=kinds)
    traces = [_diagonal(np.concatenate([first, second]))]
    for i, kind in enumerate(dict.fromkeys(kinds)):
        rows = kinds == kind
        traces.append(_points(first[rows], second[rows], called[rows], kind, i, routes))
    across, up = ({"title": {"text": style.shown(f"{route}: {unit}")}} for route in routes)
    grid = {"zeroline": True, "constrain": "domain"}
    return style.figure(
        traces,
        title=title,
        height=460,
        xaxis=across | grid,
        yaxis=up | grid | {"scaleanchor": "x"},
        showlegend=groups is not None,
    )


def _points(
    first: np.ndarray,
    second: np.ndarray,
    names: np.ndarray,
    kind: str,
    i: int,
    routes: tuple[str, str],
) -> go.Scatter:
    a, b = (style.words(route) for route in routes)
    return go.Scatter(
        x=first,
        y=second,
        mode="markers",
        name=style.shown(kind),
        text=[style.shown(name) for name in names],
        marker={"color": style.colour(i), "size": 6, "opacity": 0.7, "symbol": i % 6},
        hovertemplate=f"%{{text}}<br>{a} %{{x:.4g}}<br>{b} %{{y:.4g}}<extra></extra>",
    )


def _diagonal(values: np.ndarray) -> go.Scatter:
    finite = values[np.isfinite(values)]
    ends = [min(0.0, finite.min(initial=0.0)), max(0.0, finite.max(initial=0.0))]
    line = {"color": style.LINE, "dash": "dash", "width": 1.5}
    return go.Scatter(x=ends, y=ends, mode="lines", line=line, showlegend=False, hoverinfo="skip")
