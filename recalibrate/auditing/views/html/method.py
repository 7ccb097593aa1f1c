"""What was audited, and how the numbers are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import audited_facts, coverage_columns
from recalibrate.auditing.views.html.formulas import typeset
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.tables import build_table
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.text import confidence

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

KINDS = {"binary": "0/1", "soft": "numbers in [0, 1]", "regression": "numbers"}


def show_facts(report: AuditReport, digits: Digits) -> Markup:
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


def show_coverage(report: AuditReport) -> Markup | None:
    """Rows that are unknown, or in no group, by column."""
    if not report.coverage:
        return None
    table = build_table(coverage_columns(), report.coverage, label="Rows in groups")
    return join([element("h3", "Rows unknown, missing or left out"), table])


def show_left_out(report: AuditReport) -> Markup | None:
    """Groups about which nothing can be said."""
    if not report.left_out:
        return None
    items = [element("li", f"{each.name}: {each.why}") for each in report.left_out]
    return join([element("h3", "Groups left out"), element("ul", *items)])


def show_notes(report: AuditReport) -> Markup:
    """How the numbers are computed, with their formulas."""
    notes = [
        element("div", element("h3", each.title), element("p", each.text), typeset(each.formula))
        for each in report.notes
    ]
    return element("div", *notes, class_="notes")


def _definitions(facts: dict[str, str]) -> Markup:
    pairs = [join([element("dt", name), element("dd", text)]) for name, text in facts.items()]
    return element("dl", *pairs)
