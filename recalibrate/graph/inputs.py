"""Which inputs a graph has: one matrix, one per column, or both; and base scores if need be.

A column that only H looks at (a sensitive attribute, say) is an input of its own, so that callers
see what they have to bring. Text is a string input; numbers are float32, which is what features
of H are by definition, or float64 where the base model compares in that precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.labels import read_scores
from recalibrate.data.table import Column, dense, find_columns, is_sparse, split_columns
from recalibrate.data.values import (
    Taken,
    Value,
    factorize,
    family_of,
    plain_value,
    read_numbers,
    refuse_unknown,
    refuse_values,
)
from recalibrate.support.notices import listed
from recalibrate.support.onnxgraph import BASE_PREFIX, PREFIX, GraphBuilder

# --- Why a model cannot become a graph, or must not ---------------------------------------------


class ExportError(ValueError):
    """The model, or a part of it, has no translation; the text says which and what to do."""


class ParityError(ValueError):
    """The graph does not give what the model gives; the text shows the rows that differ most."""


Style = Literal["auto", "matrix", "columns"]
MATRIX = "X"
BASE_SCORE = "base_score"
OUTPUTS = ("label", "probabilities", "score", "score_margin", "action")


@dataclass(frozen=True)
class Input:
    """One input of a graph.

    Attributes
    ----------
    name
        Its name in the graph.
    kind
        Type of its elements: float32, int64, string, or float64 for base scores and for numbers
        that the base model reads in that precision.
    shape
        "N" stands for the number of rows.
    columns
        Columns of the table that it holds: one, or all of a matrix; none for base scores and for
        tensors that are no tables.
    used_by
        "base", "H" or both.
    missing
        What stands for a missing value in a column of text: the empty text, unless that is a
        category itself.
    values
        Numbers that the base model takes: "any", "no infinities" or "finite". A graph refuses
        nothing, so this is for those who feed it.
    known
        By column the only categories that the base model takes; None among them is a missing
        value. Columns that are not listed take any.
    absent
        What an entry is that a sparse matrix does not store; None: sparse rows are not taken.
    """

    name: str
    kind: str
    shape: tuple[int | str, ...]
    columns: tuple[str, ...]
    used_by: tuple[str, ...]
    missing: str = ""
    values: Taken = "any"
    known: Mapping[str, tuple[Value | None, ...]] = field(default_factory=dict)
    absent: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings, for the file's metadata."""
        plain = {
            "name": self.name,
            "type": self.kind,
            "shape": list(self.shape),
            "columns": list(self.columns),
            "used_by": list(self.used_by),
        }
        more = {"missing": self.missing, "values": self.values}
        plain |= {key: value for key, value in more.items() if value not in ("", "any")}
        known = {name: list(taken) for name, taken in self.known.items()}
        absent = {} if self.absent is None else {"absent": repr(self.absent)}
        return plain | ({"known": known} if known else {}) | absent

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Input:
        """Input from the result of `to_dict`."""
        return cls(
            str(state["name"]),
            str(state["type"]),
            tuple(state["shape"]),
            tuple(state["columns"]),
            tuple(state["used_by"]),
            str(state.get("missing", "")),
            state.get("values", "any"),
            {str(name): tuple(taken) for name, taken in state.get("known", {}).items()},
            float(state["absent"]) if "absent" in state else None,
        )


@dataclass(frozen=True)
class BaseInputs:
    """What the base model's graph takes.

    Attributes
    ----------
    matrix
        Columns of its one matrix; None if it takes no matrix.
    precision
        Type of the matrix: float32 or float64.
    columns
        Name and type of every input, where it has one per column.
    tensor
        Type and shape of an input that is no table of numbers (images).
    scores
        Where there is no graph and scores are given: how many of a row.
    values
        Numbers that the model takes.
    known
        By column the only categories that it takes.
    absent
        What an entry is to it that a sparse matrix does not store; None if it takes none.
    """

    matrix: tuple[str, ...] | None = None
    precision: str = "float32"
    columns: tuple[tuple[str, str], ...] = ()
    tensor: tuple[str, tuple[int | str, ...]] | None = None
    scores: int = 0
    values: Taken = "any"
    known: Mapping[str, tuple[Value | None, ...]] = field(default_factory=dict)
    absent: float | None = None

    @property
    def kinds(self) -> dict[str, str]:
        """Type of every column that it takes."""
        return (
            dict(self.columns)
            if self.matrix is None
            else dict.fromkeys(self.matrix, self.precision)
        )


