"""Sparse matrices of scipy: what they are, and the same as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_sparse(X: Any) -> bool:
    """Whether X is one of scipy's sparse matrices."""
    return type(X).__module__.startswith("scipy.sparse")


def dense(X: Any, absent: float) -> NDArray[Any]:
    """A sparse matrix as an array, with a number for the entries that are not stored.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> dense(csr_array([[0.0, 2.0]]), np.nan)
    array([[nan,  2.]])
    """
    stored = X.tocsr().tocoo()  # sums entries that are stored twice
    filled = np.full(X.shape, absent, dtype=np.result_type(X.dtype, np.float32))
    filled[stored.row, stored.col] = stored.data
    return filled
