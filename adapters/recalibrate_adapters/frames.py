"""A user's X as the rows that a model of a DataFrame framework gets, and a graph is fed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import find_columns
from recalibrate.data.values import is_categorical, read_numbers

if TYPE_CHECKING:
    import pandas as pd

InputKind = Literal["float32", "float64", "int64", "string"]


def read_frame(X: Any, names: Sequence[str] | None, n_columns: int, *, wide: bool) -> pd.DataFrame:
    """The model's own columns, in its order.

    Floating-point numbers are held as float64; unless the model is ``wide``, that is reads float64,
    they are rounded to float32 before. Integers that the model's precision cannot hold are refused,
    everything else is left as it is. Columns of an array, or of a table for a model without names,
    are taken by position.
    """
    import pandas as pd

    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(_as_columns(X))
    if len(frame) == 0:
        raise ValueError(f"X is empty: 0 rows and {frame.shape[1]} columns.")
    given = [str(name) for name in frame.columns]
    if names is not None and isinstance(X, pd.DataFrame):
        frame = frame.iloc[:, find_columns(names, given)]
    elif frame.shape[1] != n_columns:
        raise ValueError(
            f"X has {frame.shape[1]} columns, but the base model takes {n_columns}. "
            "Pass the columns that it was trained on, in the same order."
        )
    known = [f"x{j}" for j in range(n_columns)] if names is None else list(names)
    spoken = given if names is None and isinstance(X, pd.DataFrame) else known
    columns = [_read_column(spoken[j], frame.iloc[:, j], wide) for j in range(n_columns)]
    return pd.concat(columns, axis=1, keys=known)


def text_columns(frame: pd.DataFrame) -> list[str]:
    """Columns that hold text or categories rather than numbers."""
    return [str(name) for name in frame if is_categorical(str(name), _values(frame[name]))]


def numeric_columns(frame: pd.DataFrame) -> list[str]:
    """The other columns."""
    texts = set(text_columns(frame))
    return [str(name) for name in frame if name not in texts]


def column_feed(frame: pd.DataFrame, kinds: Mapping[str, InputKind]) -> dict[str, NDArray[Any]]:
    """One array of shape [N, 1] per input; missing text is empty text."""
    feed: dict[str, NDArray[Any]] = {}
    for name, kind in kinds.items():
        column = frame[name]
        if kind == "string":
            values = column.to_numpy(dtype=object)
            missing = column.isna().to_numpy()
            feed[name] = np.array(
                ["" if gone else str(v) for v, gone in zip(values, missing, strict=True)],
                dtype=object,
            ).reshape(-1, 1)
        elif kind == "int64":
            feed[name] = _whole(name, column).reshape(-1, 1)
        else:
            values = numbers(name, column, wide=kind == "float64")
            feed[name] = values.astype(kind).reshape(-1, 1)
    return feed


def matrix_feed(frame: pd.DataFrame, kind: InputKind = "float64") -> dict[str, NDArray[Any]]:
    """All columns, which hold numbers, as the one matrix X."""
    columns = column_feed(frame, dict.fromkeys(map(str, frame.columns), kind))
    return {"X": np.concatenate(list(columns.values()), axis=1)}


def numbers(name: str, column: Any, *, wide: bool) -> NDArray[np.float64]:
    """A column's numbers as float64, rounded to float32 unless ``wide``; NaN is missing."""
    values = read_numbers(name, _values(column), wide=wide)
    if wide:
        return np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):  # beyond float32 is infinite, as documented
        return np.asarray(values, dtype=np.float32).astype(np.float64)


def _whole(name: str, column: Any) -> NDArray[np.int64]:
    values = numbers(name, column, wide=True)
    if not np.all(np.isfinite(values) & (values == np.floor(values))):
        raise ValueError(
            f"The base model takes whole numbers in column {name!r}, without missing values; "
            f"found {values[~(np.isfinite(values) & (values == np.floor(values)))][0]}."
        )
    return values.astype(np.int64)


def _read_column(name: str, column: pd.Series[Any], wide: bool) -> pd.Series[Any]:
    import pandas as pd

    values = _values(column)
    if is_categorical(name, values):
        return column
    if values.dtype.kind in "biu":
        read_numbers(name, values, wide=wide)  # only refuses what the model cannot hold
        return column
    return pd.Series(numbers(name, column, wide=wide), index=column.index)


def _values(column: Any) -> Any:
    """A numpy array where the dtype is numpy's, as `recalibrate.data.values` wants it."""
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column


def _as_columns(X: Any) -> Any:
    """An array as columns with a dtype each: an object array may hold numbers and text."""
    import pandas as pd

    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"X must be a table or a 2-d array, got shape {array.shape}.")
    if array.dtype.kind != "O":
        return array
    return pd.DataFrame(array).infer_objects()
