"""Formulas in plain text, as the notes of a report have them, set with HTML."""

from __future__ import annotations

import re
from html import escape

from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.numbers import MINUS

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


def typeset(formula: str) -> Markup:
    """One paragraph per formula; semicolons separate them.

    Examples
    --------
    >>> typeset("gap = sum_i w_i (y_i - f_i)^2")
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
