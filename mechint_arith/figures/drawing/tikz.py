"""Drawings as TikZ: a `tikzpicture` to \\input, set in the document's own fonts.

Needs only \\usepackage{tikz}, none of its libraries. Sizes are plain LaTeX: text keeps its size in pt.
"""

from __future__ import annotations

from mechint_arith.figures.colours import rgb
from mechint_arith.figures.drawing import lettering
from mechint_arith.figures.drawing.shapes import (
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

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "'": r"\char39{}",
    "`": r"\char96{}",
    "-": "-{}",
    "−": r"\ensuremath{-}",
    "≥": r"\ensuremath{\geq}",
    "≤": r"\ensuremath{\leq}",
    "→": r"\ensuremath{\rightarrow}",
    "×": r"\ensuremath{\times}",
    "·": r"\ensuremath{\cdot}",
    "…": r"\dots{}",
    "–": "--",
}
"""What LaTeX would read as a command or a ligature, and the signs that drawings use themselves."""

ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}


def tikz(drawing: Drawing) -> str:
    """Return `drawing` as a `tikzpicture` environment."""
    lines = [
        r"% Needs \usepackage{tikz}; then \input this file.",
        r"\begin{tikzpicture}[x=1cm, y=1cm, inner sep=0pt, outer sep=0pt]",
        rf"\useasboundingbox (0,0) rectangle {_at((drawing.width, drawing.height))};",
        *(_command(shape) for shape in drawing.shapes),
        r"\end{tikzpicture}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return `text` so that LaTeX prints it.

    Western European letters are left as they are; whatever plain pdfLaTeX may have no letter for is named by
    its code, as `U+4E2D`.
    """
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    plain = char.isascii() or ("À" <= char <= "ÿ" and char not in "ÐðÞþ")
    return char if plain else lettering.code(char)


def _command(shape: Shape) -> str:
    match shape:
        case Box():
            return _box(shape)
        case Curve():
            start, *rest = map(_at, shape.points)
            pieces = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
            path = "".join(f" .. controls {a} and {b} .. {end}" for a, b, end in pieces)
            return rf"\draw[{_pen(shape.width, shape.colour, shape.dashed)}] {start}{path};"
        case Polygon():
            return rf"\fill[fill={_colour(shape.colour)}] {' -- '.join(map(_at, shape.points))} -- cycle;"
        case Text():
            return _text(shape)


def _box(box: Box) -> str:
    options = f"fill={_colour(box.fill)}, rounded corners={number(box.radius)}cm"
    if box.stroke is None:
        return rf"\fill[{options}] {_at((box.x, box.y))} rectangle {_at((box.right, box.top))};"
    pen = _pen(box.line, box.stroke, box.dashed)
    return (
        rf"\filldraw[{options}, {pen}] {_at((box.x, box.y))} rectangle {_at((box.right, box.top))};"
    )


def _text(text: Text) -> str:
    size = number(text.size)
    series = r"\bfseries" if text.bold else ""
    font = rf"\fontsize{{{size}}}{{{number(1.2 * text.size)}}}\selectfont{series}"
    turn = ", rotate=90" if text.turned else ""
    options = f"anchor={ANCHORS[text.anchor]}, text={_colour(text.colour)}, font={font}{turn}"
    return rf"\node[{options}] at {_at((text.x, text.y))} {{{escaped(text.content)}}};"


def _pen(width: float, colour: str, dashed: bool) -> str:
    on, off = dash(width)
    pattern = f", dash pattern=on {number(on)}pt off {number(off)}pt" if dashed else ""
    return f"line width={number(width)}pt, draw={_colour(colour)}{pattern}"


def _colour(colour: str) -> str:
    red, green, blue = rgb(colour)
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _at(point: Point) -> str:
    return f"({number(point[0])},{number(point[1])})"
