"""Rows of a measure, validated at the door, and sums over their level sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.quantiles import quantile_edges
from recalibrate.data.vectors import Float64, finite_vector, read_weight, to_array

Functions = ArrayLike | Iterable[tuple[str, ArrayLike]]
Bins = int | ArrayLike


@dataclass(frozen=True)
class Rows:
    """Checked rows: predictions, labels, weights and the number of each row's level set."""

    f: Float64
    y: Float64
    w: Float64
    level: NDArray[np.intp]

    def sums(self, values: Float64) -> Float64:
        """Weighted sum of values on every level set."""
        return np.asarray(np.bincount(self.level, weights=self.w * values), dtype=np.float64)

    @cached_property
    def mass(self) -> Float64:
        return self.sums(np.ones_like(self.w))

    @cached_property
    def total(self) -> float:
        return float(self.w.sum())

    def level_mean(self, values: Float64) -> Float64:
        """Weighted mean of values on every level set; 0 where there is no weight."""
        return ratio(self.sums(values), self.mass)

    def moments(self, h: Float64) -> Float64:
        """Weighted sum of h (y - f) on every level set."""
        return self.sums(h * (self.y - self.f))

    def means(self, h: Float64) -> Float64:
        """Weighted mean of h (y - f) on every level set."""
        return ratio(self.moments(h), self.mass)


def ratio(a: Float64, b: Float64) -> Float64:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def read_rows(
    f: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, bins: Bins | None
) -> Rows:
    """Check the rows and find their level sets; see `recalibrate.metrics` for the conventions."""
    scores = finite_vector(f, "f")
    labels = finite_vector(y, "y", len(scores))
    if sample_weight is None:
        weight = np.ones_like(scores)
    else:
        weight = read_weight(sample_weight, len(scores))
        # A power of two keeps every bit; near 1 the squares neither vanish nor overflow.
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])
    if bins is None:
        level = np.unique(scores, return_inverse=True)[1]
    else:
        edges = _edges(bins, scores, None if sample_weight is None else weight)
        level = np.searchsorted(edges, scores, side="right")
    return Rows(scores, labels, weight, level)


def is_count(bins: object) -> TypeGuard[int]:
    """Whether bins is a number of bins."""
    return isinstance(bins, int | np.integer) and not isinstance(bins, bool) and bool(bins >= 1)


def _edges(bins: Bins, f: Float64, weight: Float64 | None) -> Float64:
    if is_count(bins):
        return np.asarray(quantile_edges(f, int(bins), weight), dtype=np.float64)
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.dtype.kind not in "iuf":
        raise ValueError(f"bins must be None, an integer of at least 1 or edges, got {bins!r}")
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges of bins must be finite and strictly ascending, got {bins!r}")
    return edges.astype(np.float64)


def each(
    rows: Rows,
    h: Functions | None,
    measure: Callable[[Float64], float],
    *,
    name: str = "h",
    required: bool = False,
) -> float | Any:
    """Measure h, or each of its columns: one at a time, so that many masks never coexist."""
    n_rows = len(rows.f)
    if h is None:
        if required:
            raise ValueError(
                f"{name} is None; give a vector, an array (n, G) or (label, mask) pairs"
            )
        return float(measure(np.ones(n_rows)))
    if _is_pairs(h):
        labelled = ((f"{name} of {label!r}", values) for label, values in h)
        return np.array([measure(_checked(own, v, n_rows, name)) for own, v in labelled])
    block = to_array(h, name)
    if block.ndim == 2:
        return np.array([measure(_checked(name, column, n_rows, name)) for column in block.T])
    return float(measure(_checked(name, block, n_rows, name)))


def _is_pairs(h: object) -> TypeGuard[Iterable[tuple[str, ArrayLike]]]:
    if isinstance(h, Iterator):
        return True
    first = h[0] if isinstance(h, list | tuple) and h else None
    return isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str)


def _checked(label: str, values: ArrayLike, n_rows: int, kind: str) -> Float64:
    vector = finite_vector(values, label, n_rows)
    if kind == "mask" and not np.isin(vector, (0.0, 1.0)).all():
        raise ValueError(f"{label} must be boolean or 0/1; it has other values")
    return vector
