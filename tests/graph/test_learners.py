"""Foreign regressors as nodes, and how trees with many categories are written."""

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor
from treebase import TreeBase, assert_same, random_ensemble

import recalibrate as rc
from recalibrate.classes.trees_graph import chains
from recalibrate.graph import check_parity, export_model
from recalibrate.graph.trees import Leaf, Split, flatten, relabelled, search

pytestmark = pytest.mark.parity


def sample(n=800):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    base = TreeBase(random_ensemble(rng, 2), ("a", "b"))
    y = rng.random(n) < 1 / (1 + np.exp(-base.scores(X) - (X["sex"] == "F")))
    return base, X, y


RUNS = {
    "sums": {"levels": 3, "max_rounds": 2, "link": "identity", "validation": False},
    "rounded": {"rounded": True, "levels": 5, "max_rounds": 2, "link": "identity"},
    # Level sets of fewer rows have no regressor and keep their score.
    "few rows": {"levels": 4, "max_rounds": 2, "min_level_rows": 201, "validation": False},
}


@pytest.mark.slow
@pytest.mark.adapter
@pytest.mark.parametrize("run", RUNS)
def test_a_tree_per_level_set(run):
    """Leaves are rounded to 2**-36 on the way to the graph: no visible difference."""
    base, X, y = sample()
    settings = {"validation": False, **RUNS[run]}
    H = rc.Estimator(DecisionTreeRegressor(max_depth=3), base_score=True)
    model = fit_with(base, X, y, H, exportable=True, **settings)
    assert model.n_learners_ > 0
    report = check_parity(model, export_model(model), X)
    assert not report.exact
    assert report.beyond == 0


@pytest.mark.slow
@pytest.mark.adapter
def test_a_line_per_level_set():
    """Sums of products are not the same to the last bit everywhere, but to the eye."""
    base, X, y = sample()
    H = rc.Estimator(make_pipeline(SimpleImputer(), LinearRegression()), features=["a", "b"])
    model = fit_with(base, X, y, H, **RUNS["sums"])
    report = check_parity(model, export_model(model), X)
    assert not report.exact
    assert report.beyond == 0


@pytest.mark.slow
@pytest.mark.parametrize("bins", [255, 40])
def test_categories_in_the_order_of_their_score(bins):
    """Split one by one and by order, pooled or not; some categories have no rows at all."""
    rng = np.random.default_rng(0)
    n = 3000
    names = np.array([f"c{k:03d}" for k in range(200)])
    codes = rng.integers(0, 190, n)
    X = pd.DataFrame({"city": pd.Categorical(names[codes], categories=names)})
    X["a"] = rng.normal(size=n)
    X.loc[::17, "city"] = None
    known = rng.normal(size=200)
    scores = 1 / (1 + np.exp(-known[codes]))
    y = rng.random(n) < 1 / (1 + np.exp(-known[codes] - np.sin(3 * known[codes])))
    H = rc.Trees(depth=4, bins=bins, score_order=3, one_vs_rest=bins)
    model = rc.fit(scores, X, y, H, loop=rc.Loop(levels=2, max_rounds=20), validation=False)
    features = model.rounds.encoders[0].features
    used = {j for step in model.rounds.steps for j in step.table.looks_at}
    assert any(features[j].ordered for j in used)
    assert any(features[j].by_sets for j in used)
    X["city"] = X["city"].astype(object)
    X.loc[:9, "city"] = "unseen"
    X.loc[10:19, "city"] = "c195"  # known, but no row had it
    assert_same(model, X, base=scores)


@pytest.mark.slow
@pytest.mark.parametrize("bins", [255, 40])
def test_many_categories_become_places(bins):
    """Large sets of one tree are prefixes of one order, so that a number stands for each."""
    rng = np.random.default_rng(0)
    n = 3000
    names = np.array([f"c{k:03d}" for k in range(200)])
    codes = rng.integers(0, 200, n)
    effect = rng.normal(size=200)
    X = pd.DataFrame({"city": names[codes], "a": rng.normal(size=n)})
    X.loc[::17, "city"] = None
    y = rng.random(n) < 1 / (1 + np.exp(-effect[codes]))
    scores = np.full(n, 0.5)
    model = rc.fit(
        scores,
        X,
        y,
        rc.Trees(depth=3, bins=bins),
        loop=rc.Loop(levels=2, max_rounds=30),
        validation=False,
    )
    X.loc[:9, "city"] = "unseen"
    assert_same(model, X, base=scores)
    graph = export_model(model)
    gathers = [node for node in graph.graph.node if node.op_type == "Gather"]
    assert gathers


def test_chains_of_sets():
    def marks(*codes):
        found = np.zeros(7, dtype=bool)
        found[list(codes)] = True
        return found

    one = chains([marks(1, 2, 5), marks(2), marks(0, 1, 2, 3, 5)])
    assert len(one) == 1
    assert one[0].ranks() == (1, 0, 2, 3, 1, 3)
    assert len(chains([marks(1, 2), marks(3, 4)])) == 2


def test_search_finds_the_region_of_a_value():
    cuts = [-1.0, 0.0, 2.5, np.inf]
    tree = search(0, cuts, [Leaf(float(k)) for k in range(5)])
    X = np.array([[-1.0], [-0.5], [0.0], [1e-30], [2.5], [np.inf], [np.nan]])
    found = flatten([tree], 1, lambda column: column).evaluate(X)
    assert found.tolist() == [0, 1, 1, 2, 2, 3, 4]
    merged = search(0, cuts, [Leaf(1.0), Leaf(1.0), Leaf(0.0), Leaf(0.0), Leaf(0.0)])
    assert isinstance(merged, Split)
    assert isinstance(merged.left, Leaf)
    assert isinstance(merged.right, Leaf)


def test_splits_that_no_longer_matter_are_dropped():
    tree = Split(0, 0.0, False, Leaf(0.1), Split(0, 1.0, True, Leaf(0.2), Leaf(0.3)))
    assert relabelled(tree, lambda value: 1.0) == Leaf(1.0)
    rounded = relabelled(tree, lambda value: 0.0 if value < 0.15 else 1.0)
    assert rounded == Split(0, 0.0, False, Leaf(0.0), Leaf(1.0))


def test_trees_of_one_leaf_are_a_bias():
    tree = Split(0, 0.0, False, Leaf(1.0), Leaf(2.0))
    ensemble = flatten([Leaf(0.5), tree, Leaf(0.25), tree], 1, lambda column: column)
    assert ensemble.bias == 0.75
    assert ensemble.evaluate(np.array([[-1.0], [1.0]])).tolist() == [2.75, 4.75]
