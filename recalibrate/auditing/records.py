"""What an audit found, as plain frozen records: the views (table, JSON, plots, HTML) only read.

Numbers are in the units of the label. NaN means that the rows cannot tell (the limits of a single
row, the log loss of a regression); JSON says null there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from recalibrate.metrics import Decomposition

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


# --- Records of what groups' decisions and rankings are like; see ``records`` -------------------


TITLES = {
    "selection_rate": "selection rate",
    "tpr": "true positive rate (TPR)",
    "fpr": "false positive rate (FPR)",
    "ppv": "precision (PPV)",
    "auc": "AUC",
}
MEANINGS = {
    "selection_rate": "share of the group with a prediction of at least the threshold",
    "tpr": "share selected of the rows whose outcome is 1",
    "fpr": "share selected of the rows whose outcome is 0",
    "ppv": "share of the selected rows whose outcome is 1",
    "auc": "chance that a row of outcome 1 has a higher prediction than a row of outcome 0",
}


WIDEST_NAMED = 0.3
"""Widest limits of a group that a headline names. With ten groups it takes about 45 rows of either
outcome for an AUC of .7, 90 rows for a share of a half and 17 for one of zero; rows of unequal
weight or in clusters count as the limits say. Without it the lowest rate is often that of the
smallest group: with 12 rows an AUC has a standard error of .15."""


@dataclass(frozen=True)
class Estimate:
    """A rate of one group, and how it compares with that of the reference group.

    Attributes
    ----------
    value, low, high : float
        The rate and its limits in [0, 1], which hold for all groups at once.
    rows : int
        Rows that it is a share of (of an AUC: all rows of the group).
    difference, difference_low, difference_high : float
        The rate minus that of the reference group.
    ratio, ratio_low, ratio_high : float
        The rate divided by that of the reference group; of selection rates the impact ratio.
        The upper limit is NaN where the reference's rate may be zero.
    """

    value: float
    low: float
    high: float
    rows: int
    difference: float
    difference_low: float
    difference_high: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def precise(self) -> bool:
        """Whether the group's rows are enough for a headline: limits of at most 0.3 apart."""
        return self.high - self.low <= WIDEST_NAMED


@dataclass(frozen=True)
class Rate:
    """One rate of one group.

    Attributes
    ----------
    measure : {"selection_rate", "tpr", "fpr", "ppv", "auc"}
    threshold : float or None
        A decision is positive where the prediction is at least that; None for the AUC.
    group, reference : str
        Names of the group and of the one that it is compared with.
    after, before : Estimate
        Of the audited predictions, and of the baseline (None without).
    """

    measure: str
    threshold: float | None
    group: str
    reference: str
    after: Estimate
    before: Estimate | None = None


@dataclass(frozen=True)
class Rates:
    """Rates of all groups: decisions at thresholds, and the ranking of rows.

    Attributes
    ----------
    rates : tuple of Rate
        By measure and threshold, then by group in the order of the report.
    thresholds : tuple of float
    alpha : float
        For each rate and threshold, the limits of all groups hold at once with probability
        1 - alpha. They do not hold for all rates and thresholds together.
    """

    rates: tuple[Rate, ...]
    thresholds: tuple[float, ...]
    alpha: float

    @property
    def table(self) -> pd.DataFrame:
        """One row per rate and group; numbers of the baseline are called before_value and so on."""
        import pandas as pd

        names = [each.name for each in fields(Estimate)]
        rows: list[dict[str, Any]] = []
        for rate in self.rates:
            row: dict[str, Any] = {
                "measure": rate.measure,
                "threshold": rate.threshold,
                "group": rate.group,
                "reference": rate.reference,
            }
            row |= {name: getattr(rate.after, name) for name in names}
            if rate.before is not None:
                row |= {f"before_{name}": getattr(rate.before, name) for name in names}
            rows.append(row)
        return pd.DataFrame(rows)

    def of(self, measure: str, threshold: float | None = None) -> tuple[Rate, ...]:
        """One rate of all groups; empty where the labels do not have it."""
        return tuple(
            each for each in self.rates if (each.measure, each.threshold) == (measure, threshold)
        )

    def __str__(self) -> str:
        lines = [
            line
            for threshold in self.thresholds
            for line in _extremes(self.of("selection_rate", threshold))
        ]
        return "\n".join([*lines, *_extremes(self.of("auc"))])


