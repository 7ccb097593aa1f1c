"""A user's rows as the numbers of the one tensor that a torch model takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.splitting import find_columns
from recalibrate.data.values import read_numbers
from recalibrate_adapters.frames import numbers

MORE_COLUMNS = (
    " If X has more columns than the model takes, tell it which ones are its own: "
    'model.feature_names = ["age", ...].'
)


def read_floats(X: Any, names: tuple[str, ...] | None, wide: bool) -> NDArray[Any]:
    """A DataFrame's columns, or an array of any rank, as float32 or float64."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    dtype = np.float64 if wide else np.float32
    if hasattr(X, "iloc"):
        given = [str(name) for name in X.columns]
        chosen = find_columns(names or given, given)
        try:
            columns = [numbers(given[j], X.iloc[:, j], wide=wide) for j in chosen]
        except ValueError as error:
            raise ValueError(f"{error}{'' if names else MORE_COLUMNS}") from error
        return np.column_stack(columns).astype(dtype)
    array = np.asarray(X)
    if names is not None and array.shape[1:] != (len(names),):
        raise ValueError(
            f"X has shape {array.shape}, but the torch model takes {len(names)} columns."
        )
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # beyond float32 is infinite, as documented
            return np.array(array, dtype=dtype)
    if array.ndim == 2:
        columns = [read_numbers(f"x{j}", array[:, j], wide=wide) for j in range(array.shape[1])]
        return np.column_stack(columns).astype(dtype)
    flat = read_numbers("X", array.reshape(-1), wide=wide)
    return flat.astype(dtype).reshape(array.shape)


def holds_whole(X: Any) -> bool:
    """Whether all numbers are of an integer type."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    types = list(X.dtypes) if hasattr(X, "iloc") else [np.asarray(X).dtype]
    return all(getattr(kind, "kind", "") in "iu" for kind in types)


def refuse_several(X: Any) -> None:
    """One tensor is what a base model takes."""
    parts = list(X.values()) if isinstance(X, dict) else X
    if isinstance(parts, tuple | list) and any(np.ndim(part) > 1 for part in parts[:9]):
        raise ValueError(
            f"X is a {type(X).__name__} of {len(parts)} arrays, but a torch model is asked with "
            "one tensor. Pass a function of X that calls the model with all of them and returns "
            "one score per row (and a table for H as Z=)."
        )
