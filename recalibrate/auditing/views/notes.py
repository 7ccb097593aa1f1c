"""How the numbers of a report are computed, in words that travel with it."""

from __future__ import annotations

from recalibrate.auditing.records import Note


def method_notes(
    kind: str,
    *,
    n_bins: int,
    alpha: float,
    n_groups: int,
    clustered: bool,
    paired: bool,
    weighted: bool,
    left_out: int,
    thresholds: bool,
    losses: tuple[str, ...],
    exposed: bool,
) -> tuple[Note, ...]:
    """Notes on everything that the report holds."""
    sure = f"{100 * (1 - alpha):.4g} %"
    notes = [
        _policy(clustered, left_out),
        _choice(kind, clustered, weighted, n_groups),
        *_gaps(kind, sure, n_groups, clustered),
        _decomposition(losses),
        *_errors(n_bins, sure),
    ]
    if exposed:
        notes.append(_EXPOSURE)
    if kind == "binary" or thresholds:
        notes.append(_rates(kind, sure, clustered, weighted))
    if clustered:
        notes.append(_CLUSTERS)
    if paired:
        notes.append(_DIFFERENCES)
    return tuple(notes)


_EXPOSURE = Note(
    "Exposure",
    "Labels are totals over an exposure, predictions are rates. Outcomes are the rates y / "
    "exposure, and a row counts as often as it has exposure.",
)
_CLUSTERS = Note(
    "Clusters",
    "Rows of a cluster may depend on each other: variances are those of cluster sums, with as many "
    "degrees of freedom as clusters less one.",
)
_DIFFERENCES = Note(
    "Differences",
    "After minus before on the same rows, for means over rows only: their standard errors are "
    "those of the rows' (or clusters') differences. For ECE, K1, K2, Kinf and ECCE noise decides "
    "signs and extremes, and no standard error of a difference holds, so none is given.",
)


def _decomposition(losses: tuple[str, ...]) -> Note:
    return Note(
        "Score decomposition",
        f"The mean {' and the mean '.join(losses)} of all rows, taken apart: miscalibration is "
        "what an isotonic regression of the outcomes on the predictions would gain, discrimination "
        "how much better that is than the mean outcome for everybody, and uncertainty the score of "
        "that mean. On few rows the isotonic regression follows noise, which counts as "
        "miscalibration.",
        "score = miscalibration - discrimination + uncertainty",
    )


def _gaps(kind: str, sure: str, n_groups: int, clustered: bool) -> list[Note]:
    """On the mean residuals of groups."""
    return [
        Note(
            "Gap",
            "Mean outcome minus mean prediction of a group, weighted. Positive: the group is "
            "under-predicted.",
            "gap = sum_i w_i (y_i - f_i) / sum_i w_i",
        ),
        _limits(kind, sure, n_groups, clustered),
        Note(
            "Observed / expected",
            "Mean outcome over mean prediction, where labels cannot be negative. The predictions "
            "of these rows count as given, so that its limits are those of the gap.",
            "O/E = 1 + gap / mean prediction",
        ),
        _OFF,
        _SLOPE,
        Note(
            "Detectable gap",
            "The gap nearest to zero that would be called off in 80 of 100 samples of this size, "
            "if the log-odds of all rows of the group are shifted alike (numbers: if the outcomes "
            "are); of either sign, and the larger of the two. None where no possible gap would be "
            "found so often. A smaller true gap may well exist.",
        ),
        Note(
            "p-values",
            "Of gaps: of each group by itself, and adjusted for all groups as their limits are. Of "
            "the ECCE: adjusted by Holm's method, which holds however groups overlap.",
        ),
    ]


def _errors(n_bins: int, sure: str) -> list[Note]:
    """On errors beyond the mean."""
    return [
        Note(
            "ECE",
            f"In {n_bins} bins of equal width. Noise makes it positive even for a perfect model; "
            "the debiased one takes the sign of a bin from one half of its rows and the mean from "
            "the other, averaged over all halves, and is zero on average under calibration. Where "
            "it comes out negative, tables for readers show 0; full_table and JSON have it as it "
            "is.",
            "ECE = sum_b P(b) |mean residual of b|;  debiased: sum_b P(b) s_b (z (2 Phi(z) - 1) "
            "- 2 phi(z)), z = mean residual / s_b",
        ),
        Note(
            "K1, K2, Kinf",
            f"Errors on level sets, here {n_bins} quantile bins of the predictions of all rows "
            "(their edges are in the report). Within the group: weighted by the group's own "
            "mass. By mass: with the group's indicator as h over all rows, so that small groups "
            "count little. MSCE is K2 over all rows. With the bias removed, K2 and MSCE can come "
            "out negative near perfect calibration, and are then shown as 0.",
            "K2(f, h) = sum_b P(b) (E[h (y - f) | b])^2;  within g: sum_b P(b|g) "
            "(E[y - f | b, g])^2",
        ),
        Note(
            "ECCE",
            "Residuals are added up in the order of predictions; the range of these sums needs no "
            "bins. In sigmas it is divided by its standard deviation under calibration; its "
            "p-value is that of the range of Brownian motion, corrected for the skewness of rare "
            "outcomes. The multicalibration error is the most sigmas of any "
            "group, times the standard deviation of the ECCE of all rows.",
            "ECCE = (max_k S_k - min_k S_k) / sum_i w_i, S_k = sum_(i <= k) w_i (y_i - f_i)",
        ),
        Note(
            "Reliability curves",
            f"On the same quantile bins; a curve's band covers all of its bins with {sure} "
            "confidence.",
        ),
    ]


