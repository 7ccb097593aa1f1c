"""Shifts of groups: what is found, what is left alone, and which steps it becomes."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit as sigmoid

from recalibrate.bases.problem import InputOptions, read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.classes.groups import GroupEncoder
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table
from recalibrate.fitting.default.score import LINE_CLASS, ScoreStage
from recalibrate.fitting.default.shifts import Shifts, shifted_columns, trend_of
from recalibrate.groups.groupset import bind
from recalibrate.rows.memory import MemoryStore


def numbers(n=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "v": rng.integers(0, 4, n)})
    X["g"] = ["x", "y"] * (n // 2)
    X.loc[:20, "a"] = np.nan
    return X


def test_bands_and_values_have_a_trend_and_missing_ones_stand_in_the_middle():
    table = read_table(numbers())
    bands, values, categories, crossed, condition = (
        trend_of(term) for term in bind(["a", "v", "g", "a * g", "a < 0"], table).terms
    )
    assert not any(rank.any() for rank in (categories, crossed, condition))
    for rank in (bands, values):
        assert np.mean(rank) == pytest.approx(0.0, abs=1e-12)
        assert np.mean(rank**2) == pytest.approx(1.0)
    assert (np.diff(values[0]) > 0).all()
    assert bands[0, -1] == 0.0  # the missing ones
    assert (np.diff(bands[0, :-1]) > 0).all()


def test_two_bands_have_no_trend_apart_from_their_shifts():
    table = read_table(pd.DataFrame({"v": [0, 1] * 50}))
    (term,) = bind(["v"], table).terms
    assert not trend_of(term).any()


def test_few_rows_move_all_columns_and_many_only_large_ones():
    X = pd.DataFrame({"a": np.arange(300.0), "town": [f"t{k}" for k in range(300)]})
    schema = read_table(X).schema
    assert shifted_columns(schema, ("a", "town"), 4999) == ("a", "town")
    assert shifted_columns(schema, ("a", "town"), 5000) == ("town",)
    wide = read_table(pd.DataFrame(np.zeros((2, 61)), columns=[f"x{k}" for k in range(61)])).schema
    assert shifted_columns(wide, wide.names, 2) == ()
    assert shifted_columns(wide, wide.names[:60], 2) == wide.names[:60]


def move(X, f, y, terms, *, named, line=True, decided=False):
    """Log-odds after the shifts of some terms, and the number of steps of line and groups."""
    problem = read_problem(as_base(sigmoid(f)), X, y, InputOptions())
    score = ScoreStage(LINE_CLASS.bind(Columns.of(problem.table)), problem)
    encoder = GroupEncoder(bind(terms, read_table(X)))
    start = Rounds("logit", None, (score.learner.encoder, encoder))
    scale = make_scale(len(y), None, newton=True)
    encoded = MemoryStore(problem).encode(start.encoders, scale.quantise_weight)
    shifts = Shifts(encoder, 1, named=named)
    with encoded.open(scale) as source:
        begun, _ = score.fit(source, start)
        model = shifts.on_everyone(source, begun, score if line else None, decided=decided)
    # What was there stays as it was: held-out scores of the stages before are read from it.
    assert model.steps[: len(begun.steps)] == begun.steps
    return model.apply(encoded.rows.blocks, problem.base), len(model.steps) - len(begun.steps)


def draw(n, off, seed=0):
    """Rows whose log-odds are off by ``off(X)`` of a normal score."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "g": rng.choice(list("abcd"), n),
            "h": rng.choice(["x", "y"], n),
            "town": rng.choice([f"t{k}" for k in range(40)], n),
        }
    )
    f = rng.normal(size=n)
    truth = f + off(X)
    return X, f, truth, (rng.random(n) < sigmoid(truth)) * 1.0


def test_overlapping_terms_share_a_gap_as_a_regression_on_indicators_does():
    """20,000 rows leave next to nothing for the prior: the maximum of the likelihood is known."""

    def off(X):
        return (
            0.6 * (X["g"] == "a") - 0.5 * (X["h"] == "x") + 0.4 * (X["g"] == "b") * (X["h"] == "x")
        )

    X, f, truth, y = draw(20_000, off)
    after, _ = move(X, f, y, ["g", "h", "g * h"], named=True)
    cells = X["g"] + X["h"]
    for cell in np.unique(cells):
        own = (cells == cell).to_numpy()
        error = 1.0 / np.sqrt(np.sum(sigmoid(truth[own]) * (1 - sigmoid(truth[own]))))
        assert abs(np.mean((after - truth)[own])) < 4 * error


def test_a_trend_is_seen_in_rows_that_are_too_few_for_bands():
    """.5 of log-odds per standard deviation of one of 20 columns, in 300 rows."""
    better = []
    for seed in range(6):
        X, f, truth, y = draw(300, lambda X: 0.5 * X["a"], seed)
        rng = np.random.default_rng(100 + seed)
        noise = pd.DataFrame(rng.normal(size=(300, 19)), columns=[f"n{k}" for k in range(19)])
        X = pd.concat([X[["a"]], noise], axis=1)
        after, _ = move(X, f, y, list(X), named=False, decided=True)
        better.append(np.mean((after - truth) ** 2) / np.mean((f - truth) ** 2))
    # A third is left on average; .9 with shifts of bands alone, or if all columns are believed as
    # groups are that a user names: what is gained in one column is lost in the others.
    assert np.mean(better) < 0.75


def test_columns_that_nobody_named_have_to_show_more():
    """A gap of 2.8 standard errors in both halves of 100 rows."""
    X = pd.DataFrame({"h": ["x"] * 50 + ["y"] * 50, "g": ["u", "v"] * 50})
    y = np.array([1.0] * 35 + [0.0] * 15 + [1.0] * 15 + [0.0] * 35)
    f = np.zeros(100)
    steps = {named: move(X, f, y, ["h", "g"], named=named)[1] for named in (True, False)}
    assert steps == {True: 1, False: 0}
    # With ten times the rows the same gap is beyond doubt.
    X, y = pd.concat([X] * 10, ignore_index=True), np.tile(y, 10)
    assert move(X, np.zeros(1000), y, ["h", "g"], named=False)[1] == 1


@pytest.mark.parametrize("named", [True, False])
def test_nothing_is_moved_where_nothing_is_off(named):
    moved = 0
    for seed in range(12):
        X, f, _, y = draw(400, lambda X: 0.0 * X["a"], seed)
        moved += move(X, f, y, ["a", "g", "h", "town"], named=named)[1] > 0
    # Odds of 1.5 and 2 for a change that has none: Markov's inequality allows 8 and 6 of them,
    # and shifts that are shrunken by their evidence need far fewer.
    assert moved <= 2


def test_groups_that_differ_in_their_scores_leave_room_for_the_line():
    """Half of the rows are off and have high scores; slope and shift take each other's place."""
    rng = np.random.default_rng(0)
    own = rng.random(8000) < 0.5
    X = pd.DataFrame({"g": np.where(own, "u", "v")})
    f = rng.normal(size=8000) + 1.5 * own
    truth = 0.7 * f + 0.8 * own
    y = (rng.random(8000) < sigmoid(truth)) * 1.0
    (joint, two), (apart, one) = (move(X, f, y, ["g"], named=True, line=k) for k in (True, False))
    assert (two, one) == (2, 1)
    error = 1 / np.sqrt(4000 * 0.2)  # of a group's shift
    assert np.sqrt(np.mean((joint - truth) ** 2)) < 2 * error
    assert np.mean((joint - truth) ** 2) < np.mean((apart - truth) ** 2)
