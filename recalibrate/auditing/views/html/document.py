"""The whole page, and the part of it that notebooks show."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from recalibrate.auditing.records import (
    Changes,
    Discoveries,
    Flips,
    GroupAudit,
    MovedRow,
    Rates,
    Richness,
    Subgroup,
)
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import (
    Cell,
    Column,
    Measure,
    audited_facts,
    coverage_columns,
    decomposition_columns,
    decompositions,
    error_columns,
    everybody_first,
    gap_columns,
    limits_text,
    measures,
    named,
    numeric,
    overall_columns,
    rate_tables,
    told_measures,
    worst_curves,
    worst_gaps,
)
from recalibrate.auditing.views.html.charts import (
    Forest,
    HeatCell,
    Interval,
    common_range,
    diagram,
    heat_map,
    residuals,
    show_slices,
)
from recalibrate.auditing.views.html.markup import Markup, build_table, clipped, element, join
from recalibrate.auditing.views.numbers import MINUS, Digits
from recalibrate.auditing.views.text import confidence, slope_sentences

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport


# --- Formulas in plain text, as the notes of a report have them, set with HTML ------------------


# In this order, on escaped text.
_SIGNS = (
    (r"\bsum_", "∑_"),
    (r"\bPhi\b", "Φ"),
    (r"\bphi\b", "φ"),
    (r"&lt;=", "≤"),
    (r" \+- ", " ± "),
    (r" \* ", " · "),
    (r" - ", f" {MINUS} "),
    (r"_\(([^)]*)\)", r"<sub>\1</sub>"),
    (r"_(\w)", r"<sub>\1</sub>"),
    (r"\^(\w)", r"<sup>\1</sup>"),
)


def _typeset(formula: str) -> Markup:
    """One paragraph per formula; semicolons separate them.

    Examples
    --------
    >>> _typeset("gap = sum_i w_i (y_i - f_i)^2")
    '<p class="formula">gap = ∑<sub>i</sub> w<sub>i</sub> (y<sub>i</sub> − f<sub>i</sub>)<sup>2</sup></p>'
    """  # noqa: E501, RUF002 - the result as it is
    return join(
        element("p", _set(part), class_="formula")
        for part in re.split(r";\s+", formula)
        if part.strip()
    )


def _set(formula: str) -> Markup:
    text = escape(formula.strip())
    for pattern, sign in _SIGNS:
        text = re.sub(pattern, sign, text)
    return Markup(text)


# --- What was audited, and how the numbers are computed -----------------------------------------


KINDS = {"binary": "0/1", "soft": "numbers in [0, 1]", "regression": "numbers"}


def _show_facts(report: AuditReport, digits: Digits) -> Markup:
    """What was audited, and the data in numbers."""
    facts = audited_facts(report) | {
        "Rows": f"{report.n_rows:,}",
        "Clusters": "none given" if report.n_clusters is None else f"{report.n_clusters:,}",
        "Labels": KINDS[report.kind],
        "Mean outcome": digits.value(report.groups[0].mean_outcome),
        "Groups": f"{len(report.groups):,}, all rows among them",
        "Baseline": "none given" if report.overall_before is None else "given",
        "Limits": f"{confidence(report)} for all groups at once, "
        f"critical value {numbers.measure(report.critical)}",
        "Bins": f"{len(report.bin_edges) + 1}, cut at "
        + ", ".join(digits.value(edge) for edge in report.bin_edges),
    }
    if not report.bin_edges:
        facts["Bins"] = "1"
    return _definitions(facts)


def _show_coverage(report: AuditReport) -> Markup | None:
    """Rows that are unknown, or in no group, by column."""
    if not report.coverage:
        return None
    table = build_table(coverage_columns(), report.coverage, label="Rows in groups")
    return join([element("h3", "Rows unknown, missing or left out"), table])


def _show_left_out(report: AuditReport) -> Markup | None:
    """Groups about which nothing can be said."""
    if not report.left_out:
        return None
    items = [element("li", f"{each.name}: {each.why}") for each in report.left_out]
    return join([element("h3", "Groups left out"), element("ul", *items)])


def show_notes(report: AuditReport) -> Markup:
    """How the numbers are computed, with their formulas."""
    notes = [
        element("div", element("h3", each.title), element("p", each.text), _typeset(each.formula))
        for each in report.notes
    ]
    return element("div", *notes, class_="notes")


def _definitions(facts: dict[str, str]) -> Markup:
    pairs = [join([element("dt", name), element("dd", text)]) for name, text in facts.items()]
    return element("dl", *pairs)


# --- The result at a glance: verdict, key figures, measures over all rows -----------------------


def _show_verdict(report: AuditReport) -> Markup:
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


def _show_tiles(report: AuditReport, digits: Digits) -> Markup:
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


def _show_overall(report: AuditReport, digits: Digits) -> Markup:
    """Measures over all rows and groups; with a baseline before, after, and the difference."""
    meaning: Column[Measure] = named("meaning", lambda m: m.meaning, "remark")
    columns = [*overall_columns(report, digits), meaning]
    shown = build_table(columns, told_measures(report), label="Measures over all rows")
    parts = decompositions(report)
    apart = build_table(decomposition_columns(), parts, label="What mean losses consist of")
    return join([shown, apart])


# --- Groups that are intersections of others: heat maps of their gaps, and a table of their own -


_MAPS = 6  # crossings that are drawn


def _show_maps(report: AuditReport, groups: Sequence[GroupAudit], digits: Digits) -> Markup:
    """A heat map of the gaps for every crossing, those with most groups off first."""
    crossings: dict[str, list[GroupAudit]] = {}
    for group in groups:
        crossings.setdefault(group.term, []).append(group)
    chosen = sorted(crossings, key=lambda term: -sum(g.after.off for g in crossings[term]))[:_MAPS]
    maps = [_draw(report, term, crossings[term], digits) for term in chosen]
    text = (
        "The gap of every intersection. Blue: under-predicted, the outcome is higher than "
        "predicted; orange: over-predicted. Bold: off by more than noise. A dash: no such rows, or "
        "fewer than the audit asks for."
    )
    rest = clipped(len(chosen), len(crossings), "the table below")
    return join([element("p", text), *maps, rest])


def _draw(report: AuditReport, term: str, groups: list[GroupAudit], digits: Digits) -> Markup:
    def place(group: GroupAudit) -> tuple[str, str]:
        return " * ".join(group.parts[:-1]), group.parts[-1]

    cells = {
        place(group): HeatCell(
            digits.signed(group.after.gap),
            group.after.gap,
            group.after.off,
            f"{group.name}: {group.rows:,} rows, limits {limits_text(report, group.after, digits)}",
        )
        for group in groups
    }
    rows, columns = (list(dict.fromkeys(key[side] for key in cells)) for side in (0, 1))
    return heat_map(rows, columns, cells, caption=f"Gaps of {term}")


# --- The groups: reliability diagrams, forest plot, and the table of all ------------------------


_RATES = 60  # groups of a table of rates; the page would grow with groups times rates


def _show_legend(report: AuditReport) -> Markup:
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
    """Reliability of all rows: the diagram, and the residuals."""
    everybody = report.groups[0]
    within = common_range(report, [everybody])
    return element(
        "div",
        _figure(diagram(everybody, within, digits), "All rows"),
        _figure(residuals(everybody, within, digits), "All rows, seen from nearer"),
        class_="pair",
    )


def _show_worst_curves(report: AuditReport, digits: Digits, most: int) -> Markup | None:
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


def _show_all(report: AuditReport, digits: Digits) -> Markup:
    """Every group that is no intersection, with its main numbers."""
    groups = [group for group in report.groups if len(group.parts) < 2]
    return _sortable(gap_columns(report, digits), groups, "Gaps of all groups")


def _show_errors(report: AuditReport, digits: Digits) -> Markup:
    """Errors beyond the mean of every group."""
    return _sortable(error_columns(report, digits), report.groups, "Errors of all groups")


def _show_intersections(report: AuditReport, digits: Digits) -> Markup | None:
    """The groups that are intersections: heat maps, and all of them, worst first."""
    crossed = [each for each in worst_gaps(report, len(report.groups)) if len(each.parts) > 1]
    if not crossed:
        return None
    in_order = [group for group in report.groups if len(group.parts) > 1]
    table = _sortable(gap_columns(report, digits), crossed, "Gaps of intersections, worst first")
    return join([_show_maps(report, in_order, digits), table])


def _sortable(
    columns: list[Column[GroupAudit]], groups: Sequence[GroupAudit], label: str
) -> Markup:
    return build_table(columns, groups, label=label, sortable=True)


def _show_rates(rates: Rates) -> Markup:
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


# --- Findings beyond the named groups: subgroups, richness, changes -----------------------------


_FLIPS = 60  # rows of the table of flipped decisions, by size


def _show_discoveries(found: Discoveries, digits: Digits) -> Markup:
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


def _show_richness(found: Richness) -> Markup:
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


def _show_changes(found: Changes, digits: Digits) -> Markup:
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


_GAPS, _CURVES = 40, 6  # groups of the page's plots
_FEW = 8  # groups of a notebook's plot


@dataclass(frozen=True)
class _Section:
    anchor: str
    title: str
    body: Markup

    def show(self) -> Markup:
        return element("section", element("h2", self.title), self.body, id=self.anchor)


def page(report: AuditReport, title: str) -> str:
    """One file that needs no network, no script to be read, and no other file."""
    digits = Digits.of(report)
    sections = _sections(report, digits)
    links = [element("a", each.title, href=f"#{each.anchor}") for each in sections]
    return shell(
        title,
        element(
            "header",
            element("h1", title),
            element("p", _subtitle(report), class_="subtitle"),
            element("nav", *links, aria_label="Sections"),
        ),
        _show_verdict(report),
        _show_tiles(report, digits),
        *(each.show() for each in sections),
    )


def shell(title: str, *parts: Markup) -> str:
    """A whole page in the style of the reports, around its parts."""
    main = element(
        "main",
        *parts,
        element("footer", element("p", "Made by recalibrate.")),
        class_="rc-audit page",
    )
    script = _resource("sorting.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        style(),
    )
    whole = element("html", head, element("body", main, element("script", script)), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def style() -> Markup:
    """The style sheet of all reports."""
    return element("style", _resource("style.css"))


def fragment(report: AuditReport) -> str:
    """Verdict, measures and the worst gaps, for the output of a notebook's cell."""
    digits = Digits.of(report)
    return element(
        "div",
        style(),
        element("p", _subtitle(report), class_="subtitle"),
        _show_verdict(report),
        _show_legend(report),
        show_gaps(report, digits, _FEW, rest="report.table"),
        show_everybody(report, digits),
        class_="rc-audit compact",
    )


