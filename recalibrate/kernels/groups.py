"""Loops over cells of group expressions: groups of rows looked up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel

Cells = NDArray[np.unsignedinteger]

TILE = 256
"""Rows whose groups are looked up together."""


@kernel
def look_up(
    cells: Cells,
    starts: NDArray[np.int64],
    positions: NDArray[np.int64],
    sizes: NDArray[np.int64],
    begins: NDArray[np.int64],
    tables: NDArray[np.int32],
    columns: NDArray[np.int64],
    shift: int,
    out: NDArray[np.int32],
) -> None:
    """Find the groups of every term: cells of its factors, then the term's table.

    Factors of term t are ``positions[starts[t]:starts[t + 1]]``, rows of ``cells``; its table
    begins at ``begins[t]``, and its groups go to column ``shift + columns[t]``. Tiles of rows,
    because ``out`` is written across its rows.
    """
    n_rows = out.shape[0]
    for top in range(0, n_rows, TILE):
        end = top + TILE
        if end > n_rows:
            end = n_rows
        for t in range(columns.shape[0]):
            first, begin, column = starts[t], begins[t], shift + columns[t]
            one = cells[positions[first]]
            if starts[t + 1] - first == 1:
                for i in range(top, end):
                    out[i, column] = tables[begin + one[i]]
            elif starts[t + 1] - first == 2:  # by far the most frequent crossing
                size, two = sizes[first + 1], cells[positions[first + 1]]
                for i in range(top, end):
                    out[i, column] = tables[begin + one[i] * size + two[i]]
            else:
                for i in range(top, end):
                    key = 0
                    for k in range(first, starts[t + 1]):
                        key = key * sizes[k] + cells[positions[k], i]
                    out[i, column] = tables[begin + key]
