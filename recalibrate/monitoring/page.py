"""The report of a monitor as HTML, in the style of the audit's."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.views.columns import Cell, Column, named, numeric
from recalibrate.auditing.views.html.charts import Forest, Interval, Point, time_chart
from recalibrate.auditing.views.html.document import shell, style, tile, verdict_box
from recalibrate.auditing.views.html.markup import Markup, build_table, element, join
from recalibrate.auditing.views.numbers import measure, p_value
from recalibrate.auditing.views.plots import AFTER, BEFORE, FAINT, make_figure, shortened
from recalibrate.monitoring.report import columns, digits_of, to_text, verdict
from recalibrate.support.checks import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recalibrate.monitoring.report import GroupStatus, History, MonitorReport


# --- The figures of a monitor, by matplotlib ----------------------------------------------------


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


_CHARTS = 6
_ROWS = 40

_METHOD = (
    (
        "Alarms",
        "For every group, for each band of its scores and in both directions, the evidence is the "
        "wealth of a gambler who bets that the gap exceeds the tolerance. While it does not, "
        "the wealth ever passes 1 / alpha with probability alpha at most, at any time and however "
        "often one looks (Ville's inequality); alpha is shared out among all of them.",
    ),
    (
        "Limits",
        "Gaps that the evidence does not speak against. They hold for all groups and at all times "
        "at once, for the mean gap over the rows so far, also where the gap has changed.",
    ),
    (
        "Since when",
        "Evidence is also collected from the start of every bucket of time on. The start with most "
        "evidence since then is the estimate; limits of the gap since then hold for all starts.",
    ),
    (
        "Hints without labels",
        "Shares of scores below nine cuts, in the newest batch and in the reference, compared with "
        "Fisher's exact test; adjusted for cuts, groups and the number of looks. A shift of the "
        "scores says that rows have changed, not that predictions are wrong.",
    ),
)


def page(report: MonitorReport, title: str) -> str:
    """One file that needs no network."""
    sections = [
        ("gaps", "Gaps by group", _gaps(report)),
        ("time", "Over time", _over_time(report)),
        (
            "groups",
            "All groups",
            build_table(columns(report), report.groups, label="All groups", sortable=True),
        ),
        ("hints", "Hints without labels", _hints(report)),
        ("method", "Method", _method()),
    ]
    links = [element("a", name, href=f"#{anchor}") for anchor, name, _ in sections]
    return shell(
        title,
        element(
            "header",
            element("h1", title),
            element("p", to_text(report).partition("\n")[0], class_="subtitle"),
            element("nav", *links, aria_label="Sections"),
        ),
        _verdict(report),
        _tiles(report),
        *(
            element("section", element("h2", name), body, id=anchor)
            for anchor, name, body in sections
        ),
    )


def fragment(report: MonitorReport) -> str:
    """Verdict and gaps, for the output of a notebook's cell."""
    return element("div", style(), _verdict(report), _gaps(report), class_="rc-audit compact")


def _verdict(report: MonitorReport) -> Markup:
    wrong = bool(report.alarms)
    head = "Alarm: a group is off by more than the tolerance" if wrong else "No alarm"
    return verdict_box(wrong, head, verdict(report))


def _tiles(report: MonitorReport) -> Markup:
    digits = digits_of(report)
    worst = max(report.groups, key=lambda group: group.evidence)
    hints = f"{len(report.hints)} hints without labels" if report.hints else ""
    gap = digits.signed(worst.gap_since) if worst.alarm else digits.signed(worst.gap)
    return element(
        "div",
        tile(
            "groups with an alarm",
            f"{len(report.alarms)} of {len(report.groups)}",
            hints,
        ),
        tile(
            "strongest evidence",
            measure(worst.evidence),
            worst.name,
            f"alarm from {1 / report.alpha:g} on",
        ),
        tile(
            "its gap",
            gap,
            f"since {worst.since}" if worst.since else "so far",
            f"tolerance {report.tolerance:g}",
        ),
        tile("rows with labels", f"{report.n_rows:,}", f"in {report.n_batches:,} batches"),
        class_="tiles",
    )


