"""The result at a glance: verdict, key figures, measures over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recalibrate.auditing.views.html import numbers
from recalibrate.auditing.views.html.markup import Markup, element
from recalibrate.auditing.views.html.numbers import Digits
from recalibrate.auditing.views.html.tables import Cell, Column, build_table
from recalibrate.auditing.views.text import measure_names

if TYPE_CHECKING:
    from recalibrate.auditing.records import Difference
    from recalibrate.auditing.report import AuditReport

# Measures over all rows whose paired difference is known, under another name.
_PAIRED = {"mse": "mse", "log_loss": "log_loss", "msce": "k2"}
_MEANINGS = {
    "mse": f"mean of (outcome {numbers.MINUS} prediction)²",
    "log_loss": "surprise by the outcomes, in nats per row",
    "msce": "squared calibration error on bins of the predictions",
    "msce_unbiased": "0 on average for calibrated predictions",
    "multicalibration_error": "worst group's cumulative error, scaled to all rows",
    "mce_sigma": "in standard deviations under calibration",
    "worst_group": "the group with most sigmas",
    "n_off": "limits that hold for all groups at once exclude a gap of 0",
    "largest_gap": "mean outcome minus mean prediction",
}


def show_verdict(report: AuditReport) -> Markup:
    """The verdict in sentences, marked as good or not by sign, word and colour."""
    now = report.overall
    along = now.mce_p < report.alpha
    found = len(report.discoveries.subgroups) if report.discoveries is not None else 0
    wrong = now.n_off > 0 or along or found > 0
    sentences = ["Along the predictions, no group's cumulative error is more than noise."]
    if along:
        sentences = [
            "Errors cumulated along the predictions are more than noise: "
            f"{numbers.sigmas(now.mce_sigma)} in the worst group, {now.worst_group}."
        ]
    if found:
        sentences.append(f"The search through the columns found {_count(found)} off.")
    sign = element("span", "!" if wrong else "✓", class_="sign", aria_hidden="true")
    return element(
        "div",
        element(
            "p",
            sign,
            "Miscalibrated beyond noise" if wrong else "No miscalibration beyond noise",
            class_="head",
        ),
        element("p", report.verdict),
        element("p", " ".join(sentences)),
        class_="verdict bad" if wrong else "verdict good",
    )


def _count(found: int) -> str:
    return "1 subgroup that is" if found == 1 else f"{found} subgroups that are"


def _title(text: str) -> str:
    return text[:1].upper() + text[1:]


def show_tiles(report: AuditReport, digits: Digits) -> Markup:
    """Four figures to remember."""
    now, then = report.overall, report.overall_before
    error = measure_names(report.kind)["mse"]
    return element(
        "div",
        _tile(
            "groups off by more than noise",
            f"{now.n_off} of {len(report.groups)}",
            "" if then is None else f"before: {then.n_off}",
        ),
        _tile(
            "largest gap beyond noise",
            digits.signed(now.largest_gap),
            now.largest_gap_group or "there is none",
            "" if then is None else f"before: {digits.signed(then.largest_gap)}",
        ),
        _tile(
            "multicalibration error",
            numbers.sigmas(now.mce_sigma),
            f"worst group: {now.worst_group}",
            "" if then is None else f"before: {numbers.sigmas(then.mce_sigma)}",
        ),
        _tile(
            error,
            numbers.measure(now.mse),
            "" if then is None else f"before: {numbers.measure(then.mse)}",
        ),
        class_="tiles",
    )


def _tile(title: str, figure: str, *remarks: str) -> Markup:
    lines = [element("p", remark) for remark in remarks if remark]
    return element(
        "div",
        element("p", _title(title), class_="title"),
        element("p", figure, class_="figure"),
        *lines,
    )


def show_overall(report: AuditReport, digits: Digits) -> Markup:
    """Measures over all rows and groups; with a baseline before, after, and the difference."""
    sides = [report.overall]
    columns = [Column("measure", kind="name"), Column("value")]
    if report.overall_before is not None:
        sides = [report.overall_before, report.overall]
        columns = [
            Column("measure", kind="name"),
            Column("before"),
            Column("after"),
            Column("difference", "After minus before on the same rows, ± its standard error"),
        ]
    columns.append(Column("meaning", kind="remark"))
    paired = {each.measure: each for each in report.groups[0].differences}
    rows = []
    for name, label in measure_names(report.kind).items():
        values = [getattr(side, name) for side in sides]
        if all(value != value for value in values):  # NaN: there is no such measure
            continue
        row = [Cell(_title(label)), *(Cell(_show(name, value, digits)) for value in values)]
        if len(sides) == 2:
            row.append(Cell(_difference(paired.get(_PAIRED.get(name, "")))))
        row.append(Cell(_MEANINGS.get(name, "")))
        rows.append(row)
    return build_table(columns, rows, label="Measures over all rows")


def _show(name: str, value: Any, digits: Digits) -> str:
    if isinstance(value, str):
        return value
    if name == "largest_gap":
        return digits.signed(value)
    if name == "mce_sigma":
        return numbers.sigmas(value)
    return f"{value:,}" if isinstance(value, int) else numbers.measure(value)


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return ""
    return f"{numbers.measure(difference.value)} ± {numbers.measure(difference.se)}"
