"""Decisions and ranking by group, as columns of tables for all views."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recalibrate.auditing.rates import MEANINGS, TITLES, Estimate, Rate, Rates
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import Cell, Column, named, numeric
from recalibrate.auditing.views.numbers import Digits

ByMeasure = Mapping[str, Rate]
"""Rates of one group."""

_RATE = Digits(3)
_TIMES = Digits(2)
ONE_RATE = "Limits hold for all groups at once, for each rate alone and not for all rates together."
_SHORT = {"tpr": "TPR", "fpr": "FPR", "ppv": "PPV", "auc": "AUC"}


@dataclass(frozen=True)
class RateTable:
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


def rate_tables(rates: Rates) -> list[RateTable]:
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


def _selection(threshold: float, records: list[ByMeasure]) -> RateTable:
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
    return RateTable(f"Selection at {threshold:g}", text, columns, records)


def _errors(threshold: float, records: list[ByMeasure]) -> RateTable:
    columns = _names("tpr")[:1]
    for measure in ("tpr", "fpr", "ppv"):
        columns += _with_limits(measure, _SHORT[measure])
        columns.append(_difference(measure, f"{_SHORT[measure]} difference"))
    told = "; ".join(f"{TITLES[name]}: {MEANINGS[name]}" for name in ("tpr", "fpr", "ppv"))
    text = (
        f"{told[:1].upper()}{told[1:]}. Differences are those from the reference group; bold where "
        f"their limits exclude 0. {ONE_RATE}"
    )
    return RateTable(f"Errors of decisions at {threshold:g}", text, columns, records)


def _ranking(records: list[ByMeasure]) -> RateTable:
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
    return RateTable("Ranking", text, columns, records)


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
        return interval(own.low, own.high, _RATE.value)

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
    return interval(own.ratio_low, own.ratio_high, _TIMES.value)


def _apart_limits(rate: Rate) -> str:
    own: Estimate = rate.after
    return interval(own.difference_low, own.difference_high, _RATE.signed)


def interval(low: float, high: float, show: Callable[[float], str]) -> str:
    """Both limits, or a dash where there are none."""
    if math.isnan(low) or math.isnan(high):
        return numbers.UNKNOWN
    return f"{show(low)} to {show(high)}"
