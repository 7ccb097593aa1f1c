"""What changed between two sets of predictions."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from recalibrate.auditing.measure.assemble import auc, changes, rank_correlation
from recalibrate.auditing.measure.segments import read_segments
from recalibrate.data.labels import read_labels

# approx's own 1e-6 is for sums of float64 in another order than scikit-learn's and scipy's.


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    before = np.round(rng.random(400), 2)
    after = np.clip(before + np.round(rng.normal(0, 0.1, 400), 2), 0, 1)
    y = (rng.random(400) < before).astype(float)
    weight = rng.integers(0, 4, 400).astype(float)
    return before, after, y, weight


def repeated(weight, *arrays):
    return [np.repeat(array, weight.astype(int)) for array in arrays]


def test_rank_and_auc_are_those_of_scipy_and_sklearn_on_repeated_rows(scores):
    before, after, y, weight = scores
    found = changes(before, after, read_labels(y, n_rows=400, sample_weight=weight))
    b, a, labels = repeated(weight, before, after, y)
    assert found.rank_correlation == pytest.approx(spearmanr(b, a).statistic)
    assert found.auc_before == pytest.approx(roc_auc_score(labels, b))
    assert found.auc_after == pytest.approx(roc_auc_score(labels, a))
    assert found.mean_shift == pytest.approx((a - b).mean())
    assert found.changed_share == pytest.approx((a != b).mean())


def test_flips_are_counted_per_group_and_threshold(scores):
    before, after, y, weight = scores
    X = pd.DataFrame({"sex": np.where(np.arange(400) % 3 == 0, "F", "M")})
    segments, *_ = read_segments(
        ["sex"], X, n_rows=400, weight=weight, depth=1, min_rows=None, bands=4
    )
    labels = read_labels(y, n_rows=400, sample_weight=weight)
    found = changes(before, after, labels, segments=segments, thresholds=[0.3, 0.5])
    assert [(f.group, f.threshold) for f in found.flips] == [
        (name, t) for t in (0.3, 0.5) for name in ("all", "sex = F", "sex = M")
    ]
    women = (X["sex"] == "F").to_numpy() & (weight > 0)
    up = women & (before < 0.5) & (after >= 0.5)
    flip = next(f for f in found.flips if f.group == "sex = F" and f.threshold == 0.5)
    assert (flip.rows, flip.up) == (women.sum(), up.sum())
    assert flip.up_share == pytest.approx(weight[up].sum() / weight[women].sum())
    assert flip.positive_after - flip.positive_before == pytest.approx(
        flip.up_share - flip.down_share
    )
    assert len(found.table) == 6


def test_the_largest_changes_come_first_and_name_their_rows(scores):
    before, after, y, weight = scores
    found = changes(before, after, read_labels(y, n_rows=400, sample_weight=weight), most=5)
    size = np.where(weight > 0, np.abs(after - before), 0)
    assert [abs(r.shift) for r in found.rows] == sorted(size, reverse=True)[:5]
    first = found.rows[0]
    assert (first.before, first.after, first.outcome) == (
        before[first.row],
        after[first.row],
        y[first.row],
    )
    assert len(found.rows_table) == 5


def test_nothing_changed():
    f = np.full(10, 0.5)
    found = changes(f, f, read_labels(np.arange(10) % 2, n_rows=10), thresholds=[0.5])
    assert (found.changed_share, found.largest_shift, found.rows) == (0.0, 0.0, ())
    assert (found.flips[0].up, found.flips[0].down) == (0, 0)
    assert math.isnan(found.rank_correlation)
    assert found.auc_before == 0.5
    assert "0.0% of the predictions changed" in str(found)


def test_a_regression_has_no_auc_and_keeps_its_units():
    before, after = np.array([10.0, 20.0, 30.0]), np.array([12.0, 20.0, 30.0])
    found = changes(before, after, read_labels([5, 25, 40], n_rows=3))
    assert math.isnan(found.auc_before)
    assert (found.rows[0].shift, found.rows[0].outcome) == (2.0, 5.0)
    assert "AUC" not in str(found)


def test_auc_of_one_class_and_correlation_of_constants_are_undefined():
    assert math.isnan(auc(np.array([0.1, 0.2]), np.ones(2), np.ones(2)))
    assert math.isnan(rank_correlation(np.zeros(3), np.arange(3.0), np.ones(3)))


def test_bad_thresholds_are_refused():
    labels = read_labels([0, 1], n_rows=2)
    with pytest.raises(ValueError, match="every threshold must be a finite number"):
        changes(np.zeros(2), np.ones(2), labels, thresholds=[math.nan])
