"""Parts of charts in SVG: a frame with axes, and series of points with bands.

Colours and fonts come from the style sheet through classes, so that charts follow the theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from recalibrate.auditing.records import Calibration, Curve, GroupAudit
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.numbers import MINUS, UNKNOWN, Digits

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport
    from recalibrate.auditing.slices import Slices


# --- From numbers to places in a chart, and round numbers for its axes --------------------------


@dataclass(frozen=True)
class Scale:
    """A linear map from [low, high] to [start, stop]; numbers outside land on the nearer end.

    Examples
    --------
    >>> scale = Scale(0.0, 1.0, 100.0, 0.0)
    >>> scale(0.25), scale(7.0)
    (75.0, 0.0)
    """

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, number: float) -> float:
        share = (min(max(number, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Round numbers within the scale, with their labels.

        Examples
        --------
        >>> [label for _, label in Scale(-0.07, 0.12, 0.0, 1.0).ticks(4)]
        ['−0.05', '0', '0.05', '0.10']
        """  # noqa: RUF002 - a minus sign as readers see it
        step = _step((self.high - self.low) / about)
        decimals = max(-math.floor(math.log10(step) + 1e-9), 0)
        slack = 1e-9 * step
        first, last = (self.low - slack) / step, (self.high + slack) / step
        places = range(math.ceil(first), math.floor(last) + 1)
        return [(k * step, _label(k * step, decimals)) for k in places]


def extent(numbers: Iterable[float]) -> tuple[float, float]:
    """Smallest and largest of the finite numbers, never the same; 0 and 1 if there are none.

    Examples
    --------
    >>> extent([3.0, float("nan"), 1.0]), extent([2.0])
    ((1.0, 3.0), (1.0, 3.0))
    """
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    # Numbers that differ in their last bits only leave no room for ticks.
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    room = 0.5 * abs(low) or 0.5
    return low - room, high + room


def _step(wanted: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten, as ratios go."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return min(
        (factor * power for factor in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / wanted))
    )


def _label(number: float, decimals: int) -> str:
    if number == 0:
        return "0"
    return f"{number:,.{decimals}f}".replace("-", MINUS)


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
class _Frame:
    """The area of a chart: scales of both axes in the units of a drawing of this size."""

    width: float
    height: float
    x: Scale
    y: Scale

    @classmethod
    def around(
        cls, width: float, height: float, x: tuple[float, float], y: tuple[float, float]
    ) -> _Frame:
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


# --- The column of a table that shows gaps with their limits: a forest plot, row by row ---------
#
# Places are percentages of the column's width, so that the plot is as wide as the table lets it be.


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


# --- A table of coloured cells: a number for every pair of two things ---------------------------


_STEPS = 4  # colours on either side of zero


@dataclass(frozen=True)
class HeatCell:
    """What a cell shows, the number that colours it, whether it is marked, and its tooltip."""

    shown: str
    value: float
    marked: bool
    tip: str


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    *,
    caption: str,
    turn: bool = True,
) -> Markup:
    """Cells by row and column; colours are equally strong on both sides of zero.

    Pairs without a cell are left empty. With ``turn``, whatever has more entries goes down the
    page.
    """
    if turn and len(columns) > len(rows):
        rows, columns = columns, rows
        cells = {(row, column): cell for (column, row), cell in cells.items()}
    sizes = [abs(each.value) for each in cells.values() if math.isfinite(each.value)]
    reach = max(sizes, default=0.0) or 1.0
    heads = [element("th", each, scope="col") for each in columns]
    body = [
        element(
            "tr",
            element("th", row, scope="row", class_="name"),
            *(_heat_cell(cells.get((row, column)), reach) for column in columns),
        )
        for row in rows
    ]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", element("td"), *heads)),
        element("tbody", *body),
        class_="heat",
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _heat_cell(cell: HeatCell | None, reach: float) -> Markup:
    if cell is None:
        return element("td", UNKNOWN, class_="none")
    step = round(_STEPS * cell.value / reach) if math.isfinite(cell.value) else 0
    side = "up" if step > 0 else "down"
    look = f"{side}{abs(step)}" if step else "even"
    return element("td", cell.shown, class_=f"{look} off" if cell.marked else look, title=cell.tip)


# --- Charts whose axis is time ------------------------------------------------------------------


_WIDTH, _HEIGHT = 420.0, 230.0
_TICKS = 3  # dates are long


