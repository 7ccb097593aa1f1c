"""From passes over the rows to the records of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.limits import (
    LargestScore,
    critical_value,
    detectable,
    holm,
    judge,
    judge_sums,
    tellable,
    wider,
)
from recalibrate.auditing.measure.noise import Noise, effective_rows, find_noise, sum_variance
from recalibrate.auditing.measure.segments import EverybodyOnly, Rows, Segments
from recalibrate.auditing.measure.shift import (
    draw_largest,
    label_model,
    log_odds,
    mean_prediction,
    probability,
)
from recalibrate.auditing.measure.sweep import (
    BY_THIRD,
    BY_VARIANCE,
    FEWEST,
    LOSS,
    R2,
    ROWS,
    W2,
    W2R,
    W2R2,
    W2V,
    WEIGHT,
    F,
    Law,
    Observer,
    R,
    Sample,
    Sums,
    blocks,
    correlate,
    find_nesting,
    overlaps,
    sum_clusters,
    sum_groups,
)
from recalibrate.auditing.records import (
    Calibration,
    Changes,
    Curve,
    Difference,
    Flips,
    GroupAudit,
    MovedRow,
    Overall,
)
from recalibrate.data.labels import Float64, Labels
from recalibrate.metrics import Decomposition, Excursion, absolute_mean, ratio
from recalibrate.support.checks import check_number, check_whole

# --- Reliability curves with bands --------------------------------------------------------------


def _draw_curves(
    sums: Sums,
    sample: Sample,
    noise: Noise,
    alpha: float,
    unscale: Callable[[Float64], Float64],
) -> list[Curve]:
    """One curve per group on its quantile bins, in the units that ``unscale`` leads to.

    Bands hold in all bins of a curve at once: bins do not overlap, so the critical value is that
    of independent scores.
    """
    bins = sums.by_quantile
    group, place = np.nonzero(bins[..., WEIGHT] > 0)
    filled = bins[group, place]
    count = np.bincount(group, minlength=len(bins))
    by_count = np.array([critical_value(None, max(k, 1), alpha) for k in range(sums.n_bins + 1)])
    cut, design = by_count[count[group]], noise.bin_design[group]
    if sample.binary:
        low, high = label_model(filled[:, None, :], design * filled[:, W2V]).limits(cut)
    else:
        spread = design * noise.relative[group]
        low, high = _numbers(filled, design, spread, cut, sums.law, place)
    prediction = filled[:, F] / filled[:, WEIGHT]
    low, high = prediction + low, prediction + high
    if sample.unit:
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    outcome = prediction + filled[:, R] / filled[:, WEIGHT]
    columns = [unscale(values) for values in (prediction, outcome, low, high)]
    rows, mass = filled[:, ROWS].astype(np.int64), filled[:, WEIGHT]
    share = mass / np.bincount(group, weights=mass)[group]
    curves = []
    for stop, size in zip(np.cumsum(count), count, strict=True):
        own = slice(stop - size, stop)
        lists = [tuple(column[own].tolist()) for column in (*columns, rows, share)]
        curves.append(Curve(*lists))
    return curves


def _numbers(
    filled: Float64,
    design: Float64,
    spread: Float64,
    cut: Float64,
    law: Law,
    place: NDArray[np.intp],
) -> tuple[Float64, Float64]:
    """Limits of the gaps of bins, from sums of shape (bins, N_SUMS).

    Clusters make a bin's own variance ``design`` times larger, and that of all rows in the bin
    counts ``spread`` times.
    """
    mass, count = filled[:, WEIGHT], effective_rows(filled)
    own = design * sum_variance(filled)
    pooled = spread * filled[:, BY_VARIANCE] * law.variance[place]
    g = ratio(spread**1.5 * design**0.5 * filled[:, BY_THIRD] * law.third[place], pooled**1.5)
    moderated, share = law.moderate(own, pooled, count)
    _, low, high = judge_sums(filled[:, R], own, moderated, share, g, count, cut)
    told = (count >= FEWEST) & (moderated > 0)
    return np.where(told, low / mass, np.nan), np.where(told, high / mass, np.nan)


# --- Calibration slopes of groups: whether predictions are too extreme, or not extreme enough ---
#
# A gap compares means. Predictions of the right mean can still be too high where they are high
# and too low where they are low: over-confident. The slope b of the outcomes on the predictions
# within a group says so: below 1 the predictions are too extreme, above 1 too moderate. 0/1
# labels have the slope of a logistic regression on the log-odds of the predictions (Cox 1958),
# others that of a linear regression,
#
# .. math:: \mathrm{logit} P(y = 1) = a + b \, \mathrm{logit} f, \qquad E[y] = a + b f .
#
# Both are fitted to the cells of an audit, whose rows have about the same prediction. Limits
# hold for all groups at once (Sidak): normal ones for 0/1 labels, else those of weighted sums of
# residuals.


FEWEST_OF_EITHER = 20.0
"""Labels 0 and 1 below which the limits of a slope would not hold (Wald limits are for many)."""

FEWEST_ROWS = 50.0
"""The same for other labels."""

_NEWTON_STEPS, _LONGEST_STEP = 25, 1.0
_LEAST_SPREAD = 1e-9  # of predictions; equal ones have no slope


def _calibration_slopes(
    sums: Sums, sample: Sample, noise: Noise, alpha: float
) -> dict[str, Float64]:
    """Slopes of all groups with simultaneous limits; NaN where there are too few rows.

    Returns
    -------
    dict
        ``slope``, ``slope_low`` and ``slope_high``.
    """
    rows = noise.count
    if sample.binary:
        share = (sums.total[:, F] + sums.total[:, R]) / sums.total[:, WEIGHT]
        told = rows * np.minimum(share, 1.0 - share) >= FEWEST_OF_EITHER
    else:
        told = rows >= FEWEST_ROWS
    critical = LargestScore.independent(max(int(told.sum()), 1)).critical(alpha)
    find = _logistic if sample.binary else _linear
    slope, low, high = find(sums, noise, critical)
    told &= np.isfinite(slope) & (low < high)
    sides = {"slope": slope, "slope_low": low, "slope_high": high}
    return {name: np.where(told, values, np.nan) for name, values in sides.items()}


def _logistic(sums: Sums, noise: Noise, critical: float) -> tuple[Float64, Float64, Float64]:
    """Slopes and their limits, by Newton's method for all groups at once."""
    cells = sums.cells.swapaxes(0, 1)
    mass, squares, x = cells[..., WEIGHT], cells[..., W2], log_odds(mean_prediction(cells))
    centre = ratio((mass * x).sum(axis=1), mass.sum(axis=1))
    x = x - centre[:, None]
    outcomes = cells[..., F] + cells[..., R]
    share = ratio(outcomes.sum(axis=1), mass.sum(axis=1))
    a, b = log_odds(share), np.ones(len(cells))
    for _ in range(_NEWTON_STEPS):
        p = probability(a[:, None] + b[:, None] * x)
        error = outcomes - mass * p
        first, second = error.sum(axis=1), (error * x).sum(axis=1)
        aa, ab, bb, determinant = _information(mass * p * (1.0 - p), x)
        steps = (
            ratio(bb * first - ab * second, determinant),
            ratio(aa * second - ab * first, determinant),
        )
        step_a, step_b = (np.clip(step, -_LONGEST_STEP, _LONGEST_STEP) for step in steps)
        a, b = a + step_a, b + step_b
    p = probability(a[:, None] + b[:, None] * x)
    aa, ab, bb, determinant = _information(mass * p * (1.0 - p), x)
    # Weights: the noise of a weighted sum is that of squared weights (sandwich).
    meat = _information(squares * p * (1.0 - p), x)[:3]
    variance = ratio(ab**2 * meat[0] - 2 * aa * ab * meat[1] + aa**2 * meat[2], determinant**2)
    known = determinant > _LEAST_SPREAD * mass.sum(axis=1) ** 2 * share * (1.0 - share)
    slope = np.where(known, b, np.nan)
    error = np.sqrt(np.maximum(variance, 0.0) * noise.design)
    reach = error * wider(critical, np.maximum(noise.count - 2.0, 1.0))
    return slope, slope - reach, slope + reach


