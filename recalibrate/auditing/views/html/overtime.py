"""Charts whose axis is time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recalibrate.auditing.views.html.charts import Frame, Point
from recalibrate.auditing.views.html.heatmap import HeatCell, heat_map
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.scales import Scale, extent
from recalibrate.auditing.views.numbers import Digits

if TYPE_CHECKING:
    from recalibrate.auditing.records import GroupAudit
    from recalibrate.auditing.slices import Slices

_WIDTH, _HEIGHT = 420.0, 230.0
_TICKS = 3  # dates are long


@dataclass(frozen=True)
class TimeScale(Scale):
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
        (group.name, name): _cell(group, name, digits)
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


def _cell(group: GroupAudit, name: str, digits: Digits) -> HeatCell:
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
    frame = Frame.around(_WIDTH, _HEIGHT, x, y)
    room = 0.12 * (frame.x.stop - frame.x.start)  # half of a date stands beyond its tick
    frame = replace(
        frame, x=TimeScale(*x, frame.x.start + room / 2, frame.x.stop - room, show=show)
    )
    lines = [frame.reference(lambda _, at=rule: at) for rule in rules]  # type: ignore[misc]
    series = [frame.series(known, "after", bands=False)]
    if others:
        series.insert(0, frame.series(others, "before", bands=True))
    return frame.svg(frame.axes("", title), *lines, *series, label=label)
