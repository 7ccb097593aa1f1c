"""Level sets of a measure: by value, by edges, by quantiles; and what is refused at the door."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CLOSE, samples, slow, unit

from recalibrate.metrics import covariance_form, group_k2, k1, k2, msce, worst_group_ece


@given(samples(), st.lists(unit, max_size=4, unique=True).map(sorted))
def test_edges_put_ties_up(sample, edges):
    f, y, h, w = sample
    levels = [sum(e <= v for e in edges) for v in f]
    table = slow(f, y, h, w, levels)
    assert k2(f, y, h, sample_weight=w, bins=edges) == pytest.approx(
        sum(p * m * m for p, m, _ in table), **CLOSE
    )


def test_quantile_bins_keep_ties_together_and_use_the_residual_of_each_row():
    f = np.array([0.1, 0.2, 0.2, 0.2, 0.3, 0.4])
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    low = f <= 0.2
    expected = sum(np.mean(part) * np.mean((y - f)[part]) ** 2 for part in (low, ~low))
    assert k2(f, y, bins=2) == pytest.approx(expected, **CLOSE)
    assert k2(f, y, bins=1) == pytest.approx(np.mean(y - f) ** 2, **CLOSE)


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
