"""How an effect looks: width and colour grow with its size, the arrow head tells its sign.

A positive effect is blue and ends in an arrow, a negative one is orange and ends in a bar, so the sign
survives in black and white. The legend draws its samples with the same functions.
"""

from __future__ import annotations

from mechint_arith.figures.colours import effect_colour
from mechint_arith.figures.drawing.shapes import CM_PER_PT, Curve, Point, Polygon, Shape

THINNEST, WIDEST = 0.5, 3.2
"""Line widths of an effect of 0 and of the largest, pt."""
PAPER = "#ffffff"
HALO = 1.6
"""White around an edge, which tells crossing edges apart, pt."""


def width(effect: float, largest: float) -> float:
    """Return the line width (pt) of an effect where `largest` is the largest |effect| drawn."""
    return THINNEST + (WIDEST - THINNEST) * min(abs(effect) / largest, 1.0)


def head_length(effect: float, largest: float) -> float:
    """Return the length (cm) of the arrow head, or of the bar where the effect is negative."""
    if effect < 0:
        return 0.03 + 0.5 * CM_PER_PT * width(effect, largest)
    return 0.085 + 1.0 * CM_PER_PT * width(effect, largest)


def head_width(effect: float, largest: float) -> float:
    """Return the width (cm) of the arrow head or bar."""
    line = CM_PER_PT * width(effect, largest)
    return 2 * (0.045 if effect >= 0 else 0.065) + 1.5 * line


def port(effect: float, largest: float) -> float:
    """Return the width (cm) that an edge needs on the side of a box."""
    return head_width(effect, largest) + 0.03


def stroke(
    points: tuple[Point, ...],
    tip: Point,
    effect: float,
    largest: float,
    *,
    dashed: bool = False,
    note: str = "",
) -> tuple[Shape, ...]:
    """Return an edge along `points` (1 + 3 pieces) whose head ends at `tip`, with its halo behind it.

    The last piece may come from below or from the left; the head points from its end to the tip.
    """
    line = width(effect, largest)
    colour = effect_colour(effect / largest)
    return (
        Curve(points, line + HALO, PAPER),
        Curve(points, line, colour, dashed, note),
        _head(points[-1], tip, effect, largest),
    )


def _head(base: Point, tip: Point, effect: float, largest: float) -> Polygon:
    along = (tip[0] - base[0], tip[1] - base[1])
    length = abs(along[0]) + abs(along[1])
    half = head_width(effect, largest) / 2
    side = (-half * along[1] / length, half * along[0] / length)
    left = (base[0] + side[0], base[1] + side[1])
    right = (base[0] - side[0], base[1] - side[1])
    colour = effect_colour(effect / largest)
    if effect >= 0:
        return Polygon((left, tip, right), colour)
    above = ((tip[0] + side[0], tip[1] + side[1]), (tip[0] - side[0], tip[1] - side[1]))
    return Polygon((left, *above, right), colour)
