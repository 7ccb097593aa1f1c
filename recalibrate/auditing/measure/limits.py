"""Limits of the groups' gaps, and the scores that they are the inverse of.

The score of a group says how many standard errors (in normal terms) its gap is from zero. Limits
are drawn where that score reaches the critical value of all groups, so that they exclude zero
exactly where the score of no gap exceeds it: limits, verdict and p-value are one procedure.
Limits say where the gap lies, whatever the predictions are worth.

Numbers, and clusters, have two intervals, of which the wider counts on either side. One is
Student's t of the group's own residuals, right when the group's noise is unlike that of others;
the other relies on the noise of other rows' residuals too, right when the group has too few rows
to show its own (of claims that are mostly zero, say). That one is corrected for skewness by the
transformation of Wilson and Hilferty. A variance that is partly the group's own depends on the
group's sum: by how much turns skewness around. If V is a share a of it, the third cumulant of S /
sqrt(V) is (1 - 3 a) times that of S, from Edgeworth's expansion (a = 0: known variances, a = 1:
Student's t [1]_). The shift of its mean, a sixth as large a correction at the scores that matter
here, is left out.

0/1 labels have the interval of a common shift of the log-odds (`Shifts`) away from a gap of zero,
with the likelihood scaled by how much more the residuals vary than that explains (`_gap_model`).

References
----------
.. [1] P. Hall, "On the removal of skewness by transformation", JRSS B 1992.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from recalibrate.auditing.measure.noise import Noise, shrink
from recalibrate.auditing.measure.shift import (
    ROUGHLY,
    Shifts,
    calibration_line,
    label_model,
    line_model,
    without_gap,
)
from recalibrate.auditing.measure.sweep import (
    FEWEST,
    W2,
    W2V,
    WEIGHT,
    F,
    Law,
    R,
    Sample,
    Sums,
    law_factors,
)
from recalibrate.data.labels import Float64
from recalibrate.metrics import ratio

# --- Statements about many groups at once: critical values and adjusted p-values ----------------


_WORK = 2.8e9  # multiplications of the simulation
_FEWEST, _MOST = 4_000, 20_000
_AT_ONCE = 1_000


_TAIL = 20
"""Of the largest simulated scores, so many are too few to say how the tail falls off."""


@dataclass(frozen=True, eq=False)
class LargestScore:
    """Distribution of the largest absolute score of all groups, if no group has a gap.

    Critical values and adjusted p-values are inverse functions of each other, so that a group's
    adjusted p-value is below alpha exactly where its simultaneous limits exclude zero.

    Attributes
    ----------
    n_groups : int
    scores, tail : ndarray
        Scores in ascending order, and the probability that the largest score reaches them; both
        empty if groups count as independent, which is never too small (Sidak).

    Examples
    --------
    >>> import numpy as np
    >>> law = LargestScore.independent(4)
    >>> round(float(law.p_value(np.array([law.critical(0.05)]))[0]), 9)
    0.05
    """

    n_groups: int
    scores: Float64
    tail: Float64

    @classmethod
    def independent(cls, n_groups: int) -> LargestScore:
        """Of independent normal scores."""
        return cls(n_groups, np.empty(0), np.empty(0))

    @classmethod
    def of_draws(cls, largest: Float64, n_groups: int) -> LargestScore:
        """Of simulated largest scores; the data set itself counts as one more draw."""
        scores, first = np.unique(np.sort(largest), return_index=True)
        tail = (len(largest) - first + 1.0) / (len(largest) + 1.0)
        known = max(int(np.count_nonzero(len(largest) - first >= _TAIL)), 1)
        # The largest score is never negative.
        return cls(n_groups, np.append(0.0, scores[:known]), np.append(1.0, tail[:known]))

    @classmethod
    def correlated(cls, correlation: Float64 | None, n_groups: int) -> LargestScore:
        """Of jointly normal scores with these correlations.

        Simulated with fixed random numbers: the limit of the multiplier bootstrap over rows as the
        number of its repetitions grows, at the cost of groups squared instead of rows.
        """
        if correlation is None or n_groups == 1:
            return cls.independent(n_groups)
        draws = int(np.clip(_WORK / n_groups**2, _FEWEST, _MOST))
        # Groups that are the same leave the matrix without a root; a little noise changes nothing.
        root = np.asarray(np.linalg.cholesky(correlation + 1e-9 * np.eye(n_groups)).T, np.float64)
        random = default_rng(20230131)
        largest = [_largest(random, root, _AT_ONCE) for _ in range(0, draws, _AT_ONCE)]
        # Processors and numbers of threads add up in different orders: in float32 limits differed
        # in the eighth digit, and here nothing is left of that.
        return cls.of_draws(np.concatenate(largest).round(8), n_groups)

    def critical(self, alpha: float) -> float:
        """Score that the largest one exceeds with probability alpha."""
        if len(self.tail) and alpha >= self.tail[-1]:
            return float(np.interp(-alpha, -self.tail, self.scores))
        return _sidak_score(alpha / self._beyond, self.n_groups)

    def p_value(self, score: Float64) -> Float64:
        """Probability that the largest score reaches the absolute values of these; NaN stays."""
        size = np.abs(score)
        beyond = np.minimum(self._beyond * _sidak_tail(size, self.n_groups), 1.0)
        if not len(self.tail):
            return beyond
        inside = np.interp(size, self.scores, self.tail)
        return np.where(size < self.scores[-1], inside, np.minimum(beyond, self.tail[-1]))

    @property
    def _beyond(self) -> float:
        """The tail beyond the simulated scores, as multiple of that of independent groups."""
        if not len(self.tail):
            return 1.0
        return float(self.tail[-1] / _sidak_tail(self.scores[-1:], self.n_groups)[0])


def _sidak_tail(score: Float64, n_groups: int) -> Float64:
    from scipy.special import ndtr

    tail = np.minimum(2.0 * ndtr(-score), 1.0 - 2.0**-53)  # a score of 0 is always reached
    return np.asarray(-np.expm1(n_groups * np.log1p(-tail)))


def _sidak_score(tail: float, n_groups: int) -> float:
    from scipy.special import ndtri

    return float(-ndtri(-np.expm1(np.log1p(-tail) / n_groups) / 2.0))


def critical_value(correlation: Float64 | None, n_groups: int, alpha: float) -> float:
    """Size that the largest of the groups' normal scores exceeds with probability alpha.

    Examples
    --------
    >>> import numpy as np
    >>> round(critical_value(None, 1, 0.05), 3)
    1.96
    >>> twins = np.ones((2, 2))
    >>> critical_value(twins, 2, 0.05) < critical_value(None, 2, 0.05) - 0.2
    True
    """
    return LargestScore.correlated(correlation, n_groups).critical(alpha)


def _largest(random: Generator, root: Float64, draws: int) -> Float64:
    normal: NDArray[np.float32] = random.standard_normal((draws, len(root)), dtype=np.float32)
    scores = np.asarray(normal, dtype=np.float64) @ root
    return np.asarray(np.maximum(scores.max(axis=1), -scores.min(axis=1)))


def wider(critical: float | Float64, degrees: Float64) -> Float64:
    """Critical value for variances estimated with few degrees of freedom (Student's t).

    Examples
    --------
    >>> import numpy as np
    >>> wider(1.959964, np.array([4.0, np.inf])).round(3)
    array([2.776, 1.96 ])
    """
    from scipy.special import ndtr, stdtrit

    known = np.isinf(degrees)
    t = -stdtrit(np.where(known, 1.0, np.maximum(degrees, 1e-9)), ndtr(-critical))
    return np.where(known, critical, t)


def _normal_score(t: Float64, degrees: Float64) -> Float64:
    """The inverse of `wider`: size of the normal score that is as surprising as a Student's t.

    Examples
    --------
    >>> import numpy as np
    >>> _normal_score(np.array([2.776, 1.96]), np.array([4.0, np.inf])).round(2)
    array([1.96, 1.96])
    """
    from scipy.special import ndtri, stdtr

    degrees = np.broadcast_to(degrees, t.shape)
    found = np.array(t, dtype=np.float64)
    known = np.isinf(degrees)
    found[~known] = -ndtri(stdtr(np.maximum(degrees[~known], 1e-9), -t[~known]))
    return found


def _two_sided(score: Float64) -> Float64:
    """P-value of a normal score."""
    from scipy.special import ndtr

    return np.asarray(2.0 * ndtr(-np.abs(score)))


def holm(p: Float64) -> Float64:
    """Adjust p-values for their number (Holm); NaN stays NaN and does not count.

    Examples
    --------
    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, np.nan, 0.03]))
    array([0.03, 0.06,  nan, 0.06])
    """
    out = np.full(len(p), np.nan)
    told = np.flatnonzero(~np.isnan(p))
    order = told[np.argsort(p[told], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


PRIOR_EVENTS = 50.0
"""Events that the calibration line of all rows counts as, against how a group's outcomes vary."""

