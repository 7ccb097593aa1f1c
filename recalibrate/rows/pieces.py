"""Rows in pieces, wherever they are: what can be asked of them without having them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.table import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How many rows there are, and what they weigh.

    Attributes
    ----------
    n_rows
        Number of rows.
    lightest, heaviest
        Smallest and largest weight.
    """

    n_rows: int
    lightest: float = 1.0
    heaviest: float = 1.0

    def __or__(self, other: Size) -> Size:
        """Both together; of no rows the weights do not count."""
        some = [size for size in (self, other) if size.n_rows]
        if len(some) < 2:
            return some[0] if some else self
        return Size(
            self.n_rows + other.n_rows,
            min(self.lightest, other.lightest),
            max(self.heaviest, other.heaviest),
        )


class Encoded(Protocol):
    """Rows encoded for a class, wherever they are."""

    def open(self, scale: Scale) -> AbstractContextManager[StatsSource]:
        """The rows as a source."""

    def take(self, folds: Sequence[NDArray[np.uint8]], k: int, *, inside: bool) -> Encoded:
        """Rows inside, or outside, of fold k; ``folds`` has the fold of every row, by piece."""

    def labels(self) -> Scores:
        """Labels of the rows, in their order."""

    def weights(self) -> NDArray[np.int64]:
        """Quantised weights of the rows, in their order; empty: each one."""

    def drop(self) -> None:
        """Let the rows go; those that they were taken from stay."""

    def reweighted(self, weight: NDArray[np.int64]) -> Encoded:
        """The same rows with other weights, in their order."""


class Pieces(Protocol):
    """Pieces of a problem, none of them larger than memory allows."""

    @property
    def problem(self) -> Problem:
        """Everything but the rows: schema, bounds and kind of the labels, link."""

    @property
    def size(self) -> Size:
        """Number and weights of the rows."""

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        """What ``work`` finds in every piece that has rows, in their order."""

    def take(self, folds: Sequence[NDArray[np.uint8]], k: int, *, inside: bool) -> Pieces:
        """Rows inside, or outside, of fold k."""

    def encode(
        self,
        encoders: Sequence[Encoder | None],
        weigh: Callable[[Scores | None], NDArray[np.int64]],
    ) -> Encoded:
        """All rows as blocks of numbers, where they are; ``weigh`` quantises.

        Where an encoder is None its block stays empty: no step will need it.
        """

    def drop(self) -> None:
        """Let the pieces go; encoded rows stay."""


def size_of(piece: Problem) -> Size:
    """Number and weights of a piece's rows."""
    weight = piece.labels.weight
    if weight is None or not len(weight):
        return Size(piece.n_rows)
    return Size(piece.n_rows, float(weight.min()), float(weight.max()))


def extreme_weights(pieces: Pieces) -> NDArray[np.float64] | None:
    """Weights that stand for all when a scale is made; None without weights."""
    if pieces.problem.labels.weight is None:
        return None
    return np.array([pieces.size.lightest, pieces.size.heaviest])


def sum_sizes(sizes: Sequence[Size]) -> Size:
    """Sizes of all pieces together."""
    together = Size(0)
    for size in sizes:
        together = together | size
    return together


@dataclass(frozen=True)
class Weigh:
    """Quantises weights by a scale: as fitted rows, or times the ``factor`` of held-out rows."""

    scale: Scale
    factor: float | None = None

    def __call__(self, weight: Scores | None) -> NDArray[np.int64]:
        """Quantised weights; empty where every row weighs one."""
        if self.factor is None:
            return self.scale.quantise_weight(weight)
        if weight is None:
            return np.empty(0, dtype=np.int64)
        return np.rint(weight * self.factor).astype(np.int64)


def encode_blocks(encoders: Sequence[Encoder | None], table: Table) -> tuple[NDArray[Any], ...]:
    """Blocks of a table; empty where there is no encoder."""
    nothing = np.empty((table.n_rows, 0), dtype=np.uint8)
    return tuple(nothing if each is None else each.encode(table) for each in encoders)


def chosen(folds: NDArray[np.uint8], k: int, inside: bool) -> NDArray[Any]:
    """Mask of the rows inside, or outside, of fold k."""
    return np.asarray((folds == k) == inside)
