"""What users are told: warnings that point at their own line, lists in words."""

from __future__ import annotations

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


def listed(items: Sequence[object], limit: int = 30) -> str:
    """Spell out the first items, and say how many more there are.

    Examples
    --------
    >>> listed(["age", "sex", "race"], 2)
    "'age', 'sex' and 1 more"
    """
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(repr(item) for item in items[:limit]) + more


def either(items: Sequence[str]) -> str:
    """One of some items, of which there are two at least.

    Examples
    --------
    >>> either(["age", "sex", "race"])
    'age, sex or race'
    """
    return f"{', '.join(items[:-1])} or {items[-1]}"