POWER_80 = 0.8416212335729143  # normal quantile: a detectable gap is found 80 times in 100

_PARTS = (0.95, 0.8, 0.6, 0.3)
"""Outcomes may be unlikely, or the rows that were drawn may have unusual predictions: of all pairs
of scores whose squares add up to that of the critical value, these parts for the outcomes are
tried. Where almost no outcome is left to vary, predictions make most of the noise of a gap."""

SYMMETRIC = 1e-6

Interval = tuple[Float64, Float64, Float64]
"""Normal scores of no gap, and limits."""


@dataclass(frozen=True, eq=False)
class _GapLimits:
    """Scores and limits of the groups' gaps; NaN where there are too few rows to tell."""

    score: Float64
    p: Float64
    low: Float64
    high: Float64


def judge(sums: Sums, sample: Sample, noise: Noise, critical: float) -> _GapLimits:
    """Judge all groups; intervals are drawn at the critical normal score."""
    find = _numbers if not sample.binary else _binary if sample.cluster is None else _clusters
    score, low, high = find(sums, noise, critical)
    told = tellable(noise)
    if find is not _binary:
        told = told & (noise.moderated > 0) & sample.shows_noise  # equal ones say nothing
        score = np.where(told, score, np.nan)
    low, high = (np.where(told, values, np.nan) for values in (low, high))
    if sample.unit:
        mean, slack = sums.total[:, F] / sums.total[:, WEIGHT], _slack(sums, noise, critical)
        low = np.maximum(low, np.maximum(-mean - slack, -1.0))
        high = np.minimum(high, np.minimum(1.0 - mean + slack, 1.0))
    return _GapLimits(score, _two_sided(score), low, high)


