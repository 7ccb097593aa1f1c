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
        _limits(kind, sure, n_groups, clustered),
        _tests(kind, clustered),
        Note(
            "Detectable gap",
            "About the smallest gap that would be called off in 80 of 100 samples of this "
            "size. A smaller true gap may well exist.",
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


def _limits(kind: str, sure: str, n_groups: int, clustered: bool) -> Note:
    text = (
        f"Where the gaps lie: with {sure} confidence the limits of all {n_groups} groups hold at "
        "once, whether the predictions are right or not. The critical value is that of correlated "
        "normal scores, the limit of a multiplier bootstrap."
        if n_groups > 1
        else f"Where the gap lies, with {sure} confidence, be the predictions right or not."
    )
    if kind == "binary" and not clustered:
        text += (
            " They are those of the likelihood of a common shift of a group's log-odds (modified "
            "signed root), scaled by how much more the residuals vary than that explains, and at "
            "least as wide as those of the residuals' own standard error."
        )
        formula = "r* = r + log(u / r) / r"
    else:
        text += (
            " Two limits are computed, and the wider ones count: Student's t of the group's own "
            "residuals, and those of the noise of all rows in the same bins of predictions, which "
            "counts like 20 rows of the group and more where tails are heavy. Both are corrected "
            "for skewness."
        )
        formula = "gap +- t * standard error"
    text += (
        f" Fewer than five {'clusters' if clustered else 'rows (of equal weight)'} say too little "
        "about a group: it is listed, without limits."
    )
    return Note("Limits of gaps", text, formula)


def _tests(kind: str, clustered: bool) -> Note:
    if kind == "binary" and not clustered:
        text = (
            "A group is called off if its outcomes are too unlikely under the predictions, for "
            "all groups at once: labels are drawn again and again with the predicted "
            "probabilities, and the critical value is a quantile of the groups' largest score "
            "(with many rows, of correlated normal scores). This tests whether the predictions "
            "can be right; limits say where the gap lies, so that the two may differ."
        )
    else:
        text = "A group is called off if its limits exclude a gap of zero."
    return Note("Off by more than noise", text)
