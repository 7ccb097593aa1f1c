"""The figures of a monitor, by matplotlib."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.views.plots import AFTER, BEFORE, FAINT, make_figure, shortened
from recalibrate.support.checks import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recalibrate.monitoring.report import MonitorReport


def plot(report: MonitorReport, most: int) -> Figure:
    """Evidence with the line of alarm, and gaps with limits, of the groups with most evidence."""
    check_whole("most", most, least=1)
    if not report.starts:
        raise ValueError("there is nothing to plot yet: no rows with labels")
    pairs = sorted(
        zip(report.groups, report.history, strict=True),
        key=lambda pair: (not pair[0].alarm, -pair[0].evidence),
    )[:most]
    figure = make_figure(9.0, 2.4 * len(pairs) + 0.4)
    panels: Any = figure.subplots(len(pairs), 2, squeeze=False, sharex=True)
    ends = [_moment(report, end) for end in report.ends]
    for (left, right), (group, history) in zip(panels, pairs, strict=True):
        left.axhline(1 / report.alpha, color=BEFORE, linestyle="--", linewidth=1)
        left.plot(
            ends, [10.0 ** min(e, 300.0) for e in history.log10_evidence], color=AFTER, marker="."
        )
        left.set_yscale("log")
        left.set_ylabel("evidence", fontsize="small")
        left.set_title(shortened(group.name, 48), fontsize="small", parse_math=False)
        right.axhspan(-report.tolerance, report.tolerance, color=FAINT, alpha=0.3)
        right.plot(ends, history.gap, color=AFTER, linestyle="", marker=".", label="bucket alone")
        right.plot(ends, history.running, color=BEFORE, label="so far, with limits")
        right.fill_between(ends, history.low, history.high, color=BEFORE, alpha=0.16)
        reach = [abs(v) for v in (*history.gap, *history.running) if v == v]
        top = 1.5 * max([*reach, report.tolerance, 1e-12])
        right.set_ylim(-top, top)
        right.set_ylabel("gap", fontsize="small")
        right.set_title(f"{group.rows:,} rows", fontsize="small")
    panels[0][1].legend(fontsize="x-small", loc="best")
    for axes in panels.flat:
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize="small")
    if report.time_kind == "date":
        figure.autofmt_xdate(rotation=20)
    return figure


def _moment(report: MonitorReport, value: float) -> Any:
    return datetime.fromtimestamp(value, UTC) if report.time_kind == "date" else value
