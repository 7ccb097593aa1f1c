"""A table of coloured cells: a number for every pair of two things."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recalibrate.auditing.views.html.markup import Markup, element
from recalibrate.auditing.views.numbers import UNKNOWN

_STEPS = 4  # colours on either side of zero


@dataclass(frozen=True)
class HeatCell:
    """What a cell shows, the number that colours it, whether it is marked, and its tooltip."""

    shown: str
    value: float
    marked: bool
    tip: str


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    *,
    caption: str,
    turn: bool = True,
) -> Markup:
    """Cells by row and column; colours are equally strong on both sides of zero.

    Pairs without a cell are left empty. With ``turn``, whatever has more entries goes down the
    page.
    """
    if turn and len(columns) > len(rows):
        rows, columns = columns, rows
        cells = {(row, column): cell for (column, row), cell in cells.items()}
    sizes = [abs(each.value) for each in cells.values() if math.isfinite(each.value)]
    reach = max(sizes, default=0.0) or 1.0
    heads = [element("th", each, scope="col") for each in columns]
    body = [
        element(
            "tr",
            element("th", row, scope="row", class_="name"),
            *(_cell(cells.get((row, column)), reach) for column in columns),
        )
        for row in rows
    ]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", element("td"), *heads)),
        element("tbody", *body),
        class_="heat",
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(cell: HeatCell | None, reach: float) -> Markup:
    if cell is None:
        return element("td", UNKNOWN, class_="none")
    step = round(_STEPS * cell.value / reach) if math.isfinite(cell.value) else 0
    side = "up" if step > 0 else "down"
    look = f"{side}{abs(step)}" if step else "even"
    return element("td", cell.shown, class_=f"{look} off" if cell.marked else look, title=cell.tip)