def _extremes(rates: tuple[Rate, ...]) -> list[str]:
    """The rate of all rows, and the group that is farthest below its reference.

    Only groups with `Estimate.precise` limits are named.
    """
    if not rates:
        return []
    everybody, *groups = rates
    at = "" if everybody.threshold is None else f" at {everybody.threshold:g}"
    line = f"{TITLES[everybody.measure]}{at}: {everybody.after.value:.3f} over all rows"
    against = "difference" if everybody.measure == "auc" else "ratio"
    known = [
        each
        for each in groups
        if each.after.precise
        and each.group != each.reference
        and not math.isnan(getattr(each.after, against))
    ]
    if known:
        least = min(known, key=lambda each: getattr(each.after, against))
        own = least.after
        line += f"; lowest against its reference: {own.value:.3f} ({own.low:.3f} to {own.high:.3f})"
        line += f" for {least.group}, {_compared(own, against).format(least.reference)}"
    return [line]


def _compared(own: Estimate, against: str) -> str:
    """The comparison with a reference in words, whose name is still to be filled in."""
    if against == "difference":
        limits = f"{own.difference_low:+.3f} to {own.difference_high:+.3f}"
        return f"{own.difference:+.3f} from that of {{}} ({limits})"
    if math.isnan(own.ratio_low):
        return f"{own.ratio:.2f} times that of {{}}"
    upper = "no upper limit" if math.isnan(own.ratio_high) else f"{own.ratio_high:.2f}"
    return f"{own.ratio:.2f} times that of {{}} ({own.ratio_low:.2f} to {upper})"


# --- Records of what an audit found beyond the groups it was given; see ``records`` -------------


MOST_NAMED = 3
"""Groups that a sentence names."""


@dataclass(frozen=True)
class Subgroup:
    """A subgroup on which the predictions are wrong.

    Attributes
    ----------
    rule : str
        In words, for readers: ``age <= 25 and sex == 'F' and score in [0.2, 0.4)``.
    expression : str
        Its conditions on columns, all of them, as `Groups` takes them; empty where there are
        none, or where the rule is one of the groups that were searched.
    score_low, score_high : float or None
        Predictions it is about, from (included) and to (excluded); None where it has no limit.
    rows : int
        Rows of the subgroup, over both halves.
    share : float
        Share of the total weight.
    tested_rows : int
        Rows in the half that tested it, which the numbers below come from.
    mean_prediction, mean_outcome, gap, gap_se : float
        On that half; gap is outcome minus prediction.
    corrected_gap, low, high : float
        The gap without what being chosen for its size adds to it, and limits of the true gap.
    p, p_holm : float
        Two-sided, by itself and adjusted for all candidates (weighted Holm).
    """

    rule: str
    expression: str
    score_low: float | None
    score_high: float | None
    rows: int
    share: float
    tested_rows: int
    mean_prediction: float
    mean_outcome: float
    gap: float
    gap_se: float
    corrected_gap: float
    low: float
    high: float
    p: float
    p_holm: float

    def __str__(self) -> str:
        p = "< 0.0001" if self.p_holm < 1e-4 else f"= {self.p_holm:.2g}"
        return (
            f"{self.rule}: predicted {self.mean_prediction:.3g}, observed "
            f"{self.mean_outcome:.3g} (gap {self.gap:+.2g}; "
            f"corrected for the search {self.corrected_gap:+.2g}, {self.low:+.2g} to "
            f"{self.high:+.2g}), n = {self.rows:,}, adjusted p {p}"
        )


