"""The page of an audit of several classes: a heat map class x group, then what is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recalibrate.auditing.views.html import document
from recalibrate.auditing.views.html.charts import HeatCell, heat_map
from recalibrate.auditing.views.html.document import shell, style
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.numbers import Digits, cell

if TYPE_CHECKING:
    from recalibrate.auditing.classes import ClassReport

_GROUPS, _WORST, _FEW = 40, 30, 8


def class_page(report: ClassReport, title: str) -> str:
    """One file that needs no network, no script to be read, and no other file."""
    digits = Digits.of(report.top)
    sections = [
        ("map", "Gaps by class and group", _map(report, _GROUPS)),
        ("worst", "Worst gaps", _worst(report, _WORST)),
        ("classes", "Classes", _measures(report)),
        ("top", "The most probable label", _top(report, digits)),
        ("each", "Class by class", _each(report)),
    ]
    links = [element("a", name, href=f"#{anchor}") for anchor, name, _ in sections]
    subtitle = f"{report.n_rows:,} rows, {len(report.classes)} classes"
    return shell(
        title,
        element(
            "header",
            element("h1", title),
            element("p", subtitle, class_="subtitle"),
            element("nav", *links, aria_label="Sections"),
        ),
        _verdict(report),
        *(
            element("section", element("h2", name), body, id=anchor)
            for anchor, name, body in sections
        ),
    )


def class_fragment(report: ClassReport) -> str:
    """Verdict and heat map, for the output of a notebook's cell."""
    body = [style(), _verdict(report), _map(report, _FEW)]
    return element("div", *body, class_="rc-audit compact")


def _verdict(report: ClassReport) -> Markup:
    wrong = report.n_off > 0
    head = "Miscalibrated beyond noise" if wrong else "No miscalibration beyond noise"
    return document.verdict_box(wrong, head, report.verdict)


def _map(report: ClassReport, most: int) -> Markup:
    """Gaps of all classes; the groups with the largest ones, if they are many."""
    names = [group.name for group in report.reports[0].groups]
    cells: dict[tuple[str, str], HeatCell] = {}
    size = dict.fromkeys(names, 0.0)
    for label, own in zip(report.classes, report.reports, strict=True):
        digits = Digits.of(own)
        for group in own.groups:
            gap, off = group.after.gap, group.after.off
            tip = (
                f"{label} in {group.name}: predicted {digits.value(group.after.mean_prediction)}, "
                f"observed {digits.value(group.mean_outcome)}, {group.rows:,} rows"
            )
            cells[group.name, str(label)] = HeatCell(digits.signed(gap), gap, off, tip)
            size[group.name] = max(size[group.name], abs(gap) + off)
    shown = sorted(names[1:], key=lambda name: -size[name])[: most - 1]
    rows = [names[0], *(name for name in names if name in shown)]
    kept = {place: cell for place, cell in cells.items() if place[0] in rows}
    text = (
        "Mean outcome minus mean prediction. Marked cells are off by more than noise; limits hold "
        "for all classes and groups at once."
    )
    if len(rows) < len(names):
        text += f" Shown are all rows and the {len(rows) - 1} groups with the largest gaps."
    table = heat_map(rows, [str(c) for c in report.classes], kept, caption="Gaps by class")
    return join([element("p", text), table])


def _worst(report: ClassReport, most: int) -> Markup:
    columns = ["class", "group", "rows", "mean_prediction", "mean_outcome", "gap", "low", "high"]
    return _table(report.worst(most)[columns].to_dict("records"), "Worst gaps")


def _measures(report: ClassReport) -> Markup:
    return _table(report.measures.to_dict("records"), "Measures of every class over all rows")


def _table(records: list[dict[Any, Any]], caption: str) -> Markup:
    """Records as a plain table."""
    names = list(records[0]) if records else []
    heads = [element("th", str(name).replace("_", " "), scope="col") for name in names]
    lines = []
    for record in records:
        first, *rest = [cell(str(name), value, Digits(3)) for name, value in record.items()]
        cells = [element("td", each) for each in rest]
        lines.append(element("tr", element("th", first, scope="row", class_="name"), *cells))
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *lines),
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _top(report: ClassReport, digits: Digits) -> Markup:
    text = (
        "How often the most probable label is right, against the probability that it was given: "
        "over all rows, and the groups where that is furthest off."
    )
    parts = [
        element("p", text),
        document.show_everybody(report.top, digits),
        document.show_gaps(report.top, digits, _FEW, rest="report.top.table"),
    ]
    return join(parts)


def _each(report: ClassReport) -> Markup:
    """Reliability and worst gaps of every class, folded."""
    parts = []
    for label, own in zip(report.classes, report.reports, strict=True):
        digits = Digits.of(own)
        parts.append(
            element(
                "details",
                element("summary", f"{label}: {own.verdict}"),
                document.show_everybody(own, digits),
                document.show_gaps(own, digits, _FEW, rest=f"report[{label!r}].table"),
            )
        )
    return join(parts)
