"""What the audit found beyond the groups it was given: subgroups, richness, changes."""

from __future__ import annotations

import math

from recalibrate.auditing.findings import (
    Changes,
    Discoveries,
    Flips,
    MovedRow,
    Richness,
    Subgroup,
)
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import Cell, Column, named, numeric
from recalibrate.auditing.views.html.forest import Forest, Interval
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.tables import build_table, clipped
from recalibrate.auditing.views.numbers import Digits

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
    forest = Forest.around([_interval(each) for each in found.subgroups])

    def plot(each: Subgroup) -> Cell:
        label = f"Gap of {each.rule}: {digits.signed(each.gap)}"
        return Cell(forest.row(_interval(each), None, label))

    columns: list[Column[Subgroup]] = [
        named("subgroup", lambda s: s.rule),
        numeric("rows", lambda s: s.rows, tip="Over both halves"),
        numeric("share", lambda s: s.share, numbers.percent, "Share of the total weight"),
        numeric(
            "predicted",
            lambda s: s.mean_prediction,
            digits.value,
            "Mean prediction, on the rows that were not searched",
        ),
        numeric(
            "observed",
            lambda s: s.mean_outcome,
            digits.value,
            "Mean outcome, on the rows that were not searched",
        ),
        Column(forest.axis(), plot, "Corrected gap and its limits", kind="plot"),
        Column("gap", lambda s: Cell(digits.signed(s.gap), s.gap, "off"), "As observed there"),
        Column(
            "corrected gap",
            lambda s: Cell(digits.signed(s.corrected_gap), s.corrected_gap),
            "Without what being found for its size adds to a gap",
        ),
        Column(
            "limits",
            lambda s: Cell(f"{digits.signed(s.low)} to {digits.signed(s.high)}", s.low),
            "Of the true gap, corrected for the search",
        ),
        numeric(
            "p",
            lambda s: s.p_holm,
            numbers.p_value,
            "Adjusted for all rules that were tested (Holm)",
        ),
    ]
    merged = f" {found.merged:,} more rules are off but say no more than these." * bool(
        found.merged
    )
    table = build_table(columns, found.subgroups, label="Subgroups found by searching")
    return join([element("p", how + merged), table])


def _interval(each: Subgroup) -> Interval:
    return Interval(each.corrected_gap, each.low, each.high, True)


def show_richness(found: Richness) -> Markup:
    """Whether a class of functions still finds something on the level sets."""
    constants = ("a constant per level set", found.constant_gain, found.constant_gain_se, None, "")
    rows: list[tuple[str, float, float, float | None, str]] = [constants]
    for each in found.classes:
        noise, error = "yes" if each.beats else "no", each.covariance_se
        z = each.covariance / error if error else None
        rows.append((f"{each.role}: {each.described}", each.gain, each.gain_se, z, noise))
    columns: list[Column[tuple[str, float, float, float | None, str]]] = [
        named("class", lambda row: row[0]),
        numeric(
            "gain",
            lambda row: row[1],
            numbers.measure,
            "Mean fall of the squared error against the predictions",
        ),
        numeric("standard error", lambda row: row[2], numbers.measure),
        numeric(
            "witness in standard errors",
            lambda row: math.nan if row[3] is None else row[3],
            numbers.measure,
            "Mean of h(x) (y - f(x)) in standard errors",
        ),
        named("more than noise", lambda row: row[4]),
    ]
    table = build_table(columns, rows, label="What classes of functions gain on the level sets")
    how = (
        "Fitted on some rows, measured on others. The squared error of the predictions is "
        f"{numbers.measure(found.mse)}."
    )
    return join([element("p", found.verdict), table, element("p", how, class_="note")])


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
    at_least = "Share with a prediction of at least the threshold"
    columns: list[Column[Flips]] = [
        numeric("threshold", lambda f: f.threshold, "{:g}".format),
        named("group", lambda f: f.group),
        numeric("rows", lambda f: f.rows),
        numeric("positive before", lambda f: f.positive_before, numbers.percent, at_least),
        numeric("positive after", lambda f: f.positive_after, numbers.percent, at_least),
        numeric("became positive", lambda f: f.up, tip="Rows"),
        numeric("became negative", lambda f: f.down, tip="Rows"),
    ]
    return join(
        [
            element("h3", "Decisions that flip"),
            build_table(columns, shown, label="Decisions that flip", sortable=True),
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
    columns: list[Column[MovedRow]] = [
        numeric("row", lambda r: r.row, tip="Numbered from 0"),
        numeric("before", lambda r: r.before, digits.value),
        numeric("after", lambda r: r.after, digits.value),
        numeric("shift", lambda r: r.shift, digits.signed),
        named("outcome", lambda r: _outcome(r, digits), "number"),
    ]
    return join(
        [
            element("h3", "Largest changes"),
            build_table(columns, found.rows, label="Largest changes of predictions"),
        ]
    )
