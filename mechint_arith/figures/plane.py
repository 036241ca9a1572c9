"""Points in a plane coloured around a circle: principal components of numbers that should lie on a ring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures import style
from mechint_arith.figures.colours import hexadecimal, oklab


def cyclic_scatter(
    points: Any,
    around: Any,
    *,
    period: float,
    labels: Sequence[object] | None = None,
    axes: tuple[str, str] = ("PC 1", "PC 2"),
    around_name: str = "number",
    title: str = "",
) -> go.Figure:
    """Return points in a plane with one scale on both axes, coloured by where they are in a cycle.

    points: [point axis] with two axes; around: [point], a number that starts again at `period` (a number mod p:
    period p); labels: one per point, shown beside it where they are few, at the pointer otherwise, by default
    the number itself. axes: names of the axes, with their explained variance.
    Raises `InputError` for other shapes, lengths that differ, or a period that is not above 0.
    """
    places = style.array(points, "point axis", "points")
    if places.shape[1] != 2:
        raise InputError(f"points [point axis] need two axes; got {places.shape[1]}")
    turn = style.array(around, "point", "around")
    style.same_length(len(places), "points", around=turn)
    if not period > 0:
        raise InputError(f"a period is above 0; got {period}")
    called = [f"{value:g}" for value in turn] if labels is None else list(map(str, labels))
    style.same_length(len(places), "points", labels=called)
    trace = go.Scatter(
        x=places[:, 0],
        y=places[:, 1],
        mode="markers+text" if len(places) <= 130 else "markers",
        text=[style.shown(label) for label in called],
        textposition="top center",
        textfont={"size": 10},
        marker={"color": turn % period, "coloraxis": "coloraxis", "size": 8},
        hovertemplate="%{text}<br>(%{x:.3g}, %{y:.3g})<extra></extra>",
    )
    across, up = ({"title": {"text": style.shown(name)}, "zeroline": True} for name in axes)
    bar = {"title": {"text": style.shown(around_name), "side": "right"}}
    return style.figure(
        [trace],
        title=title,
        height=480,
        xaxis=across | {"constrain": "domain"},
        yaxis=up | {"scaleanchor": "x", "constrain": "domain"},
        coloraxis={"colorscale": ring(), "cmin": 0, "cmax": period, "colorbar": bar},
    )


def ring(steps: int = 25) -> list[list[Any]]:
    """Return a colour scale once around the hues of Oklab at one lightness: it ends as it begins."""
    shares = [i / (steps - 1) for i in range(steps)]
    return [[share, hexadecimal(oklab(0.66, 0.11, 255 + 360 * share))] for share in shares]
