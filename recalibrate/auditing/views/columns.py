"""What tables show, for all views alike: names of columns, their meanings, and formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from recalibrate.auditing.records import Calibration, Coverage, GroupAudit
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.frames import shows_ratios, weighs_rows
from recalibrate.auditing.views.numbers import Digits
from recalibrate.metrics.deviances import Decomposition

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

T = TypeVar("T")

REMOVED = ", bias removed"
"""Ends the names of estimates without the bias of small samples; `at_least_zero` shows them."""


@dataclass(frozen=True)
class Cell:
    """What a cell shows, the number to sort it by (else its text), and an extra class."""

    shown: str
    value: float | None = None
    look: str = ""


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table of records; ``tip`` is what it means, ``kind`` the class of its cells."""

    title: str
    cell: Callable[[T], Cell]
    tip: str | None = None
    kind: str = "number"


def named(title: str, text: Callable[[T], str], kind: str = "name") -> Column[T]:
    """A column of names or other words."""
    return Column(title, lambda record: Cell(text(record)), kind=kind)


def numeric(
    title: str,
    value: Callable[[T], float],
    show: Callable[[Any], str] = "{:,}".format,
    tip: str | None = None,
) -> Column[T]:
    """A column of numbers, counts unless ``show`` says otherwise."""
    return Column(title, lambda record: Cell(show(value(record)), value(record)), tip)


def texts(columns: Sequence[Column[T]], records: Iterable[T]) -> list[list[str]]:
    """A table in plain characters, its head first."""
    rows = [[numbers.typed(column.cell(each).shown) for column in columns] for each in records]
    return [[column.title for column in columns], *rows]


def gap_columns(report: AuditReport, digits: Digits) -> list[Column[GroupAudit]]:
    """Rows, means and gaps of every group: what `AuditReport.table` has."""
    shown: list[Column[GroupAudit]] = [
        named("group", lambda g: g.name),
        numeric("rows", lambda g: g.rows),
        numeric("predicted", _after("mean_prediction"), digits.value, "Mean prediction"),
        numeric("observed", lambda g: g.mean_outcome, digits.value, "Mean outcome"),
        Column("gap", lambda g: gap_cell(g.after, digits), "Mean outcome minus mean prediction"),
        Column(
            "limits",
            lambda g: Cell(limits_text(report, g.after, digits), g.after.low),
            "Where the gap lies; valid for all groups at once",
        ),
        numeric(
            "adjusted p",
            _after("p_holm"),
            numbers.p_value,
            "Could the gap be noise? Below alpha where the limits exclude zero",
        ),
        numeric(
            "detectable",
            _after("detectable"),
            digits.value,
            "Smallest gap that the test would find 4 times out of 5",
        ),
    ]
    if shows_ratios(report):
        tip = "Mean outcome over mean prediction, with limits for all groups at once"
        shown.insert(6, Column("observed / expected", _ratio_cell, tip))
    if weighs_rows(report):
        tip = "Rows of equal weight that would tell as much"
        shown.insert(2, numeric("effective rows", lambda g: round(g.effective_rows, 1), tip=tip))
    if report.n_clusters is not None:
        tip = "People or households that the rows belong to"
        shown.insert(2, numeric("clusters", lambda g: g.clusters, tip=tip))
    if report.overall_before is not None:
        shown.append(
            Column("gap before", lambda g: gap_cell(g.before, digits), "The baseline's gap")
        )
    return shown


def error_columns(report: AuditReport, digits: Digits) -> list[Column[GroupAudit]]:
    """Errors beyond the mean of every group."""
    error = measures(report.kind)[0].title
    shown: list[Column[GroupAudit]] = [
        named("group", lambda g: g.name),
        numeric("share", lambda g: g.share, numbers.percent, "Share of the total weight"),
        numeric(error, _after("mse"), numbers.measure, "Mean squared error"),
        numeric(
            f"ECE{REMOVED}",
            _after("ece_debiased"),
            lambda value: digits.value(at_least_zero(value)),
            "Expected calibration error without the bias of small samples",
        ),
        numeric(
            f"K2{REMOVED}",
            _after("k2_unbiased"),
            lambda value: numbers.measure(at_least_zero(value)),
            "Mean squared error of level sets without the bias of small samples",
        ),
        Column(
            "slope",
            lambda g: _slope_cell(g.after),
            "Calibration slope with limits for all groups: below 1 predictions are too extreme",
        ),
        numeric(
            "ECCE",
            _after("ecce_sigma"),
            numbers.sigmas,
            "Cumulative error in standard deviations under calibration",
        ),
        numeric(
            "adjusted p of ECCE",
            _after("ecce_p_holm"),
            numbers.p_value,
            "Could the cumulative error be noise? Adjusted for all groups (Holm)",
        ),
    ]
    if report.overall_before is not None:
        tip = "The baseline's cumulative error"
        shown.append(numeric("ECCE before", _sigma_before, numbers.sigmas, tip))
    return shown