def _sections(report: AuditReport, digits: Digits) -> list[_Section]:
    legend = _show_legend(report)
    found = [
        _Section("overall", "Overall", _show_overall(report, digits)),
        _Section(
            "reliability",
            "Reliability",
            join([_reliability_text(), legend, show_everybody(report, digits)]),
        ),
    ]
    curves = _show_worst_curves(report, digits, _CURVES)
    if curves is not None:
        found.append(_Section("worst", "Worst groups", join([_worst_text(), legend, curves])))
    gaps = join([_gaps_text(), legend, show_gaps(report, digits, _GAPS, rest="the table below")])
    found.append(_Section("gaps", "Gaps by group", gaps))
    found.append(_Section("groups", "All groups", _show_all(report, digits)))
    crossed = _show_intersections(report, digits)
    if crossed is not None:
        found.append(_Section("intersections", "Intersections", crossed))
    found.append(_Section("errors", "Errors beyond the mean", _show_errors(report, digits)))
    if report.slices is not None:
        found.append(_Section("time", "Over time", show_slices(report.slices, digits)))
    if report.rates is not None:
        body = _show_rates(report.rates)
        found.append(_Section("rates", "Decisions and ranking", body))
    if report.discoveries is not None:
        body = _show_discoveries(report.discoveries, digits)
        found.append(_Section("discoveries", "Where else the model is wrong", body))
    if report.richness is not None:
        body = _show_richness(report.richness)
        found.append(_Section("richness", "Is the class rich enough?", body))
    if report.changes is not None:
        body = _show_changes(report.changes, digits)
        found.append(_Section("changes", "What changed", body))
    facts = join(
        [
            _show_facts(report, digits),
            _show_coverage(report),
            _show_left_out(report),
        ]
    )
    found.append(_Section("data", "Data", facts))
    found.append(_Section("method", "Method", show_notes(report)))
    return found


def _reliability_text() -> Markup:
    return element(
        "p",
        "Rows are cut into bins by their prediction. Calibrated predictions lie on the dashed "
        "line; the band covers all bins of a curve at once. Larger points hold more weight.",
    )


def _worst_text() -> Markup:
    return element(
        "p",
        "The groups with the strongest evidence of errors along the predictions (cumulative "
        "error, ECCE, in standard deviations under calibration), worst first.",
    )


def _gaps_text() -> Markup:
    return element(
        "p",
        "Mean outcome minus mean prediction: to the right the group is under-predicted, to the "
        "left over-predicted. Limits hold for all groups at once; filled points are off by more "
        "than noise. Those come first, by size.",
    )


def _subtitle(report: AuditReport) -> str:
    compared = "" if report.overall_before is None else ", before and after"
    count = len(report.groups)
    return (
        f"{report.n_rows:,} rows, labels {KINDS[report.kind]}, {count:,} "
        f"group{'s' if count > 1 else ''}{compared}"
    )


def _policy(script: str) -> str:
    """Allows this page's own style and script, and nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )


def _resource(name: str) -> Markup:
    return Markup(files("recalibrate.auditing.views.html").joinpath(name).read_text("utf-8"))
