"""A base model that is nothing but trees: the same bits in Python and in its ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.wrappers import column_names
from recalibrate.data.table import Column, Schema
from recalibrate.ensemble import Ensemble
from recalibrate.support.notices import listed
from recalibrate_adapters.edits import Edit
from recalibrate_adapters.graphs import as_vector, cast, constant, score_model, value_info

if TYPE_CHECKING:
    import onnx

Response = Literal["sum", "exp", "softmax"]
Values = Literal["any", "no infinities", "finite"]

# Inner names of a graph; a column of the user's can hardly be called so.
_PREFIX = "forest/"


def plain_schema(names: Sequence[str] | None, n_columns: int) -> Schema:
    """Numeric columns with the model's own names, or known by position only."""
    known = [f"x{j}" for j in range(n_columns)] if names is None else names
    return Schema(tuple(Column(name, "numeric") for name in known), named=names is not None)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the columns of a table, and what their sums stand for.

    Attributes
    ----------
    schema : Schema
        The columns; categorical ones are split by sets of their codes.
    ensembles : tuple of Ensemble
        One, or one per class where the response is "softmax".
    response : {"sum", "exp", "softmax"}
        What the score is: the sum itself, its exponential, or the probability of one class.
    position : int
        That class.
    values : {"any", "no infinities", "finite"}
        Numbers that the model takes; others are refused, as its own framework does.
    divisor : float
        Sums are divided by it: the number of trees of a forest. One division is as exact as a
        sum, and unlike leaves that are divided before, it makes a mean of ones exactly one.
    edits : tuple of Edit
        What happens to the matrix of numbers and codes before trees see it.
    """

    schema: Schema
    ensembles: tuple[Ensemble, ...]
    response: Response = "sum"
    position: int = 0
    values: Values = "any"
    divisor: float = 1.0
    edits: tuple[Edit, ...] = ()

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
        matrix = schema.read(X).matrix()
        self._check_values(matrix, schema.names)
        for edit in self.edits:
            matrix = edit.apply(matrix)
        sums = np.stack([ensemble.evaluate(matrix) for ensemble in self.ensembles], axis=1)
        sums /= self.divisor
        if self.response == "sum":
            return sums[:, 0]
        if self.response == "exp":
            return np.asarray(np.exp(sums[:, 0]))
        weights = np.exp(sums - sums.max(axis=1, keepdims=True))
        return np.asarray(weights[:, self.position] / weights.sum(axis=1))

    def graph(self) -> onnx.ModelProto | None:
        """The same as an ONNX graph; None if `why_no_graph` says why."""
        return None if self.why_no_graph else self._graph

    @cached_property
    def why_no_graph(self) -> str:
        """Why there is no graph; empty if there is one."""
        if not self._by_column:
            return ""
        if not self.schema.named:
            return "the model has text columns without names, which a graph's inputs need"
        if "score" in self.schema.names:
            return 'the model has a column called "score", which is the name of the output'
        return ""

    @cached_property
    def _by_column(self) -> bool:
        """Whether the graph has one input per column: a matrix cannot hold text."""
        return any(isinstance(v, str) for column in self.schema.columns for v in column.categories)

    @cached_property
    def _graph(self) -> onnx.ModelProto:
        from onnx import helper

        columns = self.schema.columns
        if self._by_column:
            inputs = [value_info(c.name, _kind(c), 1) for c in columns]
            nodes, constants, sums = self.sum_nodes([c.name for c in columns], _PREFIX)
        else:
            inputs = [value_info("X", "float", len(columns))]
            nodes, constants, sums = self.sum_nodes("X", _PREFIX)
        result = sums[0]
        if self.response == "exp":
            result = f"{_PREFIX}mean"
            nodes.append(helper.make_node("Exp", sums, [result]))
        elif self.response == "softmax":
            result, position = f"{_PREFIX}share", constant(f"{_PREFIX}class", self.position)
            constants.append(position)
            nodes += [
                helper.make_node("Concat", sums, [f"{_PREFIX}sums"], axis=1),
                helper.make_node("Softmax", [f"{_PREFIX}sums"], [f"{_PREFIX}shares"], axis=1),
                helper.make_node("Gather", [f"{_PREFIX}shares", position.name], [result], axis=1),
            ]
        last, more = as_vector(result)
        return score_model([*nodes, *last], inputs, [*constants, *more])

    def sum_nodes(
        self, source: str | Sequence[str], prefix: str
    ) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], list[str]]:
        """Nodes, constants, and the names of the sums, which are float64 of shape [N, 1].

        Parameters
        ----------
        source
            A matrix of floats, or one tensor of shape [N, 1] per column.
        prefix
            Of all names.
        """
        from onnx import helper

        nodes, constants = self._read_nodes(source, prefix)
        wide = f"{prefix}wide"
        for number, edit in enumerate(self.edits):
            more, also = edit.nodes(wide, f"{prefix}edited{number}")
            wide = f"{prefix}edited{number}"
            nodes, constants = [*nodes, *more], [*constants, *also]
        sums = [f"{prefix}sum{i}" for i in range(len(self.ensembles))]
        for ensemble, name in zip(self.ensembles, sums, strict=True):
            nodes.append(ensemble.node(wide, name))
        if self.divisor == 1.0:
            return nodes, constants, sums
        divisor = constant(f"{prefix}divisor", np.array(self.divisor))
        means = [f"{prefix}mean{i}" for i in range(len(sums))]
        for total, mean in zip(sums, means, strict=True):
            nodes.append(helper.make_node("Div", [total, divisor.name], [mean]))
        return nodes, [*constants, divisor], means

    def _read_nodes(
        self, source: str | Sequence[str], prefix: str
    ) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        """From the source to ``wide``: one float64 matrix of numbers and codes."""
        from onnx import helper

        columns = self.schema.columns
        if isinstance(source, str) and all(column.kind == "numeric" for column in columns):
            return [cast(source, f"{prefix}wide", "double")], []
        nodes, constants, parts = [], [], []
        for j, column in enumerate(columns):
            part = f"{prefix}column{j}"
            if isinstance(source, str):
                index = constant(f"{prefix}index{j}", np.array([j], dtype=np.int64))
                constants.append(index)
                nodes.append(helper.make_node("Gather", [source, index.name], [part], axis=1))
            else:
                part = source[j]
            if column.kind == "categorical":
                nodes += _encoder(column, part, f"{prefix}code{j}")
                part = f"{prefix}code{j}"
            nodes.append(cast(part, f"{prefix}wide{j}", "double"))
            parts.append(f"{prefix}wide{j}")
        nodes.append(helper.make_node("Concat", parts, [f"{prefix}wide"], axis=1))
        return nodes, constants

    def _schema_for(self, X: object) -> Schema:
        """The schema; where the model knows no names, with those of X, for messages."""
        names = None if self.schema.named else column_names(X)
        if names is None or len(names) != len(self.schema.columns):
            return self.schema
        columns = zip(self.schema.columns, names, strict=True)
        return Schema(tuple(replace(column, name=name) for column, name in columns), named=False)

    def _check_values(self, matrix: NDArray[np.float32], known: Sequence[str]) -> None:
        if self.values == "any":
            return
        bad = np.isinf(matrix) if self.values == "no infinities" else ~np.isfinite(matrix)
        if bad.any():
            names = [known[int(j)] for j in np.flatnonzero(bad.any(axis=0))]
            what = "infinite" if self.values == "no infinities" else "missing (NaN) or infinite"
            raise ValueError(
                f"The base model does not take {what} values, but there are some in: "
                f"{listed(names)}. (Numbers beyond the range of float32 count as infinite.)"
            )


def _kind(column: Column) -> Literal["float", "string"]:
    return "string" if any(isinstance(v, str) for v in column.categories) else "float"


def _encoder(column: Column, source: str, target: str) -> list[onnx.NodeProto]:
    """Codes of a column's categories, from 1; NaN for all others."""
    from onnx import helper

    codes = [float(code) for code in range(1, len(column.categories) + 1)]
    options: dict[str, Any] = {
        "values_floats": codes,
        "default_float": float("nan"),
        "domain": "ai.onnx.ml",
    }
    if _kind(column) == "string":
        keys = [str(value) for value in column.categories]
        return [helper.make_node("LabelEncoder", [source], [target], keys_strings=keys, **options)]
    numbers = [float(value) for value in column.categories]
    return [
        cast(source, f"{target}/key", "float"),
        helper.make_node(
            "LabelEncoder", [f"{target}/key"], [target], keys_floats=numbers, **options
        ),
    ]
