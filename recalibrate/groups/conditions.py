"""Sets of a feature's codes, said as conditions: ``25 < age <= 40``, ``sex == 'F'``.

What a tree's path or a discovered subgroup says about a feature is a set of its codes (see
``bins``). Here it becomes a condition of the group language, so that what a report prints can be
given to ``Groups`` as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.bins import FeatureBins
from recalibrate.data.columns import integer_window
from recalibrate.data.table import Column
from recalibrate.data.values import Value
from recalibrate.groups import expressions as ex

Codes = NDArray[np.bool_]
MOST_LISTED = 6
"""Categories that are spelled out for readers; the condition itself has them all."""


def condition_of(
    feature: FeatureBins, column: Column, codes: Codes, *, whole: bool = False, missing: bool = True
) -> ex.Condition | None:
    """The condition that a feature's code is in a set; None where it says nothing.

    Parameters
    ----------
    feature, column
        Bins of the feature, and the column that they were made of.
    codes
        Which codes are in the set, the missing one (0) first. Numeric codes must be neighbours.
    whole
        Whether the column holds whole numbers only: thresholds are then rounded down.
    missing
        Whether missing values occur; if not, nothing is said about them.

    Examples
    --------
    >>> import numpy as np
    >>> feature = FeatureBins("age", np.array([24.5, 64.5], np.float32), None, True)
    >>> column = Column("age", "numeric")
    >>> first = condition_of(feature, column, np.array([False, True, False, False]), whole=True)
    >>> ex.to_text(first)
    'age <= 24'
    >>> ex.to_text(condition_of(feature, column, np.array([True, False, True, False])))
    '(24.5 < age <= 64.5) or age is missing'
    """
    present = _categories(feature, column, codes) if feature.categorical else None
    if not codes[1:].any():
        return ex.IsMissing(column.name)
    if codes[1:].all():
        return None if codes[0] or not missing else ex.Not(ex.IsMissing(column.name))
    inside = _interval(feature, codes, whole) if present is None else present
    if codes[0] and missing:
        return ex.Or((inside, ex.IsMissing(column.name)))
    return inside


def is_whole(column: NDArray[np.float32]) -> bool:
    """Whether all present values are whole numbers."""
    return integer_window(column) is not None


def conjunction(conditions: Sequence[ex.Condition]) -> ex.Condition | None:
    """All of some conditions as one; None of none."""
    flat: list[ex.Condition] = []
    for condition in conditions:
        flat.extend(condition.operands if isinstance(condition, ex.And) else (condition,))
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else ex.And(tuple(flat))


def said(conditions: Sequence[ex.Condition]) -> str:
    """All of some conditions in words, long lists of categories cut short.

    Examples
    --------
    >>> said([ex.In("code", tuple(range(100)))])
    'code in (0, 1, 2, 3, 4, 5, ... of 100)'
    """
    parts = []
    for condition in conditions:
        text = _said(condition)
        bracket = isinstance(condition, ex.Or) and len(conditions) > 1
        parts.append(f"({text})" if bracket else text)
    return " and ".join(parts)


def _said(condition: ex.Condition) -> str:
    if isinstance(condition, ex.Or):
        return " or ".join(_said(operand) for operand in condition.operands)
    if isinstance(condition, ex.In) and len(condition.values) > MOST_LISTED:
        short = ex.In(condition.column, condition.values[:MOST_LISTED], condition.negated)
        return f"{ex.to_text(short).removesuffix(')')}, ... of {len(condition.values)})"
    return ex.to_text(condition)


def _interval(feature: FeatureBins, codes: Codes, whole: bool) -> ex.Condition:
    """Neighbouring numeric codes, not all of them."""
    inside = np.flatnonzero(codes[1:]) + 1
    first, last = int(inside[0]), int(inside[-1])
    bounds: list[ex.Condition] = []
    if first > 1:
        bounds.append(ex.Compare(feature.name, ">", _number(feature.edges[first - 2], whole)))
    if last < feature.count - 1:
        bounds.append(ex.Compare(feature.name, "<=", _number(feature.edges[last - 1], whole)))
    return bounds[0] if len(bounds) == 1 else ex.And(tuple(bounds))


def _number(edge: np.float32, whole: bool) -> Value:
    """The shortest number that is this float32."""
    value = float(str(np.floor(edge) if whole else edge))
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _categories(feature: FeatureBins, column: Column, codes: Codes) -> ex.Condition | None:
    """Categories whose bin is in the set, named or, where that is shorter, all but the others."""
    if feature.lookup is None or codes[1:].all() or not codes[1:].any():
        return None
    chosen = codes[feature.lookup[1:]]
    inside = tuple(c for c, kept in zip(column.categories, chosen, strict=True) if kept)
    outside = tuple(c for c, kept in zip(column.categories, chosen, strict=True) if not kept)
    if len(inside) == 1:
        return ex.Compare(column.name, "==", inside[0])
    if len(outside) == 1:
        return ex.Compare(column.name, "!=", outside[0])
    if len(inside) <= len(outside):
        return ex.In(column.name, inside)
    return ex.In(column.name, outside, negated=True)
