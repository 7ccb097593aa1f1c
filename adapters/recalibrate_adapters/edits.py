"""What tree frameworks do to a number before they compare it, in numpy and as ONNX nodes.

An edit maps a matrix of features to one of the same shape. All numbers are float32, so that an
edit has the same result in the float32 of Python and in the float64 of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate_adapters.graphs import constant

if TYPE_CHECKING:
    import onnx

Matrix = NDArray[np.float32]
Nodes = tuple[list["onnx.NodeProto"], list["onnx.TensorProto"]]

CODES = 2**24
"""Category codes are below this: float32 holds all whole numbers up to here."""

UNSEEN = 2.0**25
"""Code of everything that is neither missing nor a category; no set has it."""


class Edit(Protocol):
    """A change of some columns."""

    def apply(self, matrix: Matrix) -> Matrix:
        """The changed matrix."""

    def nodes(self, source: str, target: str) -> Nodes:
        """The same from one float64 tensor to another, and the constants that it takes."""


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
        return np.where(inside, np.float32(np.nan), matrix)

    def nodes(self, source: str, target: str) -> Nodes:
        """The same as ONNX nodes."""
        graph = _Graph(target)
        inside = graph.both(source, self.low, self.high)
        here = graph.add("And", [inside, graph.constant(self.columns)])
        graph.add("Where", [here, graph.constant(np.nan), source], target)
        return graph.nodes, graph.constants


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
        codes = np.floor(np.maximum(matrix, np.float32(0))) + np.float32(1)
        codes = np.where(valid, codes, np.float32(UNSEEN))
        return np.where(self.columns & ~np.isnan(matrix), codes, matrix)

    def nodes(self, source: str, target: str) -> Nodes:
        """The same as ONNX nodes."""
        graph = _Graph(target)
        valid = graph.both(source, self.low, float(np.nextafter(np.float32(CODES), np.float32(0))))
        whole = graph.add("Floor", [graph.add("Max", [source, graph.constant(0.0)])])
        codes = graph.add("Add", [whole, graph.constant(1.0)])
        codes = graph.add("Where", [valid, codes, graph.constant(UNSEEN)])
        present = graph.add("Not", [graph.add("IsNaN", [source])])
        here = graph.add("And", [present, graph.constant(self.columns)])
        graph.add("Where", [here, codes, source], target)
        return graph.nodes, graph.constants


class _Graph:
    """Nodes in the making; inner names start with that of the result."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._prefix = prefix

    def constant(self, values: Any) -> str:
        tensor = constant(f"{self._prefix}/constant{len(self.constants)}", values)
        self.constants.append(tensor)
        return tensor.name

    def add(self, operator: str, inputs: Sequence[str], output: str = "") -> str:
        from onnx import helper

        output = output or f"{self._prefix}/{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output]))
        return output

    def both(self, source: str, low: float, high: float) -> str:
        """Whether low <= source <= high."""
        above = self.add("GreaterOrEqual", [source, self.constant(low)])
        below = self.add("LessOrEqual", [source, self.constant(high)])
        return self.add("And", [above, below])