def detectable(sums: Sums, sample: Sample, noise: Noise, test: float) -> tuple[Float64, Float64]:
    """Gaps below and above zero that a test at a score finds in 80 of 100 samples.

    NaN where no gap that is possible would be found so often.
    """
    mass = sums.total[:, WEIGHT]
    if sample.binary:
        plain = not sample.weighted and sample.cluster is None
        if sample.cluster is None:
            model = _gap_model(sums, noise)
        else:
            model = label_model(sums.cells.swapaxes(0, 1), sums.total[:, W2V] * noise.design)
        below, above = model.detectable(test, POWER_80, np.full(len(mass), 1.0 * plain))
    else:
        none, error = np.zeros(len(mass)), np.sqrt(noise.moderated)
        sides = noise.moderated, noise.moderated, noise.share, noise.skewness, noise.count
        _, low, high = judge_sums(none, *sides, test)
        below, above = (-high - POWER_80 * error) / mass, (-low + POWER_80 * error) / mass
    if sample.unit:
        mean = sums.total[:, F] / mass
        below = np.where(below >= -mean, below, np.nan)
        above = np.where(above <= 1.0 - mean, above, np.nan)
    told = tellable(noise) & (sample.binary | (noise.moderated > 0)) & sample.shows_noise
    return np.where(told, below, np.nan), np.where(told, above, np.nan)


def _slack(sums: Sums, noise: Noise, critical: float) -> Float64:
    """How far a group's mean prediction may be from that of all such rows.

    Outcomes between 0 and 1 bound a gap; but not by the predictions of the rows at hand alone.
    """
    cells = sums.cells.swapaxes(0, 1)
    mass, f = cells[..., WEIGHT], ratio(cells[..., F], cells[..., WEIGHT])
    total = sums.total[:, WEIGHT]
    mean = sums.total[:, F] / total
    variance = ratio((mass * (f - mean[:, None]) ** 2).sum(axis=1), total)
    spread = np.sqrt(np.maximum(variance, variance[0]) * ratio(np.ones_like(total), noise.count))
    return np.asarray(critical * spread)


