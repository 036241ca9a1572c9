"""Fourier spectra: a bar per frequency, the key ones marked, and the line that chance stays under."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures import style
from mechint_arith.figures.colours import GREY


def spectrum(
    power: Any,
    *,
    frequencies: Sequence[int] | None = None,
    key: Collection[int] = (),
    null: float | None = None,
    null_name: str = "null",
    unit: str = "share of variance",
    title: str = "",
) -> go.Figure:
    """Return bars of power per frequency, key frequencies in full colour with their number, others faded.

    power: [freq], or several of them by name (`direct`, `left`), shown beside each other; from 0 up.
    frequencies: the numbers of the bars, by default 1, 2, 3, …; key: those to mark. null: power that the null
    reaches at most (say which level in `null_name`), drawn as a line. unit: of the power.
    Raises `InputError` for lengths that differ, negative power, or a key frequency that has no bar.
    """
    spectra = style.series(power, "freq", "power")
    n = len(next(iter(spectra.values())))
    numbers = list(range(1, n + 1)) if frequencies is None else [int(f) for f in frequencies]
    style.same_length(n, "power", frequencies=numbers)
    missing = sorted(set(map(int, key)) - set(numbers))
    if missing:
        raise InputError(f"key frequencies {missing} are not among the {n} frequencies shown")
    if any((values < 0).any() for values in spectra.values()):
        raise InputError("power should not be negative")
    marked = np.isin(numbers, list(key))
    traces: list[Any] = [
        _bars(numbers, values, marked, i, style.shown(name), many=len(spectra) > 1)
        for i, (name, values) in enumerate(spectra.items())
    ]
    if null is not None:
        traces.append(_null_line(numbers, null, style.shown(null_name)))
    return style.figure(
        traces,
        title=title,
        height=320,
        xaxis={"title": {"text": "frequency"}, "showgrid": False},
        yaxis={"title": {"text": style.shown(unit)}, "rangemode": "tozero"},
        bargap=0.15,
        margin={"t": 70},
    )


def _null_line(numbers: list[int], null: float, name: str) -> go.Scatter:
    return go.Scatter(
        x=[min(numbers) - 0.5, max(numbers) + 0.5],
        y=[null, null],
        mode="lines",
        name=name,
        showlegend=True,
        line={"color": GREY, "dash": "dash", "width": 1.5},
        hovertemplate="%{y:.4g}<extra></extra>",
    )


def _bars(
    numbers: list[int], values: np.ndarray, marked: np.ndarray, i: int, name: str, *, many: bool
) -> go.Bar:
    full = style.colour(i)
    strong = marked if marked.any() else np.ones_like(marked)
    return go.Bar(
        x=numbers,
        y=values,
        name=name,
        showlegend=many,
        marker={
            "color": [full if m else style.faded(full, 0.45) for m in strong],
            "line": {"width": 0},
        },
        text=[str(f) if m and not many else "" for f, m in zip(numbers, marked, strict=True)],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="frequency %{x}<br>%{y:.4g}<extra></extra>",
    )
