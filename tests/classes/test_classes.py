"""Classes H: what they learn on a level set is the least-squares answer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc
from recalibrate.core.learning import MARGIN_STEP_LIMIT

# Fitted numbers are multiples of 2**-40, residuals are summed in steps of 2**-30.
VALUE = 2.0**-29
# A numeric column of Linear is rounded to 2**-15 of its range.
QUANTISED = 2.0**-13


def update(X, response, H, *, levels=None, weight=None, **options):
    """What one full step adds to a base of one half; ``levels`` gives scores instead.

    Of the twelve level sets, scores of .25 and .75 are in two, and .4 to .6 in one.
    """
    base = np.full(len(response), 0.5) if levels is None else levels
    model = rc.fit(
        base,
        X,
        base + response,
        H,
        sample_weight=weight,
        bounds=(-1, 2),
        link="identity",
        level_kind="uniform",
        levels=12,
        step=1.0,
        validation=False,
        max_rounds=1,
        **options,
    )
    return model, lambda new, f=base: model.predict(new, base=f) - f


def fitted(X, response, H, **options):
    _, step = update(X, response, H, **options)
    return step(X)


def noise(n, seed=0, size=0.05):
    return np.random.default_rng(seed).normal(0, size, n)


# bounds=(-1, 2) scale labels by 3, so steps of 2**-40 and 2**-30 are three times as large.
close = {"atol": 3 * VALUE, "rtol": 0}


# --- trees --------------------------------------------------------------------------------------


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
            max_rounds=12,
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
    assert np.abs(blind - blind[0]).max() < 1e-9
    np.testing.assert_allclose(seeing, response, **close)


def test_only_named_features_are_used():
    X = pd.DataFrame({"a": np.arange(100) % 2, "b": np.arange(100) // 50})
    response = 0.1 * X["a"].to_numpy()
    found = fitted(X, response, rc.Trees(depth=2, features=["b"]))
    np.testing.assert_allclose(found, 0.05, **close)


def test_reprs_show_what_was_chosen():
    assert repr(rc.Trees()) == "Trees(depth=2)"
    assert repr(rc.Trees(3, leaves=4, features=["a"])) == (
        "Trees(depth=3, leaves=4, features=('a',))"
    )
    assert repr(rc.Groups("a", "b < 3", min_rows=5)) == "Groups('a', 'b < 3', min_rows=5)"
    assert rc.Trees(features=["a"]) == rc.Trees(features=("a",))


# --- linear -------------------------------------------------------------------------------------


def two_levels(n=400, seed=6):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n) * 1000})
    base = np.where(rng.random(n) < 0.4, 0.25, 0.75)
    response = 0.02 * X["a"] - 0.00005 * X["b"] * (base > 0.5) + noise(n, seed)
    return X, base, response.to_numpy()


def least_squares(design, response, base, weight=None):
    """numpy's fitted values on every level set."""
    design = np.column_stack([np.ones(len(response)), design]).astype(float)
    root = np.ones(len(response)) if weight is None else np.sqrt(weight)
    out = np.empty(len(response))
    for v in np.unique(base):
        rows = base == v
        scaled = root[rows, None] * design[rows]
        solution = np.linalg.lstsq(scaled, root[rows] * response[rows], rcond=None)[0]
        out[rows] = design[rows] @ solution
    return out


@pytest.mark.parametrize("weighted", [False, True])
def test_linear_is_least_squares_on_every_level_set(weighted):
    X, base, response = two_levels()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    found = fitted(X, response, rc.Linear(), levels=base, weight=weight)
    expected = least_squares(X, response, base, weight)
    # Coefficients here are below 1 on the scaled columns; two columns are rounded to 2**-15.
    np.testing.assert_allclose(found, expected, atol=QUANTISED)
    assert np.std(expected) > 100 * QUANTISED


def test_linear_is_exact_where_columns_need_no_rounding():
    rng = np.random.default_rng(7)
    X = pd.DataFrame({"a": rng.integers(-8, 9, 300), "b": rng.integers(0, 2, 300)})
    response = 0.01 * X["a"].to_numpy() + noise(300)
    base = np.full(300, 0.5)
    found = fitted(X, response, rc.Linear())
    # Coefficients are snapped to 2**-40 per unit of 2**-15, three times that after unscaling.
    np.testing.assert_allclose(found, least_squares(X, response, base), atol=2.0**-22)


