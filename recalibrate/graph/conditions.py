"""Group expressions as nodes: the truth of a condition on every row."""

from __future__ import annotations

from functools import reduce

import numpy as np

from recalibrate.data.table import Column
from recalibrate.graph.features import Code, Columns, Number, Truth
from recalibrate.groups.expressions import (
    And,
    Compare,
    Condition,
    In,
    IsMissing,
    Not,
    Or,
    codes_where,
)

_COMPARE = {
    "<": "Less",
    "<=": "LessOrEqual",
    ">": "Greater",
    ">=": "GreaterOrEqual",
    "==": "Equal",
}


def write_truth(truth: Truth, columns: Columns) -> str:
    """A bool column [N, 1]; comparisons with a missing value are False, as in Python."""
    return _Writer({column.name: column for column in truth.columns}, columns).write(
        truth.condition
    )


class _Writer:
    def __init__(self, schema: dict[str, Column], columns: Columns) -> None:
        self.schema = schema
        self.columns = columns
        self.builder = columns.builder

    def write(self, node: Condition) -> str:
        if isinstance(node, And | Or):
            combine = "And" if isinstance(node, And) else "Or"
            parts = [self.write(operand) for operand in node.operands]
            return reduce(lambda a, b: self.builder.op(combine, a, b), parts)
        if isinstance(node, Not):
            return self.builder.op("Not", self.write(node.operand))
        if isinstance(node, IsMissing):
            return self.builder.op("IsNaN", self._column(node.column))
        if self.schema[node.column].kind == "categorical":
            return self._categories(node)
        return self._numbers(node)

    def _column(self, name: str) -> str:
        column = self.schema[name]
        return self.columns.column(Code(column) if column.kind == "categorical" else Number(name))

    def _categories(self, node: Compare | In) -> str:
        """Look the code up; NaN, which is missing or unknown, is at 0."""
        truth = codes_where(node, self.schema[node.column])
        codes = self._column(node.column)
        zero = self.builder.constant(np.zeros((), dtype=np.float32))
        known = self.builder.op("Where", self.builder.op("IsNaN", codes), zero, codes)
        return self.builder.op(
            "Gather", self.builder.constant(truth), self.builder.cast(known, "int64")
        )

    def _numbers(self, node: Compare | In) -> str:
        values = self._column(node.column)
        given = node.values if isinstance(node, In) else (node.value,)
        with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is in the column
            constants = np.array([float(v) for v in given]).astype(np.float32)
        if isinstance(node, Compare) and node.op != "!=":
            return self.builder.op(_COMPARE[node.op], values, self.builder.constant(constants[0]))
        equal = [
            self.builder.op("Equal", values, self.builder.constant(constant))
            for constant in constants
        ]
        found = reduce(lambda a, b: self.builder.op("Or", a, b), equal)
        if isinstance(node, In) and not node.negated:
            return found
        present = self.builder.op("Not", self.builder.op("IsNaN", values))
        return self.builder.op("And", present, self.builder.op("Not", found))