def tellable(noise: Noise) -> NDArray[np.bool_]:
    """Groups that have enough rows, or clusters, for an interval."""
    return np.asarray(noise.count >= FEWEST)


def _binary(sums: Sums, noise: Noise, critical: float) -> Interval:
    model = _gap_model(sums, noise)
    none = np.zeros(len(sums.total))
    # Where all outcomes are equal, the model counts none of this variance.
    counted = np.where(model.one_sided != 0.0, 0.0, _row_variance(sums, model.fitted))
    limits = []
    for sign in (1.0, -1.0):
        limit = model.gap(model.shift_where(none + sign * critical))
        farthest = limit
        for part in _PARTS:
            shift = model.shift_where(none + sign * critical * part, ROUGHLY)
            more = np.maximum(_row_variance(sums, model.shifted(shift)) - counted, 0.0)
            rest = critical * np.sqrt((1.0 - part**2) * more)
            farthest = sign * np.minimum(sign * farthest, sign * model.gap(shift) - rest)
        # Limits that exclude zero are not moved, so that they agree with the score.
        limits.append(np.where(sign * limit < 0.0, farthest, limit))
    return model.score(none), limits[0], limits[1]


def _row_variance(sums: Sums, p: Float64) -> Float64:
    """Variance of a group's mean p - f, because other rows would have other predictions.

    ``p`` are probabilities by cell. Few rows hide how much predictions vary: at least as much as
    those of all rows.
    """
    cells, mass = sums.cells.swapaxes(0, 1), sums.total[:, WEIGHT]
    f = ratio(cells[..., F], cells[..., WEIGHT])
    away = p - f - ratio((cells[..., WEIGHT] * (p - f)).sum(axis=1), mass)[:, None]
    spread = ratio(
        (cells[..., WEIGHT] * (f - (sums.total[:, F] / mass)[:, None]) ** 2).sum(axis=1), mass
    )
    hidden = np.maximum(ratio(np.full(len(mass), spread[0]), spread), 1.0)
    return np.asarray(hidden * (cells[..., W2] * away**2).sum(axis=1) / mass**2)


def _gap_model(sums: Sums, noise: Noise) -> Shifts:
    """The model of 0/1 labels for limits of gaps: a shift of zero is a gap of zero.

    The population's gap also varies with the rows that are drawn from it, by the spread of
    p - f; and outcomes vary more than the line of all rows says in groups that have a line of
    their own. Both make the likelihood count less.
    """
    cells = sums.cells.swapaxes(0, 1)
    model = without_gap(line_model(cells, calibration_line(cells[0])), cells)
    p, f = model.fitted, ratio(cells[..., F], cells[..., WEIGHT])
    gap = sums.total[:, R] / sums.total[:, WEIGHT]
    labels = (cells[..., W2] * p * (1.0 - p)).sum(axis=1)
    rows = (cells[..., W2] * (p - f - gap[:, None]) ** 2).sum(axis=1)
    # Where all outcomes are equal they do not show how they vary.
    same = model.one_sided != 0.0
    sampled = np.where(same, 1.0, 1.0 + ratio(rows, labels))
    excess = np.where(same, 1.0, ratio(noise.own, labels + rows))
    events = labels * ratio(noise.count, sums.total[:, WEIGHT]) ** 2
    share = events / (events + PRIOR_EVENTS)
    share = np.where(excess < 1.0, share**2, share)  # less noise needs more events to be accepted
    moderated = shrink(excess, share, 1.0, noise.nesting)
    return model.dispersed(sampled * moderated)


def _numbers(sums: Sums, noise: Noise, critical: float) -> Interval:
    mass, total = sums.total[:, WEIGHT], sums.total[:, R]
    sides = noise.own, noise.moderated, noise.share
    score, low, high = judge_sums(total, *sides, noise.skewness, noise.count, critical)
    return score, low / mass, high / mass


