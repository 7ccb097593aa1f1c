"""Charts whose axis is time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from recalibrate.auditing.views.html.charts import Frame, Point
from recalibrate.auditing.views.html.markup import Markup
from recalibrate.auditing.views.html.scales import Scale, extent

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


def time_chart(
    points: Sequence[Point],
    *,
    title: str,
    label: str,
    show: Callable[[float], str],
    rules: Sequence[float],
    bands: bool,
) -> Markup:
    """A series over time, with level lines at ``rules``; what is not finite is left out."""
    known = [p for p in points if p.y == p.y]
    ends = [end for p in known for end in ((p.y, p.low, p.high) if bands else (p.y,))]
    x, y = extent([p.x for p in points]), extent([*ends, *rules])
    frame = Frame.around(_WIDTH, _HEIGHT, x, y)
    room = 0.12 * (frame.x.stop - frame.x.start)  # half of a date stands beyond its tick
    frame = replace(
        frame, x=TimeScale(*x, frame.x.start + room / 2, frame.x.stop - room, show=show)
    )
    lines = [frame.reference(lambda _, at=rule: at) for rule in rules]  # type: ignore[misc]
    series = frame.series(known, "after", bands=bands)
    return frame.svg(frame.axes("", title), *lines, series, label=label)
