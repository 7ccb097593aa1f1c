"""Folds of rows in pieces: the very folds that all rows at once would be dealt into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.data.folds import BAND_QUANTILES, dealing_keys, tell_apart
from recalibrate.rows.distributions import distribution
from recalibrate.rows.pieces import Pieces

BUCKETS = 64
"""Rows are sorted in so many lots, by the leading bits of their hash."""

Places = NDArray[np.int64]
Folds = list[NDArray[np.uint8]]
"""The fold of every row, piece by piece."""


@dataclass(frozen=True)
class LabelsOf:
    """The labels, each counting once."""

    def __call__(self, piece: Problem) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        return np.asarray(piece.labels.values), np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Keys:
    """Work: band and hash of every row, see `recalibrate.data.folds`."""

    seed: int
    cuts: NDArray[np.float64]

    def __call__(self, piece: Problem) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        labels = piece.labels
        band, key = dealing_keys(
            piece.table, labels.values, piece.base, labels.weight, self.seed, self.cuts
        )
        return band.astype(np.uint8), key


def deal(pieces: Pieces, count: int, seed: int) -> Folds:
    """Fold of every row, 0 to count - 1."""
    return _number(pieces, seed, lambda place: place % count)


def set_aside(pieces: Pieces, share: float, seed: int) -> Folds:
    """1 for a share of the rows, 0 for the others."""
    return _number(
        pieces, seed, lambda place: np.floor((place + 1) * share) > np.floor(place * share)
    )


def _number(pieces: Pieces, seed: int, fold_of: Callable[[Places], NDArray[Any]]) -> Folds:
    """Folds by every row's place in the order of bands and hashes.

    Ten bytes a row are held; the rest is one lot of rows at a time.
    """
    found = list(pieces.map(Keys(seed, _cuts(pieces))))
    band = np.concatenate([bands for bands, _ in found])
    key = np.concatenate([keys for _, keys in found])
    lengths = [len(bands) for bands, _ in found]
    del found
    for rows in _lots(band, key):  # equal hashes are in the same lot
        key[rows] = tell_apart(key[rows])
    fold = np.empty(len(band), dtype=np.uint8)
    first = 0
    for rows in _lots(band, key):
        order = rows[np.argsort(key[rows], kind="stable")]
        place = np.arange(first, first + len(order))
        fold[order] = fold_of(place)
        first += len(order)
    return np.split(fold, np.cumsum(lengths)[:-1])


def _lots(band: NDArray[np.uint8], key: NDArray[np.uint64]) -> Iterator[NDArray[np.intp]]:
    """Row numbers by band and leading bits of the hash, in ascending order of both."""
    shift = np.uint64(64 - (BUCKETS - 1).bit_length())
    lot = (key >> shift).astype(np.int16) + BUCKETS * band.astype(np.int16)
    for number in np.unique(lot):
        yield np.flatnonzero(lot == number)


def _cuts(pieces: Pieces) -> NDArray[np.float64]:
    """Labels at the quantiles that separate bands, as numpy finds them with method="lower"."""
    places = np.floor((pieces.size.n_rows - 1) * BAND_QUANTILES).astype(np.int64)
    found = distribution(pieces, LabelsOf(), lambda _: places + 1)
    reached = np.cumsum(found.mass)
    return np.asarray(found.values[np.searchsorted(reached, places + 1)])