def _slope_cell(own: Calibration) -> Cell:
    if not math.isfinite(own.slope):
        return Cell(numbers.UNKNOWN, own.slope)
    off = own.slope_high < 1.0 or own.slope_low > 1.0
    text = f"{own.slope:.2f} ({own.slope_low:.2f} to {own.slope_high:.2f})"
    return Cell(text, own.slope, "off" if off else "")


def _ratio_cell(group: GroupAudit) -> Cell:
    own = group.after
    text = f"{own.ratio:.3f}" if math.isfinite(own.ratio) else numbers.UNKNOWN
    if math.isfinite(own.ratio_low) and math.isfinite(own.ratio_high):
        text += f" ({own.ratio_low:.3f} to {own.ratio_high:.3f})"
    return Cell(text, own.ratio, "off" if own.off else "")


def decomposition_columns() -> list[Column[tuple[str, Decomposition]]]:
    """What mean losses consist of, of one or two sides."""

    def part(name: str, tip: str) -> Column[tuple[str, Decomposition]]:
        return numeric(name, lambda own: float(getattr(own[1], name)), numbers.measure, tip)

    return [
        named("mean", lambda own: f"{own[1].loss}{own[0]}"),
        part("score", "Mean over all rows"),
        part("miscalibration", "What recalibration by isotonic regression would gain"),
        part("discrimination", "How much better than the mean outcome it would then be"),
        part("uncertainty", "Score of the mean outcome for everybody"),
    ]


def decompositions(report: AuditReport) -> list[tuple[str, Decomposition]]:
    """Rows of that table."""
    after = report.overall.decompositions
    if report.overall_before is None:
        return [("", own) for own in after]
    before = report.overall_before.decompositions
    sides = ((" before", before), (" after", after))
    return [(side, own[k]) for k in range(len(after)) for side, own in sides]


def coverage_columns() -> list[Column[Coverage]]:
    """Rows in the groups of every column, crossing or condition, and the others."""
    return [
        named("groups of", lambda c: c.term),
        numeric("rows in them", lambda c: c.rows),
        numeric("value missing", lambda c: c.missing, tip="Rows without a value in the column"),
        numeric("left out", lambda c: c.left_out, tip="Rows in groups that are too small"),
        numeric("in none", lambda c: c.outside, tip="Rows that a condition does not hold for"),
    ]


def audited_facts(report: AuditReport) -> dict[str, str]:
    """What was audited, by name; what is not known is left out."""
    own = report.audited
    if own is None:
        return {}
    rows = "" if own.fitted_rows is None else f"{own.fitted_rows:,}"
    known = {
        "Audited": own.what,
        "Compared with": own.baseline,
        "Date of the audit": own.date,
        "Library": f"recalibrate {own.version}",
        "Audited rows": own.data,
        "Predictions": own.predictions,
        "Model": own.model,
        "Base model": own.base,
        "Base model's scores": own.base_fingerprint,
        "Fitted for": own.H,
        "Calibration rows": rows,
        "Calibration data": own.fitted_data,
        "Fitted on": own.fitted_date and f"{own.fitted_date}, recalibrate {own.fitted_version}",
        "Seed": "" if own.seed is None else str(own.seed),
    }
    return {name: text for name, text in known.items() if text}


def _after(name: str) -> Callable[[GroupAudit], float]:
    return lambda group: float(getattr(group.after, name))


def at_least_zero(value: float) -> float:
    """An estimate of something that cannot be negative, as it is shown."""
    return max(value, 0.0) if math.isfinite(value) else value


