"""What the audit found beyond the groups it was given: subgroups, richness, changes."""

from __future__ import annotations

import math

from recalibrate.auditing.findings import Changes, ClassGain, Discoveries, Flips, MovedRow, Richness
from recalibrate.auditing.views.html import numbers
from recalibrate.auditing.views.html.forest import Forest, Interval
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.numbers import Digits
from recalibrate.auditing.views.html.tables import Cell, Column, build_table, clipped

_FLIPS = 60  # rows of the table of flipped decisions, by size


def show_discoveries(found: Discoveries, digits: Digits) -> Markup:
    """Subgroups that are off, with rule, rows, predicted and observed."""
    if found.note:
        return element("p", found.note)
    how = (
        f"{found.candidates:,} rules came out of {found.searched_rows:,} rows and were tested on "
        f"the {found.tested_rows:,} others; if the predictions were right everywhere, anything at "
        f"all would be reported with a probability of at most {found.alpha:g}."
    )
    if not found.subgroups:
        return element("p", f"No subgroup is off by more than noise. {how}")
    intervals = [
        Interval(each.gap, each.gap - 2 * each.gap_se, each.gap + 2 * each.gap_se)
        for each in found.subgroups
    ]
    forest = Forest.around(intervals)
    columns = [
        Column("subgroup", kind="name"),
        Column("rows", "Over both halves"),
        Column("share", "Share of the total weight"),
        Column("predicted", "Mean prediction, on the rows that were not searched"),
        Column("observed", "Mean outcome, on the rows that were not searched"),
        Column(forest.axis(), "Gap ± 2 standard errors", kind="plot"),
        Column("gap"),
        Column("p", "Adjusted for all rules that were tested (Holm)"),
    ]
    rows = [
        [
            Cell(each.rule),
            Cell(f"{each.rows:,}"),
            Cell(numbers.percent(each.share)),
            Cell(digits.value(each.mean_prediction)),
            Cell(digits.value(each.mean_outcome)),
            Cell(forest.row(own, None, f"Gap of {each.rule}: {digits.signed(each.gap)}")),
            Cell(digits.signed(each.gap), look="off"),
            Cell(numbers.p_value(each.p_holm)),
        ]
        for each, own in zip(found.subgroups, intervals, strict=True)
    ]
    merged = f" {found.merged:,} more rules are off but say no more than these." * bool(
        found.merged
    )
    table = build_table(columns, rows, label="Subgroups found by searching")
    return join([element("p", how + merged), table])


def show_richness(found: Richness) -> Markup:
    """Whether a class of functions still finds something on the level sets."""
    columns = [
        Column("class", kind="name"),
        Column("gain", "Mean fall of the squared error against the level sets' best constants"),
        Column("standard error"),
        Column("in standard errors"),
        Column("more than noise", kind="name"),
    ]
    constants = [
        Cell("a constant per level set"),
        *_gain(found.constant_gain, found.constant_gain_se),
        Cell(""),
    ]
    rows = [constants, *(_class_row(each) for each in found.classes)]
    table = build_table(columns, rows, label="What classes of functions gain on the level sets")
    how = (
        "Fitted on some rows, measured on others. The squared error of the predictions is "
        f"{numbers.measure(found.mse)}."
    )
    return join([element("p", found.verdict), table, element("p", how, class_="note")])


def _class_row(each: ClassGain) -> list[Cell]:
    name = f"{each.role}: {each.described}"
    return [Cell(name), *_gain(each.gain, each.gain_se), Cell("yes" if each.beats else "no")]


def _gain(gain: float, error: float) -> list[Cell]:
    ratio = gain / error if error else math.nan
    return [
        Cell(numbers.measure(gain)),
        Cell(numbers.measure(error)),
        Cell(numbers.measure(ratio)),
    ]


def show_changes(found: Changes, digits: Digits) -> Markup:
    """What the step from the baseline to the audited predictions changes."""
    facts = [
        f"{numbers.percent(found.changed_share)} of the predictions changed, by "
        f"{digits.value(found.mean_absolute_shift)} on average and "
        f"{digits.value(found.largest_shift)} at most; the mean moved by "
        f"{digits.signed(found.mean_shift)}."
    ]
    if math.isfinite(found.rank_correlation):
        facts.append(f"Rank correlation of before and after: {found.rank_correlation:.4f}.")
    if math.isfinite(found.auc_before):
        facts.append(f"AUC: {found.auc_before:.4f} before, {found.auc_after:.4f} after.")
    return join([element("p", " ".join(facts)), _flips(found), _moved(found, digits)])


def _flips(found: Changes) -> Markup | None:
    if not found.flips:
        return None

    def size(each: Flips) -> tuple[bool, float]:
        return each.group != "all", -(each.up_share + each.down_share)

    shown = sorted(found.flips, key=size)[:_FLIPS]
    columns = [
        Column("threshold"),
        Column("group", kind="name"),
        Column("rows"),
        Column("positive before", "Share with a prediction of at least the threshold"),
        Column("positive after", "Share with a prediction of at least the threshold"),
        Column("became positive", "Rows"),
        Column("became negative", "Rows"),
    ]
    rows = [
        [
            Cell(f"{each.threshold:g}", each.threshold),
            Cell(each.group),
            Cell(f"{each.rows:,}", each.rows),
            Cell(numbers.percent(each.positive_before), each.positive_before),
            Cell(numbers.percent(each.positive_after), each.positive_after),
            Cell(f"{each.up:,}", each.up),
            Cell(f"{each.down:,}", each.down),
        ]
        for each in shown
    ]
    return join(
        [
            element("h3", "Decisions that flip"),
            build_table(columns, rows, label="Decisions that flip", sortable=True),
            clipped(len(shown), len(found.flips), "report.changes.table"),
        ]
    )


def _outcome(row: MovedRow, digits: Digits) -> str:
    if row.outcome is None:
        return numbers.UNKNOWN
    return f"{row.outcome:.0f}" if row.outcome in (0.0, 1.0) else digits.value(row.outcome)


def _moved(found: Changes, digits: Digits) -> Markup | None:
    if not found.rows:
        return None
    columns = [
        Column("row", "Numbered from 0"),
        Column("before"),
        Column("after"),
        Column("shift"),
        Column("outcome"),
    ]
    rows = [
        [
            Cell(f"{each.row:,}", each.row),
            Cell(digits.value(each.before), each.before),
            Cell(digits.value(each.after), each.after),
            Cell(digits.signed(each.shift), each.shift),
            Cell(_outcome(each, digits)),
        ]
        for each in found.rows
    ]
    return join(
        [
            element("h3", "Largest changes"),
            build_table(columns, rows, label="Largest changes of predictions"),
        ]
    )
