r"""Changes from one set of predictions to another on the same rows, with standard errors.

Gap, squared error, log loss and deviance are means over rows, and their differences means of the
rows' differences d, with variance
:math:`\sum_c (\sum_{i \in c} w_i (d_i - \bar d))^2 / (\sum w)^2` over clusters c. Measures that
add up sizes or take the largest (ECE, K1, K2, Kinf, ECCE) are not compared this way: where noise
decides signs and ranks, neither derivatives nor a bootstrap tell how their difference varies,
least of all between models that are nearly the same.
"""

from __future__ import annotations

import numpy as np

from recalibrate.auditing.measure.noise import effective_rows
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Rows, Segments
from recalibrate.auditing.measure.sweep import WEIGHT, Sums, sum_clusters
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio

MEASURES = ("gap", "mse", "log_loss", "deviance")


def compare(
    segments: Segments,
    sample: Sample,
    predictions: list[Float64],
    sums: Sums,
    measures: list[dict[str, Float64]],
) -> dict[str, tuple[Float64, Float64]]:
    """Difference (first of two sides minus second) and its standard error, by measure."""

    def changes(rows: Rows) -> list[Float64]:
        y, f = sample.y[rows], [both[rows] for both in predictions]
        one, other = ([y - p, (y - p) ** 2, sample.loss(p, y)] for p in f)
        return [a - b for a, b in zip(one, other, strict=True)]

    shown = [name for name in MEASURES if name != ("deviance" if sample.unit else "log_loss")]
    found = sum_clusters(segments, sample, changes, len(shown))
    count = effective_rows(sums.total) if sample.cluster is None else found.count
    compared = {}
    for k, name in enumerate(shown):
        change = measures[0][name] - measures[1][name]
        spread = found.spread(k, np.nan_to_num(change))
        variance = ratio(spread * count, np.maximum(count - 1.0, 0.0))
        compared[name] = change, np.sqrt(variance) / sums.total[:, WEIGHT]
    return compared
