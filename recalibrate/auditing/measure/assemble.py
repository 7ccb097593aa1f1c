"""From passes over the rows to the records of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.curves import draw_curves
from recalibrate.auditing.measure.limits import tellable
from recalibrate.auditing.measure.measures import measure
from recalibrate.auditing.measure.noise import Noise, effective_rows, find_noise
from recalibrate.auditing.measure.paired import compare
from recalibrate.auditing.measure.redraws import draw_largest
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.simultaneous import LargestScore
from recalibrate.auditing.measure.sweep import (
    ROWS,
    WEIGHT,
    Observer,
    Sums,
    correlate,
    find_nesting,
    overlaps,
    sum_clusters,
    sum_groups,
)
from recalibrate.auditing.records import Calibration, Curve, Difference, GroupAudit, Overall
from recalibrate.data.labels import Labels
from recalibrate.data.vectors import Float64
from recalibrate.metrics import Decomposition

# Powers of the label's range that a measure is proportional to; 0 for pure numbers.
_POWERS = {
    "gap": 1, "gap_se": 1, "low": 1, "high": 1, "p": 0, "p_holm": 0, "detectable": 1,
    "detectable_low": 1, "detectable_high": 1, "slope": 0, "slope_low": 0, "slope_high": 0,
    "mse": 2, "log_loss": 0, "deviance": 0, "ece": 1, "ece_debiased": 1, "k1": 1, "k2": 2,
    "kinf": 1, "k2_unbiased": 2, "k1_mass": 1, "k2_mass": 2, "kinf_mass": 1, "ecce": 1,
    "ecce_sigma": 0, "ecce_p": 0, "ecce_p_holm": 0,
}  # fmt: skip

_RATIOS = ("ratio", "ratio_low", "ratio_high")
_FLOATS = 80
"""Halvings until no float64 is left between two that are some units of rounding apart."""


@dataclass(frozen=True, eq=False)
class Side:
    """One set of predictions: its measures and curves, in the units of the label."""

    measures: dict[str, Float64]
    curves: list[Curve]
    edges: tuple[float, ...]
    decompositions: tuple[Decomposition, ...]


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything about all groups, in the units of the label.

    ``sides`` are after and, with a baseline, before; ``changes`` by measure the difference and
    its standard error.
    """

    segments: Segments
    rows: NDArray[np.int64]
    clusters: NDArray[np.int64]
    share: Float64
    critical: float
    sides: tuple[Side, ...]
    sums: tuple[Sums, ...]
    changes: dict[str, tuple[Float64, Float64]]

    @property
    def names(self) -> tuple[str, ...]:
        """One per group."""
        return self.segments.names

    @cached_property
    def _effective(self) -> Float64:
        return effective_rows(self.sums[0].total)

    def groups(self) -> tuple[GroupAudit, ...]:
        """One record per group."""
        return tuple(self._group(g) for g in range(len(self.names)))

    def _group(self, g: int) -> GroupAudit:
        records = [_calibration(side, g) for side in self.sides]
        changes = tuple(
            Difference(name, float(value[g]), float(error[g]))
            for name, (value, error) in self.changes.items()
            if np.isfinite(value[g])
        )
        return GroupAudit(
            self.names[g],
            int(self.rows[g]),
            int(self.clusters[g]),
            float(self.share[g]),
            float(self.sides[0].measures["mean_outcome"][g]),
            records[0],
            records[1] if len(records) > 1 else None,
            changes,
            self.segments.terms[g],
            self.segments.parts[g],
            float(self._effective[g]),
        )

    def overall(self, side: int) -> Overall:
        """Summary of one side."""
        found = self.sides[side].measures
        worst = int(found["ecce_sigma"].argmax())
        off = found["off"]
        largest = int(np.where(off, np.abs(found["gap"]), -1.0).argmax())
        deviation = found["ecce"][0] / found["ecce_sigma"][0] if found["ecce_sigma"][0] else 0.0
        return Overall(
            mse=float(found["mse"][0]),
            log_loss=float(found["log_loss"][0]),
            deviance=float(found["deviance"][0]),
            decompositions=self.sides[side].decompositions,
            msce=float(found["k2"][0]),
            msce_unbiased=float(found["k2_unbiased"][0]),
            multicalibration_error=float(found["ecce_sigma"][worst] * deviation),
            mce_sigma=float(found["ecce_sigma"][worst]),
            mce_p=float(found["ecce_p_holm"].min()),
            worst_group=self.names[worst],
            worst_ecce=float(found["ecce"][worst]),
            n_off=int(off.sum()),
            largest_gap=float(found["gap"][largest]) if off.any() else float("nan"),
            largest_gap_group=self.names[largest] if off.any() else "",
        )


