"""Heat maps: matrices with a token on every row and column, and grids of patching effects.

A matrix (attention, QK scores) has its first row on top; a grid of effects has layers upward, as circuit
diagrams do, and colours around 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures import style

ABREAST = 4
"""Grids beside each other at most."""


def heat_map(
    values: Any,
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    row_name: str = "query",
    column_name: str = "key",
    unit: str = "",
    title: str = "",
    signed: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> go.Figure:
    """Return a heat map of a matrix, its first row on top.

    values: [query key], NaN for cells to leave empty (masked ones); rows, columns: labels, which may repeat.
    signed: colours around 0; else from `low` to `high`, by default the extreme values. unit: of the values.
    Raises `InputError` where the labels do not fit the shape.
    """
    table = style.array(values, "query key", "values")
    style.same_length(len(table), f"the axis {row_name!r} of the values", rows=rows)
    style.same_length(table.shape[1], f"the axis {column_name!r} of the values", columns=columns)
    cells = _cells(table, (row_name, column_name), unit)
    down = style.label_axis(rows, title=row_name, flipped=True)
    return style.figure(
        [cells],
        title=title,
        height=max(260, 150 + 22 * min(len(table), 40)),
        xaxis=style.label_axis(columns, title=column_name) | {"constrain": "domain"},
        yaxis=down | {"scaleanchor": "x", "constrain": "domain"},
        coloraxis=style.colour_axis(table, signed=signed, unit=unit, low=low, high=high),
    )


def patching_grid(
    effects: Any,
    *,
    layers: Sequence[object],
    positions: Sequence[object],
    low: Any = None,
    high: Any = None,
    layer_name: str = "layer",
    position_name: str = "position",
    unit: str = "normalised effect",
    title: str = "",
) -> go.Figure:
    """Return a grid of effects: layers upward, positions across, colours around 0.

    effects: [layer pos], or several of them by name (`denoising`, `noising`), shown beside each other on one scale;
    NaN where an effect is missing, which leaves its cell empty. layers: from the lowest, one label per row;
    positions: one label per column. low, high: ends of the intervals, like `effects`, shown at the pointer.
    unit: of the effects. Raises `InputError` where labels or intervals do not fit the shape.
    """
    from plotly.subplots import make_subplots

    tables = style.series(effects, "layer pos", "effects")
    shape = next(iter(tables.values())).shape
    style.same_length(shape[0], "the axis 'layer' of the effects", layers=layers)
    style.same_length(shape[1], "the axis 'pos' of the effects", positions=positions)
    ends = _intervals(tables, low, high)
    names = [style.shown(name) for name in tables]
    across = min(ABREAST, len(tables))
    down = -(-len(tables) // across)
    panels = make_subplots(
        rows=down,
        cols=across,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.03,
        vertical_spacing=min(0.2, 0.4 / down),
        subplot_titles=names if any(names) else None,
        figure=style.figure([], title=title, height=100 + (50 + 30 * shape[0]) * down),
    )
    for i, (name, table) in enumerate(tables.items()):
        cells = _cells(table, (layer_name, position_name), unit, ends.get(name))
        panels.add_trace(cells, row=i // across + 1, col=i % across + 1)
    panels.update_annotations(font={"size": 12})
    panels.update_xaxes(style.label_axis(positions))
    panels.update_yaxes(style.label_axis(layers))
    panels.update_xaxes(title={"text": style.shown(position_name)}, row=down)
    panels.update_yaxes(title={"text": style.shown(layer_name)}, col=1)
    together = np.stack(list(tables.values()))
    panels.update_layout(coloraxis=style.colour_axis(together, signed=True, unit=unit))
    return panels


def _cells(
    table: np.ndarray, names: tuple[str, str], unit: str, ends: np.ndarray | None = None
) -> go.Heatmap:
    """Return the coloured cells; ends: [query key 2], low and high, to show at the pointer."""
    row, column = map(style.words, names)
    interval = "" if ends is None else " [%{customdata[0]:.3g}, %{customdata[1]:.3g}]"
    return go.Heatmap(
        z=table.astype(np.float32),
        customdata=None if ends is None else ends.astype(np.float32),
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        hoverongaps=False,
        hovertemplate=f"{row} %{{y}}<br>{column} %{{x}}<br>%{{z:.3g}}{interval} {style.words(unit)}<extra></extra>",
    )


def _intervals(tables: dict[str, np.ndarray], low: Any, high: Any) -> dict[str, np.ndarray]:
    if low is None and high is None:
        return {}
    if low is None or high is None:
        raise InputError("an interval has two ends: give low and high, or neither")
    lows, highs = (style.series(v, "layer pos", w) for v, w in ((low, "low"), (high, "high")))
    if not tables.keys() == lows.keys() == highs.keys():
        raise InputError(f"low and high should be there for {', '.join(tables)}, like the effects")
    shapes = {values.shape for group in (tables, lows, highs) for values in group.values()}
    if len(shapes) > 1:
        raise InputError(f"effects, low and high should have one shape; got {sorted(shapes)}")
    return {name: np.stack([lows[name], highs[name]], axis=-1) for name in tables}
