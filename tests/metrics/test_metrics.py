import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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

# Sums over rows are rounded differently in another order or grouping; values are of order 1.
CLOSE = {"rel": 1e-9, "abs": 1e-12}

MEASURES = [k1, k2, kinf, covariance_form, k2_unbiased]
REPEATABLE = [k1, k2, kinf, covariance_form]  # a row of weight 2 is the row twice

grid = st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0])
unit = st.floats(0, 1)
signed = st.floats(-1, 1)
row = st.tuples(grid, unit, signed, st.integers(0, 3))


@st.composite
def samples(draw):
    """Columns f, y, h in [-1, 1], w (whole numbers, not all zero)."""
    f, y, h, w = (
        np.array(c, float) for c in zip(*draw(st.lists(row, min_size=1, max_size=30)), strict=True)
    )
    w[0] = max(w[0], 1)
    return f, y, h, w


def slow(f, y, h, w, levels):
    """(mass, mean of h (y - f), covariance of h and y) per level set, row by row."""
    total = sum(w)
    for level in sorted(set(levels)):
        inside = [i for i in range(len(f)) if levels[i] == level]
        mass = sum(w[i] for i in inside)
        if not mass:
            continue

        def mean(values, inside=inside, mass=mass):
            return sum(w[i] * values(i) for i in inside) / mass

        moment = mean(lambda i: h[i] * (y[i] - f[i]))
        covariance = mean(lambda i: h[i] * y[i]) - mean(lambda i: h[i]) * mean(lambda i: y[i])
        yield mass / total, moment, covariance


# ---- agreement with the definitions


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


@given(samples(), st.lists(unit, max_size=4, unique=True).map(sorted))
def test_edges_put_ties_up(sample, edges):
    f, y, h, w = sample
    levels = [sum(e <= v for e in edges) for v in f]
    table = slow(f, y, h, w, levels)
    assert k2(f, y, h, sample_weight=w, bins=edges) == pytest.approx(
        sum(p * m * m for p, m, _ in table), **CLOSE
    )


@given(samples())
def test_group_k2_is_the_error_of_the_group_alone(sample):
    f, y, h, w = sample
    mask = h > 0
    found = group_k2(f, y, mask, sample_weight=w)
    if w[mask].sum() == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(msce(f[mask], y[mask], sample_weight=w[mask]), **CLOSE)


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


def test_known_values():
    f, y = [0.25] * 4 + [0.75] * 4, [0, 0, 0, 1, 1, 1, 1, 1]
    assert msce(f, y) == 0.5 * 0.25**2
    assert k1(f, y) == kinf(f, y) == 0.5 * 0.25
    assert ece(f, y) == 0.125
    first = np.arange(8) < 4
    assert k2(f, y, ~first) == 0.5 * 0.25**2
    assert group_k2(f, y, ~first) == 0.25**2
    assert group_k2(f, y, first) == 0


def test_ece_counts_predictions_outside_the_unit_interval_in_the_end_bins():
    assert ece([-0.5, 0.05, 1.5, 1.0], [0, 0, 1, 1]) == pytest.approx((0.45 + 0.5) / 4)


# ---- relations of the paper


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
        assert k2(f, y, member, sample_weight=w) <= gain + 1e-12


# ---- weights, order, many functions


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


def test_worst_group_takes_pairs_and_skips_empty_groups():
    f, y = np.full(4, 0.5), np.array([1, 1, 0, 0])
    pairs = [("first", y == 1), ("nobody", np.zeros(4, bool))]
    assert worst_group_ece(f, y, pairs) == worst_group_ece(f, y, iter(pairs)) == 0.5
    assert worst_group_ece(f, y, np.zeros(4, bool)) == ece(f, y) == 0


# ---- bins and bias


def test_quantile_bins_keep_ties_together_and_use_the_residual_of_each_row():
    f = np.array([0.1, 0.2, 0.2, 0.2, 0.3, 0.4])
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    low = f <= 0.2
    expected = sum(np.mean(part) * np.mean((y - f)[part]) ** 2 for part in (low, ~low))
    assert k2(f, y, bins=2) == pytest.approx(expected, **CLOSE)
    assert k2(f, y, bins=1) == pytest.approx(np.mean(y - f) ** 2, **CLOSE)


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
    assert np.mean(found) == pytest.approx(0.01, abs=4 * np.std(found) / 20)


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


# ---- the door


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], []), "f is empty"),
        (([[0.5]], [1]), r"f must have shape \(n,\), got \(1, 1\)"),
        (([0.5], [1, 0]), "y has 2 rows, but f has 1"),
        (
            ([0.5, np.nan, np.inf], [1, 0, 1]),
            "f must be finite; 2 values are not, the first is nan in row 1",
        ),
        (([0.5], [np.inf]), "y must be finite"),
        ((["a"], [1]), "f must hold numbers"),
        (([0.5], [1], [1, 2]), "h has 2 rows"),
        (([0.5], [1], np.ones((1, 1, 1))), "h must have shape"),
        (([0.5], [1], [("men", [np.nan])]), "h of 'men' must be finite"),
    ],
)
def test_bad_rows(arguments, words):
    with pytest.raises(ValueError, match=words):
        k2(*arguments)


@pytest.mark.parametrize(
    "bins", [0, -1, True, 2.5, "ten", [0.5, 0.5], [0.9, 0.1], [np.nan], [[0.5]]]
)
def test_bad_bins(bins):
    with pytest.raises(ValueError, match="bins"):
        k1([0.1, 0.9], [0, 1], bins=bins)


@pytest.mark.parametrize("bins", [0, True, 2.5, [0.5]])
def test_ece_takes_only_a_number_of_bins(bins):
    with pytest.raises(ValueError, match="bins must be an integer of at least 1"):
        ece([0.1, 0.9], [0, 1], bins=bins)


@pytest.mark.parametrize("weight", [[1], [1, -1], [0, 0], [1, np.nan]])
def test_bad_weights(weight):
    with pytest.raises(ValueError, match="weights"):
        msce([0.1, 0.9], [0, 1], sample_weight=weight)


@pytest.mark.parametrize("mask", [[0.5, 1], [2, 0]])
def test_masks_are_zero_or_one(mask):
    with pytest.raises(ValueError, match="mask must be boolean or 0/1"):
        group_k2([0.1, 0.9], [0, 1], mask)


@pytest.mark.parametrize("measure", [covariance_form, group_k2, worst_group_ece])
def test_none_is_refused_where_a_function_is_needed(measure):
    with pytest.raises(ValueError, match="None"):
        measure([0.1, 0.9], [0, 1], None)


def test_every_public_measure_is_exported():
    others = [msce, group_k2, ece, ece_debiased, worst_group_ece, ecce, ecce_p, ecce_sigma]
    assert {m.__name__ for m in [*MEASURES, *others]} == set(metrics.__all__)
