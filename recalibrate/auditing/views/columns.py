"""What tables show, for all views alike: names of columns, their meanings, and formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from recalibrate.auditing.records import (
    MEANINGS,
    TITLES,
    Calibration,
    Coverage,
    Estimate,
    GroupAudit,
    Rate,
    Rates,
)
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.numbers import Digits
from recalibrate.metrics import Decomposition

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.auditing.report import AuditReport


# --- Which groups a view shows where it cannot show all -----------------------------------------


def worst_gaps(report: AuditReport, most: int) -> list[GroupAudit]:
    """Groups: those off by more than noise by size of gap, the rest by p-value, without "all"."""
    return sorted(report.groups[1:], key=_by_gap)[:most]


def everybody_first(report: AuditReport, most: int) -> list[GroupAudit]:
    """All rows, then the worst groups."""
    return [report.groups[0], *worst_gaps(report, most - 1)]


def _by_gap(group: GroupAudit) -> tuple[int, float]:
    own = group.after
    if math.isnan(own.p):
        return 2, -abs(own.gap)  # too few rows to tell
    return (0, -abs(own.gap)) if own.off else (1, own.p)


def worst_curves(report: AuditReport, most: int) -> list[GroupAudit]:
    """Groups with the strongest evidence of errors along the predictions, without "all"."""
    return sorted(report.groups[1:], key=lambda group: -group.after.ecce_sigma)[:most]


T = TypeVar("T")

REMOVED = ", bias removed"
"""Ends the names of estimates without the bias of small samples; `_at_least_zero` shows them."""


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
    if _shows_ratios(report):
        tip = "Mean outcome over mean prediction, with limits for all groups at once"
        shown.insert(6, Column("observed / expected", _ratio_cell, tip))
    if _weighs_rows(report):
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
            lambda value: digits.value(_at_least_zero(value)),
            "Expected calibration error without the bias of small samples",
        ),
        numeric(
            f"K2{REMOVED}",
            _after("k2_unbiased"),
            lambda value: numbers.measure(_at_least_zero(value)),
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


def _at_least_zero(value: float) -> float:
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
            value = _at_least_zero(value)
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


# --- Decisions and ranking by group, as columns of tables for all views -------------------------


ByMeasure = Mapping[str, Rate]
"""Rates of one group."""

_RATE = Digits(3)
_TIMES = Digits(2)
ONE_RATE = "Limits hold for all groups at once, for each rate alone and not for all rates together."
_ABBREVIATIONS = {"tpr": "TPR", "fpr": "FPR", "ppv": "PPV", "auc": "AUC"}


@dataclass(frozen=True)
class _RateTable:
    """A table of rates: its title, what it says, columns and records."""

    title: str
    text: str
    columns: list[Column[ByMeasure]]
    records: list[ByMeasure]

    def farthest(self, most: int) -> list[ByMeasure]:
        """All rows, and those groups whose rates are farthest from their references'.

        Groups with too few rows for precise limits come last.
        """
        if len(self.records) <= most:
            return self.records

        def apart(rates: ByMeasure) -> float:
            precise = (each.after for each in rates.values() if each.after.precise)
            sizes = (abs(own.difference) for own in precise)
            return max((size for size in sizes if size == size), default=-1.0)

        first, *groups = self.records
        return [first, *sorted(groups, key=apart, reverse=True)[: most - 1]]


def rate_tables(rates: Rates) -> list[_RateTable]:
    """Selection and errors at every threshold, and the ranking."""
    tables = []
    for threshold in rates.thresholds:
        records = _records(rates, threshold)
        tables.append(_selection(threshold, records))
        if "tpr" in records[0]:
            tables.append(_errors(threshold, records))
    if rates.of("auc"):
        tables.append(_ranking(_records(rates, None)))
    return tables


def _records(rates: Rates, threshold: float | None) -> list[ByMeasure]:
    found: dict[str, dict[str, Rate]] = {}
    for each in rates.rates:
        if each.threshold == threshold:
            found.setdefault(each.group, {})[each.measure] = each
    return list(found.values())


def _selection(threshold: float, records: list[ByMeasure]) -> _RateTable:
    columns = _names("selection_rate")
    columns += _with_limits("selection_rate", "selection rate")
    columns += [
        Column(
            "impact ratio",
            lambda rates: _ratio(rates["selection_rate"]),
            "Selection rate divided by that of the reference group; the four-fifths rule asks "
            "for 0.8",
        ),
        named(
            "limits of the ratio", lambda rates: _ratio_limits(rates["selection_rate"]), "number"
        ),
    ]
    columns += _before(records, "selection_rate", "selection rate before")
    columns += _against("selection_rate")
    text = (
        f"Selected: a prediction of at least {threshold:g}. The impact ratio divides a group's "
        "selection rate by that of its reference group; bold where the limits exclude 1. "
        f"{ONE_RATE}"
    )
    return _RateTable(f"Selection at {threshold:g}", text, columns, records)


def _errors(threshold: float, records: list[ByMeasure]) -> _RateTable:
    columns = _names("tpr")[:1]
    for measure in ("tpr", "fpr", "ppv"):
        columns += _with_limits(measure, _ABBREVIATIONS[measure])
        columns.append(_difference(measure, f"{_ABBREVIATIONS[measure]} difference"))
    told = "; ".join(f"{TITLES[name]}: {MEANINGS[name]}" for name in ("tpr", "fpr", "ppv"))
    text = (
        f"{told[:1].upper()}{told[1:]}. Differences are those from the reference group; bold where "
        f"their limits exclude 0. {ONE_RATE}"
    )
    return _RateTable(f"Errors of decisions at {threshold:g}", text, columns, records)


def _ranking(records: list[ByMeasure]) -> _RateTable:
    columns = _names("auc") + _with_limits("auc", "AUC")
    columns.append(_difference("auc", "difference"))
    columns.append(
        named("limits of the difference", lambda rates: _apart_limits(rates["auc"]), "number")
    )
    columns += _before(records, "auc", "AUC before") + _against("auc")
    text = (
        f"The area under the ROC curve (AUC): {MEANINGS['auc']}. A group whose scores rank well "
        f"can still be miscalibrated, and the other way round. {ONE_RATE}"
    )
    return _RateTable("Ranking", text, columns, records)


def _names(measure: str) -> list[Column[ByMeasure]]:
    return [
        named("group", lambda rates: rates[measure].group),
        numeric("rows", lambda rates: rates[measure].after.rows, "{:,}".format),
    ]


def _against(measure: str) -> list[Column[ByMeasure]]:
    return [named("reference", lambda rates: _reference(rates[measure]), "word")]


def _reference(rate: Rate) -> str:
    return "(is the reference)" if rate.group == rate.reference else rate.reference


def _with_limits(measure: str, title: str) -> list[Column[ByMeasure]]:
    def value(rates: ByMeasure) -> float:
        return rates[measure].after.value

    def limits(rates: ByMeasure) -> str:
        own = rates[measure].after
        return _interval(own.low, own.high, _RATE.value)

    return [
        numeric(title, value, _RATE.value, MEANINGS[measure]),
        named("limits", limits, "number"),
    ]


def _before(records: list[ByMeasure], measure: str, title: str) -> list[Column[ByMeasure]]:
    """The baseline's rate, if there is a baseline."""
    if records[0][measure].before is None:
        return []

    def value(rates: ByMeasure) -> float:
        before = rates[measure].before
        return math.nan if before is None else before.value

    return [numeric(title, value, _RATE.value, "Of the baseline")]


