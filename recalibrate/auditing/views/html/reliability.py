"""Reliability diagrams: outcome against prediction, and the difference of the two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from recalibrate.auditing.records import Curve, GroupAudit
from recalibrate.auditing.views.html.charts import Frame, Point
from recalibrate.auditing.views.html.markup import Markup
from recalibrate.auditing.views.html.scales import extent
from recalibrate.auditing.views.numbers import MINUS, Digits

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

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
    frame = Frame.around(_SIZE, _SIZE, within, within)
    parts = [
        frame.axes("mean prediction", "mean outcome"),
        frame.reference(lambda x: x),
        *_series(frame, group, digits, residual=False),
    ]
    return frame.svg(*parts, label=_describe("Reliability diagram", group, digits))


def residuals(group: GroupAudit, within: tuple[float, float], digits: Digits) -> Markup:
    """Mean outcome minus mean prediction by bin: the diagram seen from nearer."""
    curves = [side.curve for side in (group.after, group.before) if side is not None]
    shown = [p for curve in curves for p in _points(curve, digits, residual=True)]
    limits = [v for p in _points(curves[0], digits, residual=True) for v in (p.low, p.high)]
    low, high = extent([0.0, *(p.y for p in shown), *limits])
    room = 0.05 * (high - low)
    frame = Frame.around(_SIZE, _SIZE, within, (low - room, high + room))
    parts = [
        frame.axes("mean prediction", f"mean outcome {MINUS} mean prediction"),
        frame.reference(lambda x: 0.0),
        *_series(frame, group, digits, residual=True),
    ]
    return frame.svg(*parts, label=_describe("Gap by prediction", group, digits))


def _series(frame: Frame, group: GroupAudit, digits: Digits, *, residual: bool) -> list[Markup]:
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
