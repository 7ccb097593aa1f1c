"""xgboost's linear booster: a weighted sum of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate.support.onnxgraph import GraphBuilder, value_info

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Bias plus weighted columns in float64; a missing value counts as 0, as in xgboost.

    Sums depend on their order in the last bits, so a graph's are not exactly these.

    Examples
    --------
    >>> from recalibrate_adapters.forest import make_schema
    >>> LinearSum(make_schema(None, 2), np.array([1.0, 10.0]), 0.5).scores([[1, 2], [3, None]])
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
        builder = GraphBuilder()
        wide = builder.cast("X", "float64")
        present = builder.op("Where", builder.op("IsNaN", wide), builder.number(0.0), wide)
        total = builder.op("MatMul", present, builder.constant(self.weights.reshape(-1, 1)))
        result = builder.op("Add", total, builder.number(self.bias))
        inputs = [value_info("X", "float32", ["N", len(self.weights)])]
        return builder.score_model(inputs, result)
