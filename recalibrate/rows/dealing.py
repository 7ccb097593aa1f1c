"""Folds of rows: the same ones whatever the order of the rows and the way they are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.data.columns import Weighted, distribution
from recalibrate.data.folds import BAND_QUANTILES, label_bands, split_folds, tell_apart
from recalibrate.rows.store import Dealt, Fold, Numbered, Store

LARGEST_SORT = 1 << 22
"""Rows that are sorted at once; of more, one bucket of hashes after the other."""

Places = NDArray[np.int64]


def deal(store: Store, count: int, seed: int) -> list[Fold]:
    """Folds 0 to count - 1, each of which is held out once."""
    folds = _number(store, seed, lambda place: place % count, np.min_scalar_type(count - 1))
    return [Fold(Dealt(folds, k, False), Dealt(folds, k, True)) for k in range(count)]


def set_aside(store: Store, share: float, seed: int) -> list[Fold]:
    """One fold that holds out a share of the rows; none if that leaves no row on either side."""

    def chosen(place: Places) -> NDArray[np.bool_]:
        return np.asarray(np.floor((place + 1) * share) > np.floor(place * share))

    folds = _number(store, seed, chosen, np.dtype(np.uint8))
    if not 0 < sum(int(fold.sum()) for fold in folds) < store.size.n_rows:
        return []
    return [Fold(Dealt(folds, 1, False), Dealt(folds, 1, True))]


def split(problem: Problem, cv: Any) -> list[Fold]:
    """Folds of a scikit-learn splitter, or of pairs of row numbers."""
    pairs = split_folds(cv, problem.given.labels, problem.given.rows)
    return [Fold(Numbered(train), Numbered(held_out)) for train, held_out in pairs]


def restrict(folds: list[Fold], kept: NDArray[np.intp], n_rows: int) -> list[Fold]:
    """Folds of ``n_rows`` rows among some of them; those that are left without any are gone."""
    place = np.full(n_rows, -1, dtype=np.intp)
    place[kept] = np.arange(len(kept))
    found = []
    for fold in folds:
        train, held_out = (own[own >= 0] for own in (place[rows.of(0)] for rows in fold))
        if len(train) and len(held_out):
            found.append(Fold(Numbered(train), Numbered(held_out)))
    return found


def labels_of(piece: Problem) -> Weighted:
    """Work: the labels, each counting once."""
    return np.asarray(piece.labels.strata), np.empty(0, dtype=np.int64)


def keys_of(
    seed: int, cuts: NDArray[np.float64], piece: Problem
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Work: label band and hash of every row, see ``data.folds``."""
    return label_bands(piece.labels.strata, cuts), piece.hashes(seed)


def _number(
    store: Store, seed: int, fold_of: Callable[[Places], NDArray[Any]], dtype: np.dtype[Any]
) -> list[NDArray[Any]]:
    """Fold of every row, piece by piece, by its place in the order of bands and hashes.

    Ten bytes a row are held; the rest is one bucket of rows at a time.
    """
    found = list(store.map(partial(keys_of, seed, _cuts(store))))
    band = np.concatenate([bands for bands, _ in found])
    key = np.concatenate([keys for _, keys in found])
    lengths = [len(bands) for bands, _ in found]
    del found
    bits = (len(key) // LARGEST_SORT).bit_length()
    for rows in _buckets(band, key, bits):  # equal hashes are in the same bucket
        key[rows] = tell_apart(key[rows])
    fold = np.empty(len(band), dtype=dtype)
    first = 0
    for rows in _buckets(band, key, bits):
        order = rows[np.argsort(key[rows], kind="stable")]
        fold[order] = fold_of(np.arange(first, first + len(order)))
        first += len(order)
    return np.split(fold, np.cumsum(lengths)[:-1])


def _buckets(
    band: NDArray[np.uint8], key: NDArray[np.uint64], bits: int
) -> Iterator[NDArray[np.intp]]:
    """Row numbers by band and leading bits of the hash, in ascending order of both."""
    bucket = band.astype(np.int32) << bits
    if bits:
        bucket |= (key >> np.uint64(64 - bits)).astype(np.int32)
    for number in np.unique(bucket):
        yield np.flatnonzero(bucket == number)


def _cuts(store: Store) -> NDArray[np.float64]:
    """Labels at the quantiles that separate bands, as numpy finds them with method="lower"."""
    places = np.floor((store.size.n_rows - 1) * BAND_QUANTILES).astype(np.int64)
    found = distribution(store.map, labels_of, lambda _: places + 1)
    reached = np.cumsum(found.mass)
    return np.asarray(found.values[np.searchsorted(reached, places + 1)])