def _difference(measure: str, title: str) -> Column[ByMeasure]:
    def cell(rates: ByMeasure) -> Cell:
        rate, own = rates[measure], rates[measure].after
        if rate.group == rate.reference:
            return Cell(numbers.UNKNOWN)
        apart = own.difference_low > 0.0 or own.difference_high < 0.0
        return Cell(_RATE.signed(own.difference), own.difference, "off" if apart else "")

    return Column(title, cell, "The group's rate minus that of its reference group")


def _ratio(rate: Rate) -> Cell:
    own = rate.after
    if rate.group == rate.reference:
        return Cell(numbers.UNKNOWN)
    apart = own.ratio_low > 1.0 or own.ratio_high < 1.0
    return Cell(_TIMES.value(own.ratio), own.ratio, "off" if apart else "")


def _ratio_limits(rate: Rate) -> str:
    own = rate.after
    if math.isnan(own.ratio_low):
        return numbers.UNKNOWN
    if math.isnan(own.ratio_high):
        return f"{_TIMES.value(own.ratio_low)} or more"
    return _interval(own.ratio_low, own.ratio_high, _TIMES.value)


def _apart_limits(rate: Rate) -> str:
    own: Estimate = rate.after
    return _interval(own.difference_low, own.difference_high, _RATE.signed)


