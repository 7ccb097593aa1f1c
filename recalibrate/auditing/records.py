"""What an audit found, as plain frozen records: the views (table, JSON, plots, HTML) only read.

Numbers are in the units of the label. NaN means that the rows cannot tell (the limits of a single
row, the log loss of a regression); JSON says null there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recalibrate.metrics.deviances import Decomposition


@dataclass(frozen=True)
class Curve:
    """Reliability curve: mean outcome against mean prediction, by bin of the prediction.

    Attributes
    ----------
    prediction, outcome : tuple of float
        Means of the bins, in ascending order of prediction; bins without weight are left out.
    low, high : tuple of float
        Band around the outcomes that holds in all bins of this curve at once.
    rows : tuple of int
        Rows of every bin.
    share : tuple of float
        Share of the group's weight.
    """

    prediction: tuple[float, ...]
    outcome: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    rows: tuple[int, ...]
    share: tuple[float, ...]


@dataclass(frozen=True)
class Calibration:
    """How one set of predictions does on one group.

    Attributes
    ----------
    mean_prediction : float
    gap : float
        Mean outcome minus mean prediction: positive when the group is under-predicted.
    gap_se : float
        Its standard error, from the residuals; by cluster where clusters are given.
    low, high : float
        Limits of the gap, valid for all groups of the report at once, whatever the predictions
        are worth; NaN with fewer than five rows (of equal weight) or clusters, and where fewer
        than five labels of the report (other than 0/1) are above the smallest one.
    p, p_holm : float
        Of the hypothesis that the gap is zero; by itself, and adjusted for all groups. The latter
        is the inverse of the limits: the smallest alpha at which they exclude zero. (Its name
        is that of Holm's adjustment, which it replaced.)
    detectable : float
        Size of a gap that would be called off in 80 of 100 samples, whatever its sign (or of
        the one sign that can be; NaN if none can).
    detectable_low, detectable_high : float
        The same by sign: the gap of over-prediction nearest to zero, and of under-prediction;
        NaN where no possible gap would be found so often.
    slope, slope_low, slope_high : float
        Calibration slope within the group, with limits for all groups at once: below 1 the
        predictions are too extreme (over-confident), above 1 too moderate. Of the log-odds for
        0/1 labels. NaN where there are too few rows (20 of either label, else 50), or where all
        predictions are equal.
    ratio, ratio_low, ratio_high : float
        Mean outcome over mean prediction (observed / expected), and its limits for the
        predictions of these rows, valid for all groups at once; NaN where labels may be negative.
    mse, log_loss, deviance : float
        Mean squared error (Brier score for 0/1 labels), mean log loss (NaN for regression), and
        mean deviance (NaN unless the loss of the report is one).
    ece, ece_debiased : float
        Expected calibration error in equal-width bins, as it is and with the bias of small
        samples removed; the latter can be negative near perfect calibration.
    k1, k2, kinf : float
        Errors of the level sets within the group, on the quantile bins of the report.
    k2_unbiased : float
        k2 with the bias of small samples removed; can be negative.
    k1_mass, k2_mass, kinf_mass : float
        The same for the group's indicator as h, weighted by mass over all rows.
    ecce, ecce_sigma : float
        Range of the cumulated residuals in the order of predictions, per weight of the group;
        and divided by its standard deviation under calibration.
    ecce_p, ecce_p_holm : float
        Its p-value, by itself and adjusted for all groups (Holm).
    off : bool
        Whether the gap is more than noise: its limits exclude zero.
    curve : Curve
    """

    mean_prediction: float
    gap: float
    gap_se: float
    low: float
    high: float
    p: float
    p_holm: float
    detectable: float
    detectable_low: float
    detectable_high: float
    slope: float
    slope_low: float
    slope_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    mse: float
    log_loss: float
    deviance: float
    ece: float
    ece_debiased: float
    k1: float
    k2: float
    kinf: float
    k2_unbiased: float
    k1_mass: float
    k2_mass: float
    kinf_mass: float
    ecce: float
    ecce_sigma: float
    ecce_p: float
    ecce_p_holm: float
    off: bool
    curve: Curve = field(repr=False)


@dataclass(frozen=True)
class Difference:
    """A measure after minus before on the same rows, and the standard error of that."""

    measure: str
    value: float
    se: float


@dataclass(frozen=True)
class GroupAudit:
    """One group.

    Attributes
    ----------
    name : str
        "all" is everybody, the first group of every report.
    term, parts : str, tuple of str
        The column, crossing or condition that it is one of the groups of, and the names of what
        it is the intersection of: two or more for an intersection.
    rows, clusters : int
        Rows, and clusters with rows in the group (as many as rows without clusters); those of
        weight zero do not count.
    effective_rows : float
        Rows of equal weight that would tell as much: (sum of weights)^2 / sum of squared weights.
    share : float
        Share of the total weight.
    mean_outcome : float
    after : Calibration
        Of the audited predictions.
    before : Calibration or None
        Of the baseline.
    differences : tuple of Difference
        After minus before, per measure; empty without a baseline.
    """

    name: str
    rows: int
    clusters: int
    share: float
    mean_outcome: float
    after: Calibration
    before: Calibration | None = None
    differences: tuple[Difference, ...] = ()
    term: str = ""
    parts: tuple[str, ...] = ()
    effective_rows: float = float("nan")


@dataclass(frozen=True)
class Overall:
    """One set of predictions over all rows and groups.

    Attributes
    ----------
    mse, log_loss, deviance : float
        Mean squared error (Brier score for 0/1 labels), mean log loss (NaN for regression), and
        mean deviance (NaN unless the loss of the report is one).
    decompositions : tuple of Decomposition
        What mean losses consist of: miscalibration, discrimination, uncertainty.
    msce, msce_unbiased : float
        Mean squared calibration error on the quantile bins of the report, as it is and with the
        bias of small samples removed.
    multicalibration_error : float
        ECCE of the worst group, the one with the most sigmas, on the scale of all rows: its
        sigmas times the standard deviation of the ECCE of all rows (Guy et al. 2025), so that
        the noise of small groups does not count as error.
    mce_sigma, mce_p : float
        The same in standard deviations under calibration (sigmas), and the smallest Holm-adjusted
        p-value of all groups' ECCE.
    worst_group, worst_ecce : str, float
        Name of the worst group and its own ECCE.
    n_off : int
        Groups whose gap is more than noise.
    largest_gap, largest_gap_group : float, str
        The largest gap of these and whose it is; NaN and empty if there is none.
    """

    mse: float
    log_loss: float
    deviance: float
    decompositions: tuple[Decomposition, ...]
    msce: float
    msce_unbiased: float
    multicalibration_error: float
    mce_sigma: float
    mce_p: float
    worst_group: str
    worst_ecce: float
    n_off: int
    largest_gap: float
    largest_gap_group: str


@dataclass(frozen=True)
class LeftOut:
    """A group about which nothing can be said, why, and its rows."""

    name: str
    why: str
    rows: int


@dataclass(frozen=True)
class Coverage:
    """Which rows are in the groups of one column, crossing or condition.

    Attributes
    ----------
    term : str
        The column, crossing or condition.
    rows : int
        Rows in the groups that are audited; of a column, rows without a value are one of them.
    missing : int
        Rows without a value in the column, or in one of them.
    left_out : int
        Rows in groups that are left out for their size.
    outside : int
        Rows in no group, because a condition does not hold (or cannot be told) for them.
    """

    term: str
    rows: int
    missing: int
    left_out: int
    outside: int


@dataclass(frozen=True)
class Note:
    """How a number was computed: a title, the words, and a formula in plain text (or empty)."""

    title: str
    text: str
    formula: str = ""


@dataclass(frozen=True)
class Audited:
    """What was audited: enough to tell whether a report is about this model and these rows.

    Attributes
    ----------
    what, baseline : str
        The predictions and those that they are compared with, in a few words; empty without.
    version : str
        Of this library.
    date : str
        Day of the audit (UTC), or that of SOURCE_DATE_EPOCH where it is set.
    data : str
        Fingerprint of the audited rows: labels, weights and what the groups read. The same for
        the same rows, whatever their order.
    predictions : str
        Fingerprint of these rows with their predictions.
    model : str or None
        Fingerprint of a recalibrated model (``model.fingerprint_``); None for other predictions.
    base, base_fingerprint : str or None
        Kind of its base model, and the fingerprint of that.
    H : str or None
        The class that it was fitted for.
    fitted_rows, fitted_data, fitted_date, fitted_version, seed
        Calibration rows of the model, their fingerprint, and when and how it was fitted.
    """

    what: str
    baseline: str
    version: str
    date: str
    data: str
    predictions: str
    model: str | None = None
    base: str | None = None
    base_fingerprint: str | None = None
    H: str | None = None
    fitted_rows: int | None = None
    fitted_data: str | None = None
    fitted_date: str | None = None
    fitted_version: str | None = None
    seed: int | None = None
