"""Features: a DataFrame or array becomes columns of float32, categories become codes.

Everything behind this module sees a `Table`: float32 columns in which NaN means missing, and
codes 1..K for the K categories of a categorical column. What cannot be represented faithfully
(dates, large integers, mixed containers) is refused here, once, with the column and the value
named.
"""

from __future__ import annotations

import difflib
import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.values import (
    Value,
    category_key,
    factorize,
    few_texts,
    is_categorical,
    plain_value,
    read_categories,
    read_numbers,
    refuse_kind,
    tag_value,
    untag_value,
)
from recalibrate.support.checks import require
from recalibrate.support.notices import listed
from recalibrate.support.threads import cut, share_out, threads_for

if TYPE_CHECKING:
    import pandas as pd


# --- Sparse matrices of scipy: what they are, and the same as an array --------------------------


def is_sparse(X: Any) -> bool:
    """Whether X is one of scipy's sparse matrices."""
    return type(X).__module__.startswith("scipy.sparse")


def dense(X: Any, absent: float) -> NDArray[Any]:
    """A sparse matrix as an array, with a number for the entries that are not stored.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> dense(csr_array([[0.0, 2.0]]), np.nan)
    array([[nan,  2.]])
    """
    stored = X.tocsr().tocoo()  # sums entries that are stored twice
    filled = np.full(X.shape, absent, dtype=np.result_type(X.dtype, np.float32))
    filled[stored.row, stored.col] = stored.data
    return filled


# --- What counts as a table: frames of other libraries, rows in pieces (Parquet files), Dask's --


BATCH_ROWS = 1 << 18
"""Rows read from a Parquet file at a time."""


def is_streamed(X: Any) -> bool:
    """Whether X is rows in pieces: a path, several paths, or an iterable of DataFrames.

    Examples
    --------
    >>> is_streamed("rows/*.parquet"), is_streamed([[1.0, 2.0], [3.0, 4.0]])
    (True, False)
    """
    if _is_path(X):
        return True
    if isinstance(X, (list, tuple)):
        return bool(X) and all(_is_path(item) or _is_frame(item) for item in X)
    # Tables, tensors and datasets can be indexed; what can only be called or iterated gives rows.
    tables = ("__array__", "__getitem__", "shape", "to_pandas", "columns", "__arrow_c_stream__")
    if isinstance(X, type | Set) or any(hasattr(X, name) for name in tables):
        return False
    return callable(X) or isinstance(X, Iterable)


def is_collection(X: Any) -> bool:
    """Whether X is a Dask DataFrame, known by where its class comes from: Dask is not imported.

    Examples
    --------
    >>> is_collection([[1.0, 2.0]])
    False
    """
    root = type(X).__module__.partition(".")[0]
    return root in ("dask", "dask_expr") and hasattr(X, "to_delayed") and hasattr(X, "columns")


def settle(X: Any) -> Any:
    """A table of another library that is lazy or foreign, as rows at hand; else X as it is.

    Eager frames (polars, Arrow, whatever has ``to_pandas``) stay what they are: a base model that
    was trained on them gets them, and H reads them as pandas. Columns in a dict, rows in dicts and
    structured arrays become a DataFrame.

    Examples
    --------
    >>> settle([[1.0, 2.0]])
    [[1.0, 2.0]]
    """
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        return _frame(X)
    if hasattr(X, "iloc") or hasattr(X, "__array__") or hasattr(X, "to_pandas"):
        return X
    if _is_records(X) or _is_columns(X):
        return _frame(X)
    _refuse_data_sets(X)
    if hasattr(X, "collect") and type(X).__name__ == "LazyFrame":  # polars, narwhals
        return X.collect()
    if hasattr(X, "toPandas"):  # Spark
        return X.toPandas()
    if hasattr(X, "__arrow_c_stream__"):  # DuckDB and others that speak Arrow
        return require("pyarrow", "parquet").table(X).to_pandas()
    return X


def settle_both(X: Any, Z: Any) -> tuple[Any, Any]:
    """Rows of the base model, and H's own table, as rows at hand.

    Where H has a table of its own, what X holds is the base model's affair: a vectorizer of dicts
    gets dicts.
    """
    rows = Z is not None and (_is_records(X) or _is_columns(X))
    return X if rows else settle(X), settle(Z)


