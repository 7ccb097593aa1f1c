r"""Limits of the groups' gaps, and the scores that they are the inverse of.

The score of a group says how many standard errors (in normal terms) its gap is from zero. Limits
are drawn where that score reaches the critical value of all groups, so that they exclude zero
exactly where the score of no gap exceeds it: limits, verdict and p-value are one procedure. Limits
say where the gap lies, whatever the predictions are worth.

Numbers, and clusters, have two intervals, of which the wider counts on either side. One is
Student's t of the group's own residuals, right when the group's noise is unlike that of others;
the other relies on the noise of other rows' residuals too, right when the group has too few rows
to show its own (of claims that are mostly zero, say). That one is corrected for skewness by the
transformation of Wilson and Hilferty. A variance that is partly the group's own depends on the
group's sum: by how much turns skewness around. If V is a share a of it, the third cumulant of
S / sqrt(V) is (1 - 3 a) times that of S, from Edgeworth's expansion (a = 0: known variances, a = 1:
Student's t [1]_). The shift of its mean, a sixth as large a correction at the scores that matter
here, is left out.

0/1 labels have the interval of a common shift of the log-odds (`Shifts`) away from a gap of zero,
with the likelihood scaled by how much more the residuals vary than that explains (`gap_model`).

References
----------
.. [1] P. Hall, "On the removal of skewness by transformation", JRSS B 1992.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.law import Law, law_factors
from recalibrate.auditing.measure.noise import Noise, shrink
from recalibrate.auditing.measure.sample import FEWEST, Sample
from recalibrate.auditing.measure.shift import (
    ROUGHLY,
    Shifts,
    calibration_line,
    label_model,
    line_model,
    without_gap,
)
from recalibrate.auditing.measure.simultaneous import normal_score, two_sided, wider
from recalibrate.auditing.measure.sweep import W2, W2V, WEIGHT, F, R, Sums
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio

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
class Judged:
    """Scores and limits of the groups' gaps; NaN where there are too few rows to tell."""

    score: Float64
    p: Float64
    low: Float64
    high: Float64


def judge(sums: Sums, sample: Sample, noise: Noise, critical: float) -> Judged:
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
    return Judged(score, two_sided(score), low, high)


def detectable(sums: Sums, sample: Sample, noise: Noise, test: float) -> tuple[Float64, Float64]:
    """Gaps below and above zero that a test at a score finds in 80 of 100 samples.

    NaN where no gap that is possible would be found so often.
    """
    mass = sums.total[:, WEIGHT]
    if sample.binary:
        plain = not sample.weighted and sample.cluster is None
        if sample.cluster is None:
            model = gap_model(sums, noise)
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
    model = gap_model(sums, noise)
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


def gap_model(sums: Sums, noise: Noise) -> Shifts:
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
    share = np.where(excess < 1.0, share**2, share)  # less noise needs more events to be believed
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
    first = own_interval(gap, np.sqrt(noise.own) / mass, noise.count - 1.0, critical)
    model = label_model(sums.cells.swapaxes(0, 1), sums.total[:, W2V] * noise.design)
    second = model.score(none), *model.limits(np.full(len(mass), critical))
    return _wider(gap, first, second)


def _wider(gap: Float64, one: Interval, other: Interval) -> Interval:
    score = np.sign(gap) * np.minimum(np.abs(one[0]), np.abs(other[0]))
    return score, np.minimum(one[1], other[1]), np.maximum(one[2], other[2])


def own_interval(
    gap: Float64, error: Float64, degrees: Float64, critical: float | Float64
) -> Interval:
    """Student's t, for standard errors of the same residuals."""
    degrees = np.maximum(degrees, 1e-9)
    reach = error * wider(critical, degrees)
    return normal_score(np.abs(ratio(gap, error)), degrees), gap - reach, gap + reach


def moderated_interval(
    gap: Float64, error: Float64, g: Float64, critical: float | Float64
) -> Interval:
    """For standard errors that rely on other residuals than the gap's own, and skewness g.

    Skewness only counts where it makes the tail heavier: a single extreme outcome can make the
    other one look lighter than it is.
    """
    up, down = np.maximum(g, 0.0), np.minimum(g, 0.0)
    x = ratio(gap, error)
    score = np.where(x > 0, wilson(x, up), wilson(x, down))
    z = np.full(len(gap), critical)
    return score, gap - error * wilson_inverse(z, up), gap - error * wilson_inverse(-z, down)


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
    first = own_interval(total, np.sqrt(own), count - 1.0, critical)
    turned = (1.0 - 3.0 * share) * g
    return _wider(total, first, moderated_interval(total, np.sqrt(moderated), turned, critical))


def wilson(x: Float64, g: Float64) -> Float64:
    """Score of a sum in known standard deviations whose skewness is g: as a gamma variable."""
    h = np.where(np.abs(g) > SYMMETRIC, g, 1.0)
    bent = 6.0 / h * (np.cbrt(np.maximum(1.0 + 0.5 * h * x, 0.0)) - 1.0) + h / 6.0
    return np.where(np.abs(g) > SYMMETRIC, bent, x)


def wilson_inverse(score: Float64, g: Float64) -> Float64:
    """The sum that has a score."""
    h = np.where(np.abs(g) > SYMMETRIC, g, 1.0)
    bent = 2.0 / h * (np.maximum(1.0 + h / 6.0 * (score - h / 6.0), 0.0) ** 3 - 1.0)
    return np.where(np.abs(g) > SYMMETRIC, bent, score)
