"""Drawings as SVG text: shapes, one kind of axes, boxes with arrows.

Every figure has a white ground of its own, so that it reads on a light page, on a dark one and in
the README. Coordinates are rounded to a tenth of a pixel: the same numbers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import SupportsFloat

DOCS = Path(__file__).resolve().parent.parent
FOLDER = DOCS / "img"
INK, GREY, FAINT, GROUND = "#1d2433", "#5f6673", "#d5d9e0", "#ffffff"
# Told apart also by readers who see colours differently; the colours of the audit's own page.
AFTER, BEFORE, THIRD, FOURTH = "#0067a6", "#c2560a", "#2a7f3e", "#7b4fa3"
FONT = "system-ui, Segoe UI, Helvetica, Arial, sans-serif"

Point = tuple[float, float]


def number(value: float) -> str:
    """A coordinate, without trailing zeros."""
    shown = f"{float(value):.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


class Drawing:
    """Shapes in the order in which they were added."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def shape(self, name: str, content: str = "", /, **given: object) -> None:
        """Any element; underscores of attribute names become hyphens."""
        shown = "".join(
            f" {key.rstrip('_').replace('_', '-')}="
            f'"{number(value) if isinstance(value, SupportsFloat) else escape(str(value))}"'
            for key, value in given.items()
        )
        self.parts.append(f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>")

    def text(
        self, x: float, y: float, said: str, *, size: float = 12, fill: str = INK, **given: object
    ) -> None:
        """Text that starts at a place, or is anchored there."""
        self.shape("text", escape(said), x=x, y=y, font_size=size, fill=fill, **given)

    def lines(self, x: float, y: float, said: Iterable[str], *, step: float = 15, **given: object):
        """Text in several lines."""
        for k, line in enumerate(said):
            self.text(x, y + k * step, line, **given)  # type: ignore[arg-type]

    def line(self, start: Point, end: Point, *, stroke: str = GREY, **given: object) -> None:
        """A straight line."""
        self.shape("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], stroke=stroke, **given)

    def path(self, points: Sequence[Point], *, stroke: str, **given: object) -> None:
        """Straight lines through points."""
        shown = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.shape("polyline", points=shown, fill="none", stroke=stroke, **given)

    def arrow(self, start: Point, end: Point, *, stroke: str = GREY) -> None:
        """A straight arrow."""
        (x1, y1), (x2, y2) = start, end
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        self.line(start, (x2 - 6 * ux, y2 - 6 * uy), stroke=stroke, stroke_width=1.6)
        corners = [
            (x2, y2),
            (x2 - 8 * ux - 4 * uy, y2 - 8 * uy + 4 * ux),
            (x2 - 8 * ux + 4 * uy, y2 - 8 * uy - 4 * ux),
        ]
        shown = " ".join(f"{number(x)},{number(y)}" for x, y in corners)
        self.shape("polygon", points=shown, fill=stroke)

    def box(
        self, x: float, y: float, width: float, height: float, said: Sequence[str], fill: str
    ) -> None:
        """A box with a heading and further lines, in its middle."""
        self.shape("rect", x=x, y=y, width=width, height=height, rx=7, fill=fill, stroke="#8a8f98")
        top = y + height / 2 - 7.5 * (len(said) - 1) + 4
        for k, line in enumerate(said):
            weight = "bold" if k == 0 else "normal"
            size = 13 if k == 0 else 11.5
            self.text(
                x + width / 2, top + 15 * k, line, size=size, text_anchor="middle",
                font_weight=weight,
            )  # fmt: skip

    def svg(self) -> str:
        """The file."""
        ground = f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>'
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(self.width)}" '
            f'height="{number(self.height)}" '
            f'viewBox="0 0 {number(self.width)} {number(self.height)}" role="img" '
            f'font-family="{FONT}">\n<title>{escape(self.title)}</title>\n{ground}\n{body}\n</svg>\n'
        )


class Axes:
    """A rectangle of a drawing with two scales."""

    def __init__(
        self, drawing: Drawing, left: float, top: float, width: float, height: float,
        *, x: tuple[float, float], y: tuple[float, float],
    ) -> None:  # fmt: skip
        self.drawing, self.x, self.y = drawing, x, y
        self.left, self.top, self.width, self.height = left, top, width, height

    def at(self, x: float, y: float) -> Point:
        """Where a pair of values lies."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * self.width, self.top + (1 - up) * self.height

    def frame(
        self,
        x_ticks: Sequence[tuple[float, str]] = (),
        y_ticks: Sequence[tuple[float, str]] = (),
        *,
        x_label: str = "",
        y_label: str = "",
        title: str = "",
    ) -> None:
        """Grid lines, numbers, names."""
        draw, bottom = self.drawing, self.top + self.height
        for value, said in x_ticks:
            x, _ = self.at(value, self.y[0])
            draw.line((x, self.top), (x, bottom), stroke=FAINT)
            draw.text(x, bottom + 16, said, size=11, fill=GREY, text_anchor="middle")
        for value, said in y_ticks:
            _, y = self.at(self.x[0], value)
            draw.line((self.left, y), (self.left + self.width, y), stroke=FAINT)
            draw.text(self.left - 6, y + 4, said, size=11, fill=GREY, text_anchor="end")
        middle = self.left + self.width / 2
        if x_label:
            draw.text(middle, bottom + 34, x_label, size=12, fill=GREY, text_anchor="middle")
        if y_label:
            draw.text(self.left - 40, self.top - 10, y_label, size=12, fill=GREY)
        if title:
            draw.text(middle, self.top - 12, title, size=13.5, text_anchor="middle",
                      font_weight="bold")  # fmt: skip

    def curve(
        self, points: Iterable[Point], stroke: str, *, marks: bool = False, **given: object
    ) -> None:
        """A line through values, with dots if asked."""
        places = [self.at(x, y) for x, y in points]
        self.drawing.path(places, stroke=stroke, stroke_width=2, **given)
        for x, y in places if marks else []:
            self.drawing.shape("circle", cx=x, cy=y, r=3.4, fill=stroke)


def ticks(values: Iterable[float], form: str = "g") -> list[tuple[float, str]]:
    """Values with their names."""
    return [(value, format(value, form)) for value in values]


def legend(drawing: Drawing, x: float, y: float, entries: Sequence[tuple[str, str]]) -> None:
    """Colours and names, side by side."""
    for colour, said in entries:
        drawing.shape("circle", cx=x, cy=y - 4, r=5, fill=colour)
        drawing.text(x + 10, y, said, size=12)
        x += 30 + 6.6 * len(said)
