"""Folds that depend on what the rows say, not on their order.

Rows are sorted by label band and by a hash of their content, and dealt out to the folds in
turn. Identical rows are neighbours and interchangeable, so permuting the table permutes nothing
that a fit could notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.hashing import combine, mix
from recalibrate.table import Table

LABEL_BANDS = 10
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def row_hash(
    table: Table, numbers: Iterable[NDArray[np.float64]], seed: int = 0
) -> NDArray[np.uint64]:
    """A 64-bit hash of every row's features and further numbers."""
    state = mix(np.zeros(table.n_rows, dtype=np.uint64), seed)
    for j in range(len(table.schema.columns)):
        bits = (table.column(j) + np.float32(0)).view(np.uint32).astype(np.uint64)
        state = combine(state, bits)
    for values in numbers:
        bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
        state = combine(state, bits)
    return state


def deal_folds(
    count: int,
    table: Table,
    labels: NDArray[np.float64],
    scores: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    seed: int,
) -> list[Fold]:
    """``count`` pairs of training and held-out row numbers."""
    edges = np.unique(np.quantile(labels, np.arange(1, LABEL_BANDS) / LABEL_BANDS))
    band = np.searchsorted(edges, labels, side="left")
    numbers = [labels, scores] if weight is None else [labels, scores, weight]
    order = np.lexsort((row_hash(table, numbers, seed), band))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % count
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]


def split_folds(cv: Any, X: Any, y: NDArray[np.float64], groups: Any = None) -> list[Fold]:
    """Folds of a scikit-learn splitter or an iterable of index pairs, checked."""
    pairs = cv.split(X, y, groups) if hasattr(cv, "split") else cv
    folds = []
    for train, held_out in pairs:
        rows = np.asarray(train, dtype=np.intp), np.asarray(held_out, dtype=np.intp)
        if not len(rows[0]) or not len(rows[1]):
            raise ValueError("cv= gave a fold without rows to train on or to validate on")
        if np.intersect1d(*rows).size:
            raise ValueError("cv= gave a fold whose training and validation rows overlap")
        folds.append(rows)
    if not folds:
        raise ValueError("cv= gave no folds")
    return folds
