"""Colours that keep their order for every eye and every printer.

Ramps run straight through Oklab, so equal steps look equal, and their lightness falls steadily, so they
survive in black and white. Blue is positive, orange negative, everywhere in the package.
Sources: Ottosson, "A perceptual color space for image processing" (2020) for Oklab; Okabe & Ito,
"Color Universal Design" (2008) for the palette of categories.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

INK = "#1a1a1a"
"""Text and outlines on white paper."""
GREY = "#767676"
"""Text that is readable on white and on near black (contrast 4.5 on both)."""

CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Okabe and Ito's palette without black and yellow, which vanish on a dark or a light page."""

BLUE, ORANGE = 255.0, 50.0
"""Hue angles in Oklab, degrees."""

_TO_CONE = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_LINEAR = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def oklab(lightness: float, chroma: float, hue: float) -> Array:
    """Return the Oklab coordinates [3] of a colour given by lightness 0..1, chroma and hue in degrees."""
    angle = np.radians(hue)
    return np.array([lightness, chroma * np.cos(angle), chroma * np.sin(angle)])


def hexadecimal(lab: Array) -> str:
    """Return an Oklab colour [3] as `#rrggbb`, clipped to what a screen can show."""
    linear = np.clip(_TO_LINEAR @ (_TO_CONE @ lab) ** 3, 0, 1)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * float(channel)):02x}" for channel in curved)


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green, blue (0..255) of `#rrggbb`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: str) -> float:
    """Return the relative luminance (0 black, 1 white) of `#rrggbb`, as WCAG 2 defines it."""
    curved = np.array(rgb(colour)) / 255
    linear = np.where(curved <= 0.04045, curved / 12.92, ((curved + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def between(start: Array, end: Array, share: float) -> str:
    """Return the colour a `share` (0..1) of the way from one Oklab colour [3] to another."""
    return hexadecimal(start + (end - start) * float(np.clip(share, 0, 1)))


def effect_colour(share: float) -> str:
    """Return the line colour of an effect, given as a share (-1..1) of the largest: blue up, orange down.

    The weakest is light but still readable on white, the strongest dark.
    """
    hue = BLUE if share >= 0 else ORANGE
    return between(oklab(0.74, 0.10, hue), oklab(0.36, 0.11, hue), abs(share))


def sequential(steps: int = 11) -> list[str]:
    """Return colours from nearly white to dark blue, for values from 0 up."""
    pale, dark = oklab(0.97, 0.01, BLUE), oklab(0.32, 0.12, BLUE)
    return [between(pale, dark, i / (steps - 1)) for i in range(steps)]


def diverging(steps: int = 11) -> list[str]:
    """Return colours from dark orange over nearly white to dark blue, for values on both sides of 0.

    steps: odd, so that the middle one is the colour of 0.
    """
    pale = oklab(0.97, 0.0, BLUE)
    half = [i / (steps // 2) for i in range(1, steps // 2 + 1)]
    below = [between(pale, oklab(0.40, 0.12, ORANGE), share) for share in reversed(half)]
    above = [between(pale, oklab(0.40, 0.12, BLUE), share) for share in half]
    return [*below, hexadecimal(pale), *above]