def test_linear_with_missing_values_and_categories():
    rng = np.random.default_rng(8)
    n = 300
    X = pd.DataFrame({"a": rng.integers(0, 9, n) * 1.0, "kind": rng.choice(list("uvw"), n)})
    X.loc[::6, "a"] = np.nan
    X.loc[::7, "kind"] = None
    response = noise(n) + 0.05 * (X["kind"] == "u").to_numpy()
    kinds = [(X["kind"] == k) for k in "uvw"]
    design = np.column_stack([X["a"].fillna(0), X["a"].isna(), *kinds, X["kind"].isna()])
    found = fitted(X, response, rc.Linear())
    expected = least_squares(design, response, np.full(n, 0.5))
    np.testing.assert_allclose(found, expected, atol=2.0**-21)


def test_ridge_shrinks_the_scaled_columns_but_not_the_intercept():
    X, _, response = two_levels()
    X = X[["a"]]
    plain, shrunk, flat = (
        fitted(X, response + 0.2, rc.Linear(ridge=ridge)) for ridge in (0.0, 50.0, 1e9)
    )
    assert np.std(flat) < 1e-4 < np.std(shrunk) < np.std(plain)
    np.testing.assert_allclose(flat, np.mean(response + 0.2), atol=1e-4)
    centre = np.sort(X["a"].to_numpy())[(len(X) + 1) // 2 - 1]
    scale = 2.0 ** np.ceil(np.log2(np.abs(X["a"] - centre).max()))
    column = ((X["a"] - centre) / scale).to_numpy()
    design = np.column_stack([np.ones(len(X)), column])
    penalty = np.diag([0.0, 50.0])
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ (response + 0.2))
    np.testing.assert_allclose(shrunk, design @ solved, atol=QUANTISED)


def test_collinear_columns_are_harmless():
    X, base, response = two_levels()
    found = fitted(X, response, rc.Linear(), levels=base)
    more = X.assign(again=X["a"], twice=2 * X["a"], one=1.0)
    np.testing.assert_allclose(
        fitted(more, response, rc.Linear(), levels=base), found, atol=QUANTISED
    )


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(9)
    X = pd.DataFrame(rng.normal(size=(5, 12)), columns=[f"c{j}" for j in range(12)])
    response = noise(5)
    found = fitted(X, response, rc.Linear())
    np.testing.assert_allclose(found, response, atol=QUANTISED)


def test_linear_far_outside_of_the_fitted_range_is_finite():
    X, _, response = two_levels()
    _, step = update(X, response, rc.Linear())
    far = pd.DataFrame({"a": [1e30, -1e30], "b": [1e30, np.nan]})
    assert np.isfinite(step(far, np.full(2, 0.5))).all()


# --- groups -------------------------------------------------------------------------------------


def people(n=500, seed=10):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(list("xyz"), n),
            "age": rng.integers(18, 80, n),
        }
    )
    base = np.where(rng.random(n) < 0.4, 0.25, 0.75)
    return X, base, noise(n, seed) + 0.1 * ((X["sex"] == "F") & (X["age"] < 25)).to_numpy()


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_least_squares_over_indicators(weighted):
    X, base, response = people()
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0 if weighted else None
    H = rc.Groups("sex", "age < 25", "sex*race", "sex == 'F' and age < 40")
    crossed = [(X["sex"] == s) & (X["race"] == r) for s in "FM" for r in "xyz"]
    masks = [X["sex"] == "F", X["sex"] == "M", X["age"] < 25, *crossed]
    masks.append((X["sex"] == "F") & (X["age"] < 40))
    expected = least_squares(np.column_stack(masks), response, base, weight)
    found = fitted(X, response, H, levels=base, weight=weight)
    # Sums of up to 12 snapped numbers; weights leave fewer bits for residuals.
    np.testing.assert_allclose(found, expected, atol=1e-6 if weighted else 12 * 3 * VALUE)


def test_disjoint_groups_get_their_means():
    X, _, response = people()
    means = pd.Series(response).groupby(X["race"]).transform("mean")
    np.testing.assert_allclose(fitted(X, response, rc.Groups("race")), means, **close)


def test_rows_in_no_group_get_the_intercept():
    X, _, response = people()
    young = (X["age"] < 25).to_numpy()
    found = fitted(X, response, rc.Groups("age < 25"))
    expected = np.where(young, response[young].mean(), response[~young].mean())
    np.testing.assert_allclose(found, expected, **close)


def test_small_crossed_groups_are_left_out():
    X, _, response = people()
    X.loc[0, "race"] = "rare"
    found = fitted(X, response, rc.Groups("sex*race", min_rows=5))
    # A row in no group has only the intercept, so it alone decides what that is.
    np.testing.assert_allclose(found[0], response[0], atol=12 * VALUE)


