"""From sums to measures: everything that is said about a group, for one set of predictions.

All numbers are on the scale of labels in [0, 1]; arrays have one entry per group.
"""

from __future__ import annotations

import numpy as np

from recalibrate.auditing.measure.limits import detectable, judge
from recalibrate.auditing.measure.noise import Noise, sum_variance
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.simultaneous import LargestScore, holm
from recalibrate.auditing.measure.slopes import calibration_slopes
from recalibrate.auditing.measure.sweep import LOSS, R2, W2, W2V, WEIGHT, F, R, Sums
from recalibrate.data.vectors import Float64
from recalibrate.metrics import Excursion, absolute_mean, ratio


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
    found |= calibration_slopes(sums, sample, noise, alpha)
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
