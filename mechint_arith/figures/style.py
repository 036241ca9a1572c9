"""What all Plotly figures have in common: one template, checked arrays, escaped labels.

The template is handed to each figure; Plotly's defaults are never changed. Backgrounds are transparent and
text is grey, so a figure reads on a light and on a dark page; a page that includes `PAGE_CSS` gives the text its
own colour. Nothing here knows what a figure shows.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mechint_arith.errors import InputError
from mechint_arith.figures.colours import CATEGORIES, GREY, diverging, rgb, sequential
from mechint_arith.figures.drawing.lettering import spelled

Array = np.ndarray

LINE = "rgba(128,128,128,0.6)"
"""Axes and reference lines."""
FAINT = "rgba(128,128,128,0.22)"
"""Grid lines."""
CLEAR = "rgba(0,0,0,0)"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

PAGE_CSS = (
    ".js-plotly-plot :is([class$=tick], .g-gtitle, [class*=title], .annotation, .legend, .shape-label)"
    " text { fill: currentColor !important; }"
)
"""Style sheet that gives the text around a plot (not inside its marks) the colour of the page's text."""

DASHES = ("solid", "dash", "dot", "dashdot")
"""Line styles, for the second and further rounds through the colours."""


def template() -> go.layout.Template:
    """Return the template of all figures."""
    axis = {
        "gridcolor": FAINT,
        "linecolor": LINE,
        "zerolinecolor": LINE,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": LINE,
        "automargin": True,
        "title": {"standoff": 8},
    }
    bar = {"outlinewidth": 0, "thickness": 12, "ticks": "outside", "tickcolor": LINE}
    return go.layout.Template(
        layout={
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "font": {"color": GREY, "family": FONT, "size": 12},
            "title": {
                "font": {"size": 14},
                "x": 0.0,
                "xref": "paper",
                "xanchor": "left",
                "y": 1.0,
                "yref": "container",
                "yanchor": "top",
                "pad": {"t": 10},
            },
            "colorway": list(CATEGORIES),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "margin": {"l": 8, "r": 8, "t": 56, "b": 8, "autoexpand": True},
            "coloraxis": {"colorbar": bar},
            "hoverlabel": {"font": {"family": FONT, "size": 12}},
            "modebar": {"bgcolor": CLEAR, "color": LINE, "activecolor": GREY},
            "annotationdefaults": {"font": {"size": 12}},
        }
    )


def figure(
    traces: Iterable[Any], *, title: str = "", height: int = 380, **layout: Any
) -> go.Figure:
    """Return a figure of `traces` in the package's template.

    title: text, escaped here; height: px; layout: further entries of Plotly's layout.
    """
    plain = {"template": template(), "height": height, "title": {"text": shown(title)}}
    return go.Figure(list(traces), plain | layout)


def shown(label: object) -> str:
    """Return a label so that Plotly shows it as it is: no tags, no formulas, control characters spelled out."""
    return html.escape(spelled(str(label)), quote=False).replace("$", "&#36;")


def words(text: str) -> str:
    """Return `text` for a hover template: as `shown`, and without its own places for values."""
    return shown(text).replace("%{", "%&#123;")


def colour(i: int) -> str:
    """Return the colour of the i-th category; they repeat after the last."""
    return CATEGORIES[i % len(CATEGORIES)]


def line_dash(i: int) -> str:
    """Return the line style of the i-th category: another one after each round through the colours."""
    return DASHES[i // len(CATEGORIES) % len(DASHES)]


def faded(hexadecimal: str, opacity: float) -> str:
    """Return a colour with an opacity from 0 to 1."""
    red, green, blue = rgb(hexadecimal)
    return f"rgba({red},{green},{blue},{opacity:g})"


def colour_scale(*, signed: bool) -> list[list[Any]]:
    """Return Plotly's list of (share, colour): dark orange to dark blue around 0 if signed, else light to dark."""
    ramp = diverging() if signed else sequential()
    return [[i / (len(ramp) - 1), colour] for i, colour in enumerate(ramp)]


def colour_axis(
    values: Array, *, signed: bool, unit: str, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    """Return the colour axis for `values` (any shape, NaN for missing): scale, ends and colour bar.

    signed: centred at 0, both ends equally far; else from `low` to `high`, by default the extreme values.
    """
    finite = values[np.isfinite(values)]
    if signed:
        end = high if high is not None else float(np.abs(finite).max(initial=0.0)) or 1.0
        ends = (-end, end)
    else:
        lowest = float(finite.min(initial=np.inf)) if finite.size else 0.0
        highest = float(finite.max(initial=-np.inf)) if finite.size else 1.0
        ends = (lowest if low is None else low, highest if high is None else high)
    bar = {"title": {"text": shown(unit), "side": "right"}}
    scale = colour_scale(signed=signed)
    return {"colorscale": scale, "cmin": ends[0], "cmax": ends[1], "colorbar": bar}


def label_axis(
    labels: Sequence[object], *, title: str = "", flipped: bool = False
) -> dict[str, Any]:
    """Return an axis with one label per row or column, at 0, 1, 2, …; labels may repeat.

    flipped: the first label stands on top.
    """
    n = len(labels)
    return {
        "tickmode": "array",
        "tickvals": list(range(n)),
        "ticktext": [shown(label) for label in labels],
        "range": [n - 0.5, -0.5] if flipped else [-0.5, n - 0.5],
        "showgrid": False,
        "title": {"text": shown(title)},
    }


def array(values: Any, axes: str, what: str) -> Array:
    """Return `values` as float64 with one dimension per word of `axes`; NaN stands for a missing value.

    Raises `InputError` for another number of dimensions, no values, infinite ones, or what is no number.
    """
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} [{axes}] should be numbers: {error}") from error
    if found.ndim != len(axes.split()):
        raise InputError(f"{what} should have the axes [{axes}]; got shape {found.shape}")
    if not found.size:
        raise InputError(f"{what} [{axes}] are empty: shape {found.shape}")
    if np.isinf(found).any():
        raise InputError(
            f"{what} [{axes}] hold infinite values; leave them out or mark them as NaN"
        )
    return found


def same_length(n: int, what: str, **others: Sequence[Any] | Array) -> None:
    """Raise `InputError` unless all `others` have n entries, as `what` has."""
    wrong = [f"{len(v)} {name.replace('_', ' ')}" for name, v in others.items() if len(v) != n]
    if wrong:
        raise InputError(f"{what} has {n} entries, but there are {' and '.join(wrong)}")


def series(values: Any, axes: str, what: str) -> dict[str, Array]:
    """Return named arrays from one array, or from a mapping or DataFrame of them; a single one is named ``."""
    if hasattr(values, "keys"):
        named: Mapping[Any, Any] = values
        found = {str(name): array(named[name], axes, f"{what} {name!r}") for name in named.keys()}  # noqa: SIM118
    else:
        found = {"": array(values, axes, what)}
    if not found:
        raise InputError(f"{what} are empty: give at least one series")
    shapes = {name: values.shape for name, values in found.items()}
    if len(set(shapes.values())) > 1:
        raise InputError(f"{what} should all have one shape; got {shapes}")
    return found
