"""Vectors of numbers at the door: one conversion to float64, for labels, scores and measures."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.notices import listed

Float64 = NDArray[np.float64]


def to_array(data: Any, name: str) -> NDArray[Any]:
    """Array of the data as they are; masks and ragged lists are refused."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: pass its valid entries, or .filled(...).")
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{name} must be 1-d, but its entries differ in length.") from error


def to_floats(array: NDArray[Any], name: str, advice: str = "Convert it to numbers.") -> Float64:
    """Convert a vector of numbers or bool to new float64, with NaN for missing; refuse all else.

    The advice is for those who pass text.

    Examples
    --------
    >>> to_floats(np.array([True, None, 2], dtype=object), "y")
    array([ 1., nan,  2.])
    """
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    texts = [str(v) for v in array if isinstance(v, str)] if array.dtype.kind in "OUT" else []
    if texts:
        shown = listed(sorted(set(texts)), 5)
        raise ValueError(f"{name} holds text, not numbers: {shown}. {advice}")
    if array.dtype.kind != "O":
        raise ValueError(f"{name} holds {array.dtype} values: pass numbers.")
    import pandas as pd

    values = np.full(len(array), np.nan)
    present = ~pd.isna(array)
    types: set[Any] = set(map(type, array[present]))
    for type_ in types:
        # numpy counts timedelta64 among the integers, and would cast datetime64 to a number
        if not issubclass(type_, Real | np.bool_ | Decimal) or issubclass(type_, np.timedelta64):
            raise ValueError(f"{name} holds {type_.__name__} values: pass numbers.")
    try:
        values[present] = array[present].astype(np.float64)
    except OverflowError as error:
        raise ValueError(f"{name} must be numbers that float64 can hold: {error}.") from error
    return values


def finite_vector(data: Any, name: str, n_rows: int | None = None) -> Float64:
    """Check a vector of a measure: shape (n,), not empty, finite, as long as f when that is known.

    Examples
    --------
    >>> finite_vector([1, 0, True], "y", 3)
    array([1., 0., 1.])
    """
    array = to_array(data, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {array.shape}")
    if not len(array):
        raise ValueError(f"{name} is empty; at least one row is needed")
    if n_rows is not None and len(array) != n_rows:
        raise ValueError(f"{name} has {len(array)} rows, but f has {n_rows}")
    vector = to_floats(array, name, f"Convert it: {name} must hold numbers.")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ValueError(
            f"{name} must be finite; {len(bad)} values are not, the first is {vector[bad[0]]} "
            f"in row {bad[0]}"
        )
    return vector


def read_weight(weight: Any, n_rows: int) -> Float64:
    """Check row weights: one per row, finite, not negative, not all zero.

    Examples
    --------
    >>> read_weight([1, 0, 2.5], 3)
    array([1. , 0. , 2.5])
    """
    array = to_array(weight, "weight")
    if array.shape != (n_rows,):
        raise ValueError(f"weights must have shape ({n_rows},), got {array.shape}")
    values = to_floats(array, "weight", "Convert them: weights must be numbers.")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        raise ValueError(
            f"weights must be finite and not negative; {len(bad)} are not, the first is "
            f"{values[bad[0]]} in row {bad[0]}"
        )
    if not values.any():
        raise ValueError("all weights are zero; give at least one row a positive weight")
    return values
