r"""Limits and p-values of gaps of 0/1 labels, by shifting the log-odds of a group.

Small groups and rare outcomes make a mean residual far from normal. So a group's outcomes are
modelled as they come: independent, with probabilities :math:`q_i` after a common shift of the
log-odds, :math:`p_i(t) = q_i e^t / (1 - q_i + q_i e^t)`. The likelihood of the shift,

.. math:: l(t) = t \sum y_i - K(t), \quad K(t) = \sum \log(1 - q_i + q_i e^t)

gives the signed root r of the likelihood ratio, and r* = r + log(u / r) / r with u the Wald
statistic is standard normal to high accuracy even for a handful of rows [1]_. Limits are the
shifts with r* equal to plus and minus the critical value, translated into gaps.

Weights and clusters enter as a factor ("information") on the likelihood.

The q are the predictions f themselves where the question is whether these are right. A gap can be
zero although they are not: an over-confident model's errors cancel out. So limits of a gap take
as q the predictions on the calibration line of all rows, :math:`a + b \, \mathrm{logit} f`,
shifted in each group to the group's mean prediction: a shift of zero is then a gap of zero, and q
varies as outcomes do (`calibration_line`, `without_gap`).

References
----------
.. [1] O. E. Barndorff-Nielsen, "Modified signed log likelihood ratio", Biometrika 1991.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.noise import effective_rows
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.sweep import FEWEST, ROWS, W2, WEIGHT, F, R, Sample, Sums, blocks
from recalibrate.data.labels import Float64
from recalibrate.metrics import SMALLEST_VARIANCE, ratio
from recalibrate.support.hashing import combine, mix

_FARTHEST = 60.0  # shifts of the log-odds
_HALVINGS = 44  # the limits are then known to eleven digits
ROUGHLY = 24  # the same to five digits
_SURE = 1e-9  # a prediction of exactly 0 or 1 could never be shifted
_CENTRE = 0.02  # below this r, the limit of the formula instead of the formula
_MOST = 1.0  # a larger correction says that outcomes are all but certain, not that they are rare
SLOPE_PRIOR = 1.0
"""Standard deviation of slopes of calibration lines around 1, before any row is seen."""

_NEWTON_STEPS, _LONGEST_STEP = 30, 2.0
_POINTS = 33  # of a score as a function of the outcomes, between which it is all but straight


@dataclass(frozen=True, eq=False)
class Shifts:
    """Groups of 0/1 labels whose predictions are to be shifted.

    Attributes
    ----------
    mass : ndarray of shape (groups, cells)
        Weight of rows with about the same prediction.
    prediction : ndarray of shape (groups, cells)
        Their probabilities q without a shift, of the same mean as their predictions.
    outcomes : ndarray of shape (groups,)
        Weight of rows with label 1.
    information : ndarray of shape (groups,)
        Factor on the likelihood.
    """

    mass: Float64
    prediction: Float64
    outcomes: Float64
    information: Float64

    @cached_property
    def _f(self) -> Float64:
        return np.clip(self.prediction, _SURE, 1.0 - _SURE)

    @cached_property
    def _total(self) -> Float64:
        return np.asarray(self.mass.sum(axis=1))

    def _cumulant(self, shift: Float64) -> Float64:
        return np.asarray((self.mass * np.log1p(self._f * np.expm1(shift)[:, None])).sum(axis=1))

    def shifted(self, shift: Float64) -> Float64:
        """Probabilities under shifts, of shape (groups, cells)."""
        odds = self._f * np.exp(shift)[:, None]
        return odds / (1.0 - self._f + odds)

    @cached_property
    def _best(self) -> Float64:
        """Shift that fits the outcomes; at the ends where all labels are equal."""
        low, high = (np.full(len(self.mass), side) for side in (-_FARTHEST, _FARTHEST))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            short = (self.mass * self.shifted(middle)).sum(axis=1) < self.outcomes
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray(0.5 * (low + high))

    @cached_property
    def _at_best(self) -> tuple[Float64, Float64, Float64]:
        """Cumulants of the fitted shift: K, K'' and the skewness."""
        p = self.shifted(self._best)
        spread = self.mass * p * (1.0 - p)
        second = self.information * spread.sum(axis=1)
        third = self.information * (spread * (1.0 - 2.0 * p)).sum(axis=1)
        return self._cumulant(self._best), second, ratio(third, second**1.5)

    @cached_property
    def one_sided(self) -> Float64:
        """-1 where no label is 1, +1 where all are; with slack for rounding of weights."""
        slack = 1e-9 * self._total
        few, many = self.outcomes <= slack, self.outcomes >= self._total - slack
        return np.where(few, -1.0, np.where(many, 1.0, 0.0))

    def score(self, shift: Float64) -> Float64:
        """Normal score of the outcomes under a shift: positive when there are more than then."""
        cumulant, second, skewness = self._at_best
        here = self._cumulant(shift)
        gain = (self._best - shift) * self.outcomes - (cumulant - here)
        away = self._best - shift
        r = np.sign(away) * np.sqrt(2.0 * self.information * np.maximum(gain, 0.0))
        wald = away * np.sqrt(second)
        with np.errstate(divide="ignore", invalid="ignore"):
            correction = np.log(wald / r) / r
        usable = (np.abs(r) > _CENTRE) & np.isfinite(correction)
        found = np.asarray(r + np.clip(np.where(usable, correction, skewness / 6.0), -_MOST, _MOST))
        if not self.one_sided.any():
            return found
        return np.where(self.one_sided == 0.0, found, self._edge(shift, here))

    @cached_property
    def _edge_chances(self) -> tuple[Float64, Float64]:
        """Log-probability, up to K, that no label is 1, and that all are."""
        none = (self.mass * np.log1p(-self._f)).sum(axis=1)
        return none, (self.mass * np.log(self._f)).sum(axis=1)

    def _edge(self, shift: Float64, cumulant: Float64) -> Float64:
        """The same where all labels are equal: half the probability of just that."""
        none, every = self._edge_chances
        chance = np.where(self.one_sided < 0, none, every + shift * self._total) - cumulant
        return self.one_sided * _half_tail(self.information * chance)

    def scores_of(self, outcomes: Float64) -> Float64:
        """Scores, without a shift, of other outcomes, of shape (..., groups), of the same rows."""
        slack = 1e-9 * self._total
        few, many = outcomes <= slack, outcomes >= self._total - slack
        inner = np.where(few | many, np.nan, outcomes).reshape(-1, len(slack))
        some = np.isfinite(inner).any(axis=0)
        inner[:, ~some] = 0.5 * self._total[~some]
        expected, root, bend = self._table(np.nanmin(inner, axis=0), np.nanmax(inner, axis=0))
        r, log_ratio = np.empty_like(outcomes), np.empty_like(outcomes)
        for g in range(len(slack)):
            r[..., g] = np.interp(outcomes[..., g], expected[g], root[g])
            log_ratio[..., g] = np.interp(outcomes[..., g], expected[g], bend[g])
        r *= np.sqrt(self.information)
        correction = log_ratio / np.where(np.abs(r) > _CENTRE, r, np.inf)
        found = r + np.clip(correction, -_MOST, _MOST)
        none, every = self._edge_chances
        found = np.where(few, -_half_tail(self.information * none), found)
        return np.where(many, _half_tail(self.information * every), found)

    def _table(self, lowest: Float64, highest: Float64) -> tuple[Float64, Float64, Float64]:
        """Outcomes between two, with r and log(u / r) of each; shape (groups, _POINTS)."""
        low, high = (replace(self, outcomes=side)._best for side in (lowest, highest))
        # A point more on either side makes straight lines of groups with only one outcome.
        shifts = low + np.linspace(0.0, 1.0, _POINTS)[:, None] * (high - low)
        shifts[[0, -1]] += np.array([[-1e-6], [1e-6]])
        rows = [self._expected(shift) for shift in shifts]
        expected, r, bend = (np.array(column).T for column in zip(*rows, strict=True))
        return expected, r, bend

    def _expected(self, shift: Float64) -> tuple[Float64, Float64, Float64]:
        """Outcomes that a shift makes expected, with r and log(u / r) of these."""
        p = self.shifted(shift)
        expected = (self.mass * p).sum(axis=1)
        gain = shift * expected - self._cumulant(shift)
        r = np.sign(shift) * np.sqrt(2.0 * np.maximum(gain, 0.0))
        wald = shift * np.sqrt((self.mass * p * (1.0 - p)).sum(axis=1))
        usable = (np.abs(r) > _CENTRE) & (wald * r > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return expected, r, np.where(usable, np.log(wald / r), 0.0)

    @property
    def fitted(self) -> Float64:
        """Probabilities under the fitted shift, of shape (groups, cells)."""
        return self.shifted(self._best)

    def dispersed(self, dispersion: Float64) -> Shifts:
        """The same model if outcomes vary so many times more."""
        return replace(self, information=ratio(self.information, dispersion))

    def limits(self, critical: Float64) -> tuple[Float64, Float64]:
        """Gaps (mean outcome minus mean prediction) with scores within the critical value."""
        return self.gap(self.shift_where(critical)), self.gap(self.shift_where(-critical))

    def outcomes_where(self, wanted: Float64) -> Float64:
        """Outcomes that have a score without a shift; NaN where not even all or none have."""
        none, every = self._edge_chances
        beyond = _half_tail(self.information * np.where(wanted > 0, every, none))
        reached = beyond >= np.abs(wanted)
        low, high = (np.full(len(self.mass), side) for side in (-_FARTHEST, _FARTHEST))
        for _ in range(ROUGHLY):
            middle = 0.5 * (low + high)
            _, r, bend = self._expected(middle)
            r = r * np.sqrt(self.information)
            correction = bend / np.where(np.abs(r) > _CENTRE, r, np.inf)
            short = r + np.clip(correction, -_MOST, _MOST) < wanted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.where(reached, self._expected(0.5 * (low + high))[0], np.nan)

    def detectable(self, test: float, power: float, step: Float64) -> tuple[Float64, Float64]:
        """Gaps, below and above zero, whose outcomes are beyond a score of ``test`` often enough.

        ``power`` is the normal score of how often. Sums of outcomes come in steps (0: any), of
        which one that is partly beyond the score does not count.
        """
        found = []
        for sign in (-1.0, 1.0):
            edge = self.outcomes_where(np.full(len(self.mass), sign * test))
            whole = np.where(step > 0, step, 1.0)
            if sign < 0:
                last = np.where(step > 0, np.floor(edge / whole + 1e-9) * whole + 0.5 * step, edge)
                last = np.minimum(last, self._total)
            else:
                last = np.where(step > 0, np.ceil(edge / whole - 1e-9) * whole - 0.5 * step, edge)
            told = np.isfinite(last)
            moved = replace(self, outcomes=np.where(told, last, 0.5 * self._total))
            gap = self.gap(moved.shift_where(np.full(len(last), -sign * power), ROUGHLY))
            found.append(np.where(told, gap, np.nan))
        return found[0], found[1]

    def shift_where(self, wanted: Float64, halvings: int = _HALVINGS) -> Float64:
        """Shifts that have a score."""
        low, high = (np.full(len(self.mass), side) for side in (-_FARTHEST, _FARTHEST))
        for _ in range(halvings):
            middle = 0.5 * (low + high)
            below = self.score(middle) > wanted  # scores fall as predictions are shifted up
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))

    def gap(self, shift: Float64) -> Float64:
        """Gaps that shifts make."""
        moved = self.shifted(shift) - self._f
        return ratio((self.mass * moved).sum(axis=1), self._total)


def label_model(cells: Float64, variance: Float64) -> Shifts:
    """The model of 0/1 labels whose q are the predictions, from sums (groups, cells, N_SUMS).

    ``variance`` is that of the groups' weighted sums of labels if the predictions are right.
    """
    prediction = mean_prediction(cells)
    # What the likelihood knows, which is its own variance, against how the sum really varies.
    own = (cells[..., WEIGHT] * _bernoulli_variance(prediction)).sum(axis=1)
    return Shifts(cells[..., WEIGHT], prediction, _outcomes(cells), ratio(own, variance))


def calibration_line(cells: Float64) -> tuple[float, float]:
    """Intercept and slope of the outcomes' log-odds by those of the predictions, over some cells.

    Logistic regression on sums of shape (cells, N_SUMS), with a normal prior of standard deviation
    `SLOPE_PRIOR` around a slope of 1 (and a flat one for the intercept).
    """
    mass, x = cells[:, WEIGHT], log_odds(mean_prediction(cells))
    rows = effective_rows(cells.sum(axis=0))
    weight = mass * ratio(rows, mass.sum())  # counted in rows, so that the prior counts as it says
    share = ratio(cells[:, F] + cells[:, R], mass)
    a, b = 0.0, 1.0
    for _ in range(_NEWTON_STEPS):
        p = probability(a + b * x)
        slope = weight * np.maximum(p * (1.0 - p), SMALLEST_VARIANCE)
        error = weight * (share - p)
        gradient = np.array([error.sum(), error @ x - (b - 1.0) / SLOPE_PRIOR**2])
        cross = float(slope @ x)
        curvature = np.array([[slope.sum(), cross], [cross, slope @ x**2 + SLOPE_PRIOR**-2]])
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
        step *= min(1.0, _LONGEST_STEP / float(np.abs(step).max() + 1e-300))
        a, b = a + float(step[0]), b + float(step[1])
        if float(np.abs(step).max()) < 1e-9:
            break
    return a, b


def _on_line(f: Float64, line: tuple[float, float]) -> Float64:
    """Predictions moved to a calibration line."""
    return probability(line[0] + line[1] * log_odds(f))


def line_model(cells: Float64, line: tuple[float, float]) -> Shifts:
    """The model of 0/1 labels whose q are on a line, wherever the groups' mean predictions are."""
    q = _on_line(mean_prediction(cells), line)
    own = (cells[..., WEIGHT] * _bernoulli_variance(q)).sum(axis=1)
    variance = (cells[..., W2] * _bernoulli_variance(q)).sum(axis=1)
    return Shifts(cells[..., WEIGHT], q, _outcomes(cells), ratio(own, variance))