def _clusters(sums: Sums, noise: Noise, critical: float) -> Interval:
    """Of 0/1 labels in clusters."""
    mass = sums.total[:, WEIGHT]
    gap, none = sums.total[:, R] / mass, np.zeros(len(mass))
    first = _own_interval(gap, np.sqrt(noise.own) / mass, noise.count - 1.0, critical)
    model = label_model(sums.cells.swapaxes(0, 1), sums.total[:, W2V] * noise.design)
    second = model.score(none), *model.limits(np.full(len(mass), critical))
    return _wider(gap, first, second)


def _wider(gap: Float64, one: Interval, other: Interval) -> Interval:
    score = np.sign(gap) * np.minimum(np.abs(one[0]), np.abs(other[0]))
    return score, np.minimum(one[1], other[1]), np.maximum(one[2], other[2])


def _own_interval(
    gap: Float64, error: Float64, degrees: Float64, critical: float | Float64
) -> Interval:
    """Student's t, for standard errors of the same residuals."""
    degrees = np.maximum(degrees, 1e-9)
    reach = error * wider(critical, degrees)
    return _normal_score(np.abs(ratio(gap, error)), degrees), gap - reach, gap + reach


def _moderated_interval(
    gap: Float64, error: Float64, g: Float64, critical: float | Float64
) -> Interval:
    """For standard errors that rely on other residuals than the gap's own, and skewness g.

    Skewness only counts where it makes the tail heavier: a single extreme outcome can make the
    other one look lighter than it is.
    """
    up, down = np.maximum(g, 0.0), np.minimum(g, 0.0)
    x = ratio(gap, error)
    score = np.where(x > 0, _wilson(x, up), _wilson(x, down))
    z = np.full(len(gap), critical)
    return score, gap - error * _wilson_inverse(z, up), gap - error * _wilson_inverse(-z, down)


def score_rows(
    law: Law,
    gaps: Float64,
    weight: Float64,
    place: NDArray[np.integer],
    cluster: NDArray[np.integer] | None,
    exposure: Float64 | None = None,
) -> float:
    """Normal score of the sum of some rows' gaps (weight times residual)."""
    apart = gaps - weight * (gaps.sum() / weight.sum())
    squares = float(apart @ apart)
    count = float(weight.sum() ** 2 / (weight @ weight))
    if cluster is not None:
        apart = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=apart)
        count = float(len(apart))
    by_variance, by_third = law_factors(weight, exposure)
    pooled, third = by_variance @ law.variance[place], by_third @ law.third[place]
    if count < FEWEST or squares == 0.0 or pooled == 0.0:
        return 0.0
    own = float(apart @ apart) * count / (count - 1.0)
    sums = [np.array([value]) for value in (own, pooled * max(own / squares, 1.0), count)]
    moderated, share = law.moderate(*sums)
    g = np.array([third / pooled**1.5])
    return float(
        judge_sums(gaps.sum(keepdims=True), sums[0], moderated, share, g, sums[2], 1.0)[0][0]
    )


def judge_sums(
    total: Float64,
    own: Float64,
    moderated: Float64,
    share: Float64,
    g: Float64,
    count: Float64,
    critical: float | Float64,
) -> Interval:
    """Scores and limits of sums by their two variances, skewness, and number of rows.

    A sum and its own variance depend on each other, which turns its skewness around.
    """
    first = _own_interval(total, np.sqrt(own), count - 1.0, critical)
    turned = (1.0 - 3.0 * share) * g
    return _wider(total, first, _moderated_interval(total, np.sqrt(moderated), turned, critical))


def _wilson(x: Float64, g: Float64) -> Float64:
    """Score of a sum in known standard deviations whose skewness is g: as a gamma variable."""
    h = np.where(np.abs(g) > SYMMETRIC, g, 1.0)
    bent = 6.0 / h * (np.cbrt(np.maximum(1.0 + 0.5 * h * x, 0.0)) - 1.0) + h / 6.0
    return np.where(np.abs(g) > SYMMETRIC, bent, x)


def _wilson_inverse(score: Float64, g: Float64) -> Float64:
    """The sum that has a score."""
    h = np.where(np.abs(g) > SYMMETRIC, g, 1.0)
    bent = 2.0 / h * (np.maximum(1.0 + h / 6.0 * (score - h / 6.0), 0.0) ** 3 - 1.0)
    return np.where(np.abs(g) > SYMMETRIC, bent, score)