@dataclass(frozen=True)
class Discoveries:
    """Where the predictions are wrong, found on half of the rows and tested on the others.

    Attributes
    ----------
    subgroups : tuple of Subgroup
        Most evidence first; each is still off when those before it are put right.
    candidates : int
        Rules that were tested.
    merged : int
        Rules that are off too, but say no more than the subgroups.
    searched_rows, tested_rows : int
        Rows of the two halves; they change places, so that each suggests rules to the other.
    alpha : float
        Chance that anything is reported although the predictions are right everywhere.
    note : str
        Why nothing could be searched, if so.
    """

    subgroups: tuple[Subgroup, ...]
    candidates: int
    merged: int
    searched_rows: int
    tested_rows: int
    alpha: float
    note: str = ""

    @property
    def table(self) -> pd.DataFrame:
        """One row per subgroup."""
        return _frame(self.subgroups, Subgroup)

    def __str__(self) -> str:
        if self.note:
            return self.note
        head = (
            f"Searched {self.searched_rows:,} and {self.tested_rows:,} rows, tested "
            f"{self.candidates} candidates on the respective others at level {self.alpha:g}"
        )
        if not self.subgroups:
            return f"{head}: no subgroup is off by more than noise"
        return "\n".join([f"{head}:", *(f"  {each}" for each in self.subgroups)])


@dataclass(frozen=True)
class LevelGain:
    """What a class of functions gains on one level set, on rows it was not fitted on.

    Attributes
    ----------
    low, high : float or None
        Predictions of the level set, from (included) and to (excluded).
    rows : int
    share : float
        Share of the total weight.
    gain, gain_se : float
        Mean fall of the squared error against the predictions.
    constant_gain, constant_gain_se : float
        What the level set's best constant alone gains: plain miscalibration.
    """

    low: float | None
    high: float | None
    rows: int
    share: float
    gain: float
    gain_se: float
    constant_gain: float
    constant_gain_se: float


@dataclass(frozen=True)
class ClassGain:
    """What a class of functions gains on the level sets of the predictions, held out.

    Attributes
    ----------
    role : str
        "H" or "richer".
    described : str
        The class.
    step : float
        Share of the fitted functions of every level set that the gain is for, chosen on other
        rows: near 0 where the class finds nothing but noise.
    gain, gain_se : float
        Mean fall of the squared error against the predictions, over all rows.
    covariance, covariance_se : float
        Mean of h(x) (y - f(x)), with the witness h: what multicalibration says is zero.
    beats : bool
        Whether that is more than noise: more than three standard errors.
    levels : tuple of LevelGain
    witness : ndarray of float64, shape (n,)
        h of every row, fitted on other rows and in the unit of the labels; NaN for rows of weight
        zero. Not part of the JSON.
    """

    role: str
    described: str
    step: float
    gain: float
    gain_se: float
    covariance: float
    covariance_se: float
    beats: bool
    levels: tuple[LevelGain, ...]
    witness: NDArray[np.float64] = field(repr=False, compare=False, metadata={"json": False})


