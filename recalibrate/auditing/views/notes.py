"""How the numbers of a report are computed, in words that travel with it."""

from __future__ import annotations

from recalibrate.auditing.records import Note


def method_notes(
    kind: str, *, n_bins: int, alpha: float, n_groups: int, clustered: bool, paired: bool
) -> tuple[Note, ...]:
    """Notes on everything that the report holds."""
    sure = f"{100 * (1 - alpha):.4g} %"
    notes = [
        Note(
            "Gap",
            "Mean outcome minus mean prediction of a group, weighted. Positive: the group is "
            "under-predicted.",
            "gap = sum_i w_i (y_i - f_i) / sum_i w_i",
        ),
        _limits(kind, sure, n_groups),
        Note(
            "Detectable gap",
            "The smallest gap that these limits would tell from zero in 80 of 100 samples of "
            "this size. A smaller true gap may well exist.",
            "(critical value + .84) * standard error under calibration",
        ),
        Note(
            "p-values",
            "Of each group by itself, and adjusted for all groups by Holm's method, which holds "
            "however groups overlap.",
        ),
        Note(
            "ECE",
            f"In {n_bins} bins of equal width. Noise makes it positive even for a perfect model; "
            "the debiased one takes the sign of a bin from one half of its rows and the mean from "
            "the other, averaged over all halves, and is zero on average under calibration.",
            "ECE = sum_b P(b) |mean residual of b|;  debiased: sum_b P(b) s_b (z (2 Phi(z) - 1) "
            "- 2 phi(z)), z = mean residual / s_b",
        ),
        Note(
            "K1, K2, Kinf",
            f"Errors on level sets, here {n_bins} quantile bins of the predictions of all rows "
            "(their edges are in the report). Within the group: weighted by the group's own "
            "mass. By mass: with the group's indicator as h over all rows, so that small groups "
            "count little. MSCE is K2 over all rows.",
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
    if clustered:
        notes.append(
            Note(
                "Clusters",
                "Rows of a cluster may depend on each other: variances are those of cluster sums, "
                "with as many degrees of freedom as clusters less one.",
            )
        )
    if paired:
        notes.append(
            Note(
                "Differences",
                "After minus before on the same rows. Their standard errors come from the "
                "influence of every row or cluster on the difference (delta method), to first "
                "order; those of ECE and K1 from jointly normal residual sums of all bins, because "
                "noise decides signs there. Those of Kinf and ECCE are too large where noise "
                "decides the worst bin or the extremes.",
            )
        )
    return tuple(notes)


def _limits(kind: str, sure: str, n_groups: int) -> Note:
    text = (
        f"Valid for all {n_groups} groups at once with {sure} confidence: labels are drawn again "
        "and again as if the predictions were right, and the critical value is a quantile of the "
        "groups' largest score. With many rows it is that of correlated normal scores, which is "
        "the limit of this and of a multiplier bootstrap; groups of a few rows then have limits "
        "that are wider than they need to be."
        if n_groups > 1
        else f"With {sure} confidence."
    )
    if kind == "binary":
        text += (
            " Scores are those of the likelihood of a common shift of a group's log-odds (modified "
            "signed root), which is accurate for few rows and rare outcomes."
        )
        return Note("Limits of gaps", text, "r* = r + log(u / r) / r")
    text += (
        " Student's t with Hall's correction for skewness; the variance of labels in the same bins "
        "of all rows counts like 20 rows of the group, so that a few rows need not tell their own."
    )
    return Note("Limits of gaps", text, "gap +- t * standard error")
