"""Small static pictures of the main findings, for a README or a paper: SVG, PDF or PNG by matplotlib, no browser.

The interactive kinds of the same figures are Plotly's, in the modules beside this one. Values come in as arrays;
no model is seen and matplotlib's settings are left alone.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from mechint_arith import files
from mechint_arith.errors import InputError
from mechint_arith.figures.colours import CATEGORIES, GREY, INK

SUFFIXES = (".svg", ".pdf", ".png")
CM = 1 / 2.54
MARKERS = ("o", "s", "^", "D")
LINES = ("-", "--", ":", "-.")
SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "mechint_arith",
    "pdf.fonttype": 42,
}


class Print(Figure):
    """A picture; notebooks show it by themselves."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        with rc_context(SETTINGS):
            self.savefig(content, format="png", dpi=110, facecolor="white")
        return content.getvalue()


def scatter(
    panels: Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]],
    chosen: Mapping[str, np.ndarray],
    *,
    unit: str = "share of effect",
    width: float = 17.0,
) -> Print:
    """Return a panel per pair of routes: each neuron's effect on one against its effect on the other.

    panels: (route, route) -> effects [neuron] on both, in `unit`. chosen: route -> bool [neuron], the set that holds
    the route's effect. width: cm.
    """
    with rc_context(SETTINGS):
        figure = Print((width * CM, (0.78 * width / len(panels) + 1.0) * CM), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, ((a, b), (x, y)) in zip(axes, panels.items(), strict=True):
            low, top = min(0.0, x.min(), y.min()), max(x.max(), y.max())
            axis.plot([low, top], [low, top], color=GREY, linewidth=0.7, linestyle="--")
            kinds = {
                "in both sets": chosen[a] & chosen[b],
                "in one set": chosen[a] ^ chosen[b],
                "in neither": ~(chosen[a] | chosen[b]),
            }
            for i, (name, rows) in enumerate(kinds.items()):
                axis.scatter(
                    x[rows],
                    y[rows],
                    s=9,
                    marker=MARKERS[i],
                    color=CATEGORIES[i],
                    alpha=0.7,
                    linewidth=0,
                    label=name,
                )
            axis.set_xlabel(f"{a}: {unit}")
            axis.set_ylabel(f"{b}: {unit}")
            axis.set_aspect("equal", adjustable="box")
        axes[0].legend(loc="upper left", handletextpad=0.2, borderaxespad=0.0)
    return figure


def spectra(
    shares: Mapping[str, np.ndarray],
    key: Mapping[str, Collection[int]],
    *,
    unit: str = "share of energy",
    width: float = 17.0,
) -> Print:
    """Return a row of bars per route, frequency 1 upward; key frequencies dark and numbered.

    shares: route -> [freq], entry k of frequency k + 1. key: route -> its key frequencies. width: cm.
    """
    with rc_context(SETTINGS):
        n = len(shares)
        figure = Print((width * CM, (1.0 + 2.1 * n) * CM), layout="constrained")
        axes = figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0]
        for axis, (route, values) in zip(axes, shares.items(), strict=True):
            numbers = np.arange(1, len(values) + 1)
            marked = np.isin(numbers, list(key[route]))
            colours = np.where(marked, CATEGORIES[0], "#bcd4e6")
            axis.bar(numbers, values, color=list(colours), width=0.8)
            for number, value in zip(numbers[marked], values[marked], strict=True):
                axis.annotate(
                    str(number),
                    (number, value),
                    xytext=(0, 1.5),
                    textcoords="offset points",
                    ha="center",
                    fontsize=7,
                )
            axis.set_title(route, loc="left", pad=3)
            axis.margins(x=0.01, y=0.2)
        axes[-1].set_xlabel("frequency")
        figure.supylabel(unit, fontsize=8)
    return figure


def curves(
    steps: Sequence[int],
    values: Mapping[str, np.ndarray],
    *,
    low: Mapping[str, np.ndarray] | None = None,
    high: Mapping[str, np.ndarray] | None = None,
    starts: Sequence[int] = (),
    unit: str = "accuracy",
    width: float = 17.0,
) -> Print:
    """Return curves over training steps with their intervals, and a line where each phase starts.

    values, low, high: name -> [step]. starts: steps of change points. width: cm.
    """
    with rc_context(SETTINGS):
        figure = Print((width * CM, 0.42 * width * CM), layout="constrained")
        axis = figure.subplots()
        for start in starts:
            axis.axvline(start, color=GREY, linewidth=0.8, linestyle=":")
        for i, (name, row) in enumerate(values.items()):
            colour = CATEGORIES[i % len(CATEGORIES)]
            line = LINES[i // len(CATEGORIES) % len(LINES)]
            axis.plot(steps, row, color=colour, linestyle=line, linewidth=1.3, label=name)
            if low is not None and high is not None:
                axis.fill_between(
                    steps, low[name], high[name], color=colour, alpha=0.2, linewidth=0
                )
        axis.set_xlabel("step")
        axis.set_ylabel(unit)
        axis.margins(x=0.01)
        figure.legend(loc="outside right upper", handlelength=1.6)
    return figure


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Write a picture in the format of its suffix, in one step; the same values give the same bytes.

    dpi: pixels per inch of a PNG. Raises `InputError` for another suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"cannot draw into {Path(path).name!r}: the name should end in {', '.join(SUFFIXES)}"
        )
    undated: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context(SETTINGS), files.replacing(path) as temporary:
        figure.savefig(
            temporary,
            format=suffix[1:],
            dpi=dpi,
            facecolor="white",
            metadata=undated.get(suffix, {}),
        )
