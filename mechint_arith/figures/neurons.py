"""Activation maps: what neurons do for every pair of numbers (a, b), as small multiples on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures import style

ABREAST = 4
"""Maps in a row at most."""
LARGEST = 48
"""Maps in a figure at most."""


def neuron_maps(
    activations: Any,
    *,
    names: Sequence[object],
    unit: str = "activation",
    signed: bool = False,
    title: str = "",
) -> go.Figure:
    """Return one map per neuron: a upward, b to the right, all on one colour scale.

    activations: [neuron a b]; names: one per neuron, shown above its map. signed: colours around 0, for
    pre-activations; else from 0 up. unit: of the activations.
    Raises `InputError` for other shapes, names that do not fit, or more than `LARGEST` neurons.
    """
    from plotly.subplots import make_subplots

    maps = style.array(activations, "neuron a b", "activations")
    style.same_length(len(maps), "activations along the neurons", names=names)
    if len(maps) > LARGEST:
        raise InputError(f"a figure shows at most {LARGEST} neurons; got {len(maps)}: choose some")
    across = min(ABREAST, len(maps))
    down = -(-len(maps) // across)
    panels = make_subplots(
        rows=down,
        cols=across,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.03,
        vertical_spacing=min(0.12, 0.25 / down),
        subplot_titles=[style.shown(name) for name in names],
        figure=style.figure([], title=title, height=110 + 155 * down),
    )
    for i, values in enumerate(maps):
        panels.add_trace(_trace(values), row=i // across + 1, col=i % across + 1)
    panels.update_annotations(font={"size": 11})
    panels.update_xaxes(showgrid=False, constrain="domain")
    panels.update_yaxes(showgrid=False, scaleanchor="x", constrain="domain")
    panels.update_xaxes(title={"text": "b"}, row=down)
    panels.update_yaxes(title={"text": "a"}, col=1)
    low = None if signed or np.nanmin(maps) < 0 else 0.0
    panels.update_layout(coloraxis=style.colour_axis(maps, signed=signed, unit=unit, low=low))
    return panels


def _trace(values: np.ndarray) -> go.Heatmap:
    return go.Heatmap(
        z=values.astype(np.float32),
        coloraxis="coloraxis",
        hovertemplate="a = %{y}, b = %{x}<br>%{z:.4g}<extra></extra>",
    )
