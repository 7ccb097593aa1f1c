"""What tree frameworks do to a number before they compare it, in numpy and as ONNX nodes.

An edit maps a matrix of features to one of the same shape. Its own numbers are float32, so that
it has the same result in the float32 of some frameworks and in the float64 of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.onnxgraph import GraphBuilder

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
