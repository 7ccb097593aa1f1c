"""Words that error messages share."""

from __future__ import annotations

from collections.abc import Sequence


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