@dataclass(frozen=True)
class Inputs:
    """All inputs of a graph, and where each column is found.

    ``base`` and ``features`` map the columns of the base model and of H to an input's number and
    a position in it.
    """

    ports: tuple[Input, ...]
    base: dict[str, tuple[int, int]]
    features: dict[str, tuple[int, int]]

    def column(self, builder: GraphBuilder, place: tuple[int, int], kind: str) -> str:
        """A column as it comes in, [N, 1], in some type."""
        port = self.ports[place[0]]
        tensor = port.name if len(port.columns) == 1 else builder.columns(port.name, [place[1]])
        return tensor if port.kind == kind else builder.cast(tensor, kind)


def _kind_of(column: Column) -> str:
    """Type of the input that can hold a column of H."""
    if column.kind == "numeric":
        return "float32"
    families = {family_of(type(value)) for value in column.categories}
    if families <= {"text"}:
        return "string"
    if "text" in families or len(families) > 1:
        raise ExportError(
            f"column {column.name!r} has categories of different types ("
            f"{listed(column.categories, 5)}), which no tensor can hold; convert it to text "
            "before fitting"
        )
    whole = all(isinstance(value, int) for value in column.categories)
    numbers = np.array([float(value) for value in column.categories])
    fits = np.array_equal(numbers, numbers.astype(np.float32))
    return "int64" if whole and not fits else "float32"


def _missing_text(column: Column) -> str:
    """A text that is no category of the column, and so counts as missing."""
    text = ""
    while text in column.categories:
        text = f"{text}_" if text else "missing"
    return text


def plan_inputs(
    base: BaseInputs,
    features: Sequence[Column],
    array_columns: Sequence[str],
    *,
    style: Style = "auto",
    own_table: bool = False,
) -> Inputs:
    """Choose the inputs.

    Parameters
    ----------
    base
        What the base model takes.
    features
        Columns that H looks at.
    array_columns
        All columns of the array that the model was fitted on, when it was one: without names
        they can only be found by their position.
    style
        "matrix" puts every column into one matrix, "columns" makes each one an input of its
        own; "auto" takes the matrix that the base model takes, or that the data was.
    own_table
        Whether H has a table of its own, whose names say nothing about the base's columns.
    """
    plan = _Plan(own_table)
    if base.scores:
        shape: tuple[str | int, ...] = ("N",) if base.scores == 1 else ("N", base.scores)
        plan.ports.append(Input(BASE_SCORE, "float64", shape, (), ("base",)))
    if base.tensor is not None:
        kind, shape = base.tensor
        plan.ports.append(Input(MATRIX, kind, shape, (), ("base",)))
    kinds = {column.name: _kind_of(column) for column in features}
    matrix = _matrix(base, kinds, array_columns, style, own_table)
    if matrix:
        plan.add_matrix(matrix, base.kinds, kinds)
    plan.add_columns(base.kinds, kinds)
    for column in features:
        plan.mark_missing(column)
    ports = (replace(p, values=base.values) if _is_own(p, base) else p for p in plan.ports)
    told = (
        replace(
            p, known={n: v for n, v in base.known.items() if n in p.columns}, absent=base.absent
        )
        if "base" in p.used_by
        else p
        for p in ports
    )
    return Inputs(tuple(told), plan.base, plan.features)


def _is_own(port: Input, base: BaseInputs) -> bool:
    """Whether an input holds numbers of the base model and no others."""
    numbers = port.kind.startswith("float") and bool(port.columns)
    return numbers and "base" in port.used_by and set(port.columns) <= base.kinds.keys()


