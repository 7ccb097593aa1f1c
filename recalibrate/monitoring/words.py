"""The report of a monitor in words."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import Cell, Column, named, numeric, texts
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.text import aligned

if TYPE_CHECKING:
    from recalibrate.monitoring.report import GroupStatus, MonitorReport

_NAMED = 3  # groups of the verdict
_SHOWN = 60  # groups of the plain text
_LINE = 110  # characters


def verdict(report: MonitorReport) -> str:
    """The result in a few sentences."""
    count = len(report.groups)
    what = "group is" if count == 1 else "groups are"
    limit = f"off by more than {report.tolerance:g}"
    sure = f"(chance of any false alarm, ever: at most {100 * report.alpha:g} %)"
    if not report.n_rows:
        text = "No rows with labels yet."
    elif not report.alarms:
        text = f"No alarm: there is no evidence that any of {count} {what} {limit} {sure}."
    else:
        told = "; ".join(describe(group) for group in report.alarms[:_NAMED])
        more = len(report.alarms) - _NAMED
        told += f"; and {more} more" if more > 0 else ""
        text = f"{len(report.alarms)} of {count} {what} {limit} {sure}: {told}."
    if report.advice is not None:
        text += f" {report.advice}"
    if report.hints:
        shifted = report.hints[0].name if len(report.hints) == 1 else f"{len(report.hints)} groups"
        text += f" A hint without labels: the scores of {shifted} have shifted."
    return text


def describe(group: GroupStatus) -> str:
    """An alarm: who, in which direction, since when, how much."""
    band = "" if group.where == "all scores" else f" where {group.where}"
    return (
        f"{group.name}{band} {group.direction}-predicted by {abs(group.gap_since):.3g} "
        f"({group.low_since:+.3g} to {group.high_since:+.3g}) since {group.since}"
    )


def digits_of(report: MonitorReport) -> Digits:
    """Three digits of the tolerance, or of the gaps where it is zero."""
    gaps = [abs(g.gap) for g in report.groups if math.isfinite(g.gap) and g.gap]
    unit = report.tolerance or max(gaps, default=0.0) or 0.01
    return Digits(min(max(1 - math.floor(math.log10(unit)), 0), 9))


def columns(report: MonitorReport) -> list[Column[GroupStatus]]:
    """What tables show."""
    digits = digits_of(report)

    def gap_text(gap: float, low: float, high: float) -> str:
        if not math.isfinite(gap):
            return numbers.UNKNOWN
        return f"{digits.signed(gap)} ({digits.signed(low)} to {digits.signed(high)})"

    return [
        named("group", lambda g: g.name),
        numeric("rows", lambda g: g.rows),
        Column(
            "gap so far",
            lambda g: Cell(gap_text(g.gap, g.low, g.high), g.gap, "off" if g.alarm else ""),
            "Mean outcome minus mean prediction, with limits for all groups and all times",
        ),
        numeric(
            "evidence",
            lambda g: g.evidence,
            lambda e: "> 10¹⁰⁰" if e > 1e100 else numbers.measure(e),
            f"Adjusted for all groups; alarm from {1 / report.alpha:g} on",
        ),
        numeric("p", lambda g: g.p, numbers.p_value, "Adjusted, and valid at any time"),
        named("alarm", lambda g: g.alarm_time, "number"),
        named("where", lambda g: g.where, "number"),
        named("since", lambda g: g.since, "number"),
        Column(
            "gap since",
            lambda g: Cell(
                gap_text(g.gap_since, g.low_since, g.high_since) if g.alarm else "", g.gap_since
            ),
            "Where it is off, with limits that hold whatever time was chosen",
        ),
    ]


def to_text(report: MonitorReport) -> str:
    """What print shows."""
    head = f"Monitor: {report.n_rows:,} rows in {report.n_batches:,} batches"
    if report.starts:
        head += f", {report.show_time(report.starts[0])} to {report.show_time(report.ends[-1])}"
    lines = [head, *wrap(verdict(report), _LINE, break_on_hyphens=False)]
    lines += aligned(texts(columns(report), report.groups[:_SHOWN]))
    if len(report.groups) > _SHOWN:
        lines.append(f"and {len(report.groups) - _SHOWN} more groups, see .table")
    if report.left_out:
        lines.append("Left out, too small when the monitor began: " + ", ".join(report.left_out))
    if report.hints:
        lines.append("Hints without labels (scores of the newest batch against the reference):")
        lines += [f"  {group.name}: {group.shift}" for group in report.hints]
    return "\n".join(line.rstrip() for line in lines)
