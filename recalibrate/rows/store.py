"""Where rows are stored: what a fit may ask of its rows, be they in memory, in files or on workers.

A store holds the checked rows of a problem in pieces, none of them larger than memory allows; in
memory there is one piece. ``encode`` turns them into the numbers that classes of functions work
on, and what comes out opens as a source of sums for the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale, Weights
from recalibrate.core.learning import StatsSource
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.data.columns import Columns, Weighted, distribution
from recalibrate.data.folds import BAND_QUANTILES, label_bands, salt_duplicates, split_folds
from recalibrate.data.table import Table

if TYPE_CHECKING:
    from recalibrate.rows.memory import MemoryStore


T = TypeVar("T")
Weigh = Callable[[Scores | None], NDArray[np.int64]]
"""Quantises weights; empty where every row weighs one."""


@dataclass(frozen=True)
class Size:
    """How many rows there are, and what they weigh.

    Attributes
    ----------
    n_rows
        Number of rows.
    weights
        Their weights; None: each one.
    """

    n_rows: int
    weights: Weights | None = None

    def __or__(self, other: Size) -> Size:
        """Both together."""
        if self.weights is None or other.weights is None:
            weights = self.weights or other.weights
        else:
            weights = self.weights | other.weights
        return Size(self.n_rows + other.n_rows, weights)


class Selection(Protocol):
    """Some of the rows of a store."""

    def of(self, piece: int) -> NDArray[np.intp]:
        """Their numbers in a piece."""


@dataclass(frozen=True, eq=False)
class Numbered:
    """Rows of the only piece of a store, by their numbers."""

    numbers: NDArray[np.intp]

    def of(self, piece: int) -> NDArray[np.intp]:
        return self.numbers


@dataclass(frozen=True, eq=False)
class _Dealt:
    """Rows inside, or outside, of fold k, where ``folds`` has the fold of every row by piece."""

    folds: Sequence[NDArray[Any]]
    k: int
    inside: bool

    def of(self, piece: int) -> NDArray[np.intp]:
        return np.flatnonzero((self.folds[piece] == self.k) == self.inside)


class Fold(NamedTuple):
    """Rows to fit, and rows to hold out."""

    train: Selection
    held_out: Selection


class Encoded(Protocol):
    """Rows encoded for some classes, wherever they are."""

    @property
    def side_by_side(self) -> bool:
        """Whether several can be worked on at the same time without more memory than rows have."""

    def open(
        self, scale: Scale, *, threads: int | None = None
    ) -> AbstractContextManager[StatsSource]:
        """The rows as a source; ``threads`` None: as many as the store works with."""

    def take(self, rows: Selection) -> Encoded:
        """Some of the rows."""

    def labels(self) -> Scores:
        """Labels of the rows, in their order."""

    def weights(self) -> NDArray[np.int64]:
        """Quantised weights of the rows, in their order; empty: each one."""

    def reweighted(self, weight: NDArray[np.int64]) -> Encoded:
        """The same rows with other weights, in their order."""

    def drop(self) -> None:
        """Let the rows go; those that they were taken from stay."""


class Store(Protocol):
    """Checked rows of a problem, in pieces."""

    @property
    def problem(self) -> Problem:
        """Schema, bounds and kind of the labels, link; with rows only where these are in memory."""

    @property
    def size(self) -> Size:
        """Number and weights of the rows."""

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        """What ``work`` finds in every piece that has rows, in their order."""

    def columns(self, scale: Scale) -> Columns:
        """Statistics of the columns; ``scale`` quantises the weights."""

    def take(self, rows: Selection) -> Store:
        """Some of the rows."""

    def sample(self, count: int, seed: int) -> tuple[Problem, NDArray[np.intp] | None]:
        """``count`` rows in memory, chosen by what they say; and their numbers, if they have any.

        Neither the order of the rows nor the way they are cut matters.
        """

    def in_memory(self) -> MemoryStore:
        """All rows in this process, as one piece."""

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weigh) -> Encoded:
        """All rows as blocks of numbers, where they are.

        Where an encoder is None its block stays empty: no step will need it.
        """

    def drop(self) -> None:
        """Let go what only encoding needs; encoded rows stay."""


def size_of(piece: Problem) -> Size:
    """Number and weights of a piece's rows."""
    weight = piece.labels.weight
    return Size(piece.n_rows, None if weight is None else Weights.of(weight))


def sum_sizes(sizes: Sequence[Size]) -> Size:
    """Sizes of all pieces together."""
    return reduce(or_, sizes, Size(0))


def weights_of(store: Store) -> Weights | None:
    """Weights that a scale is made for; None where all rows weigh the same."""
    return None if store.problem.labels.weight is None else store.size.weights


def encode_blocks(
    encoders: Sequence[Encoder | None], table: Table, threads: int = 1
) -> tuple[NDArray[Any], ...]:
    """Blocks of a table; empty where there is no encoder."""
    nothing = np.empty((table.n_rows, 0), dtype=np.uint8)
    return tuple(nothing if each is None else each.encode(table, threads) for each in encoders)


# --- Folds of rows: the same ones whatever the order of the rows and the way they are cut -------


LARGEST_SORT = 1 << 22
"""Rows that are sorted at once; of more, one bucket of hashes after the other."""

Places = NDArray[np.int64]


def deal(store: Store, count: int, seed: int) -> list[Fold]:
    """Folds 0 to count - 1, each of which is held out once."""
    folds = _number(store, seed, lambda place: place % count, np.min_scalar_type(count - 1))
    return [Fold(_Dealt(folds, k, False), _Dealt(folds, k, True)) for k in range(count)]


def set_aside(store: Store, share: float, seed: int) -> list[Fold]:
    """One fold that holds out a share of the rows; none if that leaves no row on either side."""

    def chosen(place: Places) -> NDArray[np.bool_]:
        return np.asarray(np.floor((place + 1) * share) > np.floor(place * share))

    folds = _number(store, seed, chosen, np.dtype(np.uint8))
    if not 0 < sum(int(fold.sum()) for fold in folds) < store.size.n_rows:
        return []
    return [Fold(_Dealt(folds, 1, False), _Dealt(folds, 1, True))]


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


def _labels_of(piece: Problem) -> Weighted:
    """Work: the labels, each counting once."""
    return np.asarray(piece.labels.strata), np.empty(0, dtype=np.int64)


def _keys_of(
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
    found = list(store.map(partial(_keys_of, seed, _cuts(store))))
    band = np.concatenate([bands for bands, _ in found])
    key = np.concatenate([keys for _, keys in found])
    lengths = [len(bands) for bands, _ in found]
    del found
    bits = (len(key) // LARGEST_SORT).bit_length()
    for rows in _buckets(band, key, bits):  # equal hashes are in the same bucket
        key[rows] = salt_duplicates(key[rows])
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
    found = distribution(store.map, _labels_of, lambda _: places + 1)
    reached = np.cumsum(found.mass)
    return np.asarray(found.values[np.searchsorted(reached, places + 1)])
