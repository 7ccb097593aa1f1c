"""Several models side by side, as one page and for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.auditing.comparison import (
    digits_of,
    groups_of,
    model_columns,
    models_of,
    side_columns,
    verdicts,
    words,
)
from recalibrate.auditing.views.columns import limits_text
from recalibrate.auditing.views.html.charts import HeatCell, heat_map
from recalibrate.auditing.views.html.document import shell, show_notes, style
from recalibrate.auditing.views.html.markup import Markup, build_table, clipped, element, join

if TYPE_CHECKING:
    from recalibrate.auditing.comparison import AuditComparison

_MAPPED = 40  # groups of the heat map; the table has all


def page(comparison: AuditComparison, title: str) -> str:
    """One file that needs no network."""
    first = next(iter(comparison.values()))
    count = f"{len(comparison)} models, {first.n_rows:,} rows, {len(first.groups):,} groups"
    columns = side_columns(comparison)
    return shell(
        title,
        element("header", element("h1", title), element("p", count, class_="subtitle")),
        element("p", words(comparison)),
        _models(comparison),
        element("section", element("h2", "Gaps by group"), _map(comparison), id="gaps"),
        element(
            "section",
            element("h2", "All groups"),
            build_table(columns, groups_of(comparison), label="Gaps by model", sortable=True),
            id="groups",
        ),
        element("section", element("h2", "Method"), show_notes(first), id="method"),
    )


def fragment(comparison: AuditComparison) -> str:
    """The models' main numbers and the worst gaps, for the output of a notebook's cell."""
    parts = [style(), _models(comparison), _map(comparison, 10)]
    return element("div", *parts, class_="rc-audit compact")


def _models(comparison: AuditComparison) -> Markup:
    table = build_table(model_columns(comparison), models_of(comparison), label="Models")
    told = [
        element("p", element("strong", f"{name}: "), text)
        for name, text in verdicts(comparison).items()
    ]
    return join([table, *told])


def _map(comparison: AuditComparison, most: int = _MAPPED) -> Markup:
    """Gaps by group and model."""
    digits, groups = digits_of(comparison), groups_of(comparison)
    cells = {
        (sides[0].name, name): HeatCell(
            digits.signed(side.after.gap),
            side.after.gap,
            side.after.off,
            f"{name}, {side.name}: limits {limits_text(report, side.after, digits)}",
        )
        for sides in groups[:most]
        for (name, report), side in zip(comparison.items(), sides, strict=True)
    }
    names = [sides[0].name for sides in groups[:most]]
    drawn = heat_map(
        names, list(comparison), cells, caption="Gaps by group and model, worst first", turn=False
    )
    return join([drawn, clipped(len(names), len(groups), "the table")])
