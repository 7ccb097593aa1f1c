"""Trees: thresholds, categories and missing values are split where least squares splits them."""

import numpy as np
import pandas as pd
import pytest
from onestep import close, fitted, noise, update
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc
from recalibrate.classes import tree_growth


@pytest.mark.slow
def test_stump_finds_the_best_threshold():
    n = 300
    x = np.random.default_rng(0).permutation(np.arange(n)) / 7
    X = pd.DataFrame({"other": noise(n, 1), "x": x})
    response = np.where(x <= 20, 0.1, 0.3) + noise(n, size=0.01)
    found = fitted(X, response, rc.Trees(depth=1, bins="exact"))
    low = x <= 20
    expected = np.where(low, response[low].mean(), response[~low].mean())
    np.testing.assert_allclose(found, expected, **close)


def test_threshold_lies_between_two_values():
    X = pd.DataFrame({"x": [1.0, 1.0, 4.0, 4.0]})
    _, step = update(X, np.array([0.1, 0.1, 0.3, 0.3]), rc.Trees(depth=1))
    new = pd.DataFrame({"x": [-99.0, 2.4, 2.6, 99.0]})
    np.testing.assert_allclose(step(new, np.full(4, 0.5)), [0.1, 0.1, 0.3, 0.3], **close)


def test_trees_equal_scikit_learn():
    n = 400
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.integers(0, 40, (n, 3)), columns=list("abc"))
    response = 0.004 * X["a"] * (X["b"] > 17) + 0.002 * X["c"] + noise(n, size=0.02)
    for depth in (1, 2, 3):
        tree = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, response)
        found = fitted(X, response.to_numpy(), rc.Trees(depth=depth))
        np.testing.assert_allclose(found, tree.predict(X), **close)


@pytest.mark.parametrize("leaves", [2, 3, 5, 8])
def test_leaves_are_grown_best_first_as_in_scikit_learn(leaves):
    n = 500
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.integers(0, 30, (n, 3)), columns=list("abc"))
    response = 0.01 * X["a"] * (X["b"] > 20) + 0.004 * X["c"] + noise(n, size=0.02)
    tree = DecisionTreeRegressor(max_leaf_nodes=leaves, max_depth=6, random_state=0)
    found = fitted(X, response.to_numpy(), rc.Trees(depth=6, leaves=leaves))
    np.testing.assert_allclose(found, tree.fit(X, response).predict(X), **close)
    assert len(np.unique(found.round(9))) == leaves


