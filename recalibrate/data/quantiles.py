"""Weighted quantiles that do not depend on the order of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.columns import distinct_values


def quantile_edges(
    values: NDArray[np.floating], bins: int, weight: NDArray[np.float64] | None = None
) -> NDArray[np.floating]:
    """Edges, all of them values of the data, that cut it into bins of nearly equal weight.

    The bin of x is the number of edges at or below x, so equal values stay together. Of all
    places between two distinct values the j-th edge takes the one whose weight below is nearest
    to the fraction j / bins (the lower one of two), so that no bin is empty. The result does not
    depend on the order of rows, and a row of weight 2 counts as the row twice.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        Without NaN.
    bins : int
        Number of bins wanted; ties may leave fewer.
    weight : ndarray of float64, shape (n,), optional
        Finite, not negative, not all zero.

    Returns
    -------
    ndarray, shape (at most bins - 1,)
        Ascending, of the dtype of `values`.

    Examples
    --------
    >>> import numpy as np
    >>> quantile_edges(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    array([3.])
    >>> quantile_edges(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0]), 3)
    array([1.])
    """
    units = np.empty(0, np.int64) if weight is None else integer_weights(weight, bins)
    return cut_at_quantiles(*distinct_values(values, units), bins)


def integer_weights(
    weight: NDArray[np.float64],
    bins: int,
    n_rows: int | None = None,
    heaviest: float | None = None,
) -> NDArray[np.int64]:
    """Weights of some of ``n_rows`` rows as integers, whose sums do not depend on the order.

    A row that counts has at least one unit.

    ``heaviest`` is the largest weight of all rows; None: these are all. With these bits neither
    the sums nor their products with ``bins`` leave the int64 range.
    """
    _, exponent = np.frexp(float(weight.max()) if heaviest is None else heaviest)
    bits = 60 - int(exponent) - (n_rows or len(weight)).bit_length() - int(bins).bit_length()
    return np.maximum(np.rint(np.ldexp(weight, bits)), weight > 0).astype(np.int64)


def cut_at_quantiles(
    distinct: NDArray[np.floating], mass: NDArray[np.int64], bins: int
) -> NDArray[np.floating]:
    """The same from distinct values, ascending, and their weights.

    Not all have to be given: those where the weight reaches a fraction j / bins and their
    neighbours are enough, with the weight since the one before.
    """
    below = np.cumsum(mass)[:-1] * bins  # times bins instead of fractions: exact
    if not len(below):
        return np.asarray(distinct[:0])
    targets = int(mass.sum()) * np.arange(1, bins, dtype=np.int64)
    upper = np.searchsorted(below, targets).clip(0, len(below) - 1)
    lower = np.maximum(upper - 1, 0)
    cut = np.where(np.abs(targets - below[lower]) <= np.abs(below[upper] - targets), lower, upper)
    return np.asarray(distinct[np.unique(cut) + 1])
