"""Kernels over rows and the solver, against numpy and math."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.core.family import family
from recalibrate.core.fixedpoint import make_scale
from recalibrate.kernels.gram import solve_level
from recalibrate.kernels.rows import (
    add_losses,
    count_cells,
    exp_negative,
    level_index,
    log1p_unit,
    respond,
)

NO_WEIGHT = np.empty(0, np.int64)
NO_LEVEL = np.empty(0, np.int32)

# ---- elementary functions


# 1e-15 is about five units in the last place: the price of a fixed order of additions.
@given(st.floats(-700.0, 0.0))
@example(0.0)
@example(-700.0)
@example(-math.log(2) / 2)
@example(-1e-300)
def test_exp_negative(x):
    assert exp_negative(x) == pytest.approx(math.exp(x), rel=1e-15, abs=0)


def test_exp_negative_is_monotone_and_ends_in_zero():
    x = -np.linspace(0, 40, 20_001)
    values = np.array([exp_negative(value) for value in x])
    assert (np.diff(values) <= 0).all()
    assert exp_negative(-1e9) == exp_negative(-math.inf) == 0.0


@given(st.floats(0.0, 1.0))
@example(0.0)
@example(1.0)
@example(5e-324)
def test_log1p_unit(t):
    # Below 2**-1022 numbers themselves are coarser than 1e-15.
    assert log1p_unit(t) == pytest.approx(math.log1p(t), rel=1e-15, abs=5e-324)


# ---- levels


@pytest.mark.slow
@given(
    hnp.arrays(float, st.integers(0, 20), elements=st.floats(-5, 5), unique=True),
    hnp.arrays(float, st.integers(0, 30), elements=st.floats(allow_nan=False)),
)
def test_level_index_counts_thresholds(thresholds, f):
    thresholds.sort()
    f = np.concatenate([f, thresholds, np.nextafter(thresholds, -9), np.nextafter(thresholds, 9)])
    out = np.empty(len(f), np.int32)
    level_index(f, thresholds, 0, out)
    assert out.tolist() == np.searchsorted(thresholds, f, side="right").tolist()


@given(st.integers(1, 3000), hnp.arrays(float, 20, elements=st.floats(allow_nan=False)))
def test_a_guessed_level_is_the_same_level(steps, f):
    thresholds = (2 * np.arange(1, steps + 1) - 1) / (2 * steps)
    on_grid = np.arange(steps + 1) / steps
    f = np.concatenate(
        [f, on_grid, thresholds, np.nextafter(thresholds, -9), np.nextafter(thresholds, 9)]
    )
    out = np.empty(len(f), np.int32)
    level_index(f, thresholds, steps, out)
    assert out.tolist() == np.searchsorted(thresholds, f, side="right").tolist()


def test_cells_clamp_to_their_range():
    out = np.zeros(4, np.int64)
    f = np.array([-1.0, 0.0, 0.24, 0.25, 0.99, 1.0, 7.0])
    count_cells(f, NO_WEIGHT, 0.0, 4.0, out)
    assert out.tolist() == [3, 1, 0, 3]
    count_cells(f, np.arange(7), 0.0, 4.0, out)
    assert out.tolist() == [6, 4, 0, 18]


# ---- responses


def answers(y, f, *, link="identity", replace=False, weight=None):
    own = family(link)
    scale = make_scale(len(y), weight, newton=own.newton, extra_bits=own.extra_bits)
    words = np.empty((len(y), scale.words), np.int64)
    respond(
        y,
        f,
        scale.quantise_weight(weight),
        own.curve,
        replace,
        own.response_limit,
        scale,
        words,
    )
    count, s, g = scale.unpack(words)
    assert (count == 1).all()
    return s * scale.weight_step, g * scale.response_step, scale


columns = hnp.arrays(float, 5, elements=st.floats(0, 1))
some_weights = st.none() | hnp.arrays(float, 5, elements=st.floats(0.01, 100))


@given(columns, columns, some_weights, st.booleans())
def test_respond_identity(y, f, weight, replace):
    s, g, scale = answers(y, f, replace=replace, weight=weight)
    w = np.ones(5) if weight is None else weight
    step = 0.0 if weight is None else 1 / scale.weight_factor
    # Rounded once: half a step of the weight, half a step of its product.
    assert (np.abs(s - w) <= step / 2 + (scale.weight_step / 2 if scale.weighted else 0.0)).all()
    r = y if replace else y - f
    bound = np.abs(r) * step / 2 + scale.response_step / 2 + 1e-15 * w
    assert (np.abs(g - w * r) <= bound).all()


@given(columns, hnp.arrays(float, 5, elements=st.floats(-50, 50)), some_weights)
def test_respond_logit(y, f, weight):
    s, g, scale = answers(y, f, link="logit", weight=weight)
    w = np.ones(5) if weight is None else weight
    p = np.array([1 / (1 + math.exp(-value)) for value in f])
    step = 0.0 if weight is None else 1 / scale.weight_factor
    for found, true, unit in [
        (g, y - p, scale.response_step),
        (s, p * (1 - p), scale.weight_step),
    ]:
        bound = np.abs(true) * step / 2 + unit / 2 + 1e-15 * w
        assert (np.abs(found - w * true) <= bound).all()
    assert (s >= 0).all()


def test_residuals_are_cut_at_four():
    _, g, _ = answers(np.array([0.0, 1.0, 1.0]), np.array([9.0, -1e30, -3.0]))
    assert g.tolist() == [-4.0, 4.0, 4.0]


@given(
    hnp.arrays(float, 5, elements=st.floats(1e-6, 1)),
    hnp.arrays(float, 5, elements=st.floats(-5, 1.3)),
    some_weights,
    st.sampled_from(["log-poisson", "log-tweedie-1.3", "log-gamma"]),
)
def test_respond_log(y, f, weight, link):
    s, g, scale = answers(y, f, link=link, weight=weight)
    w = np.ones(5) if weight is None else weight
    true_g, true_s = family(link).slopes(y, f)
    step = 0.0 if weight is None else 1 / scale.weight_factor
    for found, true, unit in [(g, true_g, scale.response_step), (s, true_s, scale.weight_step)]:
        # The formula's own rounding: terms of up to e^5.
        bound = np.abs(true) * step / 2 + unit / 2 + 1e-12 * w
        assert (np.abs(found - w * true) <= bound).all()


@given(
    columns,
    hnp.arrays(float, 5, elements=st.floats(-30, 30)),
    st.sampled_from(["identity", "logit", "log-poisson", "log-tweedie-1.7", "log-gamma"]),
    st.sampled_from([NO_LEVEL, np.array([0, 1, 1, 0, 2], np.int32)]),
)
def test_losses(y, f, link, level):
    curve, y = family(link).curve, np.maximum(y, 1e-3) if link == "log-gamma" else y
    out = np.zeros(3, np.int64)
    weight = np.array([1, 2, 3, 4, 5])
    add_losses(y, f, NO_LEVEL, weight, level, curve, 2.0**30, 32.0, out)
    loss = family(link).losses(y, f)
    at = level if len(level) else np.zeros(5, int)
    expected = np.bincount(at, weights=np.minimum(loss, 32.0) * weight, minlength=3)
    # Half of 2**-30 per unit of weight, and rounding of the formula.
    assert np.abs(out * 2.0**-30 - expected).max() <= 15 * (2.0**-31 + 1e-12)

    distinct, at = np.unique(f, return_inverse=True)
    looked_up = np.zeros(3, np.int64)
    add_losses(y, distinct, at.astype(np.int32), weight, level, curve, 2.0**30, 32.0, looked_up)
    assert looked_up.tolist() == out.tolist()


# ---- the solver


@st.composite
def designs(draw: st.DrawFn):
    """Columns of small integers, constant first, some of them sums of others."""
    rows, free = draw(st.integers(1, 30)), draw(st.integers(1, 4))
    x = draw(hnp.arrays(np.int64, (rows, free), elements=st.integers(-3, 3)))
    mixed = draw(hnp.arrays(np.int64, (free, draw(st.integers(0, 3))), elements=st.integers(-2, 2)))
    design = np.column_stack([np.ones(rows), x, x @ mixed])
    y = draw(hnp.arrays(np.int64, rows, elements=st.integers(-8, 8)))
    return design, y / 8.0


@given(designs())
def test_fitted_values_are_those_of_least_squares(made):
    design, y = made
    count = design.shape[1]
    out = np.empty(count)
    rank = solve_level(np.tril(design.T @ design), design.T @ y, 1e-9, out)
    expected, _, true_rank, _ = np.linalg.lstsq(design, y, rcond=None)
    assert rank == true_rank
    # Normal equations square the condition, which is below 1e3 for integers this small.
    np.testing.assert_allclose(design @ out, design @ expected, atol=1e-8)
    assert np.count_nonzero(out) <= rank


def test_a_column_of_zeros_is_left_out():
    out = np.empty(2)
    assert solve_level(np.array([[4.0, 0.0], [0.0, 0.0]]), np.array([2.0, 0.0]), 1e-9, out) == 1
    assert out.tolist() == [0.5, 0.0]


def test_the_upper_triangle_is_not_read():
    gram = np.array([[2.0, np.nan], [1.0, 2.0]])
    out = np.empty(2)
    solve_level(gram, np.array([3.0, 3.0]), 1e-9, out)
    # Roots of the pivots round: a few units in the last place.
    np.testing.assert_allclose(out, [1.0, 1.0], rtol=1e-15)


def test_thinned_rows_stand_for_the_others():
    """Sums change by chance only, and rows that count are never scaled."""
    from recalibrate.core.family import family
    from recalibrate.core.fixedpoint import make_scale
    from recalibrate.kernels.rows import respond, thin_out

    n = 20_000
    rng = np.random.default_rng(0)
    f = rng.normal(-4.0, 2.0, n)
    p = 1.0 / (1.0 + np.exp(-f))
    y, no_weight = (rng.random(n) < p).astype(float), np.empty(0, np.int64)
    scale = make_scale(n, None, newton=True)
    words = np.empty((n, scale.words), np.int64)
    respond(y, f, no_weight, family("logit").curve, False, 4.0, scale, words)
    before = words.copy()
    keys = rng.integers(0, 2**63, n).astype(np.uint64)
    thin_out(keys, np.uint64(7), 1.0, 0.1, no_weight, scale, words)
    drawn = words[:, 0] != 0
    size = np.maximum(np.abs(y - p), p * (1 - p))
    assert drawn[size >= 0.1].all()
    np.testing.assert_array_equal(words[size > 0.1 + 1e-6], before[size > 0.1 + 1e-6])
    assert 0.2 < drawn.mean() < 0.6
    for old, new in zip(scale.unpack(before)[1:], scale.unpack(words)[1:], strict=True):
        change = float(new.sum() - old.sum())
        # A row of size u < .1 is kept with chance u / .1: its variance is old^2 (.1 / u - 1).
        small = size < 0.1
        noise = np.sqrt(np.sum(old[small].astype(float) ** 2 * (0.1 / size[small] - 1)))
        assert abs(change) < 4 * noise
