"""What users pass as rows, cut into columns, and columns found by their names."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.data.sparse import is_sparse
from recalibrate.support.notices import listed

if TYPE_CHECKING:
    import pandas as pd


class _FrameColumns(Sequence[Any]):
    """Columns of a DataFrame, each cut out where it is asked for: of a wide one most never are."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._labels = frame.columns.tolist()
        self._distinct = frame.columns.is_unique

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, j: Any) -> Any:
        # A name takes half as long as a place, but other labels may mean several columns or rows.
        label = self._labels[j]
        by_name = self._distinct and type(label) is str
        series = self._frame[label] if by_name else self._frame.iloc[:, j]
        return series.to_numpy() if isinstance(series.dtype, np.dtype) else series


def split_columns(X: Any) -> tuple[list[str] | None, Sequence[Any]]:
    """Names (None for arrays) and columns: 1-d views, or a Series of a pandas dtype."""
    if is_sparse(X):
        raise TypeError(
            "X is a sparse matrix, but H needs a table. Give H one of its own with Z=; the base "
            "model then gets X as it is. Or make X dense as the base model reads it: to xgboost an "
            "entry that is not stored is missing (numpy.nan), to others it is 0 (X.toarray())."
        )
    if X is None:
        raise TypeError("X is None: pass the rows, a DataFrame or an array.")
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("X is a masked array: pass X.astype(float).filled(numpy.nan).")
    if not isinstance(X, np.ndarray | list | tuple):
        import pandas as pd

        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        if isinstance(X, pd.DataFrame):
            _check_shape(X.shape)
            if X.columns.nlevels > 1:
                raise ValueError(
                    f"The columns of X have names of {X.columns.nlevels} levels, such as "
                    f"{X.columns[0]!r}. Give each one name, for example X.columns = "
                    "['_'.join(map(str, name)) for name in X.columns]."
                )
            return [str(name) for name in X.columns], _FrameColumns(X)
    # As objects, or a list of rows [1, "a"] would become all text.
    array = np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    _check_shape(array.shape)
    return None, [array[:, j] for j in range(array.shape[1])]


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"X must be a table of rows and columns, but has shape {shape}. Reshape a single "
            "column with X.reshape(-1, 1), a single row with X.reshape(1, -1); rows of a list "
            "must have equal lengths. If X is for the base model only (documents, images), give H "
            "a table of its own with Z=."
        )
    if 0 in shape:
        raise ValueError(f"X is empty: {shape[0]} rows and {shape[1]} columns.")


def find_columns(wanted: Sequence[str], names: Sequence[str]) -> list[int]:
    """Positions of the wanted columns among the names of X; absent and repeated ones are errors.

    Examples
    --------
    >>> find_columns(["sex", "age"], ["age", "city", "sex"])
    [2, 0]
    """
    position = {name: j for j, name in enumerate(names)}
    if len(position) == len(names) and all(name in position for name in wanted):
        return [position[name] for name in wanted]
    counts = Counter(names)
    absent = [name for name in wanted if not counts[name]]
    if absent:
        raise ValueError("X: " + no_such_columns(absent, names))
    repeated = [name for name in wanted if counts[name] > 1]
    if repeated:
        raise ValueError(f"Columns occur more than once in X: {listed(repeated)}. Keep one each.")
    return [position[name] for name in wanted]


def distinct_names(names: Sequence[str], argument: str) -> list[str]:
    """Names as text, each once."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of column names: pass [{names!r}].")
    return list(dict.fromkeys(str(name) for name in names))


def no_such_columns(absent: Sequence[str], names: Sequence[str]) -> str:
    """Says which columns are missing, what may have been meant, and what there is."""
    guesses = dict.fromkeys(g for a in absent for g in difflib.get_close_matches(a, names, n=1))
    hint = f" Did you mean {listed(list(guesses))}?" if guesses else ""
    return f"no column {listed(absent, len(absent))}.{hint} Existing columns: {listed(names)}."