def _gaps(report: MonitorReport) -> Markup:
    ranked = sorted(report.groups, key=lambda group: (not group.alarm, -group.evidence))[:_ROWS]
    own = {group.name: Interval(group.gap, group.low, group.high, group.alarm) for group in ranked}
    forest = Forest.around(list(own.values()))
    shown = {column.title: column for column in columns(report)}

    def plot(group: GroupStatus) -> Cell:
        if not math.isfinite(group.gap):
            return Cell("")
        label = f"Gap of {group.name}: {shown['gap so far'].cell(group).shown}"
        return Cell(forest.row(own[group.name], None, label))

    table = build_table(
        [
            shown["group"],
            shown["rows"],
            Column(forest.axis(), plot, kind="plot"),
            shown["gap so far"],
            shown["evidence"],
        ],
        ranked,
        label="Gaps of groups with their limits",
    )
    text = (
        "Mean outcome minus mean prediction over all rows so far, with limits for all groups and "
        f"all times; filled points have an alarm. Gaps up to {report.tolerance:g} are all right."
    )
    return join([element("p", text), table])


def _over_time(report: MonitorReport) -> Markup:
    pairs = sorted(
        zip(report.groups, report.history, strict=True),
        key=lambda pair: (not pair[0].alarm, -pair[0].evidence),
    )
    if len(report.ends) < 2:
        return element("p", "There is one bucket of time only, nothing to compare yet.")
    panels = [element("div", *_charts(report, *pair), class_="pair") for pair in pairs[:_CHARTS]]
    text = (
        "On the left the evidence, with the line of alarm (dashed). On the right the gap of every "
        "bucket of time alone (points, larger for more rows), the gap so far with its limits "
        "(band), and the tolerance (dashed). Groups with the strongest evidence first."
    )
    return join([element("p", text), *panels])


def _charts(report: MonitorReport, group: GroupStatus, history: History) -> list[Markup]:
    digits = digits_of(report)
    total = max(sum(history.rows), 1)
    evidence = [
        Point(
            x,
            max(y, -3.0),
            math.nan,
            math.nan,
            0.02,
            f"{report.show_time(x)}: {measure(10 ** min(y, 300))}",
        )
        for x, y in zip(report.ends, history.log10_evidence, strict=True)
    ]
    middles = [(a + b) / 2 for a, b in zip(report.starts, report.ends, strict=True)]
    gaps = [
        Point(
            x,
            y,
            math.nan,
            math.nan,
            n / total,
            f"{report.show_time(x)}: {digits.signed(y)}, {n:,} rows",
        )
        for x, y, n in zip(middles, history.gap, history.rows, strict=True)
    ]
    first = time_chart(
        evidence,
        title="evidence, powers of ten",
        label=f"Evidence over time: {group.name}",
        show=report.show_time,
        rules=(math.log10(1 / report.alpha),),
    )
    second = time_chart(
        gaps,
        title="gap",
        label=f"Gap over time: {group.name}",
        show=report.show_time,
        rules=(-report.tolerance, report.tolerance),
        behind=_running(report, history),
    )
    remark = f"alarm: {group.alarm_time}" if group.alarm else "no alarm"
    since = f"off since {group.since}" if group.since else f"{group.rows:,} rows"
    return [_figure(first, group.name, remark), _figure(second, group.name, since)]


def _running(report: MonitorReport, history: History) -> list[Point]:
    """The gap so far with its limits at the end of every bucket."""
    digits = digits_of(report)
    return [
        Point(
            x,
            gap,
            low,
            high,
            0.0,
            f"so far, {report.show_time(x)}: {digits.signed(gap)} "
            f"({digits.signed(low)} to {digits.signed(high)})",
        )
        for x, gap, low, high in zip(
            report.ends, history.running, history.low, history.high, strict=True
        )
    ]


def _figure(chart: Markup, title: str, remark: str) -> Markup:
    caption = element("figcaption", element("strong", title), element("span", remark))
    return element("figure", caption, chart)


def _hints(report: MonitorReport) -> Markup:
    text = (
        "These use no labels: they say that the scores of the newest batch are drawn differently "
        "from those of the reference, which may or may not make predictions wrong."
    )
    if not report.hints:
        return join([element("p", text), element("p", "There is none.")])
    shown: list[Column[GroupStatus]] = [
        named("group", lambda g: g.name),
        numeric("p", lambda g: g.shift_p, p_value, "Adjusted for cuts, groups and looks"),
        named("shift", lambda g: g.shift, "remark"),
    ]
    return join([element("p", text), build_table(shown, report.hints, label="Shifts of scores")])


def _method() -> Markup:
    notes = [element("div", element("h3", head), element("p", text)) for head, text in _METHOD]
    return element("div", *notes, class_="notes")