def _information(weight: Float64, x: Float64) -> tuple[Float64, Float64, Float64, Float64]:
    aa, ab, bb = weight.sum(axis=1), (weight * x).sum(axis=1), (weight * x**2).sum(axis=1)
    return aa, ab, bb, aa * bb - ab**2


def _linear(sums: Sums, noise: Noise, critical: float) -> tuple[Float64, Float64, Float64]:
    """Slopes and their limits, which are those of a gap.

    The slope less 1 is a sum of residuals, weighted with how far predictions are from the group's
    mean. So its limits are found as those of plain sums are: they are to hold for skewed noise, and
    for noise that is larger where predictions are (see `limits`).
    """
    cells, law, bins = sums.cells.swapaxes(0, 1), sums.law, sums.bins.quantile
    mass, f = cells[..., WEIGHT], ratio(cells[..., F], cells[..., WEIGHT])
    total = mass.sum(axis=1)
    x = f - ratio(cells[..., F].sum(axis=1), total)[:, None]
    squares = (mass * x**2).sum(axis=1)
    pull = (cells[..., R] * x).sum(axis=1)
    # Residuals of the predictions: their slope is that of the outcomes less 1.
    fitted = ratio(cells[..., R].sum(axis=1), total)[:, None] + ratio(pull, squares)[:, None] * x
    left = cells[..., W2R2] - 2.0 * fitted * cells[..., W2R] + fitted**2 * cells[..., W2]
    # Predictions far from the mean decide: rows count by the kurtosis of predictions.
    count = noise.count * ratio(squares**2, total * (mass * x**4).sum(axis=1))
    own = (np.maximum(left, 0.0) * x**2).sum(axis=1) * noise.design
    own *= ratio(count, np.maximum(count - 2.0, 1.0))
    pooled = (cells[..., BY_VARIANCE] * x**2) @ law.variance[bins] * noise.design
    third = (cells[..., BY_THIRD] * x**3) @ law.third[bins] * noise.design**2
    none = np.zeros_like(own)
    noises = own, pooled * noise.relative, none, ratio(third, pooled**1.5), count - 1.0
    _, low, high = judge_sums(pull, *noises, critical)
    known = (squares > _LEAST_SPREAD * total) & (own > 0.0)
    slope, low, high = (np.where(known, 1.0 + ratio(t, squares), np.nan) for t in (pull, low, high))
    return slope, low, high


