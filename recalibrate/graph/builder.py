"""A graph under construction: nodes, constants and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from recalibrate.ensemble import Ensemble

OPSET = 18
ML_OPSET = 5
ML_DOMAIN = "ai.onnx.ml"
IR_VERSION = 10

PREFIX = "rc/"
"""Inner names begin with this, so that they cannot meet a column's name."""

BASE_PREFIX = "base/"
"""Names inside of the base model's graph begin with this."""

INVERSE: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.INT64: "int64",
    TensorProto.STRING: "string",
}
TYPES = {name: number for number, name in INVERSE.items()}


class GraphBuilder:
    """Collects nodes in the order they are computed; every method returns a tensor's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def name(self, hint: str) -> str:
        """A name that is not taken yet."""
        self._count += 1
        return f"{PREFIX}{hint}_{self._count}"

    def op(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """One node with one output."""
        output = self.name(op_type)
        node = helper.make_node(
            op_type, list(inputs), [output], name=output, domain=domain, **attributes
        )
        self.nodes.append(node)
        return output

    def same(self, tensor: str, name: str) -> None:
        """Give a tensor a second name."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name], name=self.name("same")))

    def constant(self, values: NDArray[Any]) -> str:
        """A constant tensor; equal ones are stored once."""
        array = np.ascontiguousarray(values)
        key = (array.dtype.str, np.shape(values), array.tobytes())
        if key not in self._constants:
            name = self.name("constant")
            tensor = numpy_helper.from_array(array.reshape(np.shape(values)), name)
            self.initializers.append(tensor)
            self._constants[key] = name
        return self._constants[key]

    def number(self, value: float) -> str:
        """A float64 scalar."""
        return self.constant(np.array(value, dtype=np.float64))

    def cast(self, tensor: str, to: str) -> str:
        """The same numbers in another type, one of the names in :data:`TYPES`."""
        return self.op("Cast", tensor, to=TYPES[to])

    def columns(self, tensor: str, positions: NDArray[Any] | list[int]) -> str:
        """Some columns of a matrix."""
        index = self.constant(np.asarray(positions, dtype=np.int64))
        return self.op("Gather", tensor, index, axis=1)

    def concat(self, tensors: list[str]) -> str:
        """Columns side by side."""
        return tensors[0] if len(tensors) == 1 else self.op("Concat", *tensors, axis=1)

    def flat(self, tensor: str) -> str:
        """A column [N, 1] as a vector [N]."""
        return self.op("Reshape", tensor, self.constant(np.array([-1], dtype=np.int64)))

    def column(self, tensor: str) -> str:
        """A vector [N] as a column [N, 1]."""
        return self.op("Reshape", tensor, self.constant(np.array([-1, 1], dtype=np.int64)))

    def clip(self, tensor: str, low: float, high: float) -> str:
        """Values cut at both ends."""
        return self.op("Clip", tensor, self.number(low), self.number(high))

    def snap(self, tensor: str, step: float) -> str:
        """Nearest multiples of a power of two; ``Round`` takes ties to even, as Python does."""
        scaled = self.op("Mul", tensor, self.number(1.0 / step))
        return self.op("Mul", self.op("Round", scaled), self.number(step))

    def sigmoid(self, margin: str) -> str:
        """1 / (1 + exp(-margin)).

        Not ``Sigmoid``: onnxruntime's has an absolute error of an ulp of 1, which is a relative
        error of 2**-30 at a probability of 1e-7 and shows in float32.
        """
        small = self.op("Exp", self.op("Neg", margin))
        return self.op("Div", self.number(1.0), self.op("Add", small, self.number(1.0)))

    def trees(self, ensemble: Ensemble, matrix: str) -> str:
        """Sum of trees over a float64 matrix, as a column."""
        output = self.name("trees")
        self.nodes.append(ensemble.node(matrix, output, output))
        return output

    def model(
        self,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        metadata: dict[str, str],
        domains: dict[str, int],
    ) -> onnx.ModelProto:
        """The finished model; ``domains`` are further operator sets that nodes come from."""
        from recalibrate import __version__

        graph = helper.make_graph(
            self.nodes, "recalibrate", inputs, outputs, initializer=self.initializers
        )
        opsets = {**domains, "": OPSET, ML_DOMAIN: ML_OPSET}
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(d, v) for d, v in sorted(opsets.items())],
            ir_version=IR_VERSION,
            producer_name="recalibrate",
            producer_version=__version__,
        )
        helper.set_model_props(model, metadata)
        return model


def value_info(name: str, kind: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    """An input or output: its name, type and shape (text is a dynamic size)."""
    return helper.make_tensor_value_info(name, TYPES[kind], shape)