def _policy(clustered: bool, left_out: int) -> Note:
    unit = "clusters" if clustered else "rows (of equal weight)"
    text = (
        "No group is dropped in silence. A group with fewer rows than the audit was asked to look "
        "at (min_rows) is named with its number of rows and not judged"
    )
    text += f": {left_out} here. " if left_out else "; there is none here. "
    text += (
        f"A group with fewer than five {unit} is listed with its means, without limits: nothing "
        "can be concluded about it. For every other group the smallest gap that this audit could "
        "have found is stated beside the result. That a group is not found to be off does not show "
        "that it is free of error; it shows that an error larger than the limits is unlikely."
    )
    return Note("Small groups", text)


def _choice(kind: str, clustered: bool, weighted: bool, n_groups: int) -> Note:
    """Which method was used, and why."""
    if kind == "binary" and not clustered:
        text = (
            "Outcomes are 0 or 1, so that probabilities say how much they vary. These are the "
            "predictions on the calibration line of all rows (a logistic regression of outcomes on "
            "the log-odds of predictions), because an over-confident model understates how much "
            "outcomes vary."
        )
    elif kind == "binary":
        text = (
            "Outcomes are 0 or 1 and rows of the same person or household (cluster) may depend on "
            "each other, which makes the usual limits too narrow. Tests and limits therefore use "
            "how the sums of whole clusters vary."
        )
    else:
        text = (
            "Outcomes are numbers, whose noise no prediction states: it is estimated from the "
            "residuals, those of the group and those of all rows with similar predictions, because "
            "small groups show too little of a skewed distribution."
        )
    if n_groups > 1:
        text += (
            f" {n_groups} groups are looked at, and with one test each some would look wrong by "
            "chance alone. Tests, limits and p-values are therefore for all groups at once."
        )
    if weighted:
        text += (
            " Rows have different weights: a group counts as having as many rows as would be as "
            "precise with equal weights."
        )
    return Note("Method, and why this one", text)


def _rates(kind: str, sure: str, clustered: bool, weighted: bool) -> Note:
    text = (
        "Shares of rows, with the exact limits of Clopper and Pearson; for each rate the limits of "
        f"all groups hold at once with {sure} confidence (Sidak). "
    )
    if clustered or weighted:
        text += (
            "Because of weights or clusters, the number of rows is replaced by the effective "
            "number (Korn and Graubard). "
        )
    text += (
        "Differences and ratios compare a group with its reference group; their limits are put "
        "together from those of both (MOVER), as if the two shared no rows, which makes them wider "
        "where they do. "
    )
    if kind == "binary":
        text += (
            "Limits of the AUC are those of a score test with the variance of DeLong and others."
        )
    formula = "impact ratio = selection rate of the group / selection rate of the reference"
    return Note("Rates of decisions", text.strip(), formula)


def _limits(kind: str, sure: str, n_groups: int, clustered: bool) -> Note:
    text = (
        f"Where the gaps lie: with {sure} confidence the limits of all {n_groups} groups hold at "
        "once, whether the predictions are right or not. The critical value is a quantile of the "
        "groups' largest score: of labels drawn again and again with those probabilities where "
        "outcomes are 0 or 1 and rows are not too many, else of correlated normal scores, the "
        "limit of a multiplier bootstrap."
        if n_groups > 1
        else f"Where the gap lies, with {sure} confidence, be the predictions right or not."
    )
    if kind == "binary" and not clustered:
        text += (
            " They are those of the likelihood of a common shift of a group's log-odds (modified "
            "signed root) away from a gap of zero, scaled by how much more the residuals vary than "
            "that explains; on the side away from zero at least as wide as those of the residuals' "
            "own standard error."
        )
        formula = "r* = r + log(u / r) / r"
    else:
        text += (
            " Two limits are computed, and the wider ones count: Student's t of the group's own "
            "residuals, and those of the noise of all rows in the same bins of predictions, which "
            "counts like 20 rows of the group and more where tails are heavy; fewer where groups "
            "of the same column clearly differ in their noise, and the noise of groups that a "
            "group is part of counts before that of all rows. Both are corrected for skewness."
        )
        formula = "gap +- t * standard error"
    text += (
        f" Fewer than five {'clusters' if clustered else 'rows (of equal weight)'} say too little "
        "about a group: it is listed, without limits."
    )
    return Note("Limits of gaps", text, formula)


_OFF = Note(
    "Off by more than noise",
    "A group is called off if its limits exclude a gap of zero. Its adjusted p-value is the "
    "smallest alpha at which they would, so that limits, verdict, p-value and check(alpha=) agree.",
)
_SLOPE = Note(
    "Calibration slope",
    "Whether predictions that are right on average are too high where they are high and too low "
    "where they are low. The slope of the outcomes on the predictions within a group, on the scale "
    "of log-odds for 0/1 outcomes: below 1 the predictions are too extreme, above 1 too moderate. "
    "Limits hold for all groups at once (Sidak); they are a statement of their own beside that "
    "about gaps. Groups with fewer than 20 outcomes of either kind (50 rows, where outcomes are "
    "numbers) have none.",
    "logit P(y = 1) = a + slope * logit(f), or E[y] = a + slope * f",
)