def test_a_tree_per_level_set():
    n = 400
    X = pd.DataFrame({"a": np.arange(n) % 2, "b": np.arange(n) // 2 % 2})
    base = np.where(np.arange(n) < 200, 0.25, 0.75)
    response = np.where(base == 0.25, 0.1 * X["a"], -0.1 * X["b"])
    model, step = update(X, response, rc.Trees(depth=1), levels=base)
    np.testing.assert_allclose(step(X), response, **close)
    assert model.n_learners_ == 2


@pytest.mark.parametrize("side", ["low", "high"])
def test_missing_values_go_to_the_better_side(side):
    x = np.repeat([1.0, 2.0, np.nan], 20)
    values = {"low": [0.1, 0.3, 0.1], "high": [0.1, 0.3, 0.3]}[side]
    response = np.repeat(values, 20)
    found = fitted(pd.DataFrame({"x": x}), response, rc.Trees(depth=1))
    np.testing.assert_allclose(found, response, **close)


def test_missing_values_can_be_split_off():
    x = np.repeat([1.0, 2.0, np.nan], 20)
    response = np.repeat([0.1, 0.1, 0.3], 20)
    found = fitted(pd.DataFrame({"x": x}), response, rc.Trees(depth=1))
    np.testing.assert_allclose(found, response, **close)


def test_missing_values_never_seen_go_with_the_many():
    X = pd.DataFrame({"x": [1.0] * 30 + [2.0] * 10})
    _, step = update(X, np.repeat([0.1, 0.3], [30, 10]), rc.Trees(depth=1))
    found = step(pd.DataFrame({"x": [np.nan]}), np.full(1, 0.5))
    np.testing.assert_allclose(found, [0.1], **close)


@pytest.mark.parametrize("high", ["ace", "bd", "e"])
def test_categories_are_split_by_their_means(high):
    kind = np.tile(list("abcde"), 40)
    response = np.where(np.isin(kind, list(high)), 0.3, 0.1)
    found = fitted(pd.DataFrame({"kind": kind}), response, rc.Trees(depth=1))
    np.testing.assert_allclose(found, response, **close)


def test_one_vs_rest_splits_one_category_off():
    kind = np.repeat(list("abcd"), 50)
    response = np.repeat([0.1, 0.2, 0.25, 0.3], 50)
    X = pd.DataFrame({"kind": kind})
    ordered = fitted(X, response, rc.Trees(depth=1))
    single = fitted(X, response, rc.Trees(depth=1, one_vs_rest=4))
    # In order the best cut is a | bcd or ab | cd; with one category off it can only be a | bcd.
    rest = np.mean([0.2, 0.25, 0.3])
    np.testing.assert_allclose(single, np.where(kind == "a", 0.1, rest), **close)
    error = [np.sum((f - response) ** 2) for f in (ordered, single)]
    assert error[0] <= error[1]
    middle = np.repeat([0.1, 0.3, 0.1, 0.1], 50)
    found = fitted(X, middle, rc.Trees(depth=1, one_vs_rest=4))
    np.testing.assert_allclose(found, middle, **close)
    # More categories than the limit: split by order after all.
    np.testing.assert_array_equal(fitted(X, response, rc.Trees(depth=1, one_vs_rest=3)), ordered)


@pytest.mark.slow
def test_rare_categories_share_a_bin():
    kind = np.repeat(list("abcdef"), [50, 50, 5, 5, 5, 5])
    response = np.repeat([0.1, 0.2, 0.3, 0.3, 0.4, 0.4], [50, 50, 5, 5, 5, 5])
    X = pd.DataFrame({"kind": kind})
    found = fitted(X, response, rc.Trees(depth=2, bins=3, category_smoothing=0))
    expected = np.repeat([0.1, 0.2, 0.35], [50, 50, 20])
    np.testing.assert_allclose(found, expected, **close)


def test_min_leaf_rows():
    X = pd.DataFrame({"x": np.arange(100)})
    response = np.where(np.arange(100) < 5, 0.5, 0.1)
    free = fitted(X, response, rc.Trees(depth=1))
    limited = fitted(X, response, rc.Trees(depth=1, min_leaf_rows=20))
    np.testing.assert_allclose(free, response, **close)
    first = np.arange(100) < 20
    expected = np.where(first, response[first].mean(), response[~first].mean())
    np.testing.assert_allclose(limited, expected, **close)


def test_feature_share_is_drawn_by_seed():
    n = 300
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.integers(0, 9, (n, 6)), columns=list("abcdef"))
    response = X.to_numpy() @ rng.uniform(0.01, 0.03, 6)

    def used(seed):
        model = rc.fit(
            np.full(n, 0.5),
            X,
            np.clip(response, 0, 1),
            rc.Trees(depth=1, feature_share=0.34),
            seed=seed,
            validation=False,
            loop=rc.Loop(max_rounds=12),
        )
        tables = [step.table for step in model.rounds.steps]
        return [sorted(set(table.feature[table.feature >= 0].tolist())) for table in tables]

    assert used(1) == used(1)
    assert used(1) != used(2)
    assert all(len(features) <= 2 for features in used(1)), "2 of 6 features a tree"
    assert len({j for features in used(1) for j in features}) > 2


def test_base_score_as_a_feature():
    n = 200
    score = np.linspace(0.4, 0.6, n)
    X = pd.DataFrame({"nothing": np.zeros(n)})
    response = np.where(score > 0.5, 0.2, -0.2)
    blind = fitted(X, response, rc.Trees(depth=1), levels=score)
    seeing = fitted(X, response, rc.Trees(depth=1, base_score=True), levels=score)
    # One leaf for all; differences of float64 are rounded.
    assert np.abs(blind - blind[0]).max() < 1e-9
    np.testing.assert_allclose(seeing, response, **close)


def test_only_named_features_are_used():
    X = pd.DataFrame({"a": np.arange(100) % 2, "b": np.arange(100) // 50})
    response = 0.1 * X["a"].to_numpy()
    found = fitted(X, response, rc.Trees(depth=2, features=["b"]))
    np.testing.assert_allclose(found, 0.05, **close)


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("blocks", [1, 3])
def test_rows_of_many_level_sets_grow_the_same_trees_side_by_side_and_scattered(
    rounded, blocks, monkeypatch
):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 30, (4000, 4)).astype(np.float32)
    y = (rng.random(4000) + X[:, 0] * X[:, 1] / 900) / 2

    def errors() -> tuple[float, ...]:
        loop = rc.Loop(levels=40, rounded=rounded, max_rounds=6)
        how = {"link": "identity", "bounds": (0, 1), "validation": False, "loop": loop}
        engine = rc.Engine(threads=2, blocks=blocks)
        return rc.fit(0.9 * y + 0.05, X, y, rc.Trees(depth=3), engine=engine, **how).history_.errors

    assert tree_growth.SCATTERED_LEVELS < 40
    side_by_side = errors()
    monkeypatch.setattr(tree_growth, "SCATTERED_LEVELS", 1000)
    assert len(side_by_side) > 3
    assert side_by_side == errors()
