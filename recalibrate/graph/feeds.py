"""A user's rows as the tensors that a graph takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.scores import read_scores
from recalibrate.data.sparse import dense, is_sparse
from recalibrate.data.splitting import find_columns, split_columns
from recalibrate.data.values import (
    factorize,
    plain_value,
    read_numbers,
    refuse_unknown,
    refuse_values,
)
from recalibrate.graph.inputs import BASE_SCORE, Input
from recalibrate.support.notices import listed

MISSING_WHOLE = np.iinfo(np.int64).min
"""Stands for a missing value in a column of large whole numbers."""

Feed = dict[str, NDArray[Any]]


def make_feed(
    ports: Sequence[Input],
    X: Any,
    *,
    base: Any = None,
    Z: Any = None,
    array_columns: Sequence[str] = (),
    own_table: bool = False,
) -> Feed:
    """Tensors of some rows, by input name.

    Parameters
    ----------
    ports
        The graph's inputs.
    X
        Rows: a DataFrame, or an array whose columns are those of the fitted array.
    base
        Base scores, for a graph that takes them.
    Z
        H's own table, where the model was fitted with one.
    array_columns
        Names of the columns by position, where H's table was an array.
    own_table
        Whether the model was fitted with a table of H's own.
    """
    feed: Feed = {}
    tables: dict[bool, _Rows] = {}
    for port in ports:
        if port.name == BASE_SCORE and not port.columns:
            feed[port.name] = _scores(base, len(port.shape) > 1)
        elif not port.columns:
            feed[port.name] = np.asarray(X, dtype=_DTYPES[port.kind])
        else:
            from_Z = own_table and port.used_by == ("H",)
            if from_Z not in tables:
                own = array_columns if from_Z or not own_table else ()
                rows = Z if from_Z else X
                if port.absent is not None and is_sparse(rows):
                    rows = dense(rows, port.absent)
                tables[from_Z] = _Rows(rows, own)
            feed[port.name] = tables[from_Z].tensor(port)
    return feed


_DTYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64}


def _scores(base: Any, several: bool) -> NDArray[np.float64]:
    if base is None:
        raise ValueError("this graph takes base scores: pass them as base=, one per row of X")
    outputs = None if several else 1
    return read_scores(base, n_rows=len(base), probability=False, outputs=outputs)


class _Rows:
    """Columns of a table, found by name or position."""

    def __init__(self, X: Any, array_columns: Sequence[str]) -> None:
        if X is None:
            raise ValueError("this graph needs rows for H's own table: pass them as Z=")
        names, self._columns = split_columns(X)
        self._names: Sequence[str] | None = names
        self._array_columns = array_columns

    def tensor(self, port: Input) -> NDArray[Any]:
        """A matrix or column of the graph's own type."""
        columns = [self._columns[j] for j in self._find(port.columns)]
        tensors = [
            _tensor(name, values, port) for name, values in zip(port.columns, columns, strict=True)
        ]
        return np.stack(tensors, axis=1)

    def _find(self, wanted: Sequence[str]) -> list[int]:
        names = self._names
        if names is not None and set(wanted) <= set(names):
            return find_columns(wanted, names)
        if self._array_columns:
            if len(self._columns) != len(self._array_columns):
                raise ValueError(
                    f"X has {len(self._columns)} columns, but the model was fitted on "
                    f"{len(self._array_columns)}: {listed(self._array_columns)}"
                )
            return find_columns(wanted, list(self._array_columns))
        if names is not None:
            return find_columns(wanted, names)
        if len(self._columns) == len(wanted):
            return list(range(len(wanted)))
        numbered = [f"x{j}" for j in range(len(self._columns))]
        if set(wanted) <= set(numbered):
            return find_columns(wanted, numbered)
        raise ValueError(
            f"X is an array of {len(self._columns)} columns without names, but the graph takes "
            f"{listed(wanted)}: pass a DataFrame that has them"
        )


def _tensor(name: str, values: Any, port: Input) -> NDArray[Any]:
    if name in port.known:
        refuse_unknown(name, values, port.known[name])
    if port.kind == "string":
        return _texts(name, values, port.missing)
    if port.kind == "int64":
        return _whole(values)
    numbers = read_numbers(name, values, wide=port.kind == "float64")
    with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is in Python
        tensor = np.asarray(numbers, dtype=_DTYPES[port.kind])
    refuse_values(tensor.reshape(-1, 1), [name], port.values)
    return tensor


def _texts(name: str, values: Any, missing: str) -> NDArray[Any]:
    """Categories of a text column as H reads them: bands of pandas.cut by what they are called.

    A number among texts is no category, whatever it looks like; numbers only are a mistake.
    """
    codes, uniques = factorize(name, values)
    plain = [plain_value(value) for value in np.asarray(uniques, dtype=object)]
    if plain and not any(isinstance(value, str) for value in plain) and (codes >= 0).any():
        raise ValueError(
            f"Column {name!r} holds {plain[codes.max()]!r}, but the model takes text there. Pass "
            "the categories themselves, not their codes."
        )
    texts = [value if isinstance(value, str) else missing for value in plain]
    return np.take(np.array([*texts, missing], dtype=object), codes)  # the last is for -1


def _whole(values: Any) -> NDArray[np.int64]:
    """Whole numbers of any size; what is none cannot be a category either."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64)
    given = np.asarray(values, dtype=object)
    out = np.full(len(given), MISSING_WHOLE, dtype=np.int64)
    for k, value in enumerate(given):
        if isinstance(value, int | np.integer):
            out[k] = value
        elif isinstance(value, float | np.floating) and float(value).is_integer():
            out[k] = int(value)
    return out
