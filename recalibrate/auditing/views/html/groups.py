"""The groups: reliability diagrams, forest plot, and the table of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recalibrate.auditing.records import GroupAudit
from recalibrate.auditing.views.html import numbers
from recalibrate.auditing.views.html.forest import Forest, Interval
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.numbers import Digits
from recalibrate.auditing.views.html.reliability import common_range, diagram, residuals
from recalibrate.auditing.views.html.tables import Cell, Column, build_table, clipped
from recalibrate.auditing.views.ranking import is_off, worst_curves, worst_gaps
from recalibrate.auditing.views.text import confidence

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport


def show_legend(report: AuditReport) -> Markup:
    """What the colours of charts mean."""
    entries = [("after", "audited predictions")]
    if report.overall_before is not None:
        entries.append(("before", "baseline (before)"))
    parts = []
    for kind, text in entries:
        line = element("line", x1=0, x2=26, y1=6, y2=6, class_="path")
        dot = element("circle", cx=13, cy=6, r=4, class_="dot")
        mark = element("g", line, dot, class_=kind)
        parts.append(element("svg", mark, class_="key", width=26, height=12, aria_hidden="true"))
        parts.append(element("span", text))
    return element("p", *parts, class_="legend")


def show_everybody(report: AuditReport, digits: Digits) -> Markup:
    """Reliability of all rows: the diagram, and the same seen from nearer."""
    everybody = report.groups[0]
    within = common_range(report, [everybody])
    return element(
        "div",
        _figure(diagram(everybody, within, digits), "All rows"),
        _figure(residuals(everybody, within, digits), "All rows, seen from nearer"),
        class_="pair",
    )


def show_worst_curves(report: AuditReport, digits: Digits, most: int) -> Markup | None:
    """Reliability diagrams of the groups with the strongest evidence against them."""
    groups = worst_curves(report, most)
    if not groups:
        return None
    within = common_range(report, groups)
    panels = [
        _figure(
            diagram(group, within, digits),
            group.name,
            f"{group.rows:,} rows, ECCE {numbers.sigmas(group.after.ecce_sigma)}, "
            f"adjusted p {numbers.p_value(group.after.ecce_p_holm)}",
        )
        for group in groups
    ]
    return element("div", *panels, class_="panels")


def _figure(chart: Markup, title: str, remark: str = "") -> Markup:
    caption = element("figcaption", element("strong", title), element("span", remark))
    return element("figure", caption, chart)


def show_gaps(report: AuditReport, digits: Digits, most: int, *, rest: str) -> Markup:
    """The forest plot: gaps with limits that hold for all groups at once, worst first.

    ``rest`` says where the groups are that it leaves out.
    """
    groups = worst_gaps(report, most)
    intervals = [Interval.of(group.after) for group in groups]
    earlier = [None if g.before is None else Interval.of(g.before) for g in groups]
    forest = Forest.around([*intervals, *(each for each in earlier if each is not None)])
    columns = [
        Column("group", kind="name"),
        Column("rows"),
        Column(forest.axis(), kind="plot"),
        Column("gap", "Mean outcome minus mean prediction"),
        Column(f"{confidence(report)} limits", "Valid for all groups at once"),
    ]
    rows = []
    for group, own, before in zip(groups, intervals, earlier, strict=True):
        limits = digits.limits(own.low, own.high)
        label = f"Gap of {group.name}: {digits.signed(own.gap)}, limits {limits}"
        rows.append(
            [
                Cell(group.name),
                Cell(f"{group.rows:,}"),
                Cell(forest.row(own, before, label)),
                Cell(digits.signed(own.gap), look="off" if own.off else ""),
                Cell(limits),
            ]
        )
    table = build_table(columns, rows, label="Gaps of groups with their limits")
    return join([table, clipped(len(groups), len(report.groups), rest)])


@dataclass(frozen=True)
class _Shown:
    """A column of the table of all groups."""

    column: Column
    cell: Callable[[GroupAudit], Cell]


def show_all(report: AuditReport, digits: Digits) -> Markup:
    """Every group with its main numbers."""
    shown = [*_sizes(report), *_means(digits), *_errors(digits)]
    if report.overall_before is not None:
        shown += _baseline(digits)
    rows = [[each.cell(group) for each in shown] for group in report.groups]
    columns = [each.column for each in shown]
    return build_table(columns, rows, label="All groups", sortable=True)


def _sizes(report: AuditReport) -> list[_Shown]:
    shown = [
        _Shown(Column("group", kind="name"), lambda g: Cell(g.name)),
        _Shown(Column("rows"), lambda g: Cell(f"{g.rows:,}", g.rows)),
    ]
    if report.n_clusters is not None:
        column = Column("clusters", "People or households that the rows belong to")
        shown.append(_Shown(column, lambda g: Cell(f"{g.clusters:,}", g.clusters)))
    share = Column("share", "Share of the total weight")
    return [*shown, _Shown(share, lambda g: Cell(numbers.percent(g.share), g.share))]


def _means(digits: Digits) -> list[_Shown]:
    def gap(group: GroupAudit) -> Cell:
        own = group.after
        look = "off" if is_off(own.low, own.high) else ""
        return Cell(digits.signed(own.gap), own.gap, look)

    return [
        _Shown(
            Column("predicted", "Mean prediction"),
            lambda g: Cell(digits.value(g.after.mean_prediction), g.after.mean_prediction),
        ),
        _Shown(
            Column("observed", "Mean outcome"),
            lambda g: Cell(digits.value(g.mean_outcome), g.mean_outcome),
        ),
        _Shown(Column("gap", "Mean outcome minus mean prediction"), gap),
        _Shown(
            Column("limits", "Valid for all groups at once"),
            lambda g: Cell(digits.limits(g.after.low, g.after.high), g.after.low),
        ),
        _Shown(
            Column("p", "Of the gap, adjusted for all groups (Holm)"),
            lambda g: Cell(numbers.p_value(g.after.p_holm), g.after.p_holm),
        ),
        _Shown(
            Column("detectable", "Smallest gap that the limits would show 4 times out of 5"),
            lambda g: Cell(digits.value(g.after.detectable), g.after.detectable),
        ),
    ]


def _errors(digits: Digits) -> list[_Shown]:
    return [
        _Shown(
            Column("ECE", "Expected calibration error, bias of small samples removed"),
            lambda g: Cell(digits.value(g.after.ece_debiased), g.after.ece_debiased),
        ),
        _Shown(
            Column("K2", "Mean squared error of level sets, bias of small samples removed"),
            lambda g: Cell(numbers.measure(g.after.k2_unbiased), g.after.k2_unbiased),
        ),
        _Shown(
            Column("ECCE", "Cumulative error in standard deviations under calibration"),
            lambda g: Cell(numbers.sigmas(g.after.ecce_sigma), g.after.ecce_sigma),
        ),
        _Shown(
            Column("p (ECCE)", "Of the cumulative error, adjusted for all groups (Holm)"),
            lambda g: Cell(numbers.p_value(g.after.ecce_p_holm), g.after.ecce_p_holm),
        ),
    ]


def _baseline(digits: Digits) -> list[_Shown]:
    def gap(group: GroupAudit) -> Cell:
        if group.before is None:
            return Cell(numbers.UNKNOWN)
        own = group.before
        look = "off" if is_off(own.low, own.high) else ""
        return Cell(digits.signed(own.gap), own.gap, look)

    def ecce(group: GroupAudit) -> Cell:
        if group.before is None:
            return Cell(numbers.UNKNOWN)
        return Cell(numbers.sigmas(group.before.ecce_sigma), group.before.ecce_sigma)

    return [
        _Shown(Column("gap before", "The baseline's"), gap),
        _Shown(Column("ECCE before", "The baseline's"), ecce),
    ]
