r"""Changes from one set of predictions to another on the same rows, with standard errors.

Every measure is a smooth function of weighted means, so the change of the measure by the weight
of a single row or cluster (its influence) is known in closed form, and the standard error of a
difference is :math:`\sqrt{\sum_c (\sum_{i \in c} influence_i)^2}`. Signs, the worst bin of Kinf
and the extremes of the ECCE's walk are held fixed, as is right to first order.

ECE and K1 add up absolute values, and their signs are not fixed where noise decides them. Their
standard errors are those of a bootstrap with very many rows: residual sums of all bins of both
sides are drawn as jointly normal, with the covariances that the rows have, and the difference is
computed from every draw.
"""

from __future__ import annotations

import numpy as np
from numpy.random import default_rng

from recalibrate.auditing.measure.noise import Noise
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.sweep import W2, W2R2, WEIGHT, R, Sums, blocks, cluster_numbers
from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import ratio

MEASURES = ("gap", "mse", "log_loss", "ece", "k1", "k2", "kinf", "ecce")
"""In the order of the kernel's columns."""

DRAWS = 400
MOST_PRODUCTS = 4_000_000
"""Pairs of bins of all groups; with more, ECE and K1 too are told to first order."""


def compare(
    segments: Segments,
    sample: Sample,
    predictions: list[Float64],
    sums: list[Sums],
    measures: list[dict[str, Float64]],
    noises: list[Noise],
) -> dict[str, tuple[Float64, Float64]]:
    """Difference (first of two sides minus second) and its standard error, by measure."""
    from recalibrate.kernels import audit as kernels

    n_groups = len(segments.names)
    levels = np.nan_to_num(np.array([[m[name] for name in MEASURES] for m in measures]))
    levels = np.ascontiguousarray(levels.swapaxes(1, 2))
    moments = np.array([s.by_quantile[..., R] for s in sums])
    means = ratio(moments, np.array([s.by_quantile[..., WEIGHT] for s in sums]))
    signs = np.sign(np.array([s.by_width[..., R] for s in sums]))
    worst = np.abs(moments).argmax(axis=2)
    intervals = np.array([_interval(s.walks) for s in sums])
    bins = np.array(
        [np.stack([s.bins.of_rows(s.bins.quantile), s.bins.of_rows(s.bins.width)], 1) for s in sums]
    )
    cluster = cluster_numbers(sample)
    last = np.full(n_groups, -1, dtype=np.int64)
    pending = np.zeros((n_groups, kernels.MEASURES))
    squares = np.zeros_like(pending)
    n_bins = sums[0].n_bins if n_groups * sums[0].n_bins ** 2 <= MOST_PRODUCTS else 0
    products = np.zeros((n_groups, 2, n_bins, n_bins))
    for _, rows, codes in blocks(segments, np.argsort(cluster, kind="stable")):
        y, weight = sample.y[rows], sample.weight[rows]
        about = [
            np.column_stack([f, y - f, sample.loss(f, y)])
            for f in (both[rows] for both in predictions)
        ]
        kernels.add_influence(
            codes, segments.offsets, cluster[rows], weight, np.array(about), bins[:, rows].copy(),
            means, signs, worst, intervals, levels, last, pending, squares, products,
        )  # fmt: skip
    kernels.end_influence(pending, squares)
    if n_bins:
        design = 0.5 * (noises[0].bin_design + noises[1].bin_design)
        quantile, width = [s.by_quantile for s in sums], [s.by_width for s in sums]
        squares[:, kernels.K1] = _absolute_variance(quantile, products[:, 0], design)
        squares[:, kernels.ECE] = _absolute_variance(width, products[:, 1], design)
    error = np.sqrt(squares) / sums[0].total[:, [WEIGHT]]
    return {
        name: (measures[0][name] - measures[1][name], error[:, k])
        for k, name in enumerate(MEASURES)
    }


def _absolute_variance(sides: list[Float64], products: Float64, design: Float64) -> Float64:
    """Variance of the difference of the sides' summed absolute residual sums, per group.

    Sides are sums of shape (groups, bins, N_SUMS), products of shape (groups, bins, bins);
    clusters make covariances larger by ``design``.
    """
    moment = np.concatenate([side[..., R] for side in sides], axis=1)
    covariance = np.zeros((*moment.shape, moment.shape[1]))
    n_bins = products.shape[1]
    own = np.concatenate([side[..., W2R2] for side in sides], axis=1)
    diagonal = np.arange(2 * n_bins)
    covariance[:, diagonal, diagonal] = own
    covariance[:, :n_bins, n_bins:] = products
    covariance[:, n_bins:, :n_bins] = products.swapaxes(1, 2)
    total = sides[0].sum(axis=1)
    # Rows are drawn, and with them the sizes of bins: what is the same in all rows is no noise.
    same = ratio(total[:, W2], total[:, WEIGHT] ** 2)
    covariance -= same[:, None, None] * moment[:, :, None] * moment[:, None, :]
    covariance *= design[:, None, None]
    # By eigenvalues: bins without rows and sides that are the same leave no Cholesky root.
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    normal = default_rng(20230131).standard_normal((2 * n_bins, DRAWS))
    drawn = np.abs(moment[:, :, None] + root @ normal)
    difference = drawn[:, :n_bins].sum(axis=1) - drawn[:, n_bins:].sum(axis=1)
    return np.asarray(difference.var(axis=1))


def _interval(walks: Float64) -> Float64:
    """Predictions between the extremes of every walk (above, up to), and the walk's direction."""
    from recalibrate.kernels import audit as walk

    top, low = walks[:, walk.TOP_AT], walks[:, walk.LOW_AT]
    return np.column_stack(
        [np.minimum(top, low), np.maximum(top, low), np.where(top > low, 1.0, -1.0)]
    )