# --- Changes from one set of predictions to another on the same rows, with standard errors ------
#
# Gap, squared error, log loss and deviance are means over rows, and their differences means of the
# rows' differences d, with variance
# :math:`\sum_c (\sum_{i \in c} w_i (d_i - \bar d))^2 / (\sum w)^2` over clusters c. Measures that
# add up sizes or take the largest (ECE, K1, K2, Kinf, ECCE) are not compared this way: where noise
# decides signs and ranks, neither derivatives nor a bootstrap tell how their difference varies,
# least of all between models that are nearly the same.


MEASURES = ("gap", "mse", "log_loss", "deviance")


def compare(
    segments: Segments,
    sample: Sample,
    predictions: list[Float64],
    sums: Sums,
    measures: list[dict[str, Float64]],
) -> dict[str, tuple[Float64, Float64]]:
    """Difference (first of two sides minus second) and its standard error, by measure."""

    def changes(rows: Rows) -> list[Float64]:
        y, f = sample.y[rows], [both[rows] for both in predictions]
        one, other = ([y - p, (y - p) ** 2, sample.loss(p, y)] for p in f)
        return [a - b for a, b in zip(one, other, strict=True)]

    shown = [name for name in MEASURES if name != ("deviance" if sample.unit else "log_loss")]
    found = sum_clusters(segments, sample, changes, len(shown))
    count = effective_rows(sums.total) if sample.cluster is None else found.count
    compared = {}
    for k, name in enumerate(shown):
        change = measures[0][name] - measures[1][name]
        spread = found.spread(k, np.nan_to_num(change))
        variance = ratio(spread * count, np.maximum(count - 1.0, 0.0))
        compared[name] = change, np.sqrt(variance) / sums.total[:, WEIGHT]
    return compared


# --- What changed between two sets of predictions: rows, decisions, ranks -----------------------


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


# --- From sums to measures: everything that is said about a group, for one set of predictions ---
#
# All numbers are on the scale of labels in [0, 1]; arrays have one entry per group.