def _interval(low: float, high: float, show: Callable[[float], str]) -> str:
    """Both limits, or a dash where there are none."""
    if math.isnan(low) or math.isnan(high):
        return numbers.UNKNOWN
    return f"{show(low)} to {show(high)}"


# --- The groups of a report as DataFrames: the main numbers, and all of them --------------------


_MAIN_COLUMNS = (
    "group", "rows", "effective_rows", "clusters", "mean_prediction", "mean_outcome", "gap",
    "gap_se", "low", "high", "ratio", "ratio_low", "ratio_high", "p_holm", "detectable", "off",
    "before_gap", "before_off",
)  # fmt: skip


def short_table(report: AuditReport) -> pd.DataFrame:
    """The main numbers, a row per group."""
    frame = full_table(report)
    shown = [name for name in _MAIN_COLUMNS if name in frame]
    if report.n_clusters is None:
        shown.remove("clusters")
    if not _weighs_rows(report):
        shown.remove("effective_rows")
    if not _shows_ratios(report):
        shown = [name for name in shown if not name.startswith("ratio")]
    return frame[shown]


def full_table(report: AuditReport) -> pd.DataFrame:
    """Every number of `GroupAudit` and `Calibration`, a row per group."""
    import pandas as pd

    frame = pd.DataFrame([_line(group) for group in report.groups])
    losses = {"log_loss": report.overall.log_loss, "deviance": report.overall.deviance}
    unknown = [name for name, value in losses.items() if value != value]
    return frame.drop(columns=[*unknown, *(f"before_{name}" for name in unknown)], errors="ignore")


def _weighs_rows(report: AuditReport) -> bool:
    """Whether weights make rows tell less than their number."""
    return any(group.effective_rows < group.rows - 1e-6 * group.rows for group in report.groups)


def _shows_ratios(report: AuditReport) -> bool:
    """Whether outcomes over predictions say more than their difference: for positive numbers."""
    return report.kind == "regression" and report.groups[0].after.ratio > 0.0


def worst_table(report: AuditReport, most: int) -> pd.DataFrame:
    """The main numbers of the groups to look at first."""
    places = {group.name: at for at, group in enumerate(report.groups)}
    chosen = [places[group.name] for group in worst_gaps(report, most)]
    return short_table(report).iloc[chosen].reset_index(drop=True)


def _line(group: GroupAudit) -> dict[str, Any]:
    after = _numbers(group.after)
    line = {
        "group": group.name,
        "rows": group.rows,
        "effective_rows": group.effective_rows,
        "clusters": group.clusters,
        "share": group.share,
        "mean_prediction": after.pop("mean_prediction"),
        "mean_outcome": group.mean_outcome,
    }
    line |= after
    if group.before is not None:
        line |= {f"before_{name}": value for name, value in _numbers(group.before).items()}
    for difference in group.differences:
        line[f"change_{difference.measure}"] = difference.value
        line[f"change_{difference.measure}_se"] = difference.se
    return line


def _numbers(calibration: Calibration) -> dict[str, float]:
    names = (each.name for each in fields(calibration) if each.name != "curve")
    return {name: getattr(calibration, name) for name in names}
