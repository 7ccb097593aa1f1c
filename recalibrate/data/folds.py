"""Folds that depend on what the rows say, not on their order.

Rows are sorted by label band and by a hash of their content, and dealt out to the folds in
turn. Identical rows are interchangeable, so permuting the table permutes nothing that a fit could
notice; but each is dealt by a draw of its own (`salt_duplicates`). Dealt out evenly, the folds of a
table with few distinct rows would be mirrors of each other, and confirm each other's noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Table
from recalibrate.support.hashing import combine, mix

BAND_QUANTILES = np.arange(1, 10) / 10
"""Rows are dealt out band by band of their labels, so that all folds get all of them."""
DEFAULT_FOLDS = 5
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


def salt_duplicates(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hashes, with new ones for all but the first of equal ones.

    Examples
    --------
    >>> import numpy as np
    >>> len(np.unique(salt_duplicates(np.array([7, 7, 7, 8], dtype=np.uint64))))
    4
    """
    number = occurrence_index(key)
    return np.where(number > 0, salted(key, number), key)


def salted(key: NDArray[np.uint64], number: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes of rows that are not the first of their kind, by their number (from 1)."""
    return combine(key, number)


def occurrence_index(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """0, 1, ... for the first, second, ... of equal hashes."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    number = np.empty(len(key), dtype=np.uint64)
    number[order] = np.arange(len(key)) - np.repeat(starts, np.diff(np.r_[starts, len(key)]))
    return number


def label_bands(labels: NDArray[np.float64], cuts: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Band of every label, by the labels at `BAND_QUANTILES` of all rows."""
    return np.searchsorted(np.unique(cuts), labels, side="left").astype(np.uint8)


def first_rows(key: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """Numbers of the rows with the smallest hashes, equal ones told apart, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> first_rows(np.array([9, 3, 8, 1], dtype=np.uint64), 2)
    array([3, 1])
    """
    salted = salt_duplicates(key)
    first = np.argpartition(salted, count - 1)[:count]
    return np.asarray(first[np.argsort(salted[first], kind="stable")])


def is_splitter(cv: Any) -> bool:
    """Whether cv= is a way of splitting rows, and not a number of folds."""
    return cv is not None and (isinstance(cv, bool) or not isinstance(cv, (int, np.integer)))


def count_folds(cv: int | None) -> int:
    """The number of folds that cv= asks for, checked."""
    if cv is not None and cv < 2:
        raise ValueError(f"cv must be at least 2 folds or a splitter, got {cv!r}")
    return DEFAULT_FOLDS if cv is None else int(cv)


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
