"""The rows of an audit: labels, weights and clusters of those that count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.labels import Labels
from recalibrate.data.vectors import Float64, to_array
from recalibrate.metrics import SMALLEST_VARIANCE, Decomposition, Loss, decompose_sorted

FEWEST = 5.0
"""Rows (or clusters) below which the noise of other than 0/1 labels cannot be told."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of positive weight.

    Attributes
    ----------
    rows : ndarray of int
        Where they are among the rows that the user gave.
    y : ndarray of float64
        Labels, scaled to [0, 1].
    weight : ndarray of float64
        Ones where they are equal, else scaled by a power of two, so that squares neither vanish
        nor overflow.
    weighted : bool
        Whether weights differ from each other.
    cluster : ndarray of int64 or None
        Number of every row's cluster.
    exposure : ndarray of float64 or None
        What the labels are rates over, where that differs between rows.
    binary : bool
        Whether labels are 0/1, so that predictions tell their own variance.
    unit : bool
        Whether labels are binary or soft, so that there is a log loss.
    losses : tuple of Loss
        What scores are taken apart for: squared error, and the loss that rows have besides.
    low, high : float
        What 0 and 1 are in the units of the label.
    """

    rows: NDArray[np.intp]
    y: Float64
    weight: Float64
    weighted: bool
    cluster: NDArray[np.int64] | None
    binary: bool
    unit: bool
    losses: tuple[Loss, ...]
    low: float
    high: float
    exposure: Float64 | None = None

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def shows_noise(self) -> bool:
        """Whether enough labels differ from the smallest one to tell how much others would.

        Hardly any claims say hardly anything about how much totals vary; of 0/1 labels the
        predictions say it.
        """
        return self.binary or int(np.count_nonzero(self.y > self.y.min())) >= FEWEST

    def variance(self, f: Float64, residual: Float64) -> Float64:
        """Variance of every label under calibration: known for 0/1, else the squared residual."""
        return np.maximum(f * (1.0 - f), SMALLEST_VARIANCE) if self.binary else residual**2

    @property
    def deviance(self) -> bool:
        """Whether rows have a loss besides squared error that is no log loss."""
        return len(self.losses) > 1 and not self.unit

    def loss(self, f: Float64, y: Float64) -> Float64:
        """Loss of every row besides squared error, in the units of the label; 0 if there is none.

        Log loss takes predictions of 0 and 1 as the nearest others.
        """
        if len(self.losses) == 1:
            return np.zeros_like(f)
        if self.binary:
            tiny = np.finfo(np.float64).eps
            p = np.clip(f, tiny, 1.0 - tiny)
            return -np.log(np.where(y > 0.5, p, 1.0 - p))
        return self.losses[1].rows(self.unscale(f), self.unscale(y))

    def unscale(self, values: Float64) -> Float64:
        """Values in the units of the label."""
        return values * (self.high - self.low) + self.low

    def decompose(self, f: Float64, order: NDArray[np.intp]) -> tuple[Decomposition, ...]:
        """What the scores consist of; ``order`` sorts the predictions."""
        f, y = (self.unscale(values[order]) for values in (f, self.y))
        return decompose_sorted(f, y, self.weight[order], self.losses)


def take_sample(
    labels: Labels,
    clusters: NDArray[np.int64] | None,
    loss: Loss | None = None,
    exposure: Float64 | None = None,
) -> Sample:
    """The rows that count; without a loss it is log loss for labels in [0, 1]."""
    squared, unit = Loss(0.0), labels.kind != "regression"
    chosen = loss or (Loss(None) if unit else squared)
    n_rows = len(labels.values)
    rows = np.arange(n_rows) if labels.weight is None else np.flatnonzero(labels.weight > 0)
    weight = np.ones(len(rows))
    if labels.weight is not None and (labels.weight[rows] != labels.weight[rows[0]]).any():
        weight = labels.weight[rows]
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])
    return Sample(
        rows,
        labels.values[rows],
        weight,
        bool((weight != weight[0]).any()),
        None if clusters is None else clusters[rows],
        labels.kind == "binary",
        unit,
        (squared,) if chosen == squared else (squared, chosen),
        labels.low,
        labels.high,
        None if exposure is None or np.ptp(exposure[rows]) == 0.0 else exposure[rows],
    )


def read_clusters(cluster: Any, n_rows: int) -> NDArray[np.int64]:
    """Check clusters and number them from 0."""
    import pandas as pd

    values = to_array(cluster, "cluster")
    if values.shape != (n_rows,):
        raise ValueError(
            f"cluster has shape {values.shape}, but there are {n_rows} rows: give the person or "
            "household of every row."
        )
    numbers, _ = pd.factorize(values)
    if (numbers < 0).any():
        row = int((numbers < 0).argmax())
        raise ValueError(
            f"cluster is missing for {int((numbers < 0).sum())} rows, the first is row {row} "
            "(from 0). Give each of these rows a value of its own if they stand alone."
        )
    return numbers.astype(np.int64)
