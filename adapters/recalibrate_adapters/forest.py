"""A base model that is nothing but trees: the same bits in Python and in its ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.wrappers import column_names
from recalibrate.data.table import Column, Schema
from recalibrate.data.values import Taken, refuse_values
from recalibrate.ensemble import Ensemble
from recalibrate.support.onnxgraph import SCORE, GraphBuilder, value_info

if TYPE_CHECKING:
    import onnx


# --- What tree frameworks do to a number before they compare it, in numpy and as ONNX nodes -----
#
# An edit maps a matrix of features to one of the same shape. Its own numbers are float32, so that
# it has the same result in the float32 of some frameworks and in the float64 of the graph.


Matrix = NDArray[Any]

CODES = 2**24
"""Category codes are below this: float32 holds all whole numbers up to here."""

UNSEEN = 2.0**25
"""Code of everything that is neither missing nor a category; no set has it."""


class Edit(Protocol):
    """A change of some columns."""

    def apply(self, matrix: Matrix) -> Matrix:
        """The changed matrix."""

    def write(self, builder: GraphBuilder, source: str) -> str:
        """The same from one float64 tensor to another."""


@dataclass(frozen=True, eq=False)
class MissingNumbers:
    """Numbers from ``low`` to ``high`` mean that a value is missing.

    Examples
    --------
    >>> edit = MissingNumbers(np.array([True, False]), -1.0, 1.0)
    >>> edit.apply(np.float32([[0.5, 0.5], [2, 2]]))
    array([[nan, 0.5],
           [2. , 2. ]], dtype=float32)
    """

    columns: NDArray[np.bool_]
    low: float
    high: float

    def apply(self, matrix: Matrix) -> Matrix:
        """The matrix with NaN in their place."""
        inside = self.columns & (matrix >= self.low) & (matrix <= self.high)
        return np.where(inside, matrix.dtype.type(np.nan), matrix)

    def write(self, builder: GraphBuilder, source: str) -> str:
        """The same as ONNX nodes."""
        inside = builder.within(source, self.low, self.high)
        here = builder.op("And", inside, builder.constant(self.columns))
        return builder.op("Where", here, builder.number(np.nan), source)


@dataclass(frozen=True, eq=False)
class CategoryCodes:
    """Columns hold category numbers from 0; they become codes from 1.

    Fractions are cut off, as the frameworks do. NaN stays; all that is not a number from ``low``
    to the largest possible code becomes `UNSEEN`.

    Examples
    --------
    >>> edit = CategoryCodes(np.array([True]), low=0.0)
    >>> edit.apply(np.float32([[0], [1.5], [-1], [np.nan], [np.inf]])).ravel()
    array([1.0000000e+00, 2.0000000e+00, 3.3554432e+07,           nan,
           3.3554432e+07], dtype=float32)
    """

    columns: NDArray[np.bool_]
    low: float

    def apply(self, matrix: Matrix) -> Matrix:
        """The matrix with codes."""
        valid = (matrix >= self.low) & (matrix < CODES)
        with np.errstate(invalid="ignore"):  # infinities are not valid
            codes = np.floor(np.maximum(matrix, matrix.dtype.type(0))) + matrix.dtype.type(1)
        codes = np.where(valid, codes, matrix.dtype.type(UNSEEN))
        return np.where(self.columns & ~np.isnan(matrix), codes, matrix)

    def write(self, builder: GraphBuilder, source: str) -> str:
        """The same as ONNX nodes."""
        whole = builder.op("Floor", builder.op("Max", source, builder.number(0.0)))
        codes = builder.op("Add", whole, builder.number(1.0))
        valid = builder.within(source, self.low, float(np.nextafter(CODES, 0)))
        codes = builder.op("Where", valid, codes, builder.number(UNSEEN))
        present = builder.op("Not", builder.op("IsNaN", source))
        here = builder.op("And", present, builder.constant(self.columns))
        return builder.op("Where", here, codes, source)


Response = Literal["sum", "exp", "softmax", "log-sigmoid"]

NO_NAMES = "the model has text columns without names, which a graph's inputs need"
CALLED_SCORE = f'the model has a column called "{SCORE}", which is the name of the output'


def make_schema(
    names: Sequence[str] | None, n_columns: int, categories: Mapping[int, tuple[Any, ...]] = {}
) -> Schema:
    """Columns with the model's own names, or known by position only; all others are numeric."""
    known = [f"x{j}" for j in range(n_columns)] if names is None else names
    columns = (
        Column(name, "categorical", categories[j]) if j in categories else Column(name, "numeric")
        for j, name in enumerate(known)
    )
    return Schema(tuple(columns), named=names is not None)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the columns of a table, and what their sums stand for.

    Attributes
    ----------
    schema : Schema
        The columns; categorical ones are split by sets of their codes.
    ensembles : tuple of Ensemble
        One, or one per class.
    response : {"sum", "exp", "softmax", "log-sigmoid"}
        What the score is: the sum itself (or those of all classes), its exponential, the
        probability of one class, or the logarithm of each sum's sigmoid.
    position : int
        That class.
    values : {"any", "no infinities", "finite"}
        Numbers that the model takes; others are refused, as its own framework does.
    divisor : float
        Sums are divided by it: the number of trees of a forest. One division is as exact as a
        sum, and unlike leaves that are divided before, it makes a mean of ones exactly one.
    edits : tuple of Edit
        What happens to the matrix of numbers and codes before trees see it.
    wide : bool
        Whether the framework compares float64 numbers; others round them to float32 first.
    """

    schema: Schema
    ensembles: tuple[Ensemble, ...]
    response: Response = "sum"
    position: int = 0
    values: Taken = "any"
    divisor: float = 1.0
    edits: tuple[Edit, ...] = ()
    wide: bool = False

    @property
    def exact(self) -> bool:
        """Whether scores are sums of leaves; exp and softmax differ in the last bit."""
        return self.response == "sum"

    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, if the model has any."""
        return self.schema.names if self.schema.named else None

    def scores(self, X: object) -> NDArray[np.float64]:
        """One score per row of a table or array."""
        schema = self._schema_for(X)
        matrix = schema.read(X, wide=self.wide).matrix(self._precision)
        refuse_values(matrix, schema.names, self.values)
        for edit in self.edits:
            matrix = edit.apply(matrix)
        sums = np.stack([ensemble.evaluate(matrix) for ensemble in self.ensembles], axis=1)
        sums /= self.divisor
        return respond(sums, self.response, self.position)

    def only(self, output: int) -> Forest:
        """The trees of one output."""
        return replace(self, ensembles=(self.ensembles[output],))

    def graph(self) -> onnx.ModelProto | None:
        """The same as an ONNX graph; None if `why_no_graph` says why."""
        return None if self.why_no_graph else self._graph

    @cached_property
    def why_no_graph(self) -> str:
        """Why there is no graph; empty if there is one."""
        if not self._by_column:
            return ""
        if not self.schema.named:
            return NO_NAMES
        return CALLED_SCORE if SCORE in self.schema.names else ""

    @cached_property
    def _by_column(self) -> bool:
        """Whether the graph has one input per column: a matrix cannot hold text."""
        return any(map(_is_text, self.schema.columns))

    @property
    def _precision(self) -> Literal["float32", "float64"]:
        return "float64" if self.wide else "float32"

    def _kind(self, column: Column) -> Literal["float32", "float64", "string"]:
        return "string" if _is_text(column) else self._precision

    @cached_property
    def _graph(self) -> onnx.ModelProto:
        builder, columns = GraphBuilder(), self.schema.columns
        if self._by_column:
            inputs = [value_info(c.name, self._kind(c), ["N", 1]) for c in columns]
            sums = self.write_sums(builder, [c.name for c in columns])
        else:
            inputs = [value_info("X", self._precision, ["N", len(columns)])]
            sums = self.write_sums(builder, "X")
        result = write_response(builder, builder.concat(sums), self.response, self.position)
        width = 1 if self.response == "softmax" else len(sums)
        return builder.score_model(inputs, result, self.values, width=width)

    def write_sums(self, builder: GraphBuilder, source: str | Sequence[str]) -> list[str]:
        """Sums of leaves, or means of them, as float64 columns [N, 1], one per ensemble.

        ``source`` is a matrix of floats, or one tensor of shape [N, 1] per column.
        """
        wide = self._write_matrix(builder, source)
        for edit in self.edits:
            wide = edit.write(builder, wide)
        sums = [builder.trees(ensemble, wide) for ensemble in self.ensembles]
        if self.divisor == 1.0:
            return sums
        return [builder.op("Div", total, builder.number(self.divisor)) for total in sums]

    def _write_matrix(self, builder: GraphBuilder, source: str | Sequence[str]) -> str:
        """One float64 matrix of numbers and codes."""
        columns = self.schema.columns
        if isinstance(source, str):
            if all(column.kind == "numeric" for column in columns):
                return builder.cast(source, "float64")
            source = [builder.columns(source, [j]) for j in range(len(columns))]
        parts = [
            _write_codes(builder, column, part) if column.kind == "categorical" else part
            for column, part in zip(columns, source, strict=True)
        ]
        return builder.concat([builder.cast(part, "float64") for part in parts])

    def _schema_for(self, X: object) -> Schema:
        """The schema; where the model knows no names, with those of X, for messages."""
        names = None if self.schema.named else column_names(X)
        if names is None or len(names) != len(self.schema.columns):
            return self.schema
        columns = zip(self.schema.columns, names, strict=True)
        return Schema(tuple(replace(column, name=name) for column, name in columns), named=False)