def find_everything(
    segments: Segments,
    sample: Sample,
    labels: Labels,
    predictions: list[Float64],
    *,
    observers: Sequence[Observer],
    n_bins: int,
    alpha: float,
) -> Findings:
    """All passes and all measures; ``predictions`` are after and maybe before, on [0, 1]."""
    sums = [
        sum_groups(segments, sample, f, n_bins, observer)
        for f, observer in zip(predictions, observers, strict=True)
    ]
    clusters = None
    if sample.cluster is not None:
        clusters = sum_clusters(
            segments,
            sample,
            lambda rows: [sample.y[rows] - f[rows] for f in predictions],
            len(predictions),
        )
    shares = [overlaps(segments, sample, f) for f in predictions]
    nesting = find_nesting(segments, shares[0])
    noises = [find_noise(own, sample, clusters, side, nesting) for side, own in enumerate(sums)]
    laws = [
        _largest_score(segments, sample, f, own, noise, shared)
        for f, own, noise, shared in zip(predictions, sums, noises, shares, strict=True)
    ]
    scaled = [
        measure(own, sample, noise, law, alpha)
        for own, noise, law in zip(sums, noises, laws, strict=True)
    ]
    changes = {}
    if len(predictions) == 2:
        compared = compare(segments, sample, predictions, sums[0], scaled)
        changes = {
            name: (_unit(labels, name) * value, _unit(labels, name) * error)
            for name, (value, error) in compared.items()
        }
    sides = tuple(
        Side(
            _in_units(found, labels),
            draw_curves(own, sample, noise, alpha, labels.unscale),
            tuple(_edges_in_units(own.bins.edges, labels).tolist()),
            sample.decompose(f, own.bins.order),
        )
        for f, own, noise, found in zip(predictions, sums, noises, scaled, strict=True)
    )
    rows, share = _sizes(sums[0])
    count = rows if clusters is None else clusters.count
    critical = laws[0].critical(alpha)
    return Findings(segments, rows, count, share, critical, sides, tuple(sums), changes)


def _largest_score(
    segments: Segments,
    sample: Sample,
    f: Float64,
    sums: Sums,
    noise: Noise,
    shared: Float64 | None,
) -> LargestScore:
    """What limits, verdict and adjusted p-values of all groups at once rely on."""
    told = tellable(noise)
    count = max(int(told.sum()), 1)
    if count > 1 and sample.binary and sample.cluster is None:
        largest = draw_largest(segments, sample, f, sums)
        if largest is not None:
            return LargestScore.of_draws(largest, count)
    correlation = correlate(segments, sample, f, shared) if count > 1 else None
    if correlation is not None:
        correlation = correlation[told][:, told]
    return LargestScore.correlated(correlation, count)


def _sizes(sums: Sums) -> tuple[NDArray[np.int64], Float64]:
    total = sums.total
    return total[:, ROWS].astype(np.int64), total[:, WEIGHT] / total[0, WEIGHT]


def _unit(labels: Labels, name: str) -> float:
    return float((labels.high - labels.low) ** _POWERS[name])


def _in_units(found: dict[str, Float64], labels: Labels) -> dict[str, Float64]:
    """Measures of labels in [0, 1] as those of the labels that the user gave."""
    means = ("mean_prediction", "mean_outcome")
    out = {name: labels.unscale(found[name]) for name in means} | {"off": found["off"]}
    out |= {name: _unit(labels, name) * found[name] for name in _POWERS}
    return out | _ratios(out, labels)


def _ratios(found: dict[str, Float64], labels: Labels) -> dict[str, Float64]:
    """Outcomes over what was predicted, where neither can be negative.

    For the predictions of these rows, so that limits of gaps are limits of ratios.
    """
    mean = found["mean_prediction"]
    positive = (mean > 0.0) & (labels.low >= 0.0)
    expected = np.where(positive, mean, np.nan)
    low, high = (1.0 + found[side] / expected for side in ("low", "high"))
    return {
        "ratio": found["mean_outcome"] / expected,
        "ratio_low": np.maximum(low, 0.0),
        "ratio_high": high,
    }


def _edges_in_units(edges: Float64, labels: Labels) -> Float64:
    """The smallest numbers that are scaled to an edge or above: they cut as the edges do."""
    slack = 8.0 * np.finfo(np.float64).eps * (abs(labels.low) + abs(labels.high))
    low, high = (labels.unscale(edges) + side for side in (-slack, slack))
    for _ in range(_FLOATS):
        middle = low + 0.5 * (high - low)
        reached = labels.scale(middle) >= edges
        inside = (middle > low) & (middle < high)
        low = np.where(inside & ~reached, middle, low)
        high = np.where(inside & reached, middle, high)
    return np.asarray(high)


def _calibration(side: Side, g: int) -> Calibration:
    numbers = {
        name: float(side.measures[name][g]) for name in ("mean_prediction", *_RATIOS, *_POWERS)
    }
    return Calibration(**numbers, off=bool(side.measures["off"][g]), curve=side.curves[g])
