"""Bases around other bases: remembered column names, and rounds appended to a model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.bases.wrappers import NamedBase, column_names, remember_columns, select_columns
from recalibrate.scores import Base, as_base, predicted_mean, sigmoid

H = rc.Groups("sex", "age < 30")


def by_position(X):
    """A model without column names."""
    values = np.asarray(X)[:, :2].astype(float)
    return sigmoid(values @ [0.02, 0.5] - 1.0)


def sample(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.uniform(18, 80, n), "hours": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    shift = np.where(X["sex"] == "F", 0.8, -0.4)
    p = sigmoid(0.02 * X["age"] + 0.5 * X["hours"] - 1.0 + shift)
    return X, (rng.random(n) < p).astype(float)


# --- column names -------------------------------------------------------------------------------


def test_names_are_remembered_for_models_without_any():
    X, y = sample()
    model = rc.fit(by_position, X, y, H)
    assert isinstance(model.base, NamedBase)
    assert isinstance(model.base, Base)
    assert model.base.columns() == ("age", "hours", "sex")
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(X[["sex", "hours", "age"]]), expected)
    np.testing.assert_array_equal(model.predict(X.assign(new=1)[::-1]), expected[::-1])
    with pytest.raises(ValueError, match="no column 'hours'"):
        model.predict(X.drop(columns="hours"))


def test_remembered_base_says_what_the_inner_one_says():
    inner = as_base(by_position, link="logit")
    base = remember_columns(inner, pd.DataFrame({"a": [1.0], "b": [2.0]}))
    assert (base.link, base.name, base.exact) == (inner.link, inner.name, inner.exact)
    assert base.why_no_graph == inner.why_no_graph
    assert base.graph() is None


def test_arrays_and_bases_with_names_stay_as_they_are():
    base = as_base(by_position)
    assert remember_columns(base, np.ones((2, 2))) is base
    scores = as_base([0.1, 0.2])
    assert remember_columns(scores, pd.DataFrame({"a": [1, 2]})) is scores


def test_names_are_compared_as_text():
    base = remember_columns(as_base(lambda X: np.asarray(X)[:, 0]), pd.DataFrame({0: [1], 1: [2]}))
    assert base.scores(pd.DataFrame({"1": [5.0], "0": [6.0]})).tolist() == [6.0]


def test_repeated_names_are_refused():
    X = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="more than once"):
        remember_columns(as_base(by_position), X)


def test_array_after_a_table_is_taken_by_position():
    X, _ = sample(5)
    base = remember_columns(as_base(by_position), X[["age", "hours"]])
    rows = X[["age", "hours"]].to_numpy()
    np.testing.assert_array_equal(base.scores(rows), base.scores(X))


def test_tables_of_pyarrow_are_selected_by_name():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"b": [1], "a": [2], "c": [3]})
    assert column_names(table) == ["b", "a", "c"]
    assert select_columns(table, ["a", "b"]).column_names == ["a", "b"]


def test_same_columns_are_not_copied():
    X, _ = sample(5)
    assert select_columns(X, list(X)) is X


# --- a model as a base --------------------------------------------------------------------------


def test_rounds_are_appended_on_new_labels():
    X, y = sample()
    first = rc.fit(by_position, X, y, H)
    new, later = sample(seed=1)
    older = new["age"] > 50
    later = np.where(older & (np.random.default_rng(2).random(len(new)) < 0.3), 1.0, later)
    second = rc.fit(first, new, later, rc.Groups("age > 50"))
    assert second.base.name.endswith("recalibrated")
    assert second.base.link == "logit"
    before = abs((first.predict(new) - later)[older].mean())
    after = abs((second.predict(new) - later)[older].mean())
    assert after < before / 3
    # Nothing new to learn: the first model's predictions come out again.
    same = rc.fit(first, X[:30], y[:30], H)
    assert same.n_rounds_ == 0
    np.testing.assert_allclose(same.predict(X), first.predict(X), rtol=1e-6)


def test_chained_scores_are_the_models_own():
    X, y = sample()
    model = rc.fit(by_position, X, y, H)
    base = as_base(model)
    np.testing.assert_array_equal(base.scores(X), model.margins(X))
    # The same number by two formulas.
    np.testing.assert_allclose(predicted_mean(base, X), model.predict(X), rtol=1e-7)
    assert base.columns() == ("age", "hours", "sex")
    np.testing.assert_array_equal(base.scores(X[["sex", "hours", "age"]]), base.scores(X))


def test_chained_regression_is_on_the_scale_of_the_labels():
    X, _ = sample()
    rng = np.random.default_rng(3)
    y = 1000 + 20 * X["age"] + np.where(X["sex"] == "F", 300, 0) + rng.normal(0, 50, len(X))
    model = rc.fit(lambda X: 1000 + 20 * X["age"], X, y, H)
    base = as_base(model)
    assert base.link == "identity"
    np.testing.assert_array_equal(base.scores(X), model.predict(X))
    again = rc.fit(model, X, y, rc.Groups("age < 40"))
    # Labels have a noise of 50 around the first model: a second one finds little more than that.
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=60)


@pytest.mark.parametrize(
    ("options", "advice"),
    [({}, r"model\.predict\(X, base=scores\)"), ({"Z": True}, r"model\.predict\(X, Z=Z\)")],
)
def test_models_that_need_more_than_x_say_what_to_pass(options, advice):
    X, y = sample(200)
    base = by_position if options else by_position(X)
    model = rc.fit(base, X, y, H, Z=X if options else None)
    with pytest.raises(ValueError, match=advice):
        rc.fit(model, X, y, H)


def test_chain_of_a_callable_has_no_graph_and_says_why():
    X, y = sample(300)
    base = as_base(rc.fit(by_position, X, y, H))
    assert base.graph() is None
    assert "callable" in base.why_no_graph
    assert not base.exact


def test_a_chain_asked_too_early_has_its_graph_when_the_base_has_seen_rows():
    sklearn = pytest.importorskip("sklearn.linear_model")
    X, y = sample(400)
    own = ["age", "hours"]
    base = as_base(sklearn.LogisticRegression().fit(X[own], y))
    model = rc.fit(base, X, y, H)
    fresh = as_base(sklearn.LogisticRegression().fit(X[own], y))  # has not scored a row yet
    chain = as_base(replace(model, base=fresh))
    assert chain.graph() is None
    assert chain.why_no_graph
    chain.scores(X)
    assert chain.graph() is not None
    assert chain.graph() is chain.graph()  # made once
    assert chain.why_no_graph == ""
