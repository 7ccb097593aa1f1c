"""Tables of many columns: the best of them are looked at, and no fold's choice knows its labels."""

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.core.boost import EVERYTHING
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.part import Part, PendingStep, Rows
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table
from recalibrate.fitting.default import boosting

TRUE = 7


def draw(n=600, columns=40, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, columns)), columns=[f"c{k}" for k in range(columns)])
    X.loc[rng.random(n) < 0.1, "c3"] = np.nan
    X["kind"] = rng.choice(list("abcd"), n)
    y = (rng.random(n) < np.where(X[f"c{TRUE}"] > 0.5, 0.8, 0.3)).astype(float)
    return X, y, np.full(n, 0.5)


def choose(X, y, base, train):
    table, scale = read_table(X), make_scale(len(y), None, newton=True)
    spec = rc.Trees(depth=2, min_leaf_rows=10, one_vs_rest=255)
    learner = spec.bind(Columns.of(table))
    part = Part(Rows((), y, np.log(base / (1 - base)), np.empty(0, np.int64)), scale)
    return boosting.choose_columns(learner, table, part, Rounds("logit", None, ()), train, 5.0, 1)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(boosting, "MOST_COLUMNS", 5)
    monkeypatch.setattr(boosting, "COLUMNS_AT_ONCE", 7)  # cuts must not matter


def test_gains_are_those_of_the_best_single_split():
    X, y, base = draw()
    table, scale = read_table(X), make_scale(len(y), None, newton=True)
    learner = rc.Trees(depth=1, min_leaf_rows=10, one_vs_rest=255).bind(Columns.of(table))
    part = Part(Rows((), y, np.zeros(len(y)), np.empty(0, np.int64)), scale)
    words = part.words(PendingStep(Rounds("logit", None, ()), EVERYTHING))
    rows, codes = np.arange(0, len(y), 2), learner.encoder.encode(table)
    found = boosting._gains(codes, learner.encoder, words, rows, 10, 5.0, scale)
    residual, l2 = (y - base)[rows], 5.0
    for j, feature in enumerate(learner.encoder.features):
        own = codes[rows, j]
        best = 0.0
        for code in range(feature.count):
            left = own == code if feature.by_sets else own <= code
            if min(left.sum(), (~left).sum()) < 10:
                continue
            gain = -(residual.sum() ** 2) / (0.25 * len(rows) + l2)
            for side in (left, ~left):
                gain += residual[side].sum() ** 2 / (0.25 * side.sum() + l2)
            best = max(best, gain)
        # Sums are in fixed point, of at least 20 bits after the point.
        assert found[j] == pytest.approx(best, rel=1e-4, abs=1e-4)


def test_a_column_that_matters_is_among_the_chosen(few):
    X, y, base = draw()
    chosen = choose(X, y, base, [np.arange(300), np.arange(300, 600)])
    assert f"c{TRUE}" in chosen.names
    assert len(chosen.names) == 5
    assert all(f"c{TRUE}" in fold.looks_at for fold in chosen.folds)
    assert "columns: 5 of 41 are used" in chosen.note


def test_a_fold_chooses_without_its_held_out_labels(few):
    X, y, base = draw()
    train = np.arange(0, 400)
    before = choose(X, y, base, [train]).folds[0].looks_at
    other = y.copy()
    other[400:] = (X["c11"][400:] > 0).to_numpy()
    changed = choose(X, other, base, [train])
    assert changed.folds[0].looks_at == before
    assert "c11" in changed.names


def test_the_choice_does_not_depend_on_the_order_of_rows(few):
    X, y, base = draw()
    order = np.random.default_rng(1).permutation(len(y))
    mixed = choose(X.iloc[order].reset_index(drop=True), y[order], base, [])
    assert mixed.names == choose(X, y, base, []).names


@pytest.mark.slow
def test_a_default_fit_of_a_wide_table_says_so_and_finds_what_matters():
    X, y, base = draw(2000, columns=boosting.MOST_COLUMNS + 20)
    model = rc.fit(base, X, y)
    assert f"200 of {boosting.MOST_COLUMNS + 21} are used" in model.summary()
    high = X[f"c{TRUE}"] > 0.5
    p = model.predict(X, base=base)
    # Six standard errors of a mean over 600 rows, with shrinkage toward the base on top.
    assert p[high].mean() == pytest.approx(0.8, abs=0.1)
    assert p[~high].mean() == pytest.approx(0.3, abs=0.08)
