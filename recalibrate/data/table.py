"""Features at the door: a DataFrame or array becomes columns of float32, categories become codes.

Everything behind this module sees a `Table`: float32 columns in which NaN means missing, and codes
1..K for the K categories of a categorical column. What cannot be represented faithfully (dates,
large integers, mixed containers) is refused here, once, with the column and the value named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.splitting import (
    distinct_names,
    find_columns,
    no_such_columns,
    split_columns,
)
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
from recalibrate.support.notices import listed
from recalibrate.support.threads import cut, share_out, threads_for

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
        raise ValueError(no_such_columns([name], self.names))

    def select(self, names: Sequence[str]) -> Schema:
        """Keep some of the columns, in this order; arrays to read must hold just these."""
        chosen = distinct_names(names, "names")
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
    forced = [] if categorical is None else distinct_names(categorical, "categorical")
    unknown = [name for name in forced if name not in set(names)]
    if unknown:
        raise ValueError("categorical= : " + no_such_columns(unknown, names))
    return forced
