"""Drawings as SVG: text stays text, nothing is loaded from anywhere, no ids that could clash on a page."""

from __future__ import annotations

from html import escape

from mechint_arith.figures.drawing.shapes import (
    CM_PER_PT,
    Box,
    Curve,
    Drawing,
    Point,
    Polygon,
    Shape,
    Text,
    dash,
    number,
)

FAMILY = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
"""The fonts of common systems; DejaVu Sans, which lengths are measured in, is the widest of them."""

PT = 100 * CM_PER_PT
"""A point in units of the view box, of which a cm has 100."""


def svg(drawing: Drawing) -> str:
    """Return `drawing` as an SVG document that can also stand inside an HTML page."""
    width, height = number(100 * drawing.width), number(100 * drawing.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{number(drawing.width)}cm"'
        f' height="{number(drawing.height)}cm" viewBox="0 0 {width} {height}"'
        f' font-family="{FAMILY}">'
    )
    title = f"<title>{escape(drawing.title)}</title>"
    paper = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    shapes = [_element(shape, drawing.height) for shape in drawing.shapes]
    return "\n".join([head, title, paper, *shapes, "</svg>\n"])


def _element(shape: Shape, height: float) -> str:
    match shape:
        case Box():
            return _box(shape, height)
        case Curve():
            return _curve(shape, height)
        case Polygon():
            corners = " ".join(_at(point, height) for point in shape.points)
            return f'<polygon points="{corners}" fill="{shape.colour}"/>'
        case Text():
            return _text(shape, height)


def _box(box: Box, height: float) -> str:
    x, y = number(100 * box.x), number(100 * (height - box.top))
    outline = f'stroke="{box.stroke}"{_pen(box.line, box.dashed)}' if box.stroke else ""
    return _with_note(
        f'<rect x="{x}" y="{y}" width="{number(100 * box.width)}" height="{number(100 * box.height)}"'
        f' rx="{number(100 * box.radius)}" fill="{box.fill}" {outline}',
        "rect",
        box.note,
    )


def _curve(curve: Curve, height: float) -> str:
    start, *rest = (_at(point, height) for point in curve.points)
    return _with_note(
        f'<path d="M{start} C{" ".join(rest)}" fill="none" stroke="{curve.colour}"'
        f"{_pen(curve.width, curve.dashed)}",
        "path",
        curve.note,
    )


def _text(text: Text, height: float) -> str:
    x, y = number(100 * text.x), number(100 * (height - text.y))
    weight = ' font-weight="bold"' if text.bold else ""
    turn = f' transform="rotate(-90 {x} {y})"' if text.turned else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{number(PT * text.size)}" text-anchor="{text.anchor}"'
        f' fill="{text.colour}"{weight}{turn} xml:space="preserve">{escape(text.content)}</text>'
    )


def _at(point: Point, height: float) -> str:
    return f"{number(100 * point[0])},{number(100 * (height - point[1]))}"


def _pen(width: float, dashed: bool) -> str:
    on, off = dash(width)
    pattern = f' stroke-dasharray="{number(PT * on)} {number(PT * off)}"' if dashed else ""
    return f' stroke-width="{number(PT * width)}"{pattern}'


def _with_note(opened: str, tag: str, note: str) -> str:
    return f"{opened}><title>{escape(note)}</title></{tag}>" if note else f"{opened}/>"
