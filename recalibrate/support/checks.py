"""Single numbers and flags that a user gives, checked; None passes where it means a default."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse what is not a finite number inside the limits.

    Examples
    --------
    >>> check_number("step", 0, above=0.0)
    Traceback (most recent call last):
    ...
    ValueError: step must be above 0, got 0
    """
    if value is None:
        return
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not np.isfinite(value):  # type: ignore[call-overload]
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if above is not None and not value > above:  # type: ignore[operator]
        raise ValueError(f"{name} must be above {above:g}, got {value!r}")
    if least is not None and not value >= least:  # type: ignore[operator]
        raise ValueError(f"{name} must be at least {least:g}, got {value!r}")
    if most is not None and not value <= most:  # type: ignore[operator]
        raise ValueError(f"{name} must be at most {most:g}, got {value!r}")


def check_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number inside the limits.

    Examples
    --------
    >>> check_whole("levels", 2.5, least=1)
    Traceback (most recent call last):
    ...
    ValueError: levels must be a whole number of at least 1, got 2.5
    """
    if value is None:
        return
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value!r}")


def check_range(name: str, value: Any) -> tuple[float, float]:
    """Two finite numbers, the lower one first; all else is refused.

    Examples
    --------
    >>> check_range("bounds", [0, 10])
    (0.0, 10.0)
    """
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be two numbers (low, high), got {value!r}") from error
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"{name} must be finite with low < high, got ({low:g}, {high:g})")
    return low, high


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Examples
    --------
    >>> check_flag("rounded", "yes")
    Traceback (most recent call last):
    ...
    ValueError: rounded must be True or False, got 'yes'
    """
    if value is not None and not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
