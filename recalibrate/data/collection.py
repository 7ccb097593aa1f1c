"""Dask collections, known by where their class comes from: Dask itself is not imported."""

from __future__ import annotations

from typing import Any


def is_collection(X: Any) -> bool:
    """Whether X is a Dask DataFrame.

    Examples
    --------
    >>> is_collection([[1.0, 2.0]])
    False
    """
    root = type(X).__module__.partition(".")[0]
    return root in ("dask", "dask_expr") and hasattr(X, "to_delayed") and hasattr(X, "columns")
