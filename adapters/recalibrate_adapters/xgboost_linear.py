"""xgboost's linear booster: a weighted sum of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate_adapters.graphs import as_vector, cast, constant, score_model, value_info

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Bias plus weighted columns in float64; a missing value counts as 0, as in xgboost.

    Sums depend on their order in the last bits, so a graph's are not exactly these.

    Examples
    --------
    >>> from recalibrate_adapters.forest import plain_schema
    >>> LinearSum(plain_schema(None, 2), np.array([1.0, 10.0]), 0.5).scores([[1, 2], [3, None]])
    array([21.5,  3.5])
    """

    schema: Schema
    weights: NDArray[np.float64]
    bias: float
    exact: bool = False
    why_no_graph: str = ""

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One score per row."""
        matrix = self.schema.read(X).matrix().astype(np.float64)
        matrix[np.isnan(matrix)] = 0.0
        return np.asarray(matrix @ self.weights + self.bias)

    def graph(self) -> onnx.ModelProto:
        """The same as an ONNX graph."""
        from onnx import helper

        zero, bias = constant("zero", np.array(0.0)), constant("bias", np.array(self.bias))
        weights = constant("weights", self.weights.reshape(-1, 1))
        last, more = as_vector("total")
        nodes = [
            cast("X", "wide", "double"),
            helper.make_node("IsNaN", ["wide"], ["missing"]),
            helper.make_node("Where", ["missing", "zero", "wide"], ["present"]),
            helper.make_node("MatMul", ["present", "weights"], ["sum"]),
            helper.make_node("Add", ["sum", "bias"], ["total"]),
        ]
        inputs = [value_info("X", "float", len(self.weights))]
        return score_model([*nodes, *last], inputs, [zero, bias, weights, *more])
