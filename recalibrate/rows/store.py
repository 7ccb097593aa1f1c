"""Where rows live: what a fit may ask of its rows, be they in memory, in files or on workers.

A store holds the checked rows of a problem in pieces, none of them larger than memory allows; in
memory there is one piece. ``encode`` turns them into the numbers that classes of functions work
on, and what comes out opens as a source of sums for the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale, Weights
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.columns import Columns
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
class Dealt:
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
