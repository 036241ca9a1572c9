"""Drawings as PDF and PNG, through matplotlib's file formats alone: no window, no pyplot, no settings kept.

The same drawing gives the same bytes: matplotlib's defaults are used whatever a user has set, and files
carry no date and no version.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from mechint_arith.figures.drawing.lettering import FONT, settable
from mechint_arith.figures.drawing.shapes import Box, Curve, Drawing, Polygon, Shape, Text, dash

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES: dict[str, Any] = {"start": "left", "middle": "center", "end": "right"}
"""Anchors, in matplotlib's words."""

INCH = 2.54
"""cm."""

SETTINGS: dict[str, Any] = {"font.family": [FONT], "pdf.fonttype": 42, "lines.scale_dashes": False}


def pdf(drawing: Drawing) -> bytes:
    """Return `drawing` as a PDF page: vectors only, fonts embedded as TrueType."""
    return _written(drawing, "pdf", metadata=dict.fromkeys(("Creator", "Producer", "CreationDate")))


def png(drawing: Drawing, dpi: int) -> bytes:
    """Return `drawing` as a PNG picture of `dpi` pixels per inch on white."""
    return _written(drawing, "png", dpi=dpi, facecolor="white", metadata={"Software": None})


def _written(drawing: Drawing, kind: str, **options: Any) -> bytes:
    from matplotlib import style

    buffer = io.BytesIO()
    with style.context(["default", SETTINGS]):
        _figure(drawing).savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def _figure(drawing: Drawing) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.width / INCH, drawing.height / INCH), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(0, drawing.height)
    for order, shape in enumerate(drawing.shapes):
        artist = _artist(shape)
        artist.set_zorder(order)
        axes.add_artist(artist)
        artist.set_clip_on(False)
    return figure


def _artist(shape: Shape) -> Any:
    from matplotlib import patches, text
    from matplotlib.path import Path

    match shape:
        case Box():
            return patches.FancyBboxPatch(
                (shape.x, shape.y),
                shape.width,
                shape.height,
                boxstyle=patches.BoxStyle.Round(pad=0, rounding_size=shape.radius),
                facecolor=shape.fill,
                edgecolor=shape.stroke or "none",
                linewidth=shape.line,
                linestyle=(0, dash(shape.line)) if shape.dashed else "solid",
            )
        case Curve():
            codes = [Path.MOVETO, *[Path.CURVE4] * (len(shape.points) - 1)]
            return patches.PathPatch(
                Path(shape.points, codes),
                facecolor="none",
                edgecolor=shape.colour,
                linewidth=shape.width,
                linestyle=(0, dash(shape.width)) if shape.dashed else "solid",
                capstyle="butt",
            )
        case Polygon():
            return patches.Polygon(shape.points, closed=True, facecolor=shape.colour, linewidth=0)
        case Text():
            return text.Text(
                shape.x,
                shape.y,
                settable(shape.content),
                fontsize=shape.size,
                color=shape.colour,
                weight="bold" if shape.bold else "normal",
                horizontalalignment=SIDES[shape.anchor],
                verticalalignment="baseline",
                rotation=90 if shape.turned else 0,
                rotation_mode="anchor",
                parse_math=False,
            )
