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


def dealing_order(
    table: Table,
    labels: NDArray[np.float64],
    scores: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    seed: int,
) -> NDArray[np.intp]:
    """Row numbers by label band, then by the hash of the row's content."""
    edges = np.unique(np.quantile(labels, np.arange(1, LABEL_BANDS) / LABEL_BANDS))
    band = np.searchsorted(edges, labels, side="left")
    numbers = [labels, scores] if weight is None else [labels, scores, weight]
    return np.lexsort((row_hash(table, numbers, seed), band))


def deal_folds(order: NDArray[np.intp], count: int) -> list[Fold]:
    """``count`` pairs of training and held-out row numbers."""
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % count
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]


def hold_out(order: NDArray[np.intp], share: float) -> Fold:
    """A share of the rows, spread evenly over the order."""
    reached = np.floor(np.arange(len(order) + 1) * share)
    chosen = np.diff(reached) > 0
    return np.sort(order[~chosen]), np.sort(order[chosen])


def split_folds(
    cv: Any, labels: NDArray[np.float64], kept: NDArray[np.intp] | None = None
) -> list[Fold]:
    """Folds of a scikit-learn splitter or an iterable of index pairs, checked.

    Both number the rows as the user gave them, and ``labels`` are those of all of them; ``kept``
    says which are left (None: all).
    """
    n_rows = len(labels)
    kept = np.arange(n_rows) if kept is None else kept
    place = np.full(n_rows, -1, dtype=np.intp)
    place[kept] = np.arange(len(kept))
    if hasattr(cv, "split") and not isinstance(cv, str):
        pairs = cv.split(np.zeros((n_rows, 1)), labels)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = cv
    else:
        raise TypeError(
            f"cv= must be a number of folds, a scikit-learn splitter or an iterable of pairs of "
            f"row numbers, got {cv!r}"
        )
    folds = []
    for pair in pairs:
        train, held_out = (place[rows] for rows in _row_numbers(pair, n_rows))
        train, held_out = train[train >= 0], held_out[held_out >= 0]
        if not len(train) or not len(held_out):
            raise ValueError("cv= gave a fold without rows to train on or to validate on")
        if np.intersect1d(train, held_out).size:
            raise ValueError("cv= gave a fold whose training and validation rows overlap")
        folds.append((train, held_out))
    if not folds:
        raise ValueError("cv= gave no folds")
    return folds


def _row_numbers(pair: Any, n_rows: int) -> Fold:
    """Training and held-out row numbers of a fold, checked."""
    try:
        train, held_out = (np.asarray(rows) for rows in pair)
    except (TypeError, ValueError):
        raise ValueError(
            f"cv= must give pairs (row numbers to train on, row numbers to hold out), got {pair!r}"
        ) from None
    for rows in (train, held_out):
        if rows.size and (rows.ndim != 1 or rows.dtype.kind not in "iu"):
            raise ValueError(
                f"cv= must give row numbers as a list of whole numbers, got {rows.dtype} values "
                f"of shape {rows.shape}"
            )
        outside = rows[(rows < 0) | (rows >= n_rows)]
        if outside.size:
            raise ValueError(
                f"cv= gave the row number {outside[0]}, but rows are numbered 0 to {n_rows - 1}"
            )
    return train.astype(np.intp), held_out.astype(np.intp)
