"""Parts of the rows that are independent of each other, for tests and held-out estimates.

The folds of ``fit`` are balanced: equal rows, labels included, are spread evenly over them. That
makes noise look alike in all folds, which is fine for choosing a number of rounds and wrong for
a test. Here every row is dealt by chance, a hash of its content, so that the result still does
not depend on the order of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Levels
from recalibrate.data.folds import number_equals, row_hash
from recalibrate.data.labels import Labels
from recalibrate.data.quantiles import quantile_edges
from recalibrate.data.table import Table
from recalibrate.support.hashing import combine, mix

Floats = NDArray[np.float64]


class Counted(NamedTuple):
    """Rows of positive weight."""

    predictions: Floats
    table: Table
    labels: Labels
    cluster: NDArray[np.intp] | None


def rows_that_count(
    predictions: Floats, table: Table, labels: Labels, cluster: NDArray[np.intp] | None
) -> Counted:
    """Leave out rows of weight zero; weights that are then all the same are no weights."""
    weight = labels.weight
    if weight is None:
        return Counted(predictions, table, labels, cluster)
    kept = np.flatnonzero(weight > 0)
    weight = weight[kept]
    equal = bool((weight == weight[0]).all())
    labels = replace(labels, values=labels.values[kept], weight=None if equal else weight)
    cluster = None if cluster is None else cluster[kept]
    return Counted(predictions[kept], table.take(kept), labels, cluster)


def deal(
    table: Table,
    labels: Labels,
    scores: Floats,
    cluster: NDArray[np.intp] | None,
    *,
    parts: int,
    seed: int,
) -> NDArray[np.intp]:
    """Part of every row, all of about the same size; rows of a cluster stay together."""
    if cluster is not None:
        draw = mix(np.arange(int(cluster.max()) + 1, dtype=np.uint64), seed)
        return _in_turn(draw, parts)[cluster]
    numbers = [labels.values, scores]
    if labels.weight is not None:
        numbers.append(labels.weight)
    content = row_hash(table, numbers, seed)
    # Equal rows get a number each: interchangeable, but dealt independently.
    return _in_turn(combine(content, number_equals(content)), parts)


def _in_turn(draw: NDArray[np.uint64], parts: int) -> NDArray[np.intp]:
    part = np.empty(len(draw), dtype=np.intp)
    part[np.argsort(draw, kind="stable")] = np.arange(len(draw)) % parts
    return part


def score_levels(predictions: Floats, count: int, weight: Floats | None) -> Levels:
    """Level sets of about equal weight, cut at numbers of three digits that reports can print.

    Examples
    --------
    >>> score_levels(np.linspace(0.0, 1.0, 1000), 3, None).thresholds
    array([0.333, 0.668])
    """
    edges = quantile_edges(predictions, count, weight)
    short = np.unique([float(f"{edge:.3g}") for edge in edges])
    inside = (short > predictions.min()) & (short <= predictions.max())
    return Levels(short[inside])


def level_bounds(levels: Levels, level: int) -> tuple[float | None, float | None]:
    """Scores of a level set, from (included) and to (excluded); None where it has no limit."""
    edges = levels.thresholds
    low = float(edges[level - 1]) if level > 0 else None
    high = float(edges[level]) if level < len(edges) else None
    return low, high


def say_level(levels: Levels, level: int) -> str:
    """A level set in words; empty where it is all scores.

    Examples
    --------
    >>> say_level(Levels(np.array([0.2, 0.4])), 1)
    'score in [0.2, 0.4)'
    """
    low, high = level_bounds(levels, level)
    if low is None and high is None:
        return ""
    if low is None:
        return f"score < {high:g}"
    return f"score >= {low:g}" if high is None else f"score in [{low:g}, {high:g})"
