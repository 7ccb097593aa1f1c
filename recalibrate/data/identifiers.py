"""Columns that number the rows instead of describing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recalibrate.data.table import Table

NEARLY_ALL, FEWEST_ROWS = 0.9, 100
"""Share of the rows that have a value of their own; in fewer rows than this that is no wonder."""


def id_like(table: Table, names: Sequence[str], n_rows: int) -> list[str]:
    """Columns whose values, categories or whole numbers, differ in nearly every row.

    ``n_rows`` counts all rows where the table holds only some of them. Numbers with fractions
    always differ, and are measurements.

    Examples
    --------
    >>> import pandas as pd
    >>> from recalibrate.data.table import read_table
    >>> X = pd.DataFrame({"customer": [f"c{k}" for k in range(200)], "age": [20, 50] * 100})
    >>> id_like(read_table(X), ["customer", "age"], 200)
    ['customer']
    """
    if n_rows < FEWEST_ROWS:
        return []
    return [name for name in names if _distinct(table, name) >= NEARLY_ALL * n_rows]


def _distinct(table: Table, name: str) -> int:
    column = table.schema.columns[table.schema.index(name)]
    if column.kind == "categorical":
        return len(column.categories)
    values = table.source(name)
    if values.dtype.kind not in "iu" or not len(values):
        return 0
    room = int(values.max()) - int(values.min()) + 1
    if room < NEARLY_ALL * len(values):  # as of ages; sorting is only for what may differ
        return 0
    return len(np.unique(values))
