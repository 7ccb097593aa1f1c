"""Bounds of labels: what is possible, and the range that labels are scaled by."""

from __future__ import annotations

from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.scores import refuse
from recalibrate.support.checks import check_number, check_range

Bounds = tuple[float | None, float | None]
"""Smallest and largest possible label; None where there is none, or none is known."""
UNIT: Bounds = (0.0, 1.0)
NO_BOUNDS: Bounds = (None, None)


def check_bounds(bounds: Any, *, positive: bool = False) -> Bounds:
    """Bounds as the user gave them; None is no bound. Counts, amounts and rates have 0 at least.

    Examples
    --------
    >>> check_bounds((0, None)), check_bounds(None, positive=True)
    ((0.0, None), (0.0, None))
    """
    if bounds is None:
        return (0.0, None) if positive else NO_BOUNDS
    try:
        low, high = bounds
    except (TypeError, ValueError):
        low, high = check_range("bounds", bounds)  # says what is wrong
    if low is not None and high is not None:
        low, high = check_range("bounds", bounds)
    else:
        check_number("the lower bound", low)
        check_number("the upper bound", high)
        low, high = (None if bound is None else float(bound) for bound in (low, high))
    if positive:
        low = 0.0 if low is None else low
        if low < 0:
            raise ValueError(
                f"bounds={bounds!r} allow negative labels, which a log link cannot predict. Pass "
                "bounds=(0, None), or link='identity'."
            )
    return low, high


def refuse_outside(
    values: NDArray[Any],
    bounds: Bounds,
    *,
    above_zero: bool = False,
    what: str = "y",
    advice: str = "Widen the bounds, or clip the labels if they are wrong.",
) -> None:
    """Refuse labels that are not possible."""
    if values.dtype.kind == "O":
        raise ValueError(f"{what} holds text, where numbers are expected.")
    if above_zero:
        more = "A gamma deviance needs that; for labels with zeros pass link='log-tweedie-1.5'."
        refuse(values <= 0, values, f"{what} must be above zero", more)
    low, high = (-np.inf if bounds[0] is None else bounds[0]), bounds[1]
    high = np.inf if high is None else high
    shown = ", ".join("None" if bound is None else f"{bound:g}" for bound in bounds)
    refuse(
        (values < low) | (values > high),
        values,
        f"{what} must lie inside bounds=({shown})",
        advice,
    )


def label_range(
    seen: tuple[float, float], bounds: Bounds, *, positive: bool = False
) -> tuple[float, float]:
    """What 0 and 1 stand for: bounds that are known, and otherwise what was seen."""
    if positive:  # a power of two changes no digit of a label
        return 0.0, 2.0 ** frexp(seen[1])[1] if seen[1] > 0 else 1.0
    low, high = (a if b is None else b for a, b in zip(seen, bounds, strict=True))
    if low >= high:
        # Adding 1 does nothing to a number above 2**53.
        one = max(low + 1.0, float(np.nextafter(low, np.inf)))
        low, high = (low, one) if bounds[1] is None else (high - (one - low), high)
    _check_span(low, high)
    return low, high


def _check_span(low: float, high: float) -> None:
    if not np.isfinite(high - low):
        raise ValueError(
            f"The labels span {low:g} to {high:g}, more than float64 can hold: rescale them."
        )
