"""What a condition means: its truth on the rows of a table."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recalibrate.data.values import Value, category_key
from recalibrate.groups.expressions.tree import And, Compare, Condition, In, IsMissing, Not, Or

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalibrate.data import table as tables

_OPERATORS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


class Columns(Protocol):
    """What evaluation needs of a table."""

    @property
    def schema(self) -> tables.Schema: ...
    @property
    def n_rows(self) -> int: ...
    def column(self, name: str, /, *, copy: bool = True) -> NDArray[np.float32]: ...


def codes_where(node: Compare | In, column: tables.Column) -> NDArray[np.bool_]:
    """Truth of a comparison for each code of a categorical column.

    Parameters
    ----------
    node : Compare or In
    column : recalibrate.data.table.Column
        A categorical column.

    Returns
    -------
    ndarray of bool, shape (len(column.categories) + 1,)
        Entry k is for ``categories[k - 1]``; entry 0, for missing, is False.

    Examples
    --------
    >>> from recalibrate.data.table import Column
    >>> codes_where(Compare("sex", "!=", "F"), Column("sex", "categorical", ("F", "M")))
    array([False, False,  True])
    """
    truth = np.zeros(len(column.categories) + 1, dtype=bool)
    if isinstance(node, Compare) and node.op not in ("==", "!="):
        compare = _OPERATORS[node.op]
        truth[1:] = [compare(c, node.value) for c in column.categories]
        return truth
    values = node.values if isinstance(node, In) else (node.value,)
    negated = node.negated if isinstance(node, In) else node.op == "!="
    wanted = {category_key(v) for v in values}
    truth[1:] = [(category_key(c) in wanted) != negated for c in column.categories]
    return truth


def _to_float32(values: tuple[Value, ...]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is in the column
        return np.array([float(v) for v in values], dtype=np.float64).astype(np.float32)


def _evaluate_leaf(node: Compare | In, table: Columns) -> NDArray[np.bool_]:
    column = table.schema.columns[table.schema.index(node.column)]
    values = table.column(node.column)
    if column.kind == "categorical":
        return codes_where(node, column)[np.nan_to_num(values, nan=0.0).astype(np.intp)]
    constants = _to_float32(node.values if isinstance(node, In) else (node.value,))
    if isinstance(node, Compare) and node.op != "!=":
        return _OPERATORS[node.op](values, constants[0])
    found = np.isin(values, constants)
    if isinstance(node, In) and not node.negated:
        return found
    return ~found & ~np.isnan(values)


def evaluate(node: Condition, table: Columns) -> NDArray[np.bool_]:
    """Truth of a condition on every row.

    Values are cast to float32 before they meet a numeric (float32) column. A comparison with
    a missing value is False, also ``!=`` and ``not in``.

    Parameters
    ----------
    node : Condition
        The ``condition`` of a `Predicate`.
    table : recalibrate.data.table.Table

    Returns
    -------
    ndarray of bool, shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.groups.expressions import parse
    >>> from recalibrate.data.table import read_table
    >>> table = read_table(np.array([[20.0], [30.0], [np.nan]]))
    >>> evaluate(parse("x0 < 25").factors[0].condition, table)
    array([ True, False, False])
    >>> evaluate(parse("not (x0 < 25)").factors[0].condition, table)
    array([False,  True,  True])
    """
    if isinstance(node, And | Or):
        combine = np.logical_and if isinstance(node, And) else np.logical_or
        result = evaluate(node.operands[0], table)
        for operand in node.operands[1:]:
            result = combine(result, evaluate(operand, table))
        return result
    if isinstance(node, Not):
        return ~evaluate(node.operand, table)
    if isinstance(node, IsMissing):
        return np.isnan(table.column(node.column))
    return _evaluate_leaf(node, table)