@dataclass(frozen=True)
class Richness:
    """The weak-learning check: what H, or a richer class, still finds on the level sets.

    Attributes
    ----------
    mse : float
        Mean squared error of the predictions, which the gains compare with.
    constant_gain, constant_gain_se : float
        What a constant per level set gains, held out: plain miscalibration.
    H : ClassGain
    richer : ClassGain or None
    verdict : str
        In a sentence.
    """

    mse: float
    constant_gain: float
    constant_gain_se: float
    H: ClassGain
    richer: ClassGain | None
    verdict: str

    def beside(self, groups: Sequence[str]) -> Richness:
        """The same beside groups that are off by more than noise: the verdict mentions them."""
        if self.H.beats or not groups:
            return self
        named = ", ".join(groups[:MOST_NAMED])
        more = f" and {len(groups) - MOST_NAMED} more" if len(groups) > MOST_NAMED else ""
        said = (
            f"{self.verdict} But groups of the audit are off by more than noise ({named}{more}), "
            "which tells more than a search that has to find them: multicalibrate for them, too."
        )
        return replace(self, verdict=said)

    @property
    def classes(self) -> tuple[ClassGain, ...]:
        """H, and the richer class if there is one."""
        return (self.H,) if self.richer is None else (self.H, self.richer)

    @property
    def table(self) -> pd.DataFrame:
        """One row per class and level set."""
        import pandas as pd

        rows = [
            {"class": each.role, "described": each.described, **asdict(level)}
            for each in self.classes
            for level in each.levels
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        lines = [self.verdict, f"  squared error       {self.mse:.6g}"]
        lines.append(
            f"  constants gain      {_with_error(self.constant_gain, self.constant_gain_se)}"
        )
        for each in self.classes:
            what = f"{each.role} ({each.described})"
            lines.append(f"  {what} gains {_with_error(each.gain, each.gain_se)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class MovedRow:
    """A row whose prediction changed a lot; rows are numbered from 0."""

    row: int
    before: float
    after: float
    shift: float
    outcome: float | None


@dataclass(frozen=True)
class Flips:
    """Decisions of a group at a threshold (positive where the prediction is at least that).

    Attributes
    ----------
    group : str
    threshold : float
    rows : int
    positive_before, positive_after : float
        Share of the group's weight with a positive decision.
    up, down : int
        Rows that became positive, and that no longer are.
    up_share, down_share : float
        Their shares of the group's weight.
    """

    group: str
    threshold: float
    rows: int
    positive_before: float
    positive_after: float
    up: int
    down: int
    up_share: float
    down_share: float


@dataclass(frozen=True)
class Changes:
    """What is different between two sets of predictions for the same rows.

    Attributes
    ----------
    changed_share : float
        Share of the weight whose prediction differs at all.
    mean_shift, mean_absolute_shift, largest_shift : float
        Of after minus before; the last in size.
    rank_correlation : float
        Spearman's, weighted; NaN where one of the two is constant.
    auc_before, auc_after : float
        Weighted area under the ROC curve; NaN unless labels are 0/1 and both occur.
    rows : tuple of MovedRow
        The largest changes, largest first.
    flips : tuple of Flips
        By threshold and group.
    """

    changed_share: float
    mean_shift: float
    mean_absolute_shift: float
    largest_shift: float
    rank_correlation: float
    auc_before: float
    auc_after: float
    rows: tuple[MovedRow, ...]
    flips: tuple[Flips, ...]

    @property
    def table(self) -> pd.DataFrame:
        """Flipped decisions, one row per threshold and group."""
        return _frame(self.flips, Flips)

    @property
    def rows_table(self) -> pd.DataFrame:
        """The largest changes, one row each."""
        return _frame(self.rows, MovedRow)

    def __str__(self) -> str:
        lines = [
            f"{self.changed_share:.1%} of the predictions changed, by "
            f"{self.mean_absolute_shift:.3g} on average and {self.largest_shift:.3g} at most; "
            "rank correlation "
            f"{self.rank_correlation:.4f}"
        ]
        if self.auc_before == self.auc_before:
            lines.append(f"AUC {self.auc_before:.4f} -> {self.auc_after:.4f}")
        for each in self.flips:
            lines.append(
                f"at {each.threshold:g}, {each.group}: {each.up:,} of {each.rows:,} decisions "
                f"became positive, {each.down:,} negative"
            )
        return "\n".join(lines)


def _frame(records: Sequence[Any], kind: Any) -> pd.DataFrame:
    """Records as a frame; its columns are there also when no record is."""
    import pandas as pd

    names = list(kind.__dataclass_fields__)
    return pd.DataFrame([asdict(each) for each in records], columns=names)


def _with_error(value: float, error: float) -> str:
    return f"{value:.3g} (standard error {error:.2g})"


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
