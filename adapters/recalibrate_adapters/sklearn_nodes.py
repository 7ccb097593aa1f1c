"""Nodes of ours inside of the graph that skl2onnx builds."""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate.support.onnxgraph import GraphBuilder


class OperatorNodes(GraphBuilder):
    """The nodes of one operator, from its inputs to its outputs.

    Versions of operators are not told: skl2onnx refuses ai.onnx.ml 5, which is set later.
    """

    def __init__(self, scope: Any, operator: Any) -> None:
        super().__init__(scope.get_unique_operator_name("recalibrate") + "/")
        self._operator = operator

    def finish(self, container: Any, result: str) -> None:
        """Give out a matrix in the type that is asked for; of a classifier the classes too."""
        outputs = self._operator.outputs
        double = type(outputs[-1].type).__name__ == "DoubleTensorType"
        self.same(self.cast(result, "float64" if double else "float32"), outputs[-1].full_name)
        if len(outputs) > 1:
            classes = np.asarray(self._operator.raw_operator.classes_)
            whole = classes.dtype.kind in "biu"
            values = classes.astype(np.int64) if whole else classes.astype(str).astype(object)
            best = self.op("ArgMax", result, axis=1, keepdims=0)
            label = self.op("Gather", self.constant(values), best, axis=0)
            self.same(label, outputs[0].full_name)
        container.nodes.extend(self.nodes)
        container.initializers.extend(self.initializers)