def measure(
    sums: Sums,
    sample: Sample,
    noise: Noise,
    law: LargestScore,
    alpha: float,
) -> dict[str, Float64]:
    """All measures by their names in `recalibrate.auditing.records.Calibration`.

    Limits, verdict and adjusted p-value of a gap are one statement: the limits exclude zero, the
    group is off, and its adjusted p-value is below alpha.
    """
    critical = law.critical(alpha)
    total = sums.total
    mass = total[:, WEIGHT]
    found = {
        "mean_prediction": total[:, F] / mass,
        "mean_outcome": (total[:, F] + total[:, R]) / mass,
        "gap": total[:, R] / mass,
        "gap_se": np.where(noise.count > 1.0 + 1e-9, np.sqrt(noise.own) / mass, np.nan),
        "mse": total[:, R2] / mass,
        "log_loss": total[:, LOSS] / mass if sample.unit else np.full(len(mass), np.nan),
        "deviance": total[:, LOSS] / mass if sample.deviance else np.full(len(mass), np.nan),
    }
    judged = judge(sums, sample, noise, critical)
    found |= {"p": judged.p, "low": judged.low, "high": judged.high}
    found["off"] = (judged.low > 0.0) | (judged.high < 0.0)
    found["p_holm"] = np.where(np.isnan(judged.low), np.nan, law.p_value(judged.score))
    below, above = detectable(sums, sample, noise, critical)
    found |= {"detectable_low": below, "detectable_high": above}
    found["detectable"] = np.fmax(-below, above)
    found |= _calibration_slopes(sums, sample, noise, alpha)
    found |= _level_sets(sums, noise)
    found |= _equal_width(sums, sample, noise)
    found |= _cumulative(sums, sample, noise)
    found["ecce_p_holm"] = holm(found["ecce_p"])
    return found


def _level_sets(sums: Sums, noise: Noise) -> dict[str, Float64]:
    """K1, K2 and Kinf on the quantile bins, within the group and by mass."""
    bins = sums.by_quantile
    mass, moment = bins[..., WEIGHT], bins[..., R]
    inside = mass.sum(axis=1)
    everybody, everything = mass[0], mass[0].sum()
    mean = ratio(moment, mass)
    degrees = np.maximum(ratio(mass**2, bins[..., W2]) - 1.0, 0.0)
    spread = np.maximum(ratio(bins[..., R2], mass) - mean**2, 0.0)
    bias = noise.bin_design[:, None] * ratio(spread, degrees)
    corrected = np.where(degrees > 1e-9, mean**2 - bias, 0.0)
    size = np.abs(moment)
    return {
        "k1": size.sum(axis=1) / inside,
        "k2": (moment * mean).sum(axis=1) / inside,
        "kinf": size.max(axis=1) / inside,
        "k2_unbiased": (mass * corrected).sum(axis=1) / inside,
        "k1_mass": size.sum(axis=1) / everything,
        "k2_mass": ratio(moment**2, np.broadcast_to(everybody, mass.shape)).sum(axis=1)
        / everything,
        "kinf_mass": size.max(axis=1) / everything,
    }


def _equal_width(sums: Sums, sample: Sample, noise: Noise) -> dict[str, Float64]:
    bins = sums.by_width
    inside = bins[..., WEIGHT].sum(axis=1)
    variance = bins[..., W2V] if sample.binary else sum_variance(bins)
    error = np.sqrt(variance * noise.bin_design[:, None])
    return {
        "ece": np.abs(bins[..., R]).sum(axis=1) / inside,
        "ece_debiased": absolute_mean(bins[..., R], error).sum(axis=1) / inside,
    }


def _cumulative(sums: Sums, sample: Sample, noise: Noise) -> dict[str, Float64]:
    from recalibrate.kernels import audit as walk

    at = sums.walks.T
    spread = at[walk.VARIANCE] * noise.design
    part = np.abs(at[walk.TOP_VARIANCE] - at[walk.LOW_VARIANCE]) * noise.design
    # Clusters add up skewness as they add up variance, per row of their size.
    skew = (at[walk.TOP_SKEW] - at[walk.LOW_SKEW]) * noise.design**2
    if not sample.binary:
        # Squared residuals of a few rows may miss what makes them vary.
        larger = np.maximum(ratio(noise.moderated, spread), 1.0)
        rises = np.where(at[walk.TOP_AT] > at[walk.LOW_AT], 1.0, -1.0)
        skew = rises * ratio(part, spread) * noise.skewness * noise.moderated**1.5
        spread, part = spread * larger, part * larger
    excursion = Excursion(at[walk.TOP] - at[walk.LOW], spread, part, skew)
    return {
        "ecce": excursion.range / sums.total[:, WEIGHT],
        "ecce_sigma": excursion.sigma(),
        "ecce_p": excursion.p_value(),
    }


