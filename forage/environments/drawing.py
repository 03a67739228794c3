"""Pictures of environment states: flat shapes on a canvas, drawn on the host.

Every environment's `render` uses this one palette and this one canvas, so that a row of pictures looks like a family.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Point = tuple[float, float]

PAPER: Colour = (250, 248, 243)
MIST: Colour = (228, 230, 228)
STONE: Colour = (150, 157, 163)
INK: Colour = (43, 52, 64)
BLUE: Colour = (62, 116, 168)
SKY: Colour = (206, 226, 238)
TEAL: Colour = (42, 150, 141)
GREEN: Colour = (110, 160, 92)
GOLD: Colour = (233, 181, 66)
ORANGE: Colour = (226, 125, 70)
RED: Colour = (201, 74, 69)

_SUPERSAMPLING = 2


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Blends two colours: `share` 0 gives the first, 1 the second."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


class Canvas:
    """A picture of `width` x `height` pixels showing the window `(left, bottom, right, top)` of a world.

    Positions and sizes are in world units, line widths and text sizes in pixels.
    Without a window the world is the pixels themselves, y downward.
    Everything is drawn at twice the size and averaged down, which smooths the edges.
    """

    def __init__(
        self,
        width: int,
        height: int,
        window: tuple[float, float, float, float] | None = None,
        background: Colour = PAPER,
    ):
        left, bottom, right, top = window or (0.0, float(height), float(width), 0.0)
        self._size = (width, height)
        self._corner = (left, top)
        self._scale = (_SUPERSAMPLING * width / (right - left), _SUPERSAMPLING * height / (bottom - top))
        self._image = Image.new("RGB", (_SUPERSAMPLING * width, _SUPERSAMPLING * height), background)
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: Sequence[Point], colour: Colour) -> None:
        """Fill a polygon."""
        self._draw.polygon([self._pixel(point) for point in points], fill=colour)

    def line(self, points: Sequence[Point], colour: Colour, width: float = 2.0) -> None:
        """Draw a line through the points, with rounded joints and ends."""
        pixels = [self._pixel(point) for point in points]
        thickness = max(1, round(_SUPERSAMPLING * width))
        self._draw.line(pixels, fill=colour, width=thickness, joint="curve")
        if thickness > 3:
            for x, y in (pixels[0], pixels[-1]):
                self._draw.ellipse(_bounding_box(x, y, thickness / 2), fill=colour)

    def circle(self, centre: Point, radius: float, colour: Colour) -> None:
        """Fill a circle."""
        x, y = self._pixel(centre)
        self._draw.ellipse(_bounding_box(x, y, radius * self._scale[0]), fill=colour)

    def ring(self, centre: Point, radius: float, colour: Colour, width: float = 2.0) -> None:
        """Draw the outline of a circle."""
        x, y = self._pixel(centre)
        self._draw.ellipse(
            _bounding_box(x, y, radius * self._scale[0]), outline=colour, width=max(1, round(_SUPERSAMPLING * width))
        )

    def rectangle(self, first: Point, second: Point, colour: Colour, rounding: float = 0.0) -> None:
        """Fill the rectangle between two opposite corners; `rounding` is the radius of its corners in pixels."""
        (x1, y1), (x2, y2) = self._pixel(first), self._pixel(second)
        # Pillow includes the far edge.
        box = (min(x1, x2), min(y1, y2), max(x1, x2) - 1, max(y1, y2) - 1)
        self._draw.rounded_rectangle(box, radius=_SUPERSAMPLING * rounding, fill=colour)

    def chest(self, centre: Point, size: float) -> None:
        """Draw a treasure chest in a cell of the given size."""
        x, y = centre
        for left, top, right, bottom, colour in (
            (-0.30, -0.24, 0.30, 0.26, INK),
            (-0.25, -0.19, 0.25, -0.04, GOLD),
            (-0.25, 0.00, 0.25, 0.21, GOLD),
            (-0.06, -0.08, 0.06, 0.08, INK),
        ):
            self.rectangle((x + left * size, y + top * size), (x + right * size, y + bottom * size), colour)

    def text(self, position: Point, text: str, colour: Colour = INK, size: float = 12.0, anchor: str = "mm") -> None:
        """Write a line of text. `anchor` is Pillow's: `mm` is centred, `lm` starts and `rm` ends at the position."""
        self._draw.text(
            self._pixel(position),
            text,
            fill=colour,
            font=ImageFont.load_default(size=_SUPERSAMPLING * size),
            anchor=anchor,
        )

    def array(self) -> UInt8[np.ndarray, "height width 3"]:
        """Return the finished picture."""
        return np.asarray(self._image.resize(self._size, Image.Resampling.BOX))

    def _pixel(self, point: Point) -> Point:
        return (
            (float(point[0]) - self._corner[0]) * self._scale[0],
            (float(point[1]) - self._corner[1]) * self._scale[1],
        )


def _bounding_box(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
    return x - radius, y - radius, x + radius, y + radius
