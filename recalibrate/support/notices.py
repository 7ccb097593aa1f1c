"""What users are told: warnings that point at their own line, lists in words."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence


def warn_user(message: str) -> None:
    """Warn at the first caller outside of this package and its adapters, however deep it is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def _is_inside(module: str) -> bool:
    package = __name__.partition(".")[0]
    return module.partition(".")[0] in (package, f"{package}_adapters")


_STEERING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)
"""Control characters but tab and line feed, changes of direction, halves of characters."""


def printable(text: str) -> str:
    r"""A text without what steers a terminal: such characters are written as their codes.

    Examples
    --------
    >>> printable("\x1b[31mred\r")
    '\\x1b[31mred\\x0d'
    """
    return _STEERING.sub(lambda found: f"\\{_code(ord(found[0]))}", text)


def _code(number: int) -> str:
    return f"x{number:02x}" if number < 256 else f"u{number:04x}"


def listed(items: Sequence[object], limit: int = 30) -> str:
    """Spell out the first items, and say how many more there are.

    Examples
    --------
    >>> listed(["age", "sex", "race"], 2)
    "'age', 'sex' and 1 more"
    """
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(repr(item) for item in items[:limit]) + more


def counted(number: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def either(items: Sequence[str]) -> str:
    """One of some items, of which there are two at least.

    Examples
    --------
    >>> either(["age", "sex", "race"])
    'age, sex or race'
    """
    return f"{', '.join(items[:-1])} or {items[-1]}"
