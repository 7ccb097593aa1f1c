"""Sets of codes as conditions, and the ways through trees that lead to them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalibrate import Loop, Trees, fit
from recalibrate.classes.trees import Paths
from recalibrate.data.bins import bin_columns
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table
from recalibrate.groups import expressions as ex
from recalibrate.groups.conditions import condition_of, conjunction, is_whole, said

AGES = [20.5, 30.0, 40.25, 50.0, np.nan, 60.0]
JOBS = ["a", "b", None, "c", "d", "e"]


def condition(values, codes, **options):
    table = read_table(pd.DataFrame({"x": values}))
    feature = bin_columns(Columns.of(table), ["x"]).features[0]
    return condition_of(feature, table.schema.columns[0], np.asarray(codes, bool), **options)


def text(values, codes, **options):
    found = condition(values, codes, **options)
    return None if found is None else ex.to_text(found)


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        ([0, 1, 1, 0, 0, 0], "x <= 35.125"),
        ([0, 0, 0, 1, 1, 1], "x > 35.125"),
        ([0, 0, 1, 1, 0, 0], "25.25 < x <= 45.125"),
        ([1, 1, 1, 0, 0, 0], "x <= 35.125 or x is missing"),
        ([1, 0, 0, 0, 0, 0], "x is missing"),
        ([0, 1, 1, 1, 1, 1], "x is not missing"),
        ([1, 1, 1, 1, 1, 1], None),
    ],
)
def test_numeric_sets_are_intervals(codes, wanted):
    assert text(AGES, codes) == wanted


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        ([0, 1, 0, 0, 0, 0], "x == 'a'"),
        ([0, 1, 1, 0, 0, 0], "x in ('a', 'b')"),
        ([0, 0, 1, 1, 1, 1], "x != 'a'"),
        ([0, 0, 0, 1, 1, 1], "x not in ('a', 'b')"),
        ([1, 0, 1, 1, 1, 1], "x != 'a' or x is missing"),
        ([1, 0, 0, 0, 0, 0], "x is missing"),
    ],
)
def test_categories_are_named_or_the_others_are(codes, wanted):
    assert text(JOBS, codes) == wanted


def test_nothing_is_said_of_missing_values_where_there_are_none():
    assert text(AGES, [1, 1, 1, 0, 0, 0], missing=False) == "x <= 35.125"
    assert text(AGES, [0, 1, 1, 1, 1, 1], missing=False) is None


def test_thresholds_of_whole_numbers_are_rounded_down():
    assert text([1, 2, 3, 4], [0, 1, 1, 0, 0], whole=True) == "x <= 2"
    assert is_whole(np.array([1, np.nan, 3], np.float32))
    assert not is_whole(np.array([1, 2.5], np.float32))


@pytest.mark.slow
@given(st.lists(st.booleans(), min_size=6, max_size=6).filter(any))
def test_the_condition_of_categories_holds_for_just_these_rows(codes):
    table = read_table(pd.DataFrame({"x": JOBS}))
    bins = bin_columns(Columns.of(table), ["x"])
    found = condition(JOBS, codes)
    rows = np.asarray(codes)[bins.encode(table)[:, 0]]
    held = np.ones(6, bool) if found is None else ex.evaluate(found, table)
    assert held.tolist() == rows.tolist()


def test_long_lists_are_cut_short_for_readers_only():
    some = ex.In("x", tuple(range(10)))
    assert said([some]) == "x in (0, 1, 2, 3, 4, 5, ... of 10)"
    assert "9" in ex.to_text(some)


def test_conditions_are_joined_with_brackets_where_needed():
    young = ex.Or((ex.Compare("age", "<", 25), ex.IsMissing("age")))
    assert said([young, ex.Compare("sex", "==", "F")]) == (
        "(age < 25 or age is missing) and sex == 'F'"
    )
    both = conjunction([young, ex.And((ex.Compare("a", ">", 1), ex.Compare("a", "<=", 2)))])
    assert ex.parse(ex.to_text(both)).factors[0].condition == both
    assert conjunction([]) is None


def test_paths_lead_rows_where_the_tree_does():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=3000),
            "b": rng.choice(list("uvwxyz"), 3000),
            "c": rng.normal(size=3000),
        }
    )
    X.loc[::11, "a"] = np.nan
    X.loc[::13, "b"] = None
    y = ((X["a"].fillna(1) > 0) & X["b"].isin(list("uvw"))).to_numpy() ^ (rng.random(3000) < 0.1)
    model = fit(
        np.full(3000, 0.5),
        X,
        y,
        H=Trees(depth=3),
        loop=Loop(levels=1, max_rounds=2),
        validation=False,
    )
    bins = model.rounds.encoders[0]
    codes = bins.encode(read_table(X))
    for step in model.rounds.steps:
        leaves = step.table.leaves(codes, np.zeros(3000, np.int32))
        paths = Paths(step.table, bins)
        for leaf in np.unique(leaves):
            held = np.ones(3000, bool)
            for feature, some in paths.codes(int(leaf)).items():
                held &= some[codes[:, feature]]
            assert np.array_equal(held, leaves == leaf)
