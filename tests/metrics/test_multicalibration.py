"""K1, K2, Kinf and their relatives: against a slow loop, and the relations of the paper."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CLOSE, samples, slow

from recalibrate import metrics
from recalibrate.data.table import read_table
from recalibrate.groups.groupset import bind
from recalibrate.metrics import (
    covariance_form,
    ecce,
    ecce_p,
    ecce_sigma,
    ece,
    ece_debiased,
    group_k2,
    k1,
    k2,
    k2_unbiased,
    kinf,
    msce,
    worst_group_ece,
)

MEASURES = [k1, k2, kinf, covariance_form, k2_unbiased]
REPEATABLE = [k1, k2, kinf, covariance_form]  # a row of weight 2 is the row twice

# ---- agreement with the definitions


@pytest.mark.slow
@given(samples())
def test_measures_equal_a_slow_loop(sample):
    f, y, h, w = sample
    table = list(slow(f, y, h, w, f))
    assert k1(f, y, h, sample_weight=w) == pytest.approx(
        sum(p * abs(m) for p, m, _ in table), **CLOSE
    )
    assert k2(f, y, h, sample_weight=w) == pytest.approx(
        sum(p * m * m for p, m, _ in table), **CLOSE
    )
    assert kinf(f, y, h, sample_weight=w) == pytest.approx(
        max(p * abs(m) for p, m, _ in table), **CLOSE
    )
    assert covariance_form(f, y, h, sample_weight=w) == pytest.approx(
        sum(p * abs(c) for p, _, c in table), **CLOSE
    )
    flat = list(slow(f, y, np.ones_like(f), w, f))
    assert msce(f, y, sample_weight=w) == pytest.approx(sum(p * m * m for p, m, _ in flat), **CLOSE)


@pytest.mark.slow
@given(samples())
def test_group_k2_is_the_error_of_the_group_alone(sample):
    f, y, h, w = sample
    mask = h > 0
    found = group_k2(f, y, mask, sample_weight=w)
    if w[mask].sum() == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(msce(f[mask], y[mask], sample_weight=w[mask]), **CLOSE)


def test_known_values():
    f, y = [0.25] * 4 + [0.75] * 4, [0, 0, 0, 1, 1, 1, 1, 1]
    assert msce(f, y) == 0.5 * 0.25**2
    assert k1(f, y) == kinf(f, y) == 0.5 * 0.25
    assert ece(f, y) == 0.125
    first = np.arange(8) < 4
    assert k2(f, y, ~first) == 0.5 * 0.25**2
    assert group_k2(f, y, ~first) == 0.25**2
    assert group_k2(f, y, first) == 0


# ---- relations of the paper


@pytest.mark.slow
@given(samples())
def test_relations_between_the_errors_for_h_bounded_by_one(sample):
    f, y, h, w = sample
    one, two, top = (m(f, y, h, sample_weight=w) for m in (k1, k2, kinf))
    levels = len(np.unique(f[w > 0]))
    slack = 1e-12  # rounding of sums of at most 30 numbers of size 1
    assert two <= one + slack
    assert one <= math.sqrt(two) + 1e-9  # the root turns 1e-18 of rounding into 1e-9
    assert top <= one + slack
    assert one <= levels * top + slack


@pytest.mark.slow
@given(samples(), st.floats(0.01, 25))
def test_covariance_form_is_bounded(sample, bound):
    f, y, h, w = sample
    h = h * math.sqrt(bound)
    limit = k1(f, y, h, sample_weight=w) + math.sqrt(bound * msce(f, y, sample_weight=w))
    assert covariance_form(f, y, h, sample_weight=w) <= limit + 1e-9  # a root of rounding


def level_error(prediction, y, inside):
    return np.mean((prediction[inside] - y[inside]) ** 2)


@given(samples())
def test_a_violation_lowers_squared_error_on_its_level_set(sample):
    f, y, h, _ = sample
    for v in np.unique(f):
        inside = f == v
        a, square = np.mean((h * (y - v))[inside]), np.mean(h[inside] ** 2)
        # Smaller ones drown in the rounding that is allowed below.
        if a < 1e-3:
            continue
        better = v + (a / square) * h
        gain = level_error(f, y, inside) - level_error(better, y, inside)
        assert gain >= a**2 / square - 1e-9  # equality but for rounding


@given(samples())
def test_an_improvement_on_a_level_set_is_a_violation(sample):
    f, y, h, _ = sample
    for v in np.unique(f):
        inside = f == v
        a = level_error(f, y, inside) - level_error(h, y, inside)
        if a > 0:
            witness = np.mean(((h - v) * (y - v))[inside])
            # Rounding of sums of at most 30 numbers of size 1, here and below.
            assert witness >= a / 2 - 1e-12
            # for calibrated f, h itself is a witness
            centred = y - np.mean(y[inside]) + v
            gain = level_error(f, centred, inside) - level_error(h, centred, inside)
            assert np.mean((h * (centred - v))[inside]) >= gain / 2 - 1e-12


@given(samples())
def test_best_responses_bound_the_error_of_every_function_of_a_group(sample):
    # H: functions of one group with an intercept; on each level set least squares over H takes
    # the mean label inside and outside the group. K2(f, h) <= B (err(f) - err(best response)).
    f, y, h, w = sample
    group = h > 0
    best = np.empty_like(f)
    for v in np.unique(f):
        for part in (group, ~group):
            cell = (f == v) & part
            if w[cell].sum() > 0:
                best[cell] = np.average(y[cell], weights=w[cell])
            else:
                best[cell] = v
    gain = np.average((f - y) ** 2 - (best - y) ** 2, weights=w)
    for inside, outside in [(1, 0), (0, 1), (1, 1), (1, -1), (0.5, -1)]:
        member = np.where(group, inside, outside)
        # Rounding of sums of at most 30 numbers of size 1.
        assert k2(f, y, member, sample_weight=w) <= gain + 1e-12


# ---- weights, order, many functions


@pytest.mark.slow
@given(samples())
def test_a_row_of_weight_two_is_the_row_twice(sample):
    f, y, h, w = sample
    times = w.astype(int)
    many = [np.repeat(c, times) for c in (f, y, h)]
    for measure in REPEATABLE:
        for bins in (None, 3):
            assert measure(f, y, h, sample_weight=w, bins=bins) == pytest.approx(
                measure(*many, bins=bins), **CLOSE
            )
    assert ece(f, y, sample_weight=w) == pytest.approx(ece(*many[:2]), **CLOSE)
    if (many[2] > 0).any():
        assert group_k2(f, y, h > 0, sample_weight=w) == pytest.approx(
            group_k2(*many[:2], many[2] > 0), **CLOSE
        )


@pytest.mark.slow
@given(samples(), st.randoms(use_true_random=False))
def test_row_order_and_the_scale_of_weights_do_not_matter(sample, random):
    f, y, h, w = sample
    order = np.array(random.sample(range(len(f)), len(f)))
    for measure in MEASURES:
        for bins in (None, 3):
            expected = measure(f, y, h, sample_weight=w, bins=bins)
            shuffled = measure(f[order], y[order], h[order], sample_weight=w[order], bins=bins)
            assert shuffled == pytest.approx(expected, **CLOSE)
            for scale in (1e-200, 7.0, 1e200):
                scaled = measure(f, y, h, sample_weight=w * scale, bins=bins)
                assert scaled == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("measure", [*MEASURES, group_k2])
def test_one_value_per_column_or_group(measure):
    frame = pd.DataFrame({"sex": list("FMFMMF"), "race": list("WWBBWB")})
    table = read_table(frame)
    groups = bind(["sex", "race"], table)
    f, y = np.array([0.1, 0.1, 0.5, 0.5, 0.9, 0.9]), np.array([0, 1, 1, 0, 1, 0])
    masks = [mask for _, mask in groups.masks(table)]
    expected = [measure(f, y, mask) for mask in masks]
    assert all(isinstance(value, float) for value in expected)
    for h in (np.column_stack(masks), groups.masks(table), list(groups.masks(table))):
        found = measure(f, y, h)
        assert isinstance(found, np.ndarray)
        assert found.tolist() == expected
    one = measure(f, y, masks[0].reshape(-1, 1))
    assert one.tolist() == expected[:1]


# ---- bins and bias


def test_bias_is_removed():
    rng = np.random.default_rng(0)
    plain, unbiased, weighted = [], [], []
    for _ in range(400):
        f = np.repeat(np.linspace(0.1, 0.9, 20), 10)
        y = rng.random(200) < f
        weight = rng.uniform(0.2, 3.0, 200)
        plain.append(k2(f, y))
        unbiased.append(k2_unbiased(f, y))
        weighted.append(k2_unbiased(f, y, sample_weight=weight))
    for estimates in (unbiased, weighted):
        error = np.std(estimates) / math.sqrt(len(estimates))
        assert abs(np.mean(estimates)) < 4 * error
        assert np.mean(plain) > 20 * error


def test_bias_removed_keeps_a_true_gap():
    rng = np.random.default_rng(1)
    f = np.repeat(np.linspace(0.2, 0.8, 10), 20)
    found = [k2_unbiased(f, rng.random(200) < f + 0.1) for _ in range(400)]
    # Four standard errors of the mean of 400 draws.
    assert np.mean(found) == pytest.approx(0.01, abs=4 * np.std(found) / 20)


@pytest.mark.slow
@given(samples())
def test_bias_is_the_variance_over_the_effective_number_of_rows(sample):
    f, y, h, w = sample
    expected = 0.0
    for v in np.unique(f):
        z, weight = (h * (y - f))[f == v], w[f == v]
        rows = weight.sum() ** 2 / (weight**2).sum() if weight.any() else 0
        if rows > 1:
            mean = np.average(z, weights=weight)
            variance = np.average((z - mean) ** 2, weights=weight) * rows / (rows - 1)
            expected += weight.sum() / w.sum() * (mean**2 - variance / rows)
    assert k2_unbiased(f, y, h, sample_weight=w) == pytest.approx(expected, **CLOSE)


def test_every_public_measure_is_exported():
    others = [msce, group_k2, ece, ece_debiased, worst_group_ece, ecce, ecce_p, ecce_sigma]
    others += [metrics.deviance, metrics.decompose, metrics.Decomposition]
    assert {m.__name__ for m in [*MEASURES, *others]} == set(metrics.__all__)
