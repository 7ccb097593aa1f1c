"""HTML and SVG elements whose text is escaped unless it says that it is markup."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeVar

from recalibrate.auditing.views.columns import Cell, Column

_VOID = frozenset({"meta", "link", "input", "br"})
# Control characters have no place in HTML, halves of surrogate pairs none in UTF-8.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | float | None) -> Markup:
    """One element with its children; children that are None are left out, as are attributes.

    Names of attributes are written with underscores: ``class_``, ``aria_label``.

    Examples
    --------
    >>> element("td", "a < b", class_="name", data_v=0.50, title=None)
    '<td class="name" data-v="0.5">a &lt; b</td>'
    >>> element("tr", element("td", "1"))
    '<tr><td>1</td></tr>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{join(children)}</{tag}>")


def join(parts: Iterable[str | None]) -> Markup:
    """Parts one after the other; text among them is escaped.

    Examples
    --------
    >>> join([element("b", "x"), " & ", None])
    '<b>x</b> &amp; '
    """
    return Markup("".join(_safe(part) for part in parts if part is not None))


def _safe(text: str) -> str:
    if isinstance(text, Markup):
        return text
    return escape(_FORBIDDEN.sub("\ufffd", text), quote=False)


def _attribute(value: str | float) -> str:
    if isinstance(value, str):
        return escape(_FORBIDDEN.sub("\ufffd", value), quote=True)
    return f"{value:.2f}".rstrip("0").rstrip(".")


# --- Tables whose cells carry their number, so that they can be sorted by it --------------------


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
