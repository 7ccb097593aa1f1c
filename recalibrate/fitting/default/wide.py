"""Tables of many columns: boosting looks at those that promise most.

The cost of a tree grows with the columns it may split on, and of thousands most say nothing. So
every column is looked at once, by the best single split of what the score leaves unexplained, and
trees are grown on the best. A fold's columns are chosen by the rows that it is fitted on: columns
that all rows chose would know the held-out labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.trees.spec import TreeLearner
from recalibrate.core.boost import EVERYTHING
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import is_score
from recalibrate.core.part import Draft, Part
from recalibrate.core.rounds import Rounds
from recalibrate.data.bins import Bins
from recalibrate.data.table import Table
from recalibrate.kernels.histogram import count_rows

MOST_COLUMNS = 200
"""Columns that trees may split on, beside the score.

A tree of 15 leaves splits on 14 at most, and the next one mostly on the same. What the best single
split of a column gains is what makes a tree begin with it; a column without any such gain is found
by chance alone, however many trees look at it.
"""
COLUMNS_AT_ONCE = 256
"""Columns that are binned and summed together: all of a wide table would fill the memory."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Bins of the columns that are looked at, and which of them where.

    Attributes
    ----------
    learner
        Trees on the columns that all rows choose; its bins have those of the folds too.
    folds
        The same for every fold, by the rows that it is fitted on.
    names
        The columns that all rows choose.
    note
        What was done, in words.
    """

    learner: TreeLearner
    folds: tuple[TreeLearner, ...]
    names: tuple[str, ...]
    note: str


def is_wide(bins: Bins) -> bool:
    """Whether there are more columns than trees look at."""
    return sum(not is_score(name) for name in bins.names) > MOST_COLUMNS


def choose_columns(
    learner: TreeLearner,
    table: Table,
    part: Part,
    log: Rounds,
    train: Sequence[NDArray[np.intp]],
    l2: float,
    threads: int,
) -> Chosen:
    """The columns of a wide table to boost on, by all rows and by those of every fold.

    ``part`` has all rows, whose scores are those of ``log``.
    """
    words = part.words(Draft(log, EVERYTHING))
    rows = [np.arange(part.n_rows), *train]
    gains = np.concatenate(
        [
            [
                _gains(codes, own, words, at, learner.spec.min_leaf_rows, l2, part.scale)
                for at in rows
            ]
            for own, codes in _blocks(learner.encoder, table, threads)
        ],
        axis=1,
    )
    best = [_best(learner.encoder, each) for each in gains]
    union = sorted(set().union(*best))
    kept = Bins(tuple(learner.encoder.features[k] for k in union))
    everyone, *folds = (
        replace(learner, encoder=kept, among=np.searchsorted(union, some).astype(np.int32))
        for some in best
    )
    names = tuple(name for name in everyone.looks_at if not is_score(name))
    count = sum(not is_score(name) for name in learner.encoder.names)
    note = f"columns: {len(names)} of {count:,} are used, those that gain most by a single split"
    return Chosen(everyone, tuple(folds), names, note)


def _blocks(bins: Bins, table: Table, threads: int) -> Iterator[tuple[Bins, NDArray[np.integer]]]:
    """Bins and codes of some columns at a time."""
    for start in range(0, len(bins.features), COLUMNS_AT_ONCE):
        own = Bins(bins.features[start : start + COLUMNS_AT_ONCE])
        yield own, own.encode(table, threads)


def _gains(
    codes: Any,
    bins: Bins,
    words: NDArray[np.int64],
    rows: NDArray[np.intp],
    least_rows: int,
    l2: float,
    scale: Scale,
) -> NDArray[np.float64]:
    """What the best single split of every feature gains on some rows.

    Missing values go with the lowest ones, which is as good as any way to rank columns.
    """
    features = np.arange(codes.shape[1], dtype=np.int32)
    listed = rows.astype(np.int32), np.array([[0, len(rows)]])
    cells = count_rows(codes, features, bins.offsets, words, *listed).reshape(-1, scale.words)
    starts, sizes = bins.offsets[:-1], np.diff(bins.offsets)
    alone = np.repeat([feature.by_sets for feature in bins.features], sizes)

    def sums(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """On the left of every split, and in all."""
        reached = np.cumsum(values)
        before = np.append(0, reached)[starts]
        whole = np.append(reached, 0)[bins.offsets[1:] - 1] - before
        left = np.where(alone, values, reached - np.repeat(before, sizes))
        return left, np.repeat(whole, sizes)

    def worth(s: NDArray[np.int64], g: NDArray[np.int64]) -> NDArray[np.float64]:
        mass = s * scale.weight_step + l2
        square = (g * scale.response_step) ** 2
        return np.asarray(np.divide(square, mass, out=np.zeros(len(s)), where=mass > 0))

    (count, n), (s_left, s), (g_left, g) = map(sums, scale.unpack(cells))
    gain = worth(s_left, g_left) + worth(s - s_left, g - g_left) - worth(s, g)
    gain[(count < least_rows) | (n - count < least_rows)] = 0.0
    return np.asarray(np.maximum.reduceat(gain, starts))


def _best(bins: Bins, gains: NDArray[np.float64]) -> list[int]:
    """Features of the best columns, and of the score."""
    by_column: dict[str, float] = {}
    for feature, gain in zip(bins.features, gains, strict=True):
        by_column[feature.name] = max(gain, by_column.get(feature.name, 0.0))
    names = [name for name in by_column if not is_score(name)]
    order = np.argsort([-by_column[name] for name in names], kind="stable")
    kept = {names[k] for k in order[:MOST_COLUMNS]}
    return [
        k
        for k, feature in enumerate(bins.features)
        if feature.name in kept or is_score(feature.name)
    ]
