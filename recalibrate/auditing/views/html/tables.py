"""Tables whose cells carry their number, so that they can be sorted by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recalibrate.auditing.views.html.markup import Markup, element


@dataclass(frozen=True)
class Column:
    """The head of a column; ``tip`` is what it means, ``kind`` the class of its cells."""

    title: str | Markup
    tip: str | None = None
    kind: str = "number"


@dataclass(frozen=True)
class Cell:
    """What a cell shows, the number to sort it by (else its text), and an extra class."""

    shown: str | Markup
    value: float | None = None
    look: str = ""


def build_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    label: str,
    sortable: bool = False,
) -> Markup:
    """A table in a box that scrolls where the page is too narrow or the table too long."""
    heads = [
        element("th", each.title, class_=each.kind, scope="col", title=each.tip) for each in columns
    ]
    body = [element("tr", *map(_cell, row, columns)) for row in rows]
    table = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="sortable" if sortable else None,
    )
    # Reachable by keyboard, or nobody could scroll it without a mouse.
    look = "scroll long" if sortable else "scroll"
    return element("div", table, class_=look, tabindex="0", role="region", aria_label=label)


def _cell(cell: Cell, column: Column) -> Markup:
    value = cell.value
    known = value is not None and math.isfinite(value)
    return element(
        "td",
        cell.shown,
        class_=f"{column.kind} {cell.look}".strip(),
        data_v=f"{value:.6g}" if known else None,
    )


def clipped(shown: int, total: int, where: str) -> Markup | None:
    """A line that says what a list leaves out, if anything."""
    if shown >= total:
        return None
    return element("p", f"Shown: {shown:,} of {total:,}. All are in {where}.", class_="note")
