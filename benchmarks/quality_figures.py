"""Figures of predictions on test rows: losses, calibration by group, and their noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from quality_cases import Case, Codes, Floats, Mask, Segment

LEAST_CELL_ROWS, BINS = 25, 10
SMALLEST = 1e-6  # distance of probabilities from 0 and 1 where a logarithm is taken
PARTS = 25  # of the test rows, for a jackknife


def squared_errors(y: Floats, p: Floats) -> Floats:
    """(p - y)^2 of every row; their mean is the Brier score."""
    return (p - y) ** 2


def log_losses(y: Floats, p: Floats) -> Floats:
    """-y log p - (1 - y) log(1 - p) of every row, p kept away from 0 and 1."""
    q = np.clip(p, SMALLEST, 1 - SMALLEST)
    return np.asarray(-(y * np.log(q) + (1 - y) * np.log(1 - q)))


def deviances(y: Floats, p: Floats) -> Floats:
    """2 (y log(y / p) - y + p) of every row: the Poisson deviance of counts."""
    some, p = np.where(y > 0, y, 1.0), np.maximum(p, SMALLEST)
    return np.asarray(2.0 * (np.where(y > 0, y * np.log(some / p), 0.0) - y + p))


LOSSES = {"binary": log_losses, "regression": squared_errors, "counts": deviances}


def pr_auc(y: Floats, p: Floats) -> float:
    """Average precision: sum over thresholds t of precision(t) * (recall(t) - recall before t)."""
    _, where = np.unique(-p, return_inverse=True)
    hits, rows = np.cumsum(np.bincount(where, weights=y)), np.cumsum(np.bincount(where))
    return float(np.sum(np.diff(hits, prepend=0.0) * hits / rows) / hits[-1])


def ece(y: Floats, p: Floats) -> float:
    """sum_b P(b) |E[p - y | b]| over ten bins b of equal width in [0, 1]."""
    b = np.clip((p * BINS).astype(np.intp), 0, BINS - 1)
    return float(np.abs(np.bincount(b, weights=p - y)).sum() / len(y))


def worst_group_ece(y: Floats, p: Floats, segments: Sequence[Segment]) -> float:
    """Largest `ece` of everyone and of the groups of single columns."""
    return max(ece(y[s.rows], p[s.rows]) for s in segments if s.columns < 2)


def cumulative_sigma(y: Floats, p: Floats, task: str) -> float:
    """(max_k S_k - min_k S_k) / sigma, S_k = sum of y - p over the rows with the k lowest p.

    S_0 = 0, and rows of equal p enter together. sigma is the standard deviation of S_n if p is
    right: sigma^2 = sum p (1 - p), for other than 0/1 labels sum (r_{i+1} - r_i)^2 / 2 with
    r = y - p in the order of p.
    """
    order = np.argsort(p, kind="stable")
    sorted_p, residual = p[order], (y - p)[order]
    complete = np.flatnonzero(np.append(np.diff(sorted_p) != 0, True))
    walk = np.append(0.0, np.cumsum(residual)[complete])
    variance = np.sum(p * (1 - p)) if task == "binary" else np.sum(np.diff(residual) ** 2) / 2
    return float(np.ptp(walk) / np.sqrt(max(variance, 1e-12)))


def mce_sigma(y: Floats, p: Floats, segments: Sequence[Segment], task: str) -> float:
    """Largest `cumulative_sigma` of all segments."""
    return max(cumulative_sigma(y[s.rows], p[s.rows], task) for s in segments)


def deciles(p: Floats) -> Codes:
    """Tenth of the predictions that each row is in; ties may leave fewer than ten."""
    edges = np.unique(np.quantile(p, np.arange(1, 10) / 10))
    return np.searchsorted(edges, p, side="right")


def cell_excess(y: Floats, p: Floats, segments: Sequence[Segment], task: str) -> float:
    """Mean of (sum of y - p)^2 / variance over the cells segment x decile of p, minus 1.

    0 is calibrated up to noise. The variance of a cell's sum is sum p (1 - p), for other than
    0/1 labels that of the residuals in the decile, times the rows. Cells need 25 rows, and those
    of 0/1 labels a variance above 1.
    """
    everything = np.zeros(len(y), dtype=np.intp)  # one part, and nothing left when it is out
    return float(_excess(_cell_sums(y, p, segments, task, everything).sum(axis=2), task))


def cell_excess_without(
    y: Floats, p: Floats, segments: Sequence[Segment], task: str, part: Codes
) -> Floats:
    """`cell_excess` without each part of the rows in turn, in the deciles of all of them."""
    sums = _cell_sums(y, p, segments, task, part)
    left = sums.sum(axis=2, keepdims=True) - sums
    return np.array([_excess(left[:, :, k], task) for k in range(left.shape[2])])


def _cell_sums(y: Floats, p: Floats, segments: Sequence[Segment], task: str, part: Codes) -> Floats:
    """Rows, residuals and their variances, summed by segment, part and decile (in this order)."""
    decile, residual = deciles(p), y - p
    if task == "binary":
        q = np.clip(p, 1e-4, 1 - 1e-4)
        variance = q * (1 - q)
    else:
        rows = np.maximum(np.bincount(decile), 1)
        centred = residual - (np.bincount(decile, weights=residual) / rows)[decile]
        variance = (np.bincount(decile, weights=centred**2) / np.maximum(rows - 1, 1))[decile]
    shape = (int(part.max()) + 1, BINS)
    cell = part * BINS + decile
    sums = np.empty((3, len(segments), *shape))
    for k, rows in enumerate(segment.rows for segment in segments):
        for j, weights in enumerate((None, residual[rows], variance[rows])):
            found = np.bincount(cell[rows], weights=weights, minlength=shape[0] * BINS)
            sums[j, k] = found.reshape(shape)
    return sums


def _excess(sums: Floats, task: str) -> float:
    """Mean squared z minus 1 of the cells that are large enough."""
    count, total, null = sums
    keep = (count >= LEAST_CELL_ROWS) & (null > (1.0 if task == "binary" else 0.0))
    return float(np.mean(total[keep] ** 2 / null[keep]) - 1.0)


def excess_error(y: Floats, p: Floats, q: Floats, segments: Sequence[Segment], task: str) -> float:
    """Standard error of the difference in cell excess of p and q: what other test rows may change.

    A jackknife, sqrt((K - 1) / K sum_k (d_k - mean d)^2) with the differences d_k without each of
    K random parts of the rows.
    """
    part = np.random.default_rng(0).permutation(len(y)) % PARTS
    without = [cell_excess_without(y, each, segments, task, part) for each in (p, q)]
    return float(np.std(without[0] - without[1]) * np.sqrt(PARTS - 1))


def gap(y: Floats, p: Floats, rows: Mask) -> float:
    """E[y - p | g]: by how much a group's predictions are too low."""
    return float(np.mean((y - p)[rows]))


