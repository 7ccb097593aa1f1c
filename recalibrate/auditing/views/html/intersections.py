"""Groups that are intersections of others: heat maps of their gaps, and a table of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recalibrate.auditing.records import GroupAudit
from recalibrate.auditing.views.columns import limits_text
from recalibrate.auditing.views.html.heatmap import HeatCell, heat_map
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.tables import clipped
from recalibrate.auditing.views.numbers import Digits

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

_MAPS = 6  # crossings that are drawn


def show_maps(report: AuditReport, groups: Sequence[GroupAudit], digits: Digits) -> Markup:
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
