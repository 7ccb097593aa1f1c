"""Shift of the scores by group, without labels: a hint that something may have changed.

Shares of scores below fixed cuts are compared between the reference and the newest batch, with
Fisher's exact test. p-values are adjusted for all cuts, groups and classes (Bonferroni), and for
looking again and again: the k-th look gets the share 1 / (k (k + 1)), so that the chance to
ever see a hint is at most alpha while rows of reference and batches come from the same people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64

CUTS = 9
"""Deciles of the reference."""


@dataclass(frozen=True, eq=False)
class Shift:
    """Scores of the newest batch compared with the reference.

    Attributes
    ----------
    look : int
        How many batches were compared so far.
    p : ndarray of shape (classes, groups)
        Adjusted p-value of the newest batch.
    cut, before, now : ndarray of shape (classes, groups)
        The cut with the smallest p-value, and the shares of scores below it.
    first : ndarray of shape (classes, groups)
        When p first was at most alpha; NaN if never.
    """

    look: int
    p: Float64
    cut: Float64
    before: Float64
    now: Float64
    first: Float64

    @classmethod
    def none(cls, n_classes: int, n_groups: int) -> Shift:
        """Before the first batch."""
        unknown = np.full((n_classes, n_groups), np.nan)
        return cls(0, np.ones((n_classes, n_groups)), unknown, unknown, unknown, unknown)

    def look_again(
        self,
        counts: Float64,
        reference: Float64,
        cuts: Sequence[Float64],
        *,
        alpha: float,
        time: float,
    ) -> Shift:
        """After another batch with these counts, shape (classes, bins, groups)."""
        look = self.look + 1
        below, other = counts.cumsum(axis=1), reference.cumsum(axis=1)
        p = exact_p(below[:, :-1], below[:, -1:], other[:, :-1], other[:, -1:])
        worst = p.argmin(axis=1)[:, None] if p.shape[1] else None
        if worst is None:  # all scores are equal
            return Shift(look, self.p, self.cut, self.before, self.now, self.first)
        tests = sum(len(own) for own in cuts) * p.shape[2]
        least = np.take_along_axis(p, worst, axis=1)[:, 0]
        adjusted = np.minimum(least * tests * look * (look + 1.0), 1.0)
        known = np.array([[*own, *[np.nan] * (p.shape[1] - len(own))] for own in cuts])
        with np.errstate(invalid="ignore", divide="ignore"):
            before, now = (
                np.take_along_axis(b[:, :-1] / b[:, -1:], worst, axis=1)[:, 0]
                for b in (other, below)
            )
        first = np.where(np.isnan(self.first) & (adjusted <= alpha), time, self.first)
        cut = np.take_along_axis(known, worst[:, 0], axis=1)
        return Shift(look, adjusted, cut, before, now, first)


def exact_p(below: Float64, size: Float64, other_below: Float64, other_size: Float64) -> Float64:
    """p-values of Fisher's exact test for two shares, two-sided.

    Examples
    --------
    >>> exact_p(*(np.array([float(v)]) for v in (3, 3, 0, 3))).round(3)
    array([0.1])
    """
    from recalibrate.kernels.shift import two_sided

    arrays = np.broadcast_arrays(below, size, other_below, other_size)
    a, b, c, d = (np.array(own, dtype=np.float64).ravel() for own in arrays)
    out = np.empty(arrays[0].shape)
    two_sided(a, b, c, d, out.ravel())
    return out


def count_scores(
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_groups: int,
    scores: Float64,
    cuts: Sequence[Float64],
) -> Float64:
    """Rows between the cuts, shape (classes, bins, groups); scores have a column per class."""
    from recalibrate.kernels.audit import add_sums

    n_bins = max(len(own) for own in cuts) + 1
    out = np.zeros((len(cuts), n_bins, n_groups, 1))
    ones = np.ones((len(scores), 1))
    for k, own in enumerate(cuts):
        cell = np.searchsorted(own, scores[:, k], side="right")
        add_sums(codes, offsets, cell, ones, out[k])
    return out[..., 0]
