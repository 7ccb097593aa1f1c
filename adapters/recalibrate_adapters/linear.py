"""Linear boosters: weighted sums of the columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate.support.onnxgraph import GraphBuilder, value_info
from recalibrate_adapters.forest import Response, respond, write_response

if TYPE_CHECKING:
    import onnx
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Bias plus weighted columns in float64; a missing value counts as 0, as in xgboost.

    ``weights`` has a column per output; ``response`` and ``position`` say what becomes of the sums,
    as in a `Forest`. Sums depend on their order in the last bits, so a graph's are not exactly
    these.

    Examples
    --------
    >>> from recalibrate_adapters.forest import make_schema
    >>> model = LinearSum(make_schema(None, 2), np.array([[1.0], [10.0]]), np.array([0.5]))
    >>> model.scores([[1, 2], [3, None]])
    array([21.5,  3.5])
    """

    schema: Schema
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    response: Response = "sum"
    position: int = 0
    exact: bool = False
    why_no_graph: str = ""

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One score per row."""
        matrix = self.schema.read(X).matrix().astype(np.float64)
        matrix[np.isnan(matrix)] = 0.0
        return respond(matrix @ self.weights + self.bias, self.response, self.position)

    def only(self, output: int) -> LinearSum:
        """The sum of one output."""
        return replace(self, weights=self.weights[:, [output]], bias=self.bias[[output]])

    def some_rows(self) -> pd.DataFrame:
        """Rows on which the framework must say the same."""
        import pandas as pd

        rows = np.random.default_rng(0).normal(size=(50, len(self.weights)))
        rows[0] = 0.0
        return pd.DataFrame(rows, columns=list(self.schema.names))

    def graph(self) -> onnx.ModelProto:
        """The same as an ONNX graph."""
        builder = GraphBuilder()
        wide = builder.cast("X", "float64")
        present = builder.op("Where", builder.op("IsNaN", wide), builder.number(0.0), wide)
        total = builder.op("MatMul", present, builder.constant(self.weights))
        sums = builder.op("Add", total, builder.constant(self.bias.reshape(1, -1)))
        result = write_response(builder, sums, self.response, self.position)
        inputs = [value_info("X", "float32", ["N", len(self.weights)])]
        width = 1 if self.response == "softmax" else len(self.bias)
        return builder.score_model(inputs, result, width=width)