# --- estimator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "regressor", [DecisionTreeRegressor(max_depth=3, random_state=0), Ridge(2.0)], ids=repr
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_estimator_is_scikit_learn_on_every_level_set(regressor, weighted, n_jobs):
    X, base, response = two_levels()
    X = X.astype(np.float32)
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0 if weighted else None
    H = rc.Estimator(regressor, n_jobs=n_jobs)
    found = fitted(X, response, H, levels=base, weight=weight)
    expected = np.empty(len(X))
    for v in (0.25, 0.75):
        rows = base == v
        # Labels reach the regressor scaled by 1/3, which neither of the two minds.
        own = None if weight is None else weight[rows]
        model = regressor.fit(X[rows].to_numpy(), response[rows], sample_weight=own)
        expected[rows] = model.predict(X[rows].to_numpy())
    # Features are float32.
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_estimator_without_sample_weight():
    X, base, response = two_levels(100)
    H = rc.Estimator(KNeighborsRegressor(3))
    assert np.isfinite(fitted(X, response, H, levels=base)).all()
    np.testing.assert_array_equal(
        fitted(X, response, H, levels=base, weight=np.full(100, 2.5)),
        fitted(X, response, H, levels=base),
        err_msg="equal weights are no weights",
    )
    with pytest.raises(ValueError, match=r"KNeighborsRegressor.*no sample_weight.*link='identity'"):
        fitted(X, response, H, levels=base, weight=np.arange(1, 101))
    scores, y = np.linspace(0.1, 0.9, 100), (response > 0) * 1.0
    with pytest.raises(ValueError, match="no sample_weight"):
        rc.fit(scores, X, y, H, validation=False, max_rounds=1, link="logit")


def test_estimator_gets_the_weights_as_given():
    """A penalty of the regressor's own is in units of these weights."""
    X, base, response = two_levels()
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0
    seen = []

    class Watching(Ridge):
        def fit(self, X, y, sample_weight=None):
            seen.append(sample_weight)
            return super().fit(X, y, sample_weight=sample_weight)

    fitted(X, response, rc.Estimator(Watching()), levels=base, weight=weight)
    for given, v in zip(seen, (0.25, 0.75), strict=True):
        np.testing.assert_array_equal(given, weight[base == v])


def test_estimator_does_not_touch_the_regressor_given():
    X, base, response = two_levels(100)
    regressor = LinearRegression()
    fitted(X, response, rc.Estimator(regressor), levels=base)
    assert not hasattr(regressor, "coef_")


def test_estimator_takes_a_share_of_the_step():
    X, base, response = two_levels()
    y = np.clip(base + response, 0, 1)
    H = rc.Estimator(LinearRegression())
    full, half = (
        rc.fit(base, X, y, H, step=step, levels=2, validation=False, max_rounds=1).margins(
            X, base=base
        )
        for step in (1.0, 0.5)
    )
    np.testing.assert_allclose(half - base, (full - base) / 2, atol=1e-9)


# --- all ----------------------------------------------------------------------------------------


ALL = [
    rc.Trees(depth=2),
    rc.Linear(),
    rc.Groups("a < 0", "b < 500"),
    rc.Estimator(LinearRegression()),
]


@pytest.mark.parametrize("H", ALL, ids=lambda H: type(H).__name__)
def test_keep_leaves_the_other_level_sets_alone(H):
    X, base, response = two_levels()
    model, _ = update(X, response, H, levels=base)
    (one,) = model.rounds.steps
    low_level = one.partition.index(model.labels.scale([0.25]))[0]
    kept = np.arange(one.partition.count) == low_level
    table = one.table.keep(kept)
    assert (one.table.n_learners, table.n_learners) == (2, 1)
    start = model.rounds.begin(model.labels.scale(base)).f
    block = model._encode(X, base, None)[1][0]
    level = one.partition.index(start)
    before = one.table.update(block, level, start, False)
    after = table.update(block, level, start, False)
    low = kept[level]
    np.testing.assert_array_equal(after[low], before[low])
    np.testing.assert_array_equal(after[~low], start[~low])
    assert not np.array_equal(before[~low], start[~low])


@pytest.mark.parametrize("H", ALL, ids=lambda H: type(H).__name__)
def test_a_newton_step_on_certain_scores_is_limited(H):
    """Scores of 0 leave no curvature: without a limit the log-odds would jump by thousands."""
    X = two_levels()[0]
    base = np.where(np.arange(len(X)) < 100, 1e-12, 0.5)
    y = (np.random.default_rng(0).random(len(X)) < 0.4) * 1.0
    options = {"step": 1.0, "levels": 4, "level_kind": "uniform", "l2": 0.0}
    model = rc.fit(base, X, y, H, validation=False, max_rounds=1, **options)
    start, after = (model.rounds.first(k).apply(*_encoded(model, X, base)) for k in (0, 1))
    assert np.abs(after - start).max() <= MARGIN_STEP_LIMIT + 1e-9
    assert model.history_.errors[1] < model.history_.errors[0]


def _encoded(model, X, base):
    margin, blocks, *_ = model._encode(X, base, None)
    return blocks, margin
