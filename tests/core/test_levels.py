"""Level sets: ties go up, quantiles are weighted, nothing is rounded by a rounding function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.core.levels import MARGIN_LIMIT, Levels, from_margin, to_margin


@pytest.mark.parametrize("steps", [1, 2, 7, 10, 100, 12_345])
def test_uniform_grid(steps):
    grid = Levels.uniform(steps)
    assert grid.count == steps + 1
    assert grid.values[0] == 0.0
    assert grid.values[-1] == 1.0
    # Every value of the grid is its own level, and every threshold belongs to the level above.
    assert grid.index(grid.values).tolist() == list(range(steps + 1))
    assert grid.index(grid.thresholds).tolist() == list(range(1, steps + 1))
    below = np.nextafter(grid.thresholds, -1)
    assert grid.index(below).tolist() == list(range(steps))
    assert grid.round(grid.values).tolist() == grid.values.tolist()


@pytest.mark.slow
@given(st.integers(1, 500), hnp.arrays(float, 10, elements=st.floats(0, 1)))
def test_rounding_goes_to_the_nearest_value(steps, f):
    rounded = Levels.uniform(steps).round(f)
    # Thresholds are half-way up to the rounding of one division.
    assert (np.abs(rounded - f) <= 0.5 / steps + 1e-15).all()


def test_scores_outside_go_to_the_ends():
    assert Levels.uniform(4).index(np.array([-np.inf, -3.0, 1.5, np.inf])).tolist() == [0, 0, 4, 4]


def test_logit_grid_compares_log_odds_with_log_odds():
    grid = Levels.uniform(4, "logit")
    assert grid.steps == 0, "the arithmetic guess is for probabilities"
    assert grid.values[0] == -MARGIN_LIMIT
    assert grid.values[-1] == MARGIN_LIMIT
    p = np.array([0.0, 0.1, 0.13, 0.3, 0.4, 0.7, 0.9, 1.0])
    assert grid.index(to_margin(p, "logit")).tolist() == Levels.uniform(4).index(p).tolist()
    np.testing.assert_allclose(from_margin(grid.values, "logit")[1:-1], [0.25, 0.5, 0.75])


def test_a_mere_partition_rounds_nothing():
    f = np.array([0.1, 0.9])
    assert Levels(np.array([0.5])).round(f) is f
    assert Levels.single().count == 1
    assert Levels.single().index(f).tolist() == [0, 0]


def test_around_takes_each_value_once_and_ties_up():
    levels = Levels.around(np.array([0.75, 0.25, 0.75]))
    assert levels.values.tolist() == [0.25, 0.75]
    assert levels.index(np.array([0.49, 0.5])).tolist() == [0, 1]


def test_levels_cannot_be_changed():
    grid = Levels.uniform(3)
    for array in (grid.thresholds, grid.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0


@pytest.mark.slow
@given(hnp.arrays(float, 10, elements=st.floats(0, 1)))
def test_margins_and_back(p):
    assert to_margin(p, "identity") is p
    margin = to_margin(p, "logit")
    assert (np.abs(margin) <= MARGIN_LIMIT).all()
    back = from_margin(margin, "logit")
    lowest = 1 / (1 + np.exp(MARGIN_LIMIT))
    # Half a step of the log-odds moves p by at most that share of p; log and exp err far less.
    np.testing.assert_allclose(back, np.clip(p, lowest, 1 - lowest), rtol=2.0**-25, atol=0)


def test_extreme_margins_need_no_warning():
    ends = from_margin(np.array([-1e4, 1e4]), "logit")
    assert ends.tolist() == [0.0, 1.0]


# ---- quantile levels

cells = hnp.arrays(np.int64, st.sampled_from([4, 16, 64]), elements=st.integers(0, 5))


@pytest.mark.slow
@given(cells, st.integers(1, 12))
def test_quantile_levels_hold_about_equal_weight(weight, count):
    assume(weight.sum() > 0)
    levels = Levels.from_cells(weight, 0.0, 1.0, count)
    assert levels.count <= count
    assert (np.diff(levels.thresholds) > 0).all()
    middles = (np.arange(len(weight)) + 0.5) / len(weight)
    mass = np.bincount(levels.index(middles), weights=weight, minlength=levels.count)
    assert (mass > 0).all(), "no level set is empty"
    # A cut is at the first cell border that reaches its share, so a level set is too heavy by
    # less than the cell that it ends with.
    assert mass.max() < weight.sum() / count + weight.max()


@pytest.mark.slow
@given(cells, st.integers(1, 12), st.integers(2, 5))
def test_only_shares_of_the_weight_matter(weight, count, times):
    assume(weight.sum() > 0)
    once = Levels.from_cells(weight, -16.0, 16.0, count)
    more = Levels.from_cells(weight * times, -16.0, 16.0, count)
    assert once.thresholds.tolist() == more.thresholds.tolist()


def test_one_occupied_cell_is_one_level():
    weight = np.zeros(16, np.int64)
    weight[7] = 100
    assert Levels.from_cells(weight, 0.0, 1.0, 10).count == 1
