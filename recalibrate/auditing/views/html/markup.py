"""HTML and SVG elements whose text is escaped unless it says that it is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

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
