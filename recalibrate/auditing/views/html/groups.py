"""The groups: reliability diagrams, forest plot, and the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recalibrate.auditing.rates import Rates
from recalibrate.auditing.records import GroupAudit
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import (
    Cell,
    Column,
    error_columns,
    gap_columns,
    limits_text,
)
from recalibrate.auditing.views.html.forest import Forest, Interval
from recalibrate.auditing.views.html.intersections import show_maps
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.reliability import common_range, diagram, residuals
from recalibrate.auditing.views.html.tables import build_table, clipped
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.ranking import everybody_first, worst_curves, worst_gaps
from recalibrate.auditing.views.rates import rate_tables
from recalibrate.auditing.views.text import confidence

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

_RATES = 60  # groups of a table of rates; the page would grow with groups times rates


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
    groups = everybody_first(report, most)
    forest = Forest.around([own for group in groups for own in _intervals(group) if own])

    def plot(group: GroupAudit) -> Cell:
        own, before = _intervals(group)
        gap, limits = digits.signed(own.gap), limits_text(report, group.after, digits)
        return Cell(forest.row(own, before, f"Gap of {group.name}: {gap}, limits {limits}"))

    shown = {column.title: column for column in gap_columns(report, digits)}
    columns = [
        shown["group"],
        shown["rows"],
        Column(forest.axis(), plot, kind="plot"),
        shown["gap"],
        replace(shown["limits"], title=f"{confidence(report)} limits"),
    ]
    table = build_table(columns, groups, label="Gaps of groups with their limits")
    return join([table, clipped(len(groups), len(report.groups), rest)])


def _intervals(group: GroupAudit) -> tuple[Interval, Interval | None]:
    before = None if group.before is None else Interval.of(group.before)
    return Interval.of(group.after), before


def show_all(report: AuditReport, digits: Digits) -> Markup:
    """Every group that is no intersection, with its main numbers."""
    groups = [group for group in report.groups if len(group.parts) < 2]
    return _sortable(gap_columns(report, digits), groups, "Gaps of all groups")


def show_errors(report: AuditReport, digits: Digits) -> Markup:
    """Errors beyond the mean of every group."""
    return _sortable(error_columns(report, digits), report.groups, "Errors of all groups")


def show_intersections(report: AuditReport, digits: Digits) -> Markup | None:
    """The groups that are intersections: heat maps, and all of them, worst first."""
    crossed = [each for each in worst_gaps(report, len(report.groups)) if len(each.parts) > 1]
    if not crossed:
        return None
    in_order = [group for group in report.groups if len(group.parts) > 1]
    table = _sortable(gap_columns(report, digits), crossed, "Gaps of intersections, worst first")
    return join([show_maps(report, in_order, digits), table])


def _sortable(
    columns: list[Column[GroupAudit]], groups: Sequence[GroupAudit], label: str
) -> Markup:
    return build_table(columns, groups, label=label, sortable=True)


def show_rates(rates: Rates) -> Markup:
    """Decisions at thresholds, and the ranking, by group."""
    sure = f"{100 * (1 - rates.alpha):.4g} %"
    parts: list[Markup | None] = [
        element(
            "p",
            "Calibration is not equal treatment: these rates can differ between groups although "
            "the predictions are right for each. Limits of one rate hold for all groups at once "
            f"with {sure} confidence; those of all rates together hold less often.",
        )
    ]
    for each in rate_tables(rates):
        shown = each.farthest(_RATES)
        table = build_table(each.columns, shown, label=each.title, sortable=True)
        rest = clipped(len(shown), len(each.records), "report.rates.table")
        parts += [element("h3", each.title), element("p", each.text), table, rest]
    return join(parts)