def _is_records(X: Any) -> bool:
    return isinstance(X, list) and bool(X) and all(isinstance(row, dict) for row in X)


def _is_columns(X: Any) -> bool:
    """Whether X is a dict of columns; a dict of tensors is something that a function may take."""
    return isinstance(X, dict) and bool(X) and all(np.ndim(column) == 1 for column in X.values())


def _frame(X: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(X)


def _refuse_data_sets(X: Any) -> None:
    """Rows in a framework's own form cannot be read back."""
    names = ("DMatrix", "QuantileDMatrix", "Dataset", "Pool", "FeaturesData")
    kind = type(X)
    if kind.__name__ in names and kind.__module__.partition(".")[0] in (
        "xgboost",
        "lightgbm",
        "catboost",
        "_catboost",
    ):
        raise TypeError(
            f"X is a {kind.__name__} of {kind.__module__.partition('.')[0].strip('_')}, whose rows "
            "cannot be read back. Pass the table or array that it was made from."
        )


def open_frames(X: Any) -> Iterator[pd.DataFrame]:
    """One DataFrame after the other.

    Parameters
    ----------
    X
        A Parquet file, a folder of them, a pattern such as "rows/*.parquet", a list of these;
        an iterable of DataFrames, or a function without arguments that returns one.
    """
    if _is_path(X):
        X = [X]
    if isinstance(X, (list, tuple)) and all(_is_path(item) for item in X):
        for item in X:
            for path in _parquet_files(os.fspath(item)):
                yield from _read_parquet(path)
        return
    for place, frame in enumerate(X() if callable(X) else X):
        frame = settle(frame)
        frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
        if not _is_frame(frame):
            raise TypeError(
                f"X gives a {type(frame).__name__} (number {place}, from 0) where a "
                "DataFrame was expected; X in pieces is an iterable of DataFrames"
            )
        yield frame


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _parquet_files(text: str) -> list[str]:
    path = Path(text)
    if path.is_file():
        return [text]
    found = sorted(_files_in(path) if path.is_dir() else _matches(text))
    if not found:
        raise FileNotFoundError(
            f"X is the text {text!r}, but there is no such Parquet file, no folder with files "
            "*.parquet in it, and no file that the pattern matches. If X holds documents for the "
            "base model, give H a table of its own with Z="
        )
    return found


def _files_in(folder: Path) -> list[str]:
    """Files of a folder, without what begins with a dot or _: others' scraps, not rows."""
    return [
        str(file)
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]


def _matches(pattern: str) -> list[str]:
    return [name for name in glob.glob(pattern, recursive=True) if Path(name).is_file()]


def _read_parquet(path: str) -> Iterator[pd.DataFrame]:
    with require("pyarrow.parquet", "parquet").ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield batch.to_pandas()


# --- What users pass as rows, cut into columns, and columns found by their names ----------------


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
        raise ValueError("X: " + _no_such_columns(absent, names))
    repeated = [name for name in wanted if counts[name] > 1]
    if repeated:
        raise ValueError(f"Columns occur more than once in X: {listed(repeated)}. Keep one each.")
    return [position[name] for name in wanted]


def _distinct_names(names: Sequence[str], argument: str) -> list[str]:
    """Names as text, each once."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of column names: pass [{names!r}].")
    return list(dict.fromkeys(str(name) for name in names))


def _no_such_columns(absent: Sequence[str], names: Sequence[str]) -> str:
    """Says which columns are missing, what may have been meant, and what there is."""
    guesses = dict.fromkeys(g for a in absent for g in difflib.get_close_matches(a, names, n=1))
    hint = f" Did you mean {listed(list(guesses))}?" if guesses else ""
    return f"no column {listed(absent, len(absent))}.{hint} Existing columns: {listed(names)}."


Kind = Literal["numeric", "categorical"]
_CACHED_ROWS = 8192


@dataclass(frozen=True)
class Column:
    """One column: its name, its kind, and what its codes stand for.

    Parameters
    ----------
    name : str
        Name of the column; columns of plain arrays are called "x0", "x1", ...
    kind : {"numeric", "categorical"}
        How the float32 values are to be read.
    categories : tuple of str, int, float or bool
        Observed values, sorted by type (bool, number, text) and then by value, so that neither
        the order of rows nor that of a pandas Categorical matters. Code ``k + 1`` stands for
        ``categories[k]``. Whole floats are listed as int, because ``1.0`` and ``1`` match.
    """

    name: str
    kind: Kind
    categories: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        """Refuse text that no file, graph or report could hold."""
        texts = [self.name, *(value for value in self.categories if isinstance(value, str))]
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            bad = next(text for text in texts if any("\ud800" <= c <= "\udfff" for c in text))
            raise ValueError(
                f"Column {self.name!a} has the text {bad!a}, which is not valid Unicode (half of a "
                "surrogate pair). Repair it where the data is read, for example with "
                "text.encode('utf-8', 'replace').decode()."
            ) from None

    @cached_property
    def _codes(self) -> dict[object, int]:
        return {category_key(value): code for code, value in enumerate(self.categories, start=1)}

    @cached_property
    def _remembered(self) -> list[tuple[object, NDArray[np.float32]]]:
        # At most one entry: the last Categorical's categories and their codes, so that predicting
        # many small frames of one dtype does not look up 300,000 categories for each of them.
        return []

    def _read(self, values: Any, wide: bool = False) -> NDArray[Any]:
        if self.kind == "categorical":
            return self._encode(values)
        return read_numbers(self.name, values, wide=wide)

    def _encode(self, values: Any) -> NDArray[np.float32]:
        texts = few_texts(values)
        if texts:
            found = [self._codes.get(text, np.nan) for text in texts]
            if any(code == code for code in found):
                return np.array(found, dtype=np.float32)
        codes, uniques = factorize(self.name, values)
        for known, mapped in self._remembered:
            if known is uniques:
                return np.take(mapped, codes)
        found = [
            self._codes.get(category_key(plain_value(v)), np.nan)
            for v in np.asarray(uniques, object)
        ]
        mapped = np.array([*found, np.nan], dtype=np.float32)  # the last is for -1, missing
        if np.isnan(mapped).all():
            present = np.unique(codes[codes >= 0])
            refuse_kind(self.name, [uniques[k] for k in present], self.categories)
        if values.dtype.name == "category":
            self._remembered[:] = [(uniques, mapped)]
        return np.take(mapped, codes)


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order, and how to find them in new data.

    Parameters
    ----------
    columns : tuple of Column
        The columns.
    named : bool
        False when the table was a plain array, whose columns are found by position.

    Examples
    --------
    >>> import pandas as pd
    >>> schema = read_table(pd.DataFrame({"age": [31, 58], "sex": ["F", "M"]})).schema
    >>> new = pd.DataFrame({"sex": ["M", "other"], "age": [40, 41], "extra": [0, 0]})
    >>> schema.read(new).matrix()
    array([[40.,  2.],
           [41., nan]], dtype=float32)
    """

    columns: tuple[Column, ...]
    named: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Find a column's position; a ValueError lists the columns that exist."""
        if name in self._positions:
            return self._positions[name]
        raise ValueError(_no_such_columns([name], self.names))

    def select(self, names: Sequence[str]) -> Schema:
        """Keep some of the columns, in this order; arrays to read must hold just these."""
        chosen = _distinct_names(names, "names")
        return Schema(tuple(self.columns[self.index(name)] for name in chosen), self.named)

    def read(self, X: Any, *, wide: bool = False) -> Table:
        """Read new data the way the schema's own data were read.

        Columns of a DataFrame are found by name, in any order, and others are ignored. Columns of
        an array, or of a DataFrame when the schema came from an array, are found by position, and
        their number must match. Missing values and categories that the schema does not know are
        NaN. Category values match by value and type: ``"1"`` is not ``1``, ``1`` is ``1.0``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, d)
            Anything that `read_table` accepts.
        wide : bool
            Whether numbers are for somebody who compares in float64: see `Table.matrix`.

        Returns
        -------
        Table
            Table with this schema.
        """
        names, columns = split_columns(X)
        by_name = names is not None and (self.named or self._positions.keys() <= set(names))
        if names is not None and by_name:
            columns = [columns[j] for j in find_columns(self.names, names)]
        elif len(columns) != len(self.columns):
            raise ValueError(
                f"X has {len(columns)} columns, but {len(self.columns)} are expected, in this "
                f"order: {listed(self.names)}. They are known by their position only: pass just "
                "these (a base model's further columns for H can go into a table of its own, Z=)."
            )
        read = zip(self.columns, columns, strict=True)
        threads = threads_for(len(columns[0]))
        sources = share_out(lambda pair: pair[0]._read(pair[1], wide), read, threads)
        return Table(self, sources, len(sources[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and strings for JSON; categories carry their type."""
        columns = [
            {"name": c.name, "kind": c.kind, "categories": [tag_value(v) for v in c.categories]}
            for c in self.columns
        ]
        return {"named": self.named, "columns": columns}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Schema:
        """Rebuild a schema from the result of `to_dict`; a ValueError if it is not one."""
        try:
            columns = []
            for entry in state["columns"]:
                categories = tuple(untag_value(tagged) for tagged in entry["categories"])
                columns.append(Column(entry["name"], entry["kind"], categories))
            schema = cls(tuple(columns), state["named"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"Not a saved schema: {error!r}.") from error
        for column in schema.columns:
            if not isinstance(column.name, str) or column.kind not in ("numeric", "categorical"):
                raise ValueError(f"Not a saved schema: bad column {column.name!r}.")
            if column.kind == "numeric" and column.categories:
                raise ValueError(
                    f"Not a saved schema: {column.name!r} is numeric, with categories."
                )
            if len(column._codes) != len(column.categories):
                raise ValueError(f"Not a saved schema: repeated categories in {column.name!r}.")
        if len(schema._positions) != len(schema.columns) or not isinstance(schema.named, bool):
            raise ValueError("Not a saved schema: repeated columns, or 'named' is not a boolean.")
        return schema


class Table:
    """Columns of float32 that share their rows; made by `read_table` or `Schema.read`.

    Numeric columns stay views of the caller's data until they are asked for: do not change that
    data while the table is in use.

    Parameters
    ----------
    schema : Schema
        The columns.
    sources : sequence of arrays of shape (n_rows,)
        For each column numbers of any dtype, or codes.
    n_rows : int
        Number of rows.
    """

    def __init__(self, schema: Schema, sources: Sequence[NDArray[Any]], n_rows: int) -> None:
        self.schema = schema
        self.n_rows = n_rows
        self._sources = tuple(sources)

    def column(self, j: int | str, *, copy: bool = True) -> NDArray[np.float32]:
        """Return a column by position or name, in one piece; NaN = missing, codes from 1.

        A new array, unless ``copy`` is False: then it may be the caller's own, only to be read.
        """
        position = self.schema.index(j) if isinstance(j, str) else j
        source = self._sources[position]
        if source.dtype == np.float32:
            return source if not copy and _is_ready(source) else np.array(source, order="C")
        with np.errstate(over="ignore"):  # float64 beyond float32 becomes infinite, as documented
            return np.array(source, dtype=np.float32)

    def source(self, name: str) -> NDArray[Any]:
        """A column as it was given: numbers of any dtype, or codes."""
        return self._sources[self.schema.index(name)]

    def take(self, rows: slice | ArrayLike) -> Table:
        """Keep some rows: by index, boolean mask of length `n_rows`, or slice (not copied)."""
        if isinstance(rows, slice):
            views = [source[rows] for source in self._sources]
            return Table(self.schema, views, len(range(*rows.indices(self.n_rows))))
        chosen = np.asarray(rows)
        if chosen.dtype.kind == "b" and chosen.shape != (self.n_rows,):
            raise IndexError(f"Mask has shape {chosen.shape}, the table {self.n_rows} rows.")
        index = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen
        index = index.astype(np.intp, casting="same_kind") if index.size else index.astype(np.intp)
        with np.errstate(over="ignore"):
            parts = [np.asarray(source[index], dtype=np.float32) for source in self._sources]
        return Table(self.schema, parts, len(index))

    def select(self, names: Sequence[str]) -> Table:
        """Keep some of the columns, in this order, without a copy."""
        schema = self.schema.select(names)
        sources = [self._sources[self.schema.index(name)] for name in schema.names]
        return Table(schema, sources, self.n_rows)

    def append(self, name: str, values: NDArray[Any]) -> Table:
        """Add a numeric column at the end."""
        schema = Schema((*self.schema.columns, Column(name, "numeric")), self.schema.named)
        return Table(schema, [*self._sources, values], self.n_rows)

    def gathered(self, threads: int = 1) -> Table:
        """Hold every column as float32 in one piece: for when all are read more than once.

        Those that are so already are not copied. The others are cut into blocks of rows that fit
        a cache, because the columns of a row-major array share their memory lines.
        """
        columns = [
            own if _is_ready(own) else np.empty(self.n_rows, dtype=np.float32)
            for own in self._sources
        ]
        both = zip(columns, self._sources, strict=True)
        moved = [(column, source) for column, source in both if column is not source]

        def move(part: slice) -> None:
            with np.errstate(over="ignore"):
                for start in range(part.start, part.stop, _CACHED_ROWS):
                    rows = slice(start, min(start + _CACHED_ROWS, part.stop))
                    for column, source in moved:
                        column[rows] = source[rows]

        share_out(move, cut(self.n_rows, None, threads), threads)
        return Table(self.schema, columns, self.n_rows)

    def matrix(self, dtype: Any = np.float32) -> NDArray[Any]:
        """Return all columns as a new C-order array of shape (n_rows, d), float32 or float64."""
        block = np.empty((self.n_rows, len(self._sources)), dtype=dtype)
        with np.errstate(over="ignore"):
            for j, source in enumerate(self._sources):
                block[:, j] = source
        return block


def _is_ready(source: NDArray[Any]) -> bool:
    """Whether kernels can read it: they are compiled for arrays that could be written to."""
    flags = source.flags
    return source.dtype == np.float32 and flags.c_contiguous and flags.writeable


def read_table(
    X: Any,
    *,
    categorical: Sequence[str] | None = None,
    reads: Callable[[Schema], Sequence[str]] | None = None,
) -> Table:
    """Read features and infer their schema.

    Parameters
    ----------
    X : DataFrame or array-like of shape (n, d)
        pandas DataFrame, 2-d array, list of rows, or an object with ``to_pandas`` or
        ``__array__``. Features are float32 by definition: float64 is rounded,
        beyond the float32 range to plus or minus infinity. bool is 0/1. Text, Categorical and
        mixed object columns are categories; object columns of numbers only are numbers. None,
        NaN, NaT and pandas.NA are missing.
    categorical : sequence of str, optional
        Columns of numbers or bool that are to be read as categories.
    reads : callable, optional
        Says which columns of a schema are looked at. Others may hold anything (dates, numbers of
        accounts): those that cannot be read are left out.

    Returns
    -------
    Table
        The columns; ``table.schema`` reads new data in the same way.

    Raises
    ------
    ValueError
        If X is not a 2-d table with rows and columns, names repeat, a column holds dates or
        other things that are neither numbers nor text, or integers that float32 cannot hold.

    Examples
    --------
    >>> import pandas as pd
    >>> table = read_table(pd.DataFrame({"age": [31, None], "sex": ["M", "F"]}))
    >>> table.schema.columns[1]
    Column(name='sex', kind='categorical', categories=('F', 'M'))
    >>> table.matrix()
    array([[31.,  2.],
           [nan,  1.]], dtype=float32)
    """
    given, values = split_columns(X)
    names = given if given is not None else [f"x{j}" for j in range(len(values))]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"Column names repeat: {listed(repeated)}. Rename them (names are compared as text)."
        )
    forced = read_categorical(categorical, names)
    columns, sources = [], []
    unread: dict[str, ValueError] = {}
    for name, column_values in zip(names, values, strict=True):
        column = Column(name, "categorical")  # stands for what cannot be read
        codes = None
        try:
            if name in forced or is_categorical(name, column_values):
                categories, codes = read_categories(name, column_values)
                column = Column(name, "categorical", categories)
            else:
                column = Column(name, "numeric")
            sources.append(column._read(column_values) if codes is None else codes)
        except ValueError as error:
            if reads is None or given is None:
                raise
            unread[name] = error
        columns.append(column)
    schema = Schema(tuple(columns), given is not None)
    if reads is None or not unread:
        return Table(schema, sources, len(values[0]))
    for name in reads(schema):
        if name in unread:
            raise unread[name]
    kept = schema.select([name for name in names if name not in unread])
    return Table(kept, sources, len(values[0]))


def read_categorical(categorical: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """The columns that are categories whatever they hold; names that X does not have are errors."""
    forced = [] if categorical is None else _distinct_names(categorical, "categorical")
    unknown = [name for name in forced if name not in set(names)]
    if unknown:
        raise ValueError("categorical= : " + _no_such_columns(unknown, names))
    return forced