def respond(sums: NDArray[np.float64], response: Response, position: int) -> NDArray[np.float64]:
    """What becomes of sums, a column per output; one output is a vector."""
    if response == "softmax":
        weights = np.exp(sums - sums.max(axis=1, keepdims=True))
        return np.asarray(weights[:, position] / weights.sum(axis=1))
    if response == "log-sigmoid":
        return -np.logaddexp(0.0, -sums)
    found = np.exp(sums) if response == "exp" else sums
    return np.asarray(found if sums.shape[1] > 1 else found[:, 0])


def write_response(builder: GraphBuilder, sums: str, response: Response, position: int) -> str:
    """`respond` as nodes."""
    if response == "softmax":
        return builder.columns(builder.op("Softmax", sums, axis=1), [position])
    if response == "log-sigmoid":
        # log(1 + exp(-x)) = max(-x, 0) + log(1 + exp(-|x|)), which never overflows.
        near = builder.op("Exp", builder.op("Neg", builder.op("Abs", sums)))
        near = builder.op("Log", builder.op("Add", near, builder.number(1.0)))
        return builder.op("Sub", builder.op("Min", sums, builder.number(0.0)), near)
    return builder.op("Exp", sums) if response == "exp" else sums


def _is_text(column: Column) -> bool:
    return any(isinstance(value, str) for value in column.categories)


def _write_codes(builder: GraphBuilder, column: Column, source: str) -> str:
    """Codes of a column's categories, from 1, in float64; NaN for all others."""
    codes = np.arange(1.0, len(column.categories) + 1)
    if _is_text(column):
        keys: Any = np.array([str(value) for value in column.categories], dtype=object)
    else:
        keys, source = (
            np.array(column.categories, dtype=np.float64),
            builder.cast(source, "float64"),
        )
    return builder.lookup(source, keys, codes)