def without_gap(model: Shifts, cells: Float64) -> Shifts:
    """A model shifted in each group to the group's mean prediction."""
    q = replace(model, outcomes=cells[..., F].sum(axis=1)).fitted
    return replace(model, prediction=q)


def _bernoulli_variance(p: Float64) -> Float64:
    """Variance of 0/1 labels, not quite 0 for predictions of 0 and 1."""
    return np.maximum(p * (1.0 - p), SMALLEST_VARIANCE)


def mean_prediction(cells: Float64) -> Float64:
    """Of every cell."""
    return np.clip(ratio(cells[..., F], cells[..., WEIGHT]), 0.0, 1.0)


def _outcomes(cells: Float64) -> Float64:
    return np.asarray((cells[..., F] + cells[..., R]).sum(axis=1))


def log_odds(p: Float64) -> Float64:
    """Log-odds of probabilities, finite for 0 and 1."""
    p = np.clip(p, _SURE, 1.0 - _SURE)
    return np.asarray(np.log(p) - np.log1p(-p))


def probability(margin: Float64) -> Float64:
    """The inverse of `log_odds`."""
    return np.asarray(1.0 / (1.0 + np.exp(-margin)))


def _half_tail(chance: Float64) -> Float64:
    """Positive score whose tail is half of a probability, given as logarithm."""
    from scipy.special import ndtri_exp

    return np.asarray(-ndtri_exp(np.minimum(chance, 0.0) - np.log(2.0)))


# --- 0/1 labels drawn again and again under calibration, for the largest of the groups' scores --
#
# Groups of a few rows and rare outcomes have scores that take few values and are not normal. So
# the audit's own scores are computed on data sets in which the labels are drawn, and the
# critical value is a quantile of their maximum. Labels are drawn with the predicted
# probabilities on the calibration line of all rows, so that those of an over-confident model
# vary as the outcomes do.


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
    from recalibrate.kernels.audit import draw_events

    memberships = float(sums.total[:, ROWS].sum())
    if memberships > MOST_MEMBERSHIPS:
        return None
    draws = int(np.clip(WORK / memberships, FEWEST_DRAWS, MOST_DRAWS))
    order = _order(segments, sample, f)
    starts, groups = _members(segments, order)
    cells = sums.cells.swapaxes(0, 1)
    line = calibration_line(cells[0])
    outcomes = np.zeros((draws, len(sums.total)))
    draw_events(starts, groups, _on_line(f[order], line), sample.weight[order], outcomes)
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
