"""Tables whose cells carry their number, so that they can be sorted by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from recalibrate.auditing.views.columns import Cell, Column
from recalibrate.auditing.views.html.markup import Markup, element

T = TypeVar("T")


def build_table(
    columns: Sequence[Column[T]], records: Iterable[T], *, label: str, sortable: bool = False
) -> Markup:
    """A table in a box that scrolls where the page is too narrow or the table too long.

    ``label`` is its caption. A first column of names heads the rows.
    """
    heads = [
        element("th", each.title, class_=each.kind, scope="col", title=each.tip) for each in columns
    ]
    body = [
        element(
            "tr",
            *(
                _cell(each.cell(record), each.kind, sortable, k == 0)
                for k, each in enumerate(columns)
            ),
        )
        for record in records
    ]
    table = element(
        "table",
        element("caption", label),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="sortable" if sortable else None,
    )
    # Reachable by keyboard, or nobody could scroll it without a mouse.
    look = "scroll long" if sortable else "scroll"
    return element("div", table, class_=look, tabindex="0", role="region", aria_label=label)


def _cell(cell: Cell, kind: str, sortable: bool, first: bool) -> Markup:
    value = cell.value if sortable else None
    known = value is not None and math.isfinite(value)
    heads_row = first and kind == "name"
    return element(
        "th" if heads_row else "td",
        cell.shown,
        class_=f"{kind} {cell.look}".strip(),
        scope="row" if heads_row else None,
        data_v=f"{value:.6g}" if known else None,
    )


def clipped(shown: int, total: int, where: str) -> Markup | None:
    """A line that says what a list leaves out, if anything."""
    if shown >= total:
        return None
    return element("p", f"Shown: {shown:,} of {total:,}. All are in {where}.", class_="note")