@dataclass(frozen=True)
class _TimeScale(Scale):
    """A scale whose ticks are times, as ``show`` puts them."""

    show: Callable[[float], str] = str

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Times at even distances."""
        count = min(about, _TICKS)
        step = (self.high - self.low) / (count - 1)
        return [(self.low + k * step, self.show(self.low + k * step)) for k in range(count)]


def show_slices(slices: Slices, digits: Digits) -> Markup:
    """Gaps by group and slice of time."""
    cells = {
        (group.name, name): _slice_cell(group, name, digits)
        for name, report in zip(slices.names, slices.reports, strict=True)
        for group in report.groups
    }
    names = list(dict.fromkeys(group for group, _ in cells))
    text = (
        "Mean outcome minus mean prediction in every slice by itself. What is off by more than "
        "noise is marked; the tests hold for all groups and slices at once."
    )
    caption = "Gaps by group and time"
    return join([element("p", text), heat_map(names, slices.names, cells, caption=caption)])


def _slice_cell(group: GroupAudit, name: str, digits: Digits) -> HeatCell:
    own = group.after
    limits = f"({digits.signed(own.low)} to {digits.signed(own.high)})"
    tip = f"{group.name}, {name}: {digits.signed(own.gap)} {limits}, {group.rows:,} rows"
    return HeatCell(digits.signed(own.gap), own.gap, own.off, tip)


def time_chart(
    points: Sequence[Point],
    *,
    title: str,
    label: str,
    show: Callable[[float], str],
    rules: Sequence[float],
    behind: Sequence[Point] = (),
) -> Markup:
    """A series over time, with level lines at ``rules``; what is not finite is left out.

    ``behind`` is another series with a band, cut off where it is much wider than in the end.
    """
    known, others = ([p for p in own if p.y == p.y] for own in (points, behind))
    last = [end for p in others[-1:] for end in (p.low, p.high)]
    x, y = extent([p.x for p in points]), extent([*(p.y for p in known), *last, *rules])
    frame = _Frame.around(_WIDTH, _HEIGHT, x, y)
    room = 0.12 * (frame.x.stop - frame.x.start)  # half of a date stands beyond its tick
    frame = replace(
        frame, x=_TimeScale(*x, frame.x.start + room / 2, frame.x.stop - room, show=show)
    )
    lines = [frame.reference(lambda _, at=rule: at) for rule in rules]  # type: ignore[misc]
    series = [frame.series(known, "after", bands=False)]
    if others:
        series.insert(0, frame.series(others, "before", bands=True))
    return frame.svg(frame.axes("", title), *lines, *series, label=label)


# --- Reliability diagrams: outcome against prediction, and the difference of the two ------------


_SIZE = 340.0


def common_range(report: AuditReport, groups: Iterable[GroupAudit]) -> tuple[float, float]:
    """Predictions and outcomes that the diagrams of these groups show, equal for all of them."""
    shown = [group.after.curve for group in groups]
    shown += [group.before.curve for group in groups if group.before is not None]
    low, high = extent(value for curve in shown for value in (*curve.prediction, *curve.outcome))
    if report.kind == "regression":
        room = 0.04 * (high - low)
        return low - room, high + room
    return (0.0, 1.0) if high > 0.5 else (0.0, min(1.1 * high, 1.0) or 1.0)


def diagram(group: GroupAudit, within: tuple[float, float], digits: Digits) -> Markup:
    """Mean outcome against mean prediction by bin; calibrated bins lie on the diagonal."""
    frame = _Frame.around(_SIZE, _SIZE, within, within)
    parts = [
        frame.axes("mean prediction", "mean outcome"),
        frame.reference(lambda x: x),
        *_series(frame, group, digits, residual=False),
    ]
    return frame.svg(*parts, label=_describe("Reliability diagram", group, digits))


def residuals(group: GroupAudit, within: tuple[float, float], digits: Digits) -> Markup:
    """Mean outcome minus mean prediction by bin: the residual view."""
    curves = [side.curve for side in (group.after, group.before) if side is not None]
    shown = [p for curve in curves for p in _points(curve, digits, residual=True)]
    limits = [v for p in _points(curves[0], digits, residual=True) for v in (p.low, p.high)]
    low, high = extent([0.0, *(p.y for p in shown), *limits])
    room = 0.05 * (high - low)
    frame = _Frame.around(_SIZE, _SIZE, within, (low - room, high + room))
    parts = [
        frame.axes("mean prediction", f"mean outcome {MINUS} mean prediction"),
        frame.reference(lambda x: 0.0),
        *_series(frame, group, digits, residual=True),
    ]
    return frame.svg(*parts, label=_describe("Gap by prediction", group, digits))


def _series(frame: _Frame, group: GroupAudit, digits: Digits, *, residual: bool) -> list[Markup]:
    """The audited predictions with their band, on top of the baseline without."""
    parts = []
    if group.before is not None:
        before = _points(group.before.curve, digits, residual=residual)
        parts.append(frame.series(before, "before", bands=False))
    after = _points(group.after.curve, digits, residual=residual)
    return [*parts, frame.series(after, "after", bands=True)]


def _points(curve: Curve, digits: Digits, *, residual: bool) -> Sequence[Point]:
    columns = (curve.prediction, curve.outcome, curve.low, curve.high, curve.share, curve.rows)
    return [
        Point(
            x,
            y - x if residual else y,
            low - x if residual else low,
            high - x if residual else high,
            share,
            f"predicted {digits.value(x)}, observed {digits.value(y)} "
            f"({digits.value(low)} to {digits.value(high)}), {rows:,} rows",
        )
        for x, y, low, high, share, rows in zip(*columns, strict=True)
    ]


def _describe(what: str, group: GroupAudit, digits: Digits) -> str:
    curve = group.after.curve
    points = "; ".join(
        f"predicted {digits.value(x)}, observed {digits.value(y)}"
        for x, y in zip(curve.prediction, curve.outcome, strict=True)
    )
    return f"{what} of {group.name}. By bin: {points}."
