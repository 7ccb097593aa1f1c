"""Labels, weights and scores are checked once, with errors that name the value and the row."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.data.labels import read_labels, read_more_labels, read_scores


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 1],
        [False, True, True],
        np.array([0, 1, 1], dtype=np.int8),
        np.array([[0.0], [1.0], [1.0]]),
        pd.Series([0, 1, 1], index=[7, 8, 9]),
        pd.Series([0, 1, 1], dtype="Int64"),
        pd.Series([False, True, True], dtype="boolean"),
        pd.Series([0, 1, 1], dtype=object),
        pd.Series([Decimal(0), Decimal(1), Decimal(1)]),
        pd.Categorical([0, 1, 1]),
        pd.DataFrame({"y": [0, 1, 1]}),
    ],
)
def test_zero_one_labels_of_any_container_are_binary(y):
    labels = read_labels(y, n_rows=3)
    assert (labels.kind, labels.low, labels.high) == ("binary", 0.0, 1.0)
    assert labels.values.dtype == np.float64
    np.testing.assert_array_equal(labels.values, [0.0, 1.0, 1.0])
    assert labels.weight is None


def test_the_callers_labels_are_not_shared():
    y = np.array([0.0, 1.0])
    labels = read_labels(y, n_rows=2)
    y[0] = 1.0
    assert labels.values[0] == 0.0


@pytest.mark.parametrize("constant", [0, 1])
def test_one_class_is_still_binary(constant):
    labels = read_labels([constant, constant], n_rows=2)
    assert (labels.kind, labels.low, labels.high) == ("binary", 0.0, 1.0)
    np.testing.assert_array_equal(labels.values, [constant, constant])


def test_labels_inside_the_unit_interval_are_soft_and_not_scaled():
    labels = read_labels([0.2, 0.4, 1.0], n_rows=3)
    assert (labels.kind, labels.low, labels.high) == ("soft", 0.0, 1.0)
    np.testing.assert_array_equal(labels.values, [0.2, 0.4, 1.0])


def test_other_labels_are_regression_with_observed_bounds():
    labels = read_labels([-1.0, 3.0, 1.0], n_rows=3)
    assert (labels.kind, labels.low, labels.high) == ("regression", -1.0, 3.0)
    np.testing.assert_array_equal(labels.values, [0.0, 1.0, 0.5])


@pytest.mark.parametrize(("constant", "high"), [(7.0, 8.0), (2.0**60, 2.0**60 + 256)])
def test_constant_regression_labels_get_bounds_that_differ(constant, high):
    labels = read_labels([constant] * 2, n_rows=2)
    assert (labels.kind, labels.low, labels.high) == ("regression", constant, high)
    np.testing.assert_array_equal(labels.values, [0.0, 0.0])


def test_bounds_make_regression_labels_and_scale_them():
    labels = read_labels([10, 30], n_rows=2, bounds=(0, 40))
    assert (labels.kind, labels.low, labels.high) == ("regression", 0.0, 40.0)
    np.testing.assert_array_equal(labels.values, [0.25, 0.75])
    assert read_labels([0, 1], n_rows=2, bounds=(0, 1)).kind == "regression"


def test_labels_on_the_bounds_are_inside():
    np.testing.assert_array_equal(read_labels([-2, 2], n_rows=2, bounds=(-2, 2)).values, [0.0, 1.0])


def test_labels_outside_the_bounds_are_refused_with_count_value_and_row():
    with pytest.raises(ValueError, match=r"2 of 4 entries .* first is 41\.5 in row 1") as caught:
        read_labels([1, 41.5, 2, -1], n_rows=4, bounds=(0, 40))
    assert "bounds=(0, 40)" in str(caught.value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 1), "low < high"),
        ((2, 1), "low < high"),
        ((0, np.inf), "finite"),
        ((np.nan, 1), "finite"),
        ((0, 1, 2), "two numbers"),
        (("a", 1), "two numbers"),
        (5, "two numbers"),
        ((-1e308, 1e308), "float64"),
    ],
)
def test_bounds_must_be_two_finite_numbers_in_order(bounds, message):
    with pytest.raises(ValueError, match=message):
        read_labels([0, 1], n_rows=2, bounds=bounds)


@pytest.mark.parametrize(
    ("y", "seen"),
    [
        ([1.0, np.nan, np.nan], "2 of 3 entries .* nan in row 1"),
        ([1.0, 2.0, np.inf], "1 of 3 entries .* inf in row 2"),
        ([-np.inf, 2.0, 1.0], "1 of 3 entries .* -inf in row 0"),
        ([1, None, 0], "1 of 3 entries .* nan in row 1"),
        (pd.Series([1, 0, None], dtype="Int64"), "1 of 3 entries .* nan in row 2"),
        (pd.Series([True, None, None], dtype="boolean"), "2 of 3 entries .* nan in row 1"),
    ],
)
def test_missing_or_infinite_labels_are_refused_with_count_and_row(y, seen):
    with pytest.raises(ValueError, match=f"y must not be missing or infinite: {seen}"):
        read_labels(y, n_rows=3)


@pytest.mark.parametrize(
    "y",
    [
        ["yes", "no", "no"],
        np.array(["yes", "no", "no"]),
        pd.Categorical(["yes", "no", "no"]),
        pd.DataFrame({"y": ["yes", "no", "no"]}),
        pd.Series(["yes", "no", "no"], dtype="string"),
    ],
)
def test_two_texts_are_classes_and_the_larger_counts_as_1(y):
    labels = read_labels(y, n_rows=3)
    assert labels.kind == "binary"
    assert labels.classes == ("no", "yes")
    assert labels.values.tolist() == [1.0, 0.0, 0.0]


def test_text_labels_must_be_there_and_all_of_them_text():
    with pytest.raises(ValueError, match="y must not be missing: 1 of 3"):
        read_labels(pd.Series(["yes", "no", None]), n_rows=3)
    with pytest.raises(ValueError, match="y mixes text, such as 'no', with other values"):
        read_labels(pd.Series([1, "no", "yes"], dtype=object), n_rows=3)


def test_many_text_labels_are_not_all_listed():
    with pytest.raises(ValueError, match="'e' and 3 more"):
        read_labels(list("abcdefgh"), n_rows=8)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"])),
        pd.Series([np.datetime64("2020"), np.datetime64("2021")], dtype=object),
        pd.Series([np.timedelta64(1, "s"), np.timedelta64(2, "s")], dtype=object),
        np.array([1j, 2j]),
        pd.Series([[1], [2]]),
    ],
)
def test_labels_that_are_no_numbers_are_refused(y):
    with pytest.raises(ValueError, match=r"y holds .* values: pass numbers"):
        read_labels(y, n_rows=2)


def test_labels_that_float64_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="float64 can hold"):
        read_labels([10**400, 1], n_rows=2)
    with pytest.raises(ValueError, match="rescale"):
        read_labels([-1e308, 1e308], n_rows=2)


@pytest.mark.parametrize("shape", [(2, 2), (2, 1, 1), ()])
def test_labels_must_be_one_dimensional(shape):
    with pytest.raises(ValueError, match=r"y must be 1-d, but has shape .*one entry per row"):
        read_labels(np.zeros(shape), n_rows=2)


def test_ragged_labels_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        read_labels([[0], [1, 0]], n_rows=2)


def test_masked_labels_are_refused():
    with pytest.raises(TypeError, match="masked"):
        read_labels(np.ma.array([0, 1], mask=[0, 1]), n_rows=2)


def test_lengths_that_differ_are_both_named():
    with pytest.raises(ValueError, match="y has 3 entries, but X has 2 rows"):
        read_labels([0, 1, 1], n_rows=2)
    with pytest.raises(ValueError, match="sample_weight has 1 entries, but X has 2 rows"):
        read_labels([0, 1], n_rows=2, sample_weight=[1])
    with pytest.raises(ValueError, match="scores has 3 entries, but X has 2 rows"):
        read_scores([0, 1, 1], n_rows=2, probability=True)


def test_no_rows_are_refused_and_one_row_is_fine():
    with pytest.raises(ValueError, match="no rows"):
        read_labels([], n_rows=0)
    with pytest.raises(ValueError, match="no rows"):
        read_scores([], n_rows=0, probability=False)
    assert read_labels([3.5], n_rows=1).values.tolist() == [0.0]
    assert read_scores([3.5], n_rows=1, probability=False).tolist() == [3.5]


@pytest.mark.parametrize(
    "weight", [[2, 0, 1], pd.Series([2, 0, 1], dtype="Int64"), [[2], [0], [1]]]
)
def test_weights_may_be_zero_for_some_rows(weight):
    read = read_labels([0, 1, 1], n_rows=3, sample_weight=weight).weight
    assert read is not None
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, [2.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -0.5, -2], r"not be negative: 2 of 3 entries .* -0\.5 in row 1"),
        ([1, np.nan, 1], "missing or infinite: 1 of 3 entries .* nan in row 1"),
        ([1, 1, np.inf], "missing or infinite: 1 of 3 entries .* inf in row 2"),
        ([0, 0, 0], "zero for every row"),
        (np.ones((3, 2)), r"sample_weight must be 1-d, but has shape \(3, 2\)"),
        (["a", "b", "c"], "sample_weight holds text"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        read_labels([0, 1, 1], n_rows=3, sample_weight=weight)


@pytest.mark.parametrize(
    "scores", [[0.25, 1.0], np.array([[0.25], [1.0]], dtype=np.float32), pd.Series([0.25, 1.0])]
)
def test_scores_become_a_float64_vector(scores):
    read = read_scores(scores, n_rows=2, probability=True)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, [0.25, 1.0])


def test_scores_of_two_classes_need_a_choice_of_column():
    with pytest.raises(ValueError, match=r"shape \(3, 2\): pass the column scores\[:, 1\]"):
        read_scores(np.zeros((3, 2)), n_rows=3, probability=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("probability", [True, False])
def test_scores_must_be_finite(value, probability):
    with pytest.raises(ValueError, match=f"1 of 2 entries .* {value} in row 1"):
        read_scores([0.5, value], n_rows=2, probability=probability)


def test_probabilities_must_lie_in_the_unit_interval_and_margins_need_a_link():
    with pytest.raises(ValueError, match=r"2 of 3 entries .* -0\.1 in row 1.*base_link=\"logit\""):
        read_scores([0.5, -0.1, 1.5], n_rows=3, probability=True)
    margins = read_scores([0.5, -0.1, 1.5], n_rows=3, probability=False)
    np.testing.assert_array_equal(margins, [0.5, -0.1, 1.5])


_LABELS = hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6, width=32))


@pytest.mark.slow
@given(_LABELS)
def test_scaled_labels_lie_in_the_unit_interval_and_unscale_to_themselves(y):
    labels = read_labels(y, n_rows=len(y))
    assert labels.values.min() >= 0.0
    assert labels.values.max() <= 1.0
    # Two roundings each way, relative to the span and to the offset of the labels.
    tolerance = 4 * np.finfo(float).eps * max(abs(labels.low), abs(labels.high), 1.0)
    np.testing.assert_allclose(labels.unscale(labels.values), y, rtol=0, atol=2 * tolerance)
    np.testing.assert_array_equal(labels.scale(y), labels.values)


@pytest.mark.slow
@given(_LABELS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(y, random):
    order = list(range(len(y)))
    random.shuffle(order)
    labels, shuffled = read_labels(y, n_rows=len(y)), read_labels(y[order], n_rows=len(y))
    assert (labels.kind, labels.low, labels.high) == (shuffled.kind, shuffled.low, shuffled.high)
    np.testing.assert_array_equal(labels.values[order], shuffled.values)


@pytest.mark.parametrize(
    ("first", "bounds", "more"),
    [
        ([0, 1], None, [0.25, 1.0]),
        ([0.5, 0.2], None, [0, 1]),
        ([10, 20], (0, 40), [0, 40]),
        ([10, 20], None, [5, 40]),
    ],
    ids=["binary", "soft", "bounds", "observed"],
)
def test_more_labels_are_on_the_same_scale(first, bounds, more):
    like = read_labels(first, n_rows=2, bounds=bounds)
    read = read_more_labels(like, more, n_rows=2, sample_weight=[1, 3])
    np.testing.assert_array_equal(read.values, like.scale(more))
    assert (read.kind, read.low, read.high) == (like.kind, like.low, like.high)
    assert read.weight.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("first", "bounds", "words"),
    [
        ([0, 1], None, r"z must lie inside bounds=.0, 1.: .* 41\.0 in row 1"),
        ([0.5, 0.2], None, r"z must lie inside bounds=.0, 1.: .* 41\.0 in row 1"),
        ([10, 20], (0, 40), r"z must lie inside bounds=.0, 40.: .* 41\.0 in row 1"),
    ],
)
def test_more_labels_must_keep_bounds_that_are_more_than_observed(first, bounds, words):
    like = read_labels(first, n_rows=2, bounds=bounds)
    with pytest.raises(ValueError, match=words):
        read_more_labels(like, [0, 41], n_rows=2, what="z")


def test_more_labels_are_checked_like_the_first():
    like = read_labels([0, 1], n_rows=2)
    with pytest.raises(ValueError, match="There are no rows"):
        read_more_labels(like, [], n_rows=0)
    with pytest.raises(ValueError, match="y has 3 entries, but X has 2 rows"):
        read_more_labels(like, [0, 1, 1], n_rows=2)
    with pytest.raises(ValueError, match="missing or infinite"):
        read_more_labels(like, [0, np.nan], n_rows=2)
    with pytest.raises(ValueError, match="must not be negative"):
        read_more_labels(like, [0, 1], n_rows=2, sample_weight=[-1, 1])