def gap_error(y: Floats, p: Floats, rows: Mask) -> float:
    """Standard error of a group's gap."""
    return float(np.std((y - p)[rows]) / np.sqrt(rows.sum()))


def group_k2(y: Floats, p: Floats, rows: Mask, *, unbiased: bool = False) -> float:
    """sum_b P(b | g) (E[y - p | b, g])^2 over the deciles b of p on all rows.

    ``unbiased`` takes the squared standard error of every mean off (not where one row is all).
    """
    decile, residual = deciles(p)[rows], (y - p)[rows]
    total = 0.0
    for b in np.unique(decile):
        inside = residual[decile == b]
        noise = np.var(inside, ddof=1) / len(inside) if unbiased and len(inside) > 1 else 0.0
        total += len(inside) * (np.mean(inside) ** 2 - noise)
    return float(total / len(residual))


def standardised_gain(theirs: Floats, ours: Floats) -> float:
    """Mean of theirs - ours over the rows, in standard errors of that mean; above 0: ours wins."""
    difference = theirs - ours
    error = np.std(difference, ddof=1) / np.sqrt(len(difference))
    return float(np.mean(difference) / error) if error > 0 else 0.0


def figures(case: Case, p: Floats, segments: Sequence[Segment]) -> dict[str, float]:
    """All figures of the table but the time; ``loss`` is the one that a fit minimises."""
    y = case.y[1]
    brier = float(np.mean(squared_errors(y, p)))
    binary = case.task == "binary"
    counts = case.task == "counts"
    return {
        "loss": float(np.mean(LOSSES[case.task](y, p))),
        "log_loss": float(np.mean(log_losses(y, p))) if binary else np.nan,
        "brier": brier,
        "pr_auc": pr_auc(y, p) if binary else np.nan,
        "ece": np.nan if counts else ece(y, p),  # its bins are those of [0, 1]
        "worst_group_ece": np.nan if counts else worst_group_ece(y, p, segments),
        "mce_sigma": mce_sigma(y, p, segments, case.task),
        "cell_excess": cell_excess(y, p, segments, case.task),
    }
