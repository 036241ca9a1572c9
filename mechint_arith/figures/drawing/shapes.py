"""The few shapes that every drawing is made of. Lengths in cm, y upward; line widths and text sizes in pt.

Whoever writes a format needs only these; what they stand for is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mechint_arith.figures.colours import INK

CM_PER_PT = 2.54 / 72
"""A point, in cm."""

Point = tuple[float, float]
"""(x, y) in cm."""


@dataclass(frozen=True)
class Box:
    """A rectangle with rounded corners."""

    x: float
    """Left edge, cm."""
    y: float
    """Lower edge, cm."""
    width: float
    """Extent to the right, cm."""
    height: float
    """Extent upward, cm."""
    fill: str = "#ffffff"
    """Colour inside."""
    stroke: str | None = INK
    """Colour of the outline; None for no outline."""
    line: float = 0.6
    """Width of the outline, pt."""
    dashed: bool = False
    """Whether the outline is dashed."""
    radius: float = 0.06
    """Radius of the corners, cm."""
    note: str = ""
    """What a reader sees who points at it, where the format can show that."""

    @property
    def right(self) -> float:
        """Right edge, cm."""
        return self.x + self.width

    @property
    def top(self) -> float:
        """Upper edge, cm."""
        return self.y + self.height

    @property
    def centre(self) -> Point:
        """Middle, cm."""
        return (self.x + self.width / 2, self.y + self.height / 2)


@dataclass(frozen=True)
class Curve:
    """A chain of cubic Bézier curves."""

    points: tuple[Point, ...]
    """Start, then two control points and an end for each piece: 1 + 3 pieces points."""
    width: float
    """Line width, pt."""
    colour: str = INK
    """Line colour."""
    dashed: bool = False
    """Whether it is dashed."""
    note: str = ""
    """What a reader sees who points at it."""


@dataclass(frozen=True)
class Polygon:
    """A filled outline without a line around it."""

    points: tuple[Point, ...]
    """Corners, cm."""
    colour: str = INK
    """Colour inside."""


@dataclass(frozen=True)
class Text:
    """One line of text, printable characters only (see `lettering.printable`)."""

    x: float
    """Where it is anchored, cm."""
    y: float
    """Its baseline (its anchor's x where turned), cm."""
    content: str
    """The text itself, not escaped for any format."""
    size: float
    """Font size, pt."""
    anchor: str = "middle"
    """Which part of it stands at x: `start`, `middle` or `end`."""
    colour: str = INK
    """Text colour."""
    bold: bool = False
    """Whether it is set bold."""
    turned: bool = False
    """Whether it reads from bottom to top, turned by a quarter."""


Shape = Box | Curve | Polygon | Text


@dataclass(frozen=True, repr=False)
class Drawing:
    """Shapes on a sheet, painted in order."""

    width: float
    """cm."""
    height: float
    """cm."""
    shapes: tuple[Shape, ...]
    """From the back to the front."""
    title: str = ""
    """One line that says what is to be seen, for readers who cannot see it."""

    def __repr__(self) -> str:
        return f"Drawing({self.title!r}, {self.width:.1f} x {self.height:.1f} cm)"

    def _repr_svg_(self) -> str:
        """Return what notebooks show."""
        from mechint_arith.figures.drawing.svg import svg

        return svg(self)


def dash(width: float) -> tuple[float, float]:
    """Return length of dash and gap (pt) for a line of this width (pt): both stay visible when it is wide."""
    return (2.2 + 0.8 * width, 1.5 + 0.5 * width)


def straight(*corners: Point) -> tuple[Point, ...]:
    """Return the points of a `Curve` that joins corners by straight lines."""
    points = [corners[0]]
    for (x0, y0), (x1, y1) in pairwise(corners):
        third = ((x1 - x0) / 3, (y1 - y0) / 3)
        points += [(x0 + third[0], y0 + third[1]), (x1 - third[0], y1 - third[1]), (x1, y1)]
    return tuple(points)


def number(value: float) -> str:
    """Return a length with three decimals at most, without zeros at its end."""
    return f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")