def _matrix(
    base: BaseInputs,
    kinds: dict[str, str],
    array_columns: Sequence[str],
    style: Style,
    own_table: bool,
) -> tuple[str, ...]:
    """Columns of the matrix; none for no matrix."""
    if style not in ("auto", "matrix", "columns"):
        raise ValueError(f"inputs must be 'auto', 'matrix' or 'columns', got {style!r}")
    if style == "columns" or base.tensor is not None:
        return ()
    if style == "auto":
        if base.matrix is not None:
            return base.matrix
        plain = all(kinds.get(name, "float32") == "float32" for name in array_columns)
        return tuple(array_columns) if plain and not base.columns else ()
    wanted = base.kinds
    text = [name for name, kind in {**wanted, **kinds}.items() if kind == "string"]
    if text:
        raise ExportError(
            f"inputs='matrix' is for numbers, but these columns hold text: {listed(text)}; "
            "use inputs='auto' or 'columns'"
        )
    if own_table and wanted:
        raise ExportError(
            "inputs='matrix' needs one table, but H has its own (Z=); use inputs='auto'"
        )
    return tuple(dict.fromkeys([*wanted, *(array_columns or kinds)]))


class _Plan:
    """Inputs so far."""

    def __init__(self, own_table: bool) -> None:
        self.own_table = own_table
        self.ports: list[Input] = []
        self.base: dict[str, tuple[int, int]] = {}
        self.features: dict[str, tuple[int, int]] = {}

    def add_matrix(
        self, names: tuple[str, ...], base: dict[str, str], kinds: dict[str, str]
    ) -> None:
        shared = () if self.own_table and base else kinds
        for name in shared:
            if name in names and kinds[name] != "float32":
                raise ExportError(_two_types(name, "float32", kinds[name]))
        used = _used_by(any(n in base for n in names), any(n in shared for n in names))
        port = len(self.ports)
        precision = "float64" if "float64" in base.values() else "float32"
        self.ports.append(Input(MATRIX, precision, ("N", len(names)), names, used))
        for position, name in enumerate(names):
            if name in base:
                self.base[name] = (port, position)
            if name in shared:
                self.features[name] = (port, position)

    def add_columns(self, base: dict[str, str], kinds: dict[str, str]) -> None:
        """Inputs of their own for all columns that are not in the matrix."""
        for name, kind in base.items():
            if name not in self.base:
                self.base[name] = (self._add(name, kind, ("base",)), 0)
        for name, kind in kinds.items():
            if name in self.features:
                continue
            place = None if self.own_table else self.base.get(name)
            if place is None:
                self.features[name] = (self._add(name, kind, ("H",)), 0)
                continue
            port = self.ports[place[0]]
            if (port.kind == "string") != (kind == "string"):
                raise ExportError(_two_types(name, port.kind, kind))
            wider = port.kind if kind == "float32" else kind
            self.ports[place[0]] = replace(port, kind=wider, used_by=("base", "H"))
            self.features[name] = place

    def mark_missing(self, column: Column) -> None:
        """Say what stands for a missing value of one of H's columns."""
        number = self.features[column.name][0]
        if self.ports[number].kind == "string":
            self.ports[number] = replace(self.ports[number], missing=_missing_text(column))

    def _add(self, column: str, kind: str, used_by: tuple[str, ...]) -> int:
        taken = {port.name for port in self.ports} | {MATRIX, BASE_SCORE, *OUTPUTS}
        name = column or "column"
        while name in taken or name.startswith((PREFIX, BASE_PREFIX)):
            name = f"input_{name}"
        self.ports.append(Input(name, kind, ("N", 1), (column,), used_by))
        return len(self.ports) - 1


def _used_by(base: bool, H: bool) -> tuple[str, ...]:
    return tuple(name for name, used in (("base", base), ("H", H)) if used)


def _two_types(name: str, base: str, H: str) -> str:
    return (
        f"column {name!r} is {base} for the base model but {H} for H, and an input has one type; "
        "give H a copy of the column under another name"
    )


# --- A user's rows as the tensors that a graph takes --------------------------------------------


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
