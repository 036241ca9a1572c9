"""Histograms of what was observed, with what chance gives drawn over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures import style


def histogram(
    values: Any,
    null: Any,
    *,
    unit: str,
    bins: int = 40,
    name: str = "observed",
    null_name: str = "null",
    mark: float | None = None,
    title: str = "",
) -> go.Figure:
    """Return the histogram of `values` as bars and that of its null as an outline, on common bins.

    values, null: [sample], each counted as shares of its own number of samples, NaN left out; unit: of both;
    bins: how many. mark: one value to point at with a line, such as a statistic among its null.
    Raises `InputError` where either holds no value, or for fewer than 1 bin.
    """
    if bins < 1:
        raise InputError(f"a histogram needs at least 1 bin; got {bins}")
    observed, chance = _finite(values, "values"), _finite(null, "null")
    marks = [] if mark is None else [mark]
    edges = np.histogram_bin_edges(np.concatenate([observed, chance, marks]), bins)
    here, there = (np.histogram(x, edges)[0] / len(x) for x in (observed, chance))
    bars = go.Bar(
        x=(edges[1:] + edges[:-1]) / 2,
        y=here,
        width=np.diff(edges),
        name=f"{style.shown(name)} (n = {len(observed)})",
        marker={"color": style.faded(style.colour(0), 0.75), "line": {"width": 0}},
        hovertemplate="%{x:.4g}: %{y:.3f}<extra></extra>",
    )
    outline = go.Scatter(
        x=np.repeat(edges, 2),
        y=np.concatenate([[0.0], np.repeat(there, 2), [0.0]]),
        name=f"{style.shown(null_name)} (n = {len(chance)})",
        mode="lines",
        line={"color": style.colour(1), "width": 2},
        hoverinfo="skip",
    )
    chart = style.figure(
        [bars, outline],
        title=title,
        height=320,
        xaxis={"title": {"text": style.shown(unit)}, "showgrid": False},
        yaxis={"title": {"text": "share of samples"}, "rangemode": "tozero"},
        bargap=0,
        margin={"t": 70},
    )
    if mark is not None:
        chart.add_vline(x=mark, line={"color": style.colour(2), "width": 2, "dash": "dot"})
    return chart


def _finite(values: Any, what: str) -> np.ndarray:
    found = style.array(values, "sample", what)
    finite = found[np.isfinite(found)]
    if not finite.size:
        raise InputError(f"{what} [sample] hold no number")
    return finite