# Powers of the label's range that a measure is proportional to; 0 for pure numbers.
_POWERS = {
    "gap": 1, "gap_se": 1, "low": 1, "high": 1, "p": 0, "p_holm": 0, "detectable": 1,
    "detectable_low": 1, "detectable_high": 1, "slope": 0, "slope_low": 0, "slope_high": 0,
    "mse": 2, "log_loss": 0, "deviance": 0, "ece": 1, "ece_debiased": 1, "k1": 1, "k2": 2,
    "kinf": 1, "k2_unbiased": 2, "k1_mass": 1, "k2_mass": 2, "kinf_mass": 1, "ecce": 1,
    "ecce_sigma": 0, "ecce_p": 0, "ecce_p_holm": 0,
}  # fmt: skip

_RATIOS = ("ratio", "ratio_low", "ratio_high")
_FLOATS = 80
"""Halvings until no float64 is left between two that are some units of rounding apart."""


@dataclass(frozen=True, eq=False)
class _Side:
    """One set of predictions: its measures and curves, in the units of the label."""

    measures: dict[str, Float64]
    curves: list[Curve]
    edges: tuple[float, ...]
    decompositions: tuple[Decomposition, ...]


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything about all groups, in the units of the label.

    ``sides`` are after and, with a baseline, before; ``changes`` by measure the difference and
    its standard error.
    """

    segments: Segments
    rows: NDArray[np.int64]
    clusters: NDArray[np.int64]
    share: Float64
    critical: float
    sides: tuple[_Side, ...]
    sums: tuple[Sums, ...]
    changes: dict[str, tuple[Float64, Float64]]

    @property
    def names(self) -> tuple[str, ...]:
        """One per group."""
        return self.segments.names

    @cached_property
    def _effective(self) -> Float64:
        return effective_rows(self.sums[0].total)

    def groups(self) -> tuple[GroupAudit, ...]:
        """One record per group."""
        return tuple(self._group(g) for g in range(len(self.names)))

    def _group(self, g: int) -> GroupAudit:
        records = [_calibration(side, g) for side in self.sides]
        changes = tuple(
            Difference(name, float(value[g]), float(error[g]))
            for name, (value, error) in self.changes.items()
            if np.isfinite(value[g])
        )
        return GroupAudit(
            self.names[g],
            int(self.rows[g]),
            int(self.clusters[g]),
            float(self.share[g]),
            float(self.sides[0].measures["mean_outcome"][g]),
            records[0],
            records[1] if len(records) > 1 else None,
            changes,
            self.segments.terms[g],
            self.segments.parts[g],
            float(self._effective[g]),
        )

    def overall(self, side: int) -> Overall:
        """Summary of one side."""
        found = self.sides[side].measures
        worst = int(found["ecce_sigma"].argmax())
        off = found["off"]
        largest = int(np.where(off, np.abs(found["gap"]), -1.0).argmax())
        deviation = found["ecce"][0] / found["ecce_sigma"][0] if found["ecce_sigma"][0] else 0.0
        return Overall(
            mse=float(found["mse"][0]),
            log_loss=float(found["log_loss"][0]),
            deviance=float(found["deviance"][0]),
            decompositions=self.sides[side].decompositions,
            msce=float(found["k2"][0]),
            msce_unbiased=float(found["k2_unbiased"][0]),
            multicalibration_error=float(found["ecce_sigma"][worst] * deviation),
            mce_sigma=float(found["ecce_sigma"][worst]),
            mce_p=float(found["ecce_p_holm"].min()),
            worst_group=self.names[worst],
            worst_ecce=float(found["ecce"][worst]),
            n_off=int(off.sum()),
            largest_gap=float(found["gap"][largest]) if off.any() else float("nan"),
            largest_gap_group=self.names[largest] if off.any() else "",
        )


def find_everything(
    segments: Segments,
    sample: Sample,
    labels: Labels,
    predictions: list[Float64],
    *,
    observers: Sequence[Observer],
    n_bins: int,
    alpha: float,
) -> Findings:
    """All passes and all measures; ``predictions`` are after and maybe before, on [0, 1]."""
    sums = [
        sum_groups(segments, sample, f, n_bins, observer)
        for f, observer in zip(predictions, observers, strict=True)
    ]
    clusters = None
    if sample.cluster is not None:
        clusters = sum_clusters(
            segments,
            sample,
            lambda rows: [sample.y[rows] - f[rows] for f in predictions],
            len(predictions),
        )
    shares = [overlaps(segments, sample, f) for f in predictions]
    nesting = find_nesting(segments, shares[0])
    noises = [find_noise(own, sample, clusters, side, nesting) for side, own in enumerate(sums)]
    laws = [
        _largest_score(segments, sample, f, own, noise, shared)
        for f, own, noise, shared in zip(predictions, sums, noises, shares, strict=True)
    ]
    scaled = [
        measure(own, sample, noise, law, alpha)
        for own, noise, law in zip(sums, noises, laws, strict=True)
    ]
    changes = {}
    if len(predictions) == 2:
        compared = compare(segments, sample, predictions, sums[0], scaled)
        changes = {
            name: (_unit(labels, name) * value, _unit(labels, name) * error)
            for name, (value, error) in compared.items()
        }
    sides = tuple(
        _Side(
            _in_units(found, labels),
            _draw_curves(own, sample, noise, alpha, labels.unscale),
            tuple(_edges_in_units(own.bins.edges, labels).tolist()),
            sample.decompose(f, own.bins.order),
        )
        for f, own, noise, found in zip(predictions, sums, noises, scaled, strict=True)
    )
    rows, share = _sizes(sums[0])
    count = rows if clusters is None else clusters.count
    critical = laws[0].critical(alpha)
    return Findings(segments, rows, count, share, critical, sides, tuple(sums), changes)


def _largest_score(
    segments: Segments,
    sample: Sample,
    f: Float64,
    sums: Sums,
    noise: Noise,
    shared: Float64 | None,
) -> LargestScore:
    """What limits, verdict and adjusted p-values of all groups at once rely on."""
    told = tellable(noise)
    count = max(int(told.sum()), 1)
    if count > 1 and sample.binary and sample.cluster is None:
        largest = draw_largest(segments, sample, f, sums)
        if largest is not None:
            return LargestScore.of_draws(largest, count)
    correlation = correlate(segments, sample, f, shared) if count > 1 else None
    if correlation is not None:
        correlation = correlation[told][:, told]
    return LargestScore.correlated(correlation, count)


def _sizes(sums: Sums) -> tuple[NDArray[np.int64], Float64]:
    total = sums.total
    return total[:, ROWS].astype(np.int64), total[:, WEIGHT] / total[0, WEIGHT]


def _unit(labels: Labels, name: str) -> float:
    return float((labels.high - labels.low) ** _POWERS[name])


def _in_units(found: dict[str, Float64], labels: Labels) -> dict[str, Float64]:
    """Measures of labels in [0, 1] as those of the labels that the user gave."""
    means = ("mean_prediction", "mean_outcome")
    out = {name: labels.unscale(found[name]) for name in means} | {"off": found["off"]}
    out |= {name: _unit(labels, name) * found[name] for name in _POWERS}
    return out | _ratios(out, labels)


def _ratios(found: dict[str, Float64], labels: Labels) -> dict[str, Float64]:
    """Outcomes over what was predicted, where neither can be negative.

    For the predictions of these rows, so that limits of gaps are limits of ratios.
    """
    mean = found["mean_prediction"]
    positive = (mean > 0.0) & (labels.low >= 0.0)
    expected = np.where(positive, mean, np.nan)
    low, high = (1.0 + found[side] / expected for side in ("low", "high"))
    return {
        "ratio": found["mean_outcome"] / expected,
        "ratio_low": np.maximum(low, 0.0),
        "ratio_high": high,
    }


def _edges_in_units(edges: Float64, labels: Labels) -> Float64:
    """The smallest numbers that are scaled to an edge or above: they cut as the edges do."""
    slack = 8.0 * np.finfo(np.float64).eps * (abs(labels.low) + abs(labels.high))
    low, high = (labels.unscale(edges) + side for side in (-slack, slack))
    for _ in range(_FLOATS):
        middle = low + 0.5 * (high - low)
        reached = labels.scale(middle) >= edges
        inside = (middle > low) & (middle < high)
        low = np.where(inside & ~reached, middle, low)
        high = np.where(inside & reached, middle, high)
    return np.asarray(high)


def _calibration(side: _Side, g: int) -> Calibration:
    numbers = {
        name: float(side.measures[name][g]) for name in ("mean_prediction", *_RATIOS, *_POWERS)
    }
    return Calibration(**numbers, off=bool(side.measures["off"][g]), curve=side.curves[g])
