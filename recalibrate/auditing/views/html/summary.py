"""The result at a glance: verdict, key figures, measures over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import (
    Column,
    Measure,
    decomposition_columns,
    decompositions,
    measures,
    named,
    overall_columns,
    told_measures,
)
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.tables import build_table
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.text import slope_sentences

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport


def show_verdict(report: AuditReport) -> Markup:
    """The verdict in sentences, marked as good or not by sign, word and colour."""
    now = report.overall
    along = now.mce_p < report.alpha
    sloped = bool(slope_sentences(report))  # the verdict has them
    found = len(report.discoveries.subgroups) if report.discoveries is not None else 0
    wrong = now.n_off > 0 or along or sloped or found > 0
    sentences = []
    if not along and not sloped:
        sentences = ["Along the predictions, no group has an error that is more than noise."]
    if along:
        sentences = [
            "Errors cumulated along the predictions are more than noise (adjusted p "
            f"{numbers.p_value(now.mce_p)}), most so in {now.worst_group}."
        ]
    if found:
        sentences.append(f"The search through the columns found {_count(found)} off.")
    head = "Miscalibrated beyond noise" if wrong else "No miscalibration beyond noise"
    return verdict_box(wrong, head, report.verdict, " ".join(sentences))


def verdict_box(wrong: bool, head: str, *paragraphs: str) -> Markup:
    """A verdict that is marked as good or not by sign, word and colour."""
    sign = element("span", "!" if wrong else "✓", class_="sign", aria_hidden="true")
    return element(
        "div",
        element("p", sign, head, class_="head"),
        *(element("p", each) for each in paragraphs if each),
        class_="verdict bad" if wrong else "verdict good",
    )


def _count(found: int) -> str:
    return "1 subgroup that is" if found == 1 else f"{found} subgroups that are"


def show_tiles(report: AuditReport, digits: Digits) -> Markup:
    """Four figures to remember."""
    now, then = report.overall, report.overall_before
    error = measures(report.kind)[0].title
    return element(
        "div",
        tile(
            "groups off by more than noise",
            f"{now.n_off} of {len(report.groups)}",
            "" if then is None else f"before: {then.n_off}",
        ),
        tile("largest gap beyond noise", *_largest_gap(report, digits)),
        tile(
            "could errors along the predictions be noise?",
            f"p {numbers.p_value(now.mce_p)}",
            "adjusted for all groups",
            "" if then is None else f"before: p {numbers.p_value(then.mce_p)}",
        ),
        tile(
            error,
            numbers.measure(now.mse),
            "" if then is None else f"before: {numbers.measure(then.mse)}",
        ),
        class_="tiles",
    )


def _largest_gap(report: AuditReport, digits: Digits) -> list[str]:
    """The largest gap, whose it is, and what the same group's was or is."""
    now, then = report.overall, report.overall_before
    groups = {group.name: group for group in report.groups}
    if now.largest_gap_group:
        remarks = [digits.signed(now.largest_gap), now.largest_gap_group]
        before = groups[now.largest_gap_group].before
        return remarks + ([] if before is None else [f"before: {digits.signed(before.gap)}"])
    if then is None or not then.largest_gap_group:
        return ["none"]
    gap = groups[then.largest_gap_group].after.gap
    was = f"before: {digits.signed(then.largest_gap)} for {then.largest_gap_group}"
    return ["none", was, f"the same group now: {digits.signed(gap)}"]


def tile(title: str, figure: str, *remarks: str) -> Markup:
    """A figure to remember, with its title and remarks."""
    lines = [element("p", remark) for remark in remarks if remark]
    return element(
        "div",
        element("p", title[:1].upper() + title[1:], class_="title"),
        element("p", figure, class_="figure"),
        *lines,
    )


def show_overall(report: AuditReport, digits: Digits) -> Markup:
    """Measures over all rows and groups; with a baseline before, after, and the difference."""
    meaning: Column[Measure] = named("meaning", lambda m: m.meaning, "remark")
    columns = [*overall_columns(report, digits), meaning]
    shown = build_table(columns, told_measures(report), label="Measures over all rows")
    parts = decompositions(report)
    apart = build_table(decomposition_columns(), parts, label="What mean losses consist of")
    return join([shown, apart])
