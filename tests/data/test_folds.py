"""Hashes of rows, samples by them, and folds of a splitter."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

from recalibrate.data.folds import first_rows, row_hash, split_folds
from recalibrate.data.table import read_table


def rows(n=103, seed=0, distinct=1000):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.integers(0, distinct, n), "b": rng.choice(["u", "v"], n)})
    return X, rng.integers(0, 2, n) * 1.0, np.round(rng.random(n), 3)


def test_hash_reads_every_number():
    X, y, f = rows()
    plain = row_hash(read_table(X), [y, f])
    assert plain.dtype == np.uint64
    assert len(np.unique(plain)) == len(X.assign(y=y, f=f).drop_duplicates())
    row = 11
    for other in (
        row_hash(read_table(X.assign(a=X["a"].mask(X.index == row, 5000))), [y, f]),
        row_hash(read_table(X), [np.where(np.arange(103) == row, 0.5, y), f]),
        row_hash(read_table(X), [y, np.where(np.arange(103) == row, 2.0, f)]),
    ):
        assert np.flatnonzero(other != plain).tolist() == [row]
    assert (row_hash(read_table(X), [y, f], seed=1) != plain).all()


def test_hash_does_not_tell_zero_from_minus_zero():
    positive, negative = np.array([[0.0], [1.0]]), np.array([[-0.0], [1.0]])
    np.testing.assert_array_equal(
        row_hash(read_table(positive), [np.array([0.0, 1.0])]),
        row_hash(read_table(negative), [np.array([-0.0, 1.0])]),
    )


def test_hash_takes_missing_values():
    table = read_table(np.array([[np.nan], [1.0], [np.nan]]))
    found = row_hash(table, [])
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    "splitter",
    [KFold(4), StratifiedKFold(3), TimeSeriesSplit(4), KFold(5, shuffle=True, random_state=1)],
    ids=repr,
)
def test_splitters(splitter):
    _, y, _ = rows()
    expected = list(splitter.split(np.zeros((len(y), 1)), y))
    found = split_folds(splitter, y)
    for (a, b), (c, d) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_splitter_of_groups_as_pairs():
    _, y, _ = rows()
    groups = np.arange(len(y)) % 10
    pairs = GroupKFold(5).split(np.zeros(len(y)), groups=groups)
    for train, held in split_folds(pairs, y):
        assert not set(groups[train]) & set(groups[held])


def test_pairs_may_be_lists_or_a_generator():
    pairs = [([0, 1], [2]), ([1, 2], [0])]
    for cv in (pairs, iter(pairs), tuple(pairs)):
        found = split_folds(cv, np.zeros(3))
        assert [(a.tolist(), b.tolist()) for a, b in found] == pairs
        assert all(part.dtype == np.intp for fold in found for part in fold)


def test_rows_are_numbered_as_given():
    """Rows 0 and 2 of five are gone (weight zero); the others are 0, 1, 2 now."""
    kept = np.array([1, 3, 4])
    (fold,) = split_folds([([0, 1, 2, 3], [4])], np.zeros(5), kept)
    assert [part.tolist() for part in fold] == [[0, 1], [2]]
    with pytest.raises(ValueError, match="without rows"):
        split_folds([([1, 3, 4], [0, 2])], np.zeros(5), kept)


def test_splitters_number_the_rows_as_given():
    kept = np.arange(4, 20)
    folds = split_folds(KFold(4), np.zeros(20), kept)
    assert [held.tolist() for _, held in folds] == [[0], *np.arange(1, 16).reshape(3, 5).tolist()]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "no folds"),
        ([([0], [])], "without rows"),
        ([([], [0])], "without rows"),
        ([([0, 1], [1, 2])], "overlap"),
    ],
)
def test_bad_pairs(pairs, words):
    with pytest.raises(ValueError, match=words):
        split_folds(pairs, np.zeros(3))


@pytest.mark.parametrize("pairs", [[([0, 1], [3])], [([0, 5], [1])], [([0, 1], [-1])]])
def test_rows_that_do_not_exist(pairs):
    with pytest.raises(ValueError, match="cv="):
        split_folds(pairs, np.zeros(3))


def test_splitters_see_the_labels_of_all_rows_as_given():
    """Rows of weight zero are gone, but their labels are not taken for zeros."""
    seen = []

    class Watching(KFold):
        def split(self, X, y=None, groups=None):
            seen.append(y.copy())
            return super().split(X, y, groups)

    y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.5])
    split_folds(Watching(2), y, np.array([1, 2, 4, 5]))
    np.testing.assert_array_equal(seen, [y])


@pytest.mark.parametrize(
    "pairs",
    [
        [(np.array([True, False, False]), np.array([False, True, True]))],
        [([0.0, 1.0], [2.0])],
        [(0, 1)],
        [([0], [1], [2])],
        [0, 1],
    ],
    ids=["masks", "floats", "numbers", "triple", "no pairs"],
)
def test_folds_that_are_no_pairs_of_row_numbers(pairs):
    with pytest.raises(ValueError, match="cv= must give"):
        split_folds(pairs, np.zeros(3))


@pytest.mark.parametrize("cv", ["five", 2.5, None], ids=repr)
def test_what_is_no_splitter(cv):
    with pytest.raises(TypeError, match="a scikit-learn splitter"):
        split_folds(cv, np.zeros(3))


# ---- samples


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
def test_a_sample_follows_the_rows_not_their_order(seed):
    X, y, f = rows(200, seed, distinct=3)
    order = np.random.default_rng(seed + 1).permutation(200)

    def sampled(at):
        key = row_hash(read_table(X.iloc[at]), [y[at], f[at]], seed)
        chosen = at[first_rows(key, 60)]
        return list(X.iloc[chosen].assign(y=y[chosen], f=f[chosen]).itertuples(index=False))

    assert sampled(np.arange(200)) == sampled(order)


def test_a_sample_of_equal_rows_has_as_many_of_each_as_chance_gives():
    key = np.repeat(np.array([5, 7, 11, 13], dtype=np.uint64), 5000)
    counts = np.bincount(first_rows(key, 2000) // 5000, minlength=4)
    assert counts.sum() == 2000
    assert (abs(counts - 500) < 100).all()  # five standard errors