def limits_text(report: AuditReport, own: Calibration, digits: Digits) -> str:
    """Both limits of a gap, or why there are none."""
    if math.isnan(own.low) or math.isnan(own.high):
        return "too few rows" if report.n_clusters is None else "too few clusters"
    return f"{digits.signed(own.low)} to {digits.signed(own.high)}"


def gap_cell(own: Calibration | None, digits: Digits) -> Cell:
    """A gap, marked where it is off by more than noise."""
    if own is None:
        return Cell(numbers.UNKNOWN)
    return Cell(digits.signed(own.gap), own.gap, "off" if own.off else "")


def _sigma_before(group: GroupAudit) -> float:
    return math.nan if group.before is None else group.before.ecce_sigma


@dataclass(frozen=True)
class Measure:
    """A measure of `Overall`: its name, its title, what it means, and its paired difference."""

    name: str
    title: str
    meaning: str
    paired: str = ""

    def show(self, value: Any, digits: Digits) -> str:
        """The number in the format of this measure."""
        if isinstance(value, str):
            return value
        if self.name == "largest_gap":
            return digits.signed(value)
        if self.name == "mce_sigma":
            return numbers.sigmas(value)
        if self.name == "mce_p":
            return numbers.p_value(value)
        if self.title.endswith(REMOVED):
            value = at_least_zero(value)
        return f"{value:,}" if isinstance(value, int) else numbers.measure(value)


def measures(kind: str, deviance: str = "deviance") -> list[Measure]:
    """The measures over all rows and groups, in the order of a table."""
    error = "Brier score" if kind == "binary" else "mean squared error"
    return [
        Measure("mse", error, f"mean of (outcome {numbers.MINUS} prediction)²", "mse"),
        Measure("log_loss", "log loss", "surprise by the outcomes, in nats per row", "log_loss"),
        Measure("deviance", deviance, "mean over rows; 0 for perfect predictions", "deviance"),
        Measure("msce", "MSCE", "squared calibration error on bins of the predictions", "k2"),
        Measure(
            "msce_unbiased",
            f"MSCE{REMOVED}",
            "0 on average for calibrated predictions; an estimate below 0 is shown as 0",
        ),
        Measure(
            "multicalibration_error",
            "multicalibration error",
            "worst group's cumulative error, scaled to all rows",
        ),
        Measure(
            "mce_sigma",
            "multicalibration error in sigmas",
            "in standard deviations under calibration",
        ),
        Measure("worst_group", "worst group", "the group with most sigmas"),
        Measure(
            "mce_p",
            "adjusted p of cumulative errors",
            "could the cumulative errors of all groups be noise? the smallest of all groups",
        ),
        Measure(
            "n_off",
            "groups off by more than noise",
            "gaps that noise does not explain, tested for all groups at once",
        ),
        Measure("largest_gap", "largest gap of these", "mean outcome minus mean prediction"),
    ]


def overall_columns(report: AuditReport, digits: Digits) -> list[Column[Measure]]:
    """Measures over all rows and groups; with a baseline before, after, and the difference."""

    def side(overall: Any) -> Callable[[Measure], str]:
        return lambda measure: measure.show(getattr(overall, measure.name), digits)

    paired = {each.measure: each for each in report.groups[0].differences}

    def difference(measure: Measure) -> Cell:
        found = paired.get(measure.paired)
        if found is None:
            return Cell("")
        return Cell(f"{numbers.measure(found.value)} ± {numbers.measure(found.se)}")

    shown: list[Column[Measure]] = [named("measure", lambda m: m.title[:1].upper() + m.title[1:])]
    if report.overall_before is None:
        shown.append(named("value", side(report.overall), "number"))
    else:
        tip = "After minus before on the same rows, ± its standard error"
        shown += [
            named("before", side(report.overall_before), "number"),
            named("after", side(report.overall), "number"),
            Column("difference", difference, tip),
        ]
    return shown


def told_measures(report: AuditReport) -> list[Measure]:
    """Measures that there are: a regression has no log loss."""
    sides = [side for side in (report.overall_before, report.overall) if side is not None]
    return [
        each
        for each in measures(report.kind, report.overall.decompositions[-1].loss)
        if any(getattr(side, each.name) == getattr(side, each.name) for side in sides)
    ]
