"""ECE by bins, of the worst group, and with its bias removed."""

import numpy as np
import pytest
from hypothesis import given
from samples import CLOSE, samples

from recalibrate.metrics import ece, ece_debiased, worst_group_ece


@pytest.mark.slow
@given(samples())
def test_ece_equals_a_slow_loop(sample):
    f, y, h, w = sample
    bins = [[] for _ in range(10)]
    for p, label, weight in zip(f, y, w, strict=True):
        bins[min(int(p * 10), 9)].append(weight * (p - label))
    expected = sum(abs(sum(b)) for b in bins) / w.sum()
    assert ece(f, y, sample_weight=w) == pytest.approx(expected, **CLOSE)
    masks = np.column_stack([h > 0, h <= 0])
    parts = [ece(f[m], y[m], sample_weight=w[m]) for m in masks.T if w[m].sum() > 0]
    assert worst_group_ece(f, y, masks, sample_weight=w) == pytest.approx(
        max([expected, *parts]), **CLOSE
    )


def test_ece_counts_predictions_outside_the_unit_interval_in_the_end_bins():
    # The same four numbers in another order.
    assert ece([-0.5, 0.05, 1.5, 1.0], [0, 0, 1, 1]) == pytest.approx((0.45 + 0.5) / 4)


def test_worst_group_takes_pairs_and_skips_empty_groups():
    f, y = np.full(4, 0.5), np.array([1, 1, 0, 0])
    pairs = [("first", y == 1), ("nobody", np.zeros(4, bool))]
    assert worst_group_ece(f, y, pairs) == worst_group_ece(f, y, iter(pairs)) == 0.5
    assert worst_group_ece(f, y, np.zeros(4, bool)) == ece(f, y) == 0


@pytest.mark.parametrize("bins", [0, True, 2.5, [0.5]])
def test_ece_takes_only_a_number_of_bins(bins):
    with pytest.raises(ValueError, match="bins must be an integer of at least 1"):
        ece([0.1, 0.9], [0, 1], bins=bins)


@pytest.mark.parametrize("binary", [True, False])
def test_debiased_ece_is_zero_on_average_under_calibration(binary):
    rng = np.random.default_rng(0)
    raw, debiased = [], []
    for _ in range(300):
        f = rng.random(400)
        y = (rng.random(400) < f) if binary else f + rng.uniform(-0.3, 0.3, 400)
        raw.append(ece(f, y))
        debiased.append(ece_debiased(f, y))
    standard_error = np.std(debiased) / np.sqrt(300)
    # Four standard errors of the mean of 300 draws.
    assert np.mean(debiased) == pytest.approx(0, abs=4 * standard_error)
    assert np.mean(raw) > 8 * standard_error


def test_debiased_ece_keeps_a_large_error():
    rng = np.random.default_rng(0)
    f = rng.uniform(0.1, 0.6, 20_000)
    y = rng.random(20_000) < f + 0.2
    # 20,000 rows have a standard error of .003; the bias of so large an error is smaller still.
    assert ece_debiased(f, y) == pytest.approx(0.2, abs=0.02)
    assert ece_debiased(f, y) == pytest.approx(ece(f, y), abs=1e-3)


def test_debiased_ece_of_bins_with_one_row_is_defined():
    assert np.isfinite(ece_debiased([0.05, 0.95], [0.5, 0.7]))
    assert ece_debiased([0.5], [0.5]) == 0.0
