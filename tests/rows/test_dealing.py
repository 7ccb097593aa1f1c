"""Folds dealt by what rows say: any order of the rows, and any cut, gives the same."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recalibrate as rc
from recalibrate.bases.problem import OriginalRows, Problem
from recalibrate.data.labels import Labels
from recalibrate.data.table import read_table
from recalibrate.rows import store
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.store import Fold, Numbered


def rows(n=103, seed=0, distinct=1000):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.integers(0, distinct, n), "b": rng.choice(["u", "v"], n)})
    return X, rng.integers(0, 2, n) * 1.0, np.round(rng.random(n), 3)


def make_store(X, y, f, weight=None):
    labels = Labels(y, weight, 0.0, 1.0, "soft")
    return MemoryStore(Problem(read_table(X), labels, f, "identity", OriginalRows(y, None, False)))


def numbers(fold):
    return fold.train.of(0), fold.held_out.of(0)


def deal(count, X, y, f, weight=None, seed=0):
    return [numbers(fold) for fold in store.deal(make_store(X, y, f, weight), count, seed)]


@pytest.mark.parametrize("count", [2, 5, 103, 300])
def test_folds_partition_the_rows(count):
    X, y, f = rows(309)
    folds = deal(count, X, y, f)
    assert len(folds) == count
    held_out = np.concatenate([held for _, held in folds])
    assert sorted(held_out) == list(range(309))
    for train, held in folds:
        assert sorted([*train, *held]) == list(range(309))
        assert len(held) in (309 // count, 309 // count + 1)


def test_folds_are_stratified_by_label():
    X, y, f = rows(1000)
    y = (np.arange(1000) < 37) * 1.0
    counts = [y[held].sum() for _, held in deal(5, X, y, f)]
    assert max(counts) - min(counts) <= 1
    y = np.random.default_rng(0).normal(size=1000)
    means = [y[held].mean() for _, held in deal(5, X, y, f)]
    # Ten bands of equal size are dealt out evenly; inside a band chance decides.
    assert np.std(means) < 0.5 * np.std(y) / np.sqrt(200)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_folds_follow_the_rows_not_their_order(seed, count):
    X, y, f = rows(60, seed, distinct=3)
    weight = np.random.default_rng(seed).integers(1, 3, 60) * 1.0
    order = np.random.default_rng(seed + 1).permutation(60)
    one = deal(count, X, y, f, weight, 7)
    two = deal(count, X.iloc[order], y[order], f[order], weight[order], 7)

    def contents(at, frame, labels, scores, weights):
        part = frame.iloc[at].assign(y=labels[at], f=scores[at], w=weights[at])
        return sorted(part.itertuples(index=False, name=None))

    for (_, a), (_, b) in zip(one, two, strict=True):
        assert contents(a, X, y, f, weight) == contents(
            b, X.iloc[order], y[order], f[order], weight[order]
        )


@pytest.mark.parametrize("share", [0.01, 0.2, 0.3, 0.5, 0.7, 0.99])
def test_hold_out_takes_the_share_evenly(share):
    X, y, f = rows(1000)
    y = (np.arange(1000) < 300) * 1.0
    (fold,) = store.set_aside(make_store(X, y, f), share, 0)
    train, held = numbers(fold)
    assert sorted([*train, *held]) == list(range(1000))
    # Shares of rows are whole rows.
    assert len(held) == pytest.approx(1000 * share, abs=1)
    assert y[held].sum() == pytest.approx(300 * share, abs=1)


def test_seed_changes_the_deal():
    X, y, f = rows()
    zero, again, one = (deal(4, X, y, f, None, s)[0][1] for s in (0, 0, 1))
    np.testing.assert_array_equal(zero, again)
    assert not np.array_equal(zero, one)


def test_equal_rows_are_dealt_independently():
    """Dealt evenly, folds of a table with few distinct rows would repeat each other's noise."""
    rng = np.random.default_rng(0)
    n = 6000
    X = pd.DataFrame({"a": rng.choice(list("uvwxyz"), n)})
    y = (rng.random(n) < 0.3) * 1.0
    means = [
        pd.Series(y[held]).groupby(X["a"].to_numpy()[held]).mean().to_numpy()
        for _, held in deal(5, X, y, np.full(n, 0.3))
    ]
    # 200 rows of variance .21 each, in 6 groups and 5 folds.
    assert np.std(means, axis=0).mean() > 0.5 * np.sqrt(0.21 / 200)


def test_noise_of_a_table_with_few_distinct_rows_is_not_confirmed():
    acted = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.choice(list("uvwxyz"), (4000, 2)), columns=["a", "b"])
        y = (rng.random(4000) < 0.3) * 1.0
        acted += bool(rc.fit(np.full(4000, 0.3), X, y, H=rc.Groups("a*b")).rounds.steps)
    assert acted <= 1


def test_folds_among_some_of_the_rows():
    pairs = [([0, 1, 2, 3], [4, 5]), ([0, 4, 5], [1, 2])]
    folds = [Fold(*(Numbered(np.array(rows)) for rows in pair)) for pair in pairs]
    # Of the second nothing is held out.
    (fold,) = store.restrict(folds, np.array([5, 3, 0]), 6)
    train, held = numbers(fold)
    np.testing.assert_array_equal(train, [2, 1])
    np.testing.assert_array_equal(held, [0])


def test_rows_are_dealt_alike_however_many_are_sorted_at_once(monkeypatch):
    X, y, f = rows(500, distinct=20)
    expected = deal(5, X, y, f)
    monkeypatch.setattr(store, "LARGEST_SORT", 30)
    for one, two in zip(expected, deal(5, X, y, f), strict=True):
        np.testing.assert_array_equal(one[1], two[1])


def test_a_share_that_holds_out_no_row_gives_no_fold():
    assert store.set_aside(make_store(*rows()), 1e-9, 0) == []
