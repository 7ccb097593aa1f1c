"""Parts of charts in SVG: a frame with axes, and series of points with bands.

Colours and fonts come from the style sheet through classes, so that charts follow the theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.scales import Scale

_RIGHT, _TOP, _BOTTOM = 14.0, 28.0, 44.0
_LETTER = 7.0  # width of a digit, about


@dataclass(frozen=True)
class Point:
    """A point with limits around y (NaN if unknown), its share of the weight, and its tooltip."""

    x: float
    y: float
    low: float
    high: float
    share: float
    tip: str


@dataclass(frozen=True)
class Frame:
    """The area of a chart: scales of both axes in the units of a drawing of this size."""

    width: float
    height: float
    x: Scale
    y: Scale

    @classmethod
    def around(
        cls, width: float, height: float, x: tuple[float, float], y: tuple[float, float]
    ) -> Frame:
        """A frame with room for labels, for numbers between these."""
        up = Scale(*y, height - _BOTTOM, _TOP)
        left = 14.0 + _LETTER * max((len(text) for _, text in up.ticks()), default=0)
        return cls(width, height, Scale(*x, left, width - _RIGHT), up)

    def svg(self, *parts: str, label: str) -> Markup:
        """The whole drawing; the label is what those read who do not see it."""
        box = f"0 0 {self.width:g} {self.height:g}"
        return element("svg", *parts, class_="chart", viewBox=box, role="img", aria_label=label)

    def axes(self, x_title: str, y_title: str) -> Markup:
        """Grid, numbers and titles."""
        left, right, bottom, top = self.x.start, self.x.stop, self.y.start, self.y.stop
        parts = []
        for value, text in self._x_ticks():
            at = self.x(value)
            parts.append(element("line", x1=at, x2=at, y1=bottom, y2=top, class_="grid"))
            parts.append(_text(at, bottom + 15, text, "middle"))
        for value, text in self.y.ticks():
            at = self.y(value)
            parts.append(element("line", x1=left, x2=right, y1=at, y2=at, class_="grid"))
            parts.append(_text(left - 6, at + 4, text, "end"))
        parts.append(_text((left + right) / 2, self.height - 8, x_title, "middle", "axis"))
        parts.append(_text(0.0, top - 14, y_title, "start", "axis"))
        return join(parts)

    def _x_ticks(self) -> list[tuple[float, str]]:
        """As many as have room beside each other."""
        width = self.x.stop - self.x.start
        for about in (5, 4, 3):
            ticks = self.x.ticks(about)
            if sum(len(text) + 2 for _, text in ticks) * _LETTER <= width:
                return ticks
        return self.x.ticks(2)

    def reference(self, line: Callable[[float], float]) -> Markup:
        """A straight line where calibrated predictions would be."""
        ends = (self.x.low, self.x.high)
        return element(
            "line",
            x1=self.x(ends[0]),
            x2=self.x(ends[1]),
            y1=self.y(line(ends[0])),
            y2=self.y(line(ends[1])),
            class_="reference",
        )

    def series(self, points: Sequence[Point], kind: str, *, bands: bool) -> Markup:
        """A line through points, wider points for more weight; with bands also the limits."""
        places = [(self.x(p.x), self.y(p.y)) for p in points]
        parts = []
        if bands:
            parts += [self._band(a, b) for a, b in pairwise(points) if _told(a) and _told(b)]
            parts += [self._whisker(p) for p in points if _told(p)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(element("polyline", points=path, class_="path"))
        for (x, y), point in zip(places, points, strict=True):
            radius = 2.2 + 4.0 * math.sqrt(point.share)
            tip = element("title", point.tip)
            parts.append(element("circle", tip, cx=x, cy=y, r=radius, class_="dot"))
        return element("g", *parts, class_=kind)

    def _band(self, a: Point, b: Point) -> Markup:
        corners = [(a.x, a.low), (b.x, b.low), (b.x, b.high), (a.x, a.high)]
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in corners)
        return element("polygon", points=path, class_="band")

    def _whisker(self, p: Point) -> Markup:
        x = self.x(p.x)
        return element("line", x1=x, x2=x, y1=self.y(p.low), y2=self.y(p.high), class_="whisker")


def _told(point: Point) -> bool:
    return math.isfinite(point.low) and math.isfinite(point.high)


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> Markup:
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=kind)
