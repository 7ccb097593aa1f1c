"""A loop over cells of group expressions: groups looked up."""

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
    keys: NDArray[np.int32],
    first: int,
    out: NDArray[np.int32],
) -> None:
    """Find the groups of every term: cells of its factors, then the term's table.

    Factors of term t are ``positions[starts[t]:starts[t + 1]]``, rows of ``cells``; its table
    begins at ``begins[t]``, and its groups go to column ``first + columns[t]``. As many rows at a
    time as there is room for ``keys``, because ``out`` is written across its rows.
    """
    for top in range(0, out.shape[0], keys.shape[0]):
        count = out.shape[0] - top
        if count > keys.shape[0]:
            count = keys.shape[0]
        for t in range(columns.shape[0]):
            for i in range(count):
                keys[i] = 0
            for k in range(starts[t], starts[t + 1]):
                size, own = np.int32(sizes[k]), positions[k]
                for i in range(count):
                    keys[i] = keys[i] * size + np.int32(cells[own, top + i])
            begin, column = begins[t], first + columns[t]
            for i in range(count):
                out[top + i, column] = tables[begin + keys[i]]
