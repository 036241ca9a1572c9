"""Estimates with their intervals, one row each: the plainest honest picture of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from mechint_arith.figures import style

if TYPE_CHECKING:
    from mechint_arith.stats import Estimate


def intervals(
    groups: Mapping[str, Mapping[str, Estimate | None]],
    *,
    unit: str,
    marks: Sequence[tuple[float, str]] = (),
    span: tuple[float, float] | None = None,
    title: str = "",
) -> go.Figure:
    """Return points with error bars: one row per name, one colour per group.

    groups: group -> name -> estimate, missing ones left out; marks: (value, label) of reference lines; span: ends
    of the value axis.
    """
    names = list(dict.fromkeys(name for found in groups.values() for name in found))
    chart = style.figure([], title=title, height=110 + max(len(names), 3) * (20 + 7 * len(groups)))
    for i, (group, found) in enumerate(groups.items()):
        present = {name: e for name, e in found.items() if e is not None}
        values = list(present.values())
        chart.add_scatter(
            x=[e.value for e in values],
            y=[style.shown(name) for name in present],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [e.high - e.value for e in values],
                "arrayminus": [e.value - e.low for e in values],
                "thickness": 1.5,
                "width": 4,
            },
            customdata=[[e.low, e.high, e.n] for e in values],
            mode="markers",
            name=style.shown(group),
            marker={"color": style.colour(i), "size": 8, "symbol": i},
            hovertemplate="%{y}: %{x:.3f} [%{customdata[0]:.3f}, %{customdata[1]:.3f}],"
            " n=%{customdata[2]}",
        )
    for value, label in marks:
        chart.add_vline(
            x=value,
            line={"color": style.LINE, "dash": "dash", "width": 1},
            annotation={
                "text": style.shown(label),
                "yanchor": "bottom",
                "y": 0,
                "showarrow": False,
            },
        )
    chart.update_layout(
        scattermode="group" if len(groups) > 1 else "overlay",
        showlegend=len(groups) > 1,
        yaxis={
            "categoryorder": "array",
            "categoryarray": [style.shown(n) for n in reversed(names)],
            "showgrid": True,
            "type": "category",
        },
        xaxis={"title": {"text": style.shown(unit)}, "range": list(span) if span else None},
    )
    return chart
