"""The column of a table that shows gaps with their limits: a forest plot, row by row.

Places are percentages of the column's width, so that the plot is as wide as the table lets it be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recalibrate.auditing.records import Calibration
from recalibrate.auditing.views.html.markup import Markup, element
from recalibrate.auditing.views.html.scales import Scale, extent

_MARGIN = 4.0  # per cent on both sides, for markers and labels at the ends
_BEYOND = 400.0  # rules go on through rows that are higher than the drawing
_FULL = 0.9  # share of the intervals that must fit; longer ones get an arrow


@dataclass(frozen=True)
class Interval:
    """A gap with limits (NaN if unknown), and whether it is more than noise."""

    gap: float
    low: float
    high: float
    off: bool

    @classmethod
    def of(cls, calibration: Calibration) -> Interval:
        """The gap of one set of predictions on a group."""
        return cls(calibration.gap, calibration.low, calibration.high, calibration.off)


@dataclass(frozen=True)
class Forest:
    """A column of intervals on one scale."""

    scale: Scale

    @classmethod
    def around(cls, intervals: Sequence[Interval]) -> Forest:
        """A scale with zero, every gap that is off, and all but the longest intervals."""
        reaches = sorted(
            max(abs(each.low), abs(each.high))
            for each in intervals
            if math.isfinite(each.low) and math.isfinite(each.high)
        )
        reach = 1.1 * max((abs(each.gap) for each in intervals if each.off), default=0.0)
        if reaches:
            reach = max(reach, reaches[math.ceil(_FULL * len(reaches)) - 1])
        reach = reach or math.inf
        ends = [
            min(max(end, -reach), reach)
            for each in intervals
            for end in (each.gap, each.low, each.high)
            if math.isfinite(end)
        ]
        return cls(Scale(*extent([0.0, *ends]), _MARGIN, 100.0 - _MARGIN))

    def axis(self) -> Markup:
        """The head of the column."""
        parts = []
        for value, text in self.scale.ticks():
            at = _percent(self.scale(value))
            parts.append(element("text", text, x=at, y=12, text_anchor="middle", class_="tick"))
            parts.append(element("line", x1=at, x2=at, y1=17, y2=22, class_="stub"))
        return element("svg", *parts, class_="forest head", height=22, aria_hidden="true")

    def row(self, after: Interval, before: Interval | None, label: str) -> Markup:
        """One row; filled markers are off by more than noise."""
        lines = [
            element("line", x1=at, x2=at, y1=-_BEYOND, y2=_BEYOND, class_=kind)
            for at, kind in self._rules()
        ]
        if before is None:
            parts = [self._mark(after, "after", "50%", 4.5)]
        else:
            parts = [
                self._mark(before, "before", "30%", 3.5),
                self._mark(after, "after", "68%", 4.5),
            ]
        return element(
            "svg", *lines, *parts, class_="forest", height=30, role="img", aria_label=label
        )

    def _rules(self) -> list[tuple[str, str]]:
        return [
            (_percent(self.scale(value)), "zero" if value == 0 else "grid")
            for value, _ in self.scale.ticks()
        ]

    def _mark(self, interval: Interval, kind: str, y: str, radius: float) -> Markup:
        parts = []
        if math.isfinite(interval.low) and math.isfinite(interval.high):
            ends = (_percent(self.scale(interval.low)), _percent(self.scale(interval.high)))
            parts.append(element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="limits"))
            parts += self._arrows(interval, y)
        middle = _percent(self.scale(interval.gap))
        look = "dot" if interval.off else "dot hollow"
        parts.append(element("circle", cx=middle, cy=y, r=radius, class_=look))
        return element("g", *parts, class_=kind)

    def _arrows(self, interval: Interval, y: str) -> list[Markup]:
        """Limits beyond the scale."""
        sides = []
        if interval.low < self.scale.low:
            sides.append(("\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", self.scale.start, "end"))
        if interval.high > self.scale.high:
            sides.append(
                ("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", self.scale.stop, "start")
            )
        return [
            element("text", sign, x=_percent(at), y=y, dy="0.32em", text_anchor=anchor)
            for sign, at, anchor in sides
        ]


def _percent(number: float) -> str:
    return f"{number:.2f}%"
