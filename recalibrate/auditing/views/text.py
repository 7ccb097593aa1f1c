"""The report in words: verdict and plain text."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from recalibrate.auditing.views.columns import everybody_first, gap_columns, texts
from recalibrate.auditing.views.numbers import Digits, typed

if TYPE_CHECKING:
    from recalibrate.auditing.records import GroupAudit
    from recalibrate.auditing.report import AuditReport

_SHOWN = 12  # groups of the plain text; the table has all
_FEW = 4  # entries of other lists there
_WIDEST = 40  # letters of a name there
_LINE = 118  # letters of a line there


def verdict(report: AuditReport, *, compared: bool = True) -> str:
    """The result in a few sentences; ``compared`` with the baseline, if there is one."""
    count, now = len(report.groups), report.overall
    what = "group is" if count == 1 else "groups are"
    if not now.n_off:
        text = f"None of {count} {what} off by more than noise"
    else:
        worst = next(group for group in report.groups if group.name == now.largest_gap_group)
        own, digits = worst.after, Digits.of(report)
        text = f"{now.n_off} of {count} {what} off by more than noise; the largest such gap is "
        text += typed(digits.signed(own.gap))
        if own.low == own.low:
            text += typed(f" ({digits.signed(own.low)} to {digits.signed(own.high)})")
        text += f" for {worst.name}"
    text += f" (limits hold for all groups at once with {confidence(report)} confidence)."
    text += "".join(f" {sentence}" for sentence in slope_sentences(report))
    if compared and report.overall_before is not None:
        text += f" Before: {report.overall_before.n_off} of {count}."
    few = sum(group.after.low != group.after.low for group in report.groups)
    if few:
        unit = "rows" if report.n_clusters is None else "clusters"
        text += f" Too few {unit} for limits: {few} of {count}."
    if report.left_out:
        text += f" Left out for their size: {len(report.left_out)} more."
    return text


def slope_sentences(report: AuditReport) -> list[str]:
    """Groups whose predictions are too extreme, and too moderate, where there are any."""
    sides = (
        ("too extreme", [g for g in report.groups if g.after.slope_high < 1.0]),
        ("too moderate", [g for g in report.groups if g.after.slope_low > 1.0]),
    )
    return [_slopes(how, groups) for how, groups in sides if groups]


def _slopes(how: str, groups: Sequence[GroupAudit]) -> str:
    def clearly(group: GroupAudit) -> float:
        own = group.after
        return abs(own.slope - 1.0) / (own.slope_high - own.slope_low)

    worst = max(groups, key=clearly)
    own = worst.after
    slope = f"calibration slope {own.slope:.2f}, {own.slope_low:.2f} to {own.slope_high:.2f}"
    if len(groups) == 1:
        return f"Within {worst.name}, predictions are {how} ({slope})."
    what = f"{len(groups)} groups predictions are {how}"
    return f"Within {what}, most clearly in {worst.name} ({slope})."


def confidence(report: AuditReport) -> str:
    """How sure the limits are, in percent."""
    return f"{100 * (1 - report.alpha):.4g} %"


def to_text(report: AuditReport) -> str:
    """What print shows: a head, the verdict, and the worst groups; it fits a screen."""
    labels = {"soft": "labels in [0, 1]"}.get(report.kind, f"{report.kind} labels")
    head = (
        f"Audit of {report.n_rows:,} rows ({labels}), "
        f"{confidence(report)} limits over all groups at once"
    )
    groups = everybody_first(report, _SHOWN)
    columns = [c for c in gap_columns(report, Digits.of(report)) if c.title != "detectable"]
    table = [[_short(cell) for cell in line] for line in texts(columns, groups)]
    lines = [head, *wrap(verdict(report), _LINE), *aligned(table)]
    if len(report.groups) > len(groups):
        more = len(report.groups) - len(groups)
        lines.append(f"and {more} more groups: report.table has them, report.worst(20) the worst")
    if report.left_out:
        lines += wrap(left_out(report, _FEW), _LINE)
    for part in (report.rates, report.discoveries, report.richness, report.changes):
        if part is not None:
            lines += ["", *(w for line in _first(str(part), _FEW + 1) for w in _wrapped(line))]
    return "\n".join(lines)


def _short(text: str) -> str:
    """A name that leaves room for the numbers beside it."""
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return wrap(line, _LINE, initial_indent=indent, subsequent_indent=indent + "  ")


def _first(text: str, most: int) -> list[str]:
    lines = text.splitlines()
    more = len(lines) - most
    return lines if more <= 1 else [*lines[:most], f"  and {more} more"]


def left_out(report: AuditReport, most: int) -> str:
    """Groups with too few rows to be listed, and their rows."""
    named = [f"{each.name} ({each.rows or 'no'} rows)" for each in report.left_out[:most]]
    more = len(report.left_out) - most
    return (
        "Left out, because they have too few rows: "
        + "; ".join(named)
        + (f"; and {more} more." if more > 0 else ".")
    )


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: names to the left, numbers to the right."""
    columns = []
    for k, column in enumerate(zip(*table, strict=True)):
        width = max(map(len, column))
        columns.append([text.rjust(width) if k else text.ljust(width) for text in column])
    return ["  ".join(line) for line in zip(*columns, strict=True)]
