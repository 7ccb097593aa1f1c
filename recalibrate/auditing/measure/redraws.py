r"""0/1 labels drawn again and again under calibration, for the largest of the groups' scores.

Groups of a few rows and rare outcomes have scores that take few values and are not normal. So the
audit's own scores are computed on data sets in which the labels are drawn, and the critical value
is a quantile of their maximum. Labels are drawn with the predicted probabilities on the calibration
line of all rows, so that those of an over-confident model vary as the outcomes do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.noise import effective_rows
from recalibrate.auditing.measure.sample import FEWEST, Sample
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.shift import calibration_line, line_model, on_line
from recalibrate.auditing.measure.sweep import ROWS, Sums, blocks
from recalibrate.data.vectors import Float64
from recalibrate.support.hashing import combine, mix

FEWEST_DRAWS, MOST_DRAWS = 1_000, 2_000
WORK = 5e7
"""Memberships (rows times groups a row is in) over all draws, unless there are the fewest."""

MOST_MEMBERSHIPS = 200_000
"""With more, drawing takes seconds; groups are then large enough for normal scores."""


def draw_largest(segments: Segments, sample: Sample, f: Float64, sums: Sums) -> Float64 | None:
    """Largest score of all groups in each of many drawn data sets; None if that takes too long.

    Labels are drawn with the predictions on the calibration line of all rows, and scored against
    these.
    """
    from recalibrate.kernels.redraws import draw_events

    memberships = float(sums.total[:, ROWS].sum())
    if memberships > MOST_MEMBERSHIPS:
        return None
    draws = int(np.clip(WORK / memberships, FEWEST_DRAWS, MOST_DRAWS))
    order = _order(segments, sample, f)
    starts, groups = _members(segments, order)
    cells = sums.cells.swapaxes(0, 1)
    line = calibration_line(cells[0])
    outcomes = np.zeros((draws, len(sums.total)))
    draw_events(starts, groups, on_line(f[order], line), sample.weight[order], outcomes)
    scores = np.abs(line_model(cells, line).scores_of(outcomes))
    told = effective_rows(sums.total) >= FEWEST
    return np.asarray(scores[:, told].max(axis=1)) if told.any() else None


def _order(segments: Segments, sample: Sample, f: Float64) -> NDArray[np.intp]:
    """Rows in an order that does not depend on the one that they came in.

    Rows that are alike in everything may change places.
    """
    # By ranks, which do not depend on the units of predictions and weights.
    key = np.zeros(sample.n_rows, dtype=np.uint64)
    for values in (f, sample.weight):
        key = combine(key, np.unique(values, return_inverse=True)[1].astype(np.uint64))
    for at, _, codes in blocks(segments, np.arange(sample.n_rows)):
        numbers = (codes + (segments.offsets[:-1] - 1)).ravel().astype(np.uint64)
        group = mix(numbers, 0).reshape(codes.shape)
        key[at] += np.where(codes > 0, group, np.uint64(0)).sum(axis=1)
    return np.argsort(key, kind="stable")


def _members(
    segments: Segments, order: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Groups of every row one after the other, and where those of each row start."""
    counts, groups = [], []
    for _, _, codes in blocks(segments, order):
        inside = codes > 0
        counts.append(inside.sum(axis=1))
        groups.append((codes + (segments.offsets[:-1] - 1))[inside].astype(np.int32))
    return np.append(0, np.cumsum(np.concatenate(counts))), np.concatenate(groups)
