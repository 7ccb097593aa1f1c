"""What changed between two sets of predictions: rows, decisions, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.segments import EverybodyOnly, Segments
from recalibrate.auditing.measure.sweep import blocks
from recalibrate.auditing.records import Changes, Flips, MovedRow
from recalibrate.data.labels import Labels
from recalibrate.support.checks import check_number, check_whole

Floats = NDArray[np.float64]


def changes(
    before: Floats,
    after: Floats,
    labels: Labels,
    *,
    segments: Segments | None = None,
    thresholds: Sequence[float] = (),
    most: int = 10,
) -> Changes:
    """Compare two sets of predictions for the same rows.

    Parameters
    ----------
    before, after : ndarray of float64, shape (n,)
        Predictions on the scale of the user's labels.
    labels : Labels
        Outcomes and weights; rows of weight zero do not count.
    segments : Segments, optional
        Groups to count flipped decisions in; by default all rows only.
    thresholds : sequence of float
        A decision is positive where the prediction is at least the threshold.
    most : int
        How many of the largest changes to list.

    Returns
    -------
    Changes

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.auditing.measure.sweep import blocks
    >>> from recalibrate.data.labels import read_labels
    >>> labels = read_labels([0, 1, 1], n_rows=3)
    >>> before, after = np.array([0.4, 0.45, 0.7]), np.array([0.4, 0.6, 0.7])
    >>> found = changes(before, after, labels, thresholds=[0.5], most=1)
    >>> found.flips[0].up, found.rows[0].row
    (1, 1)
    """
    check_whole("most", most, least=0)
    for threshold in thresholds:
        check_number("every threshold", threshold)
    rows = np.arange(len(before))
    weight = np.ones(len(before)) if labels.weight is None else labels.weight
    if (weight == 0).any():
        rows = np.flatnonzero(weight > 0)
        weight = weight[rows]
    old, new, y = before[rows], after[rows], labels.values[rows]
    shift = new - old
    binary = labels.kind == "binary"
    flips: list[Flips] = []
    if len(thresholds):
        groups = EverybodyOnly() if segments is None else segments
        flips = _flips(old, new, weight, groups, [float(each) for each in thresholds])
    return Changes(
        changed_share=float(np.average(shift != 0, weights=weight)),
        mean_shift=float(np.average(shift, weights=weight)),
        mean_absolute_shift=float(np.average(np.abs(shift), weights=weight)),
        largest_shift=float(np.abs(shift).max()),
        rank_correlation=rank_correlation(old, new, weight),
        auc_before=auc(old, y, weight) if binary else float("nan"),
        auc_after=auc(new, y, weight) if binary else float("nan"),
        rows=_moved(old, new, labels.unscale(y), rows, most),
        flips=tuple(flips),
    )


def _moved(
    old: Floats, new: Floats, y: Floats, rows: NDArray[np.intp], most: int
) -> tuple[MovedRow, ...]:
    shift = new - old
    largest = np.argsort(-np.abs(shift), kind="stable")[:most]
    return tuple(
        MovedRow(int(rows[k]), float(old[k]), float(new[k]), float(shift[k]), float(y[k]))
        for k in largest
        if shift[k] != 0
    )


def _flips(
    old: Floats,
    new: Floats,
    weight: Floats,
    segments: Segments,
    thresholds: Sequence[float],
) -> list[Flips]:
    from recalibrate.kernels.audit import add_sums

    columns: list[NDArray[Any]] = [np.ones(len(old)), weight]
    for threshold in thresholds:
        was, now = old >= threshold, new >= threshold
        up, down = now & ~was, was & ~now
        columns += [weight * was, weight * now, up, down, weight * up, weight * down]
    values = np.column_stack(columns).astype(np.float64)
    sums = np.zeros((1, len(segments.names), values.shape[1]))
    for at, _, codes in blocks(segments, np.arange(len(old))):
        cell = np.zeros(len(codes), dtype=np.int64)
        add_sums(codes, segments.offsets, cell, values[at], sums)
    flips = []
    for k, threshold in enumerate(thresholds):
        for name, group in zip(segments.names, sums[0], strict=True):
            was, now, up, down, up_mass, down_mass = group[2 + 6 * k : 8 + 6 * k]
            mass = group[1]
            if mass > 0:
                shares = [float(part / mass) for part in (was, now, up_mass, down_mass)]
                counts = int(group[0]), shares[0], shares[1], int(up), int(down)
                flips.append(Flips(name, threshold, *counts, shares[2], shares[3]))
    return flips


def rank_correlation(a: Floats, b: Floats, weight: Floats) -> float:
    """Spearman's correlation with weights; a row of weight 2 counts as the row twice.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]), np.ones(3))
    1.0
    """
    ranks = [_middle_ranks(values, weight) for values in (a, b)]
    x, y = (rank - np.average(rank, weights=weight) for rank in ranks)
    spread = float(np.sqrt((weight * x**2).sum() * (weight * y**2).sum()))
    return float((weight * x * y).sum()) / spread if spread > 0 else float("nan")


def auc(f: Floats, y: Floats, weight: Floats) -> float:
    """Chance that a row of label 1 has the higher prediction than one of label 0; ties half.

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4))
    0.875
    """
    _, place = np.unique(f, return_inverse=True)
    positive = np.bincount(place, weights=weight * y)
    negative = np.bincount(place, weights=weight * (1.0 - y))
    pairs = float(positive.sum() * negative.sum())
    below = np.cumsum(negative) - negative
    return float(positive @ (below + 0.5 * negative)) / pairs if pairs > 0 else float("nan")


def _middle_ranks(values: Floats, weight: Floats) -> Floats:
    """Weight below every value plus half of the weight at it."""
    _, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place, weights=weight)
    return np.asarray((np.cumsum(mass) - 0.5 * mass)[place])
