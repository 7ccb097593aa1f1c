"""What is wrong with the input is said at the door; what is merely odd has a defined result."""

import re

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from sklearn.linear_model import LinearRegression

import recalibrate as rc

PLAIN = {"validation": False, "max_rounds": 3}


def sample(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(18, 80, n), "sex": rng.choice(["F", "M"], n)})
    base = rng.uniform(0.2, 0.8, n)
    return base, X, (rng.random(n) < base) * 1.0


def replaced(values, row, value):
    out = np.array(values, dtype=float)
    out[row] = value
    return out


def refused(words, error=ValueError, **changed):
    """Fit the sample with some arguments changed: an error whose text has all the words."""
    base, X, y = sample()
    arguments = {"base_model": base, "X": X, "y": y, **PLAIN, **changed}
    with pytest.raises(error) as caught:
        fit_with(**arguments)
    text = str(caught.value)
    for word in words:
        assert re.search(word, text), f"{word!r} is not in {text!r}"


# --- labels -------------------------------------------------------------------------------------


def test_labels_outside_their_bounds():
    _, _, y = sample()
    refused(
        [r"bounds=\(0, 1\)", r"7\.5 in row 3", "Widen the bounds"],
        y=replaced(y, 3, 7.5),
        bounds=(0, 1),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_labels_missing_or_infinite(bad):
    _, _, y = sample()
    refused(["y must not be missing or infinite", f"{bad} in row 5"], y=replaced(y, 5, bad))


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1, 0), ["low < high", r"\(1, 0\)"]),
        ((0, np.inf), ["finite", r"\(0, inf\)"]),
        ((0,), ["two numbers", r"\(0,\)"]),
        ("ab", ["two numbers", "'ab'"]),
    ],
)
def test_bad_bounds(bounds, words):
    refused(words, bounds=bounds)


def test_labels_of_text():
    _, _, y = sample()
    refused(["y holds only one class: 'no'"], y=np.where(y == 1, "no", "no"))
    refused(["y holds 3 classes"], y=np.where(y == 1, "a", ["b", "c"] * 100))


@pytest.mark.parametrize(
    "options", [PLAIN, {"max_rounds": 20}, {"alpha": 0.5}], ids=["plain", "folds", "paper"]
)
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.3, 7.0])
@pytest.mark.filterwarnings("ignore:no round lowered")
@pytest.mark.filterwarnings("ignore:all 200 labels are")
def test_constant_labels(options, constant):
    """One class, or one number: the model goes towards it and stays inside its range."""
    base, X, y = sample()
    model = fit_with(base, X, np.full(len(y), constant), rc.Trees(depth=1), **options)
    f = model.predict(X, base=base)
    assert np.isfinite(f).all()
    half_a_grid_step = 0.125 if "alpha" in options else 0.0
    assert np.abs(f - constant).mean() <= np.abs(base - constant).mean() + half_a_grid_step
    if constant <= 1:
        assert ((f >= 0) & (f <= 1)).all()


# --- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (replaced(np.ones(200), 4, -0.5), ["must not be negative", "-0.5 in row 4", "Use 0"]),
        (replaced(np.ones(200), 4, np.nan), ["missing or infinite", "nan in row 4"]),
        (replaced(np.ones(200), 4, np.inf), ["missing or infinite", "inf in row 4"]),
        (np.zeros(200), ["zero for every row", "at least one row"]),
        (np.ones(199), ["sample_weight has 199 entries", "200 rows"]),
        (np.ones((200, 2)), ["1-d", r"\(200, 2\)"]),
    ],
    ids=["negative", "missing", "infinite", "zero", "length", "shape"],
)
def test_bad_weights(weight, words):
    refused(words, sample_weight=weight)


@pytest.mark.slow
@pytest.mark.parametrize("H", [rc.Trees(), rc.Linear(), rc.Groups("sex", "age")], ids=repr)
@pytest.mark.parametrize("options", [PLAIN, {}, {"alpha": 0.1}], ids=["plain", "default", "paper"])
@pytest.mark.filterwarnings("ignore:no round lowered")
def test_weight_zero_drops_the_row(H, options):
    base, X, y = sample(400)
    kept = np.arange(400) % 4 != 0
    # Values that only the dropped rows have must not be seen either.
    X.loc[~kept, "age"] = 1000
    zeros = fit_with(base, X, y, H, sample_weight=kept * 1.0, **options)
    dropped = fit_with(base[kept], X[kept], y[kept], H, **options)
    new_base, new_X, _ = sample(100, seed=1)
    np.testing.assert_array_equal(
        zeros.predict(new_X, base=new_base), dropped.predict(new_X, base=new_base)
    )


@pytest.mark.parametrize("H", [rc.Trees(), rc.Linear(), rc.Groups("sex", "age")], ids=repr)
def test_weight_two_is_the_row_twice(H):
    base, X, y = sample(300)
    weight = 1.0 + (np.arange(300) % 3 == 0)
    twice = np.repeat(np.arange(300), weight.astype(int))
    options = {**PLAIN, "levels": 4}
    weighted = fit_with(base, X, y, H, sample_weight=weight, **options)
    repeated = fit_with(base[twice], X.iloc[twice], y[twice], H, **options)
    # Weighted sums keep fewer bits of each residual and hessian.
    np.testing.assert_allclose(
        weighted.predict(X, base=base), repeated.predict(X, base=base), atol=1e-5
    )


# --- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.nan, ["scores must not be missing or infinite", "nan in row 9"]),
        (np.inf, ["scores must not be missing or infinite", "inf in row 9"]),
        (1.5, [r"probabilities in \[0, 1\]", r"1\.5 in row 9", "logit"]),
        (-0.1, [r"probabilities in \[0, 1\]", r"-0\.1 in row 9", "logit"]),
    ],
)
def test_bad_scores(bad, words):
    base, _, _ = sample()
    refused(words, base_model=replaced(base, 9, bad))


def test_advice_about_log_odds_names_the_argument_of_fit():
    base, _, _ = sample()
    refused(['base_link="logit"'], base_model=replaced(base, 9, 3.0))


def test_bad_scores_at_predict():
    base, X, y = sample()
    model = fit_with(base, X, y, **PLAIN)
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\].*2\.0 in row 1"):
        model.predict(X, base=replaced(base, 1, 2.0))
    with pytest.raises(ValueError, match=r"missing or infinite.*nan in row 1"):
        model.predict(X, base=replaced(base, 1, np.nan))
    with pytest.raises(ValueError, match=r"199 .*200|200 .*199"):
        model.predict(X, base=base[:-1])
    with pytest.raises(ValueError, match="pass them as base="):
        model.predict(X)
    with pytest.raises(TypeError, match="one score per row, got float"):
        model.predict(X, base=0.5)


@pytest.mark.parametrize(
    "H",
    [rc.Trees(), rc.Linear(), rc.Groups("sex"), rc.Estimator(LinearRegression(), features=["age"])],
    ids=lambda H: type(H).__name__,
)
@pytest.mark.parametrize("n", [1, 199, 201, 400])
def test_another_number_of_scores_than_rows_at_predict(H, n):
    base, X, y = sample()
    model = fit_with(base, X, y, H, **{**PLAIN, "link": "identity"})
    scores = np.resize(base, n)
    for predict in (model.predict, model.margins, model.predict_proba):
        with pytest.raises(ValueError, match=rf"{n} base scores for 200 rows"):
            predict(X, base=scores)
    with pytest.raises(ValueError, match=rf"{n} base scores for 200 rows"):
        next(model.staged_predict(X, base=scores))


@pytest.mark.parametrize("options", [PLAIN, {"validation": False, "max_rounds": 0}], ids=repr)
def test_scores_at_predict_need_not_be_asked_of_h(options):
    """A class that looks at no column still has to notice a wrong number of scores."""
    base, X, y = sample()
    model = fit_with(base, X, y, rc.Trees(features=[], base_score=True), **options)
    for rows in (X, X.to_numpy(), X.to_numpy().tolist()):
        assert len(model.predict(rows, base=base)) == len(X)
        for n in (199, 201):
            with pytest.raises(ValueError, match=rf"{n} .*200"):
                model.predict(rows, base=np.resize(base, n))
    # What has no number of rows of its own is not asked for it.
    np.testing.assert_array_equal(model.predict(None, base=base), model.predict(X, base=base))


def test_another_number_of_rows_in_validation():
    base, X, y = sample()
    short = {"X": X, "y": y[:-1], "base": base}
    refused(["y has 199 entries", "X has 200 rows"], validation=short)
    many = {"X": X, "y": np.resize(y, 201), "base": np.resize(base, 201)}
    refused(["201 base scores for 200 rows"], validation=many)


# --- lengths and shapes -------------------------------------------------------------------------


def test_lengths_that_differ():
    base, X, y = sample()
    refused(["scores has 199 entries", "X has 200 rows"], base_model=base[:-1])
    refused(["y has 199 entries", "X has 200 rows"], y=y[:-1])
    refused(["200", "150"], Z=X[:150])


def test_names_of_several_levels():
    _, X, _ = sample()
    columns = pd.MultiIndex.from_tuples([("all", name) for name in X.columns])
    refused(["2 levels", "'all'", "X.columns = "], X=X.set_axis(columns, axis=1))


def test_empty_table():
    base, X, y = sample()
    refused(["no rows|empty"], base_model=base[:0], X=X[:0], y=y[:0])
    refused(["empty", "0 columns"], X=X[[]])
    refused(["table of rows and columns", r"\(200,\)", "reshape"], X=X["age"].to_numpy())


@pytest.mark.filterwarnings("ignore:all 1 labels are")
def test_one_row():
    base, X, y = sample()
    model = fit_with(base[:1], X[:1], y[:1], **PLAIN)
    before, after = abs(base[0] - y[0]), abs(model.predict(X[:1], base=base[:1])[0] - y[0])
    assert after < before
    # There is nothing to validate on, so nothing is changed.
    knobs = [{"max_rounds": 3}, {"levels": 2, "rounded": True}, {"tolerance": 0.0}]
    for options in ({}, {"validation": 0.5}, {"cv": 3}, *knobs):
        kept = fit_with(base[:1], X[:1], y[:1], **options)
        assert kept.predict(X[:1], base=base[:1]) == pytest.approx(base[:1])
        assert any("returned unchanged" in note for note in kept.notes)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fewer_rows_than_folds(n):
    base, X, y = sample()
    model = rc.fit(base[:n], X[:n], y[:n], loop=rc.Loop(max_rounds=20))
    assert np.isfinite(model.predict(X, base=base)).all()


# --- features -----------------------------------------------------------------------------------


@pytest.mark.parametrize("H", [rc.Trees(), rc.Linear(), rc.Groups("sex")], ids=repr)
def test_constant_features(H):
    base, X, y = sample()
    X = X.assign(age=1, sex="F")
    model = fit_with(base, X, y, H, levels=1, link="identity", step=1.0, **PLAIN)
    # Residuals are summed in steps of 2**-30 and fitted numbers snapped, round by round.
    np.testing.assert_allclose(model.margins(X, base=base), base + np.mean(y - base), atol=2.0**-25)


@pytest.mark.parametrize("H", [rc.Trees(), rc.Linear(), rc.Groups("gone == 1", "sex")], ids=repr)
@pytest.mark.filterwarnings("ignore:group term 'gone == 1' has no rows")
def test_features_that_are_missing_everywhere(H):
    base, X, y = sample()
    model = fit_with(base, X.assign(gone=np.nan), y, H, **PLAIN)
    f = model.predict(X.assign(gone=5.0), base=base)
    np.testing.assert_array_equal(f, model.predict(X.assign(gone=np.nan), base=base))


def test_a_group_without_rows_is_dropped():
    base, X, y = sample()
    with pytest.warns(UserWarning, match="'age > 200' has no rows; dropped"):
        model = fit_with(base, X, y, rc.Groups("sex", "age > 200"), **PLAIN)
    same = fit_with(base, X, y, rc.Groups("sex"), **PLAIN)
    np.testing.assert_array_equal(model.predict(X, base=base), same.predict(X, base=base))


@pytest.mark.filterwarnings("ignore:group term")
def test_no_group_with_rows():
    refused(["no group is left", "age > 200"], H=rc.Groups("age > 200"))


@pytest.mark.slow
def test_many_categories():
    n = 300_000
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"id": [f"id {k}" for k in range(n)], "sex": rng.choice(["F", "M"], n)})
    base = rng.uniform(0.2, 0.8, n)
    y = (rng.random(n) < base) * 1.0
    for H in (rc.Trees(), rc.Linear()):
        model = rc.fit(base, X, y, H, validation=False, loop=rc.Loop(max_rounds=2))
        f = model.predict(X[:1000], base=base[:1000])
        assert np.isfinite(f).all()
        assert model.n_rounds_ == 2
    # A group each would be a system of equations of 300,000 unknowns per level set.
    with pytest.raises(ValueError, match=r"300000 groups.*GiB.*min_rows"):
        rc.fit(base, X, y, rc.Groups("id"), validation=False, loop=rc.Loop(max_rounds=1))


def test_duplicate_column_names():
    _, X, _ = sample()
    twice = pd.concat([X, X[["age"]]], axis=1)
    refused(["repeat", "'age'", "Rename"], X=twice)


def test_columns_at_predict():
    base, X, y = sample()
    model = fit_with(base, X, y, **PLAIN)
    f = model.predict(X, base=base)
    np.testing.assert_array_equal(model.predict(X[["sex", "age"]], base=base), f)
    np.testing.assert_array_equal(model.predict(X.assign(more=1), base=base), f)
    with pytest.raises(ValueError, match=r"no column 'sex'.*Existing columns: 'age'"):
        model.predict(X[["age"]], base=base)
    with pytest.raises(ValueError, match=r"'age' is numeric, but holds text.*'old'"):
        model.predict(X.assign(age="old"), base=base)


def test_columns_of_an_array_at_predict():
    base, X, y = sample()
    array = np.column_stack([X["age"], X["sex"] == "F"]).astype(float)
    model = fit_with(base, array, y, **PLAIN)
    assert np.isfinite(model.predict(array, base=base)).all()
    with pytest.raises(ValueError, match="1 columns, but 2 are expected"):
        model.predict(array[:, :1], base=base)


@pytest.mark.parametrize(
    "H",
    [
        rc.Trees(features=["agee"]),
        rc.Linear(features=["agee"]),
        rc.Polynomial(features=["agee"]),
        rc.Groups("agee < 3"),
        rc.Estimator(LinearRegression(), features=["agee"]),
    ],
    ids=repr,
)
def test_class_names_a_column_that_is_not_there(H):
    refused(["agee", "[Dd]id you mean.*age"], H=H)


def test_feature_called_like_the_score():
    _, X, _ = sample()
    refused(["'base score'", "rename"], X=X.rename(columns={"age": "base score"}))


def test_unseen_categories_and_missing_values_at_predict():
    base, X, y = sample()
    X.loc[::7, "sex"] = None
    for H in (rc.Trees(), rc.Linear(), rc.Groups("sex")):
        model = fit_with(base, X, y, H, **PLAIN)
        missing = model.predict(X.assign(sex=None), base=base)
        unseen = model.predict(X.assign(sex="X"), base=base)
        np.testing.assert_array_equal(unseen, missing)
        assert np.isfinite(missing).all()
        gone = X.astype({"age": float}).assign(age=np.nan)
        assert np.isfinite(model.predict(gone, base=base)).all()


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_features(bad):
    base, X, y = sample()
    X = X.astype({"age": float})
    X.loc[3, "age"] = bad
    assert np.isfinite(fit_with(base, X, y, rc.Trees(), **PLAIN).predict(X, base=base)).all()
    refused(["'age' holds infinite", "clip"], X=X, H=rc.Linear())


def test_dates_are_refused():
    _, X, _ = sample()
    refused(["'born'", "datetime64", "year"], X=X.assign(born=pd.Timestamp("2000-01-01")))


# --- kinds of columns ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("H", [rc.Trees(), rc.Linear(), rc.Groups("sex", "age < 30")], ids=repr)
def test_every_dtype_of_the_same_table_is_the_same_table(H):
    base, X, y = sample()
    X["old"] = X["age"] > 60
    expected = rc.fit(base, X, y, H).predict(X, base=base)
    nullable = X.convert_dtypes()
    assert {str(dtype) for dtype in nullable.dtypes} == {"Int64", "string", "boolean"}
    others = {
        "nullable": nullable,
        "object": X.astype(object),
        "category": X.astype({"sex": "category"}),
        "int8": X.astype({"age": np.int8, "old": np.int8}),
        "float32": X.astype({"age": np.float32, "old": np.float32}),
    }
    for name, other in others.items():
        labels = pd.Series(y).astype("Int64") if name == "nullable" else y.astype(bool)
        scores = pd.Series(base).astype("Float64") if name == "nullable" else list(base)
        model = rc.fit(scores, other, labels, H)
        f = model.predict(other, base=scores)
        np.testing.assert_array_equal(f, expected, err_msg=name)
        np.testing.assert_array_equal(model.predict(X, base=base), expected, err_msg=name)


def test_nullable_missing_values_are_nan():
    base, X, y = sample()
    X = X.astype({"age": float})
    X.loc[::5, "age"] = np.nan
    expected = fit_with(base, X, y, **PLAIN).predict(X, base=base)
    nullable = X.convert_dtypes()
    assert nullable["age"].isna().any()
    f = fit_with(base, nullable, y, **PLAIN).predict(nullable, base=base)
    np.testing.assert_array_equal(f, expected)


def test_nullable_labels_with_missing_values():
    _, _, y = sample()
    labels = pd.Series(y).astype("Int64")
    labels[4] = pd.NA
    refused(["y must not be missing", "row 4"], y=labels)


def test_object_arrays():
    base, X, y = sample()
    model = fit_with(base, X.to_numpy(dtype=object), y, **PLAIN)
    expected = fit_with(base, X, y, **PLAIN).predict(X, base=base)
    np.testing.assert_array_equal(model.predict(X.to_numpy(dtype=object), base=base), expected)
    np.testing.assert_array_equal(model.predict(X.to_numpy().tolist(), base=base), expected)


# --- options ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("H", "error", "words"),
    [
        (rc.Trees(depth=0), ValueError, ["depth", "1 to 6", "got 0"]),
        (rc.Trees(depth=7), ValueError, ["depth", "1 to 6", "got 7"]),
        (rc.Trees(leaves=1), ValueError, ["leaves", "at least 2", "got 1"]),
        (rc.Trees(leaves=2.5), ValueError, ["leaves", r"got 2\.5"]),
        (rc.Trees(depth=2.0), ValueError, ["depth", r"got 2\.0"]),
        (rc.Trees(min_leaf_rows=1.5), ValueError, ["min_leaf_rows", r"got 1\.5"]),
        (rc.Trees(one_vs_rest=-1), ValueError, ["one_vs_rest", "got -1"]),
        (rc.Trees(bins=1), ValueError, ["bins", "got 1"]),
        (rc.Trees(bins=10**6), ValueError, ["bins", "got 1000000"]),
        (rc.Trees(bins="all"), ValueError, ["bins", "'exact'", "got 'all'"]),
        (rc.Trees(min_leaf_rows=0), ValueError, ["min_leaf_rows", "got 0"]),
        (rc.Trees(feature_share=0), ValueError, ["feature_share", "got 0"]),
        (rc.Trees(feature_share=1.5), ValueError, ["feature_share", r"got 1\.5"]),
        (rc.Trees(category_smoothing=-1), ValueError, ["category_smoothing", "got -1"]),
        (rc.Trees(features=[]), ValueError, ["Trees", "features|column"]),
        (rc.Linear(ridge=-1), ValueError, ["ridge", "got -1"]),
        (rc.Linear(ridge=np.nan), ValueError, ["ridge", "got nan"]),
        (rc.Polynomial(degree=1), ValueError, ["degree", "2 or 3", "got 1"]),
        (rc.Polynomial(degree=4), ValueError, ["degree", "2 or 3", "got 4"]),
        (rc.Polynomial(degree=2.0), ValueError, ["degree", r"got 2\.0"]),
        (rc.Polynomial(degree=None), ValueError, ["degree", "got None"]),
        (rc.Polynomial(ridge=-1), ValueError, ["ridge of Polynomial", "got -1"]),
        (rc.Groups(), ValueError, ["names no group", "Groups"]),
        (rc.Groups("sex", min_rows=0), ValueError, ["min_rows", "got 0"]),
        (rc.Groups("age <"), ValueError, ["age <"]),
        (rc.Estimator(3), TypeError, ["regressor", "got 3"]),
        (rc.Estimator(LinearRegression(), features=[]), ValueError, ["features|column"]),
        (LinearRegression(), TypeError, [r"H=Estimator\(LinearRegression"]),
        ("forest", ValueError, ["no class 'forest'", "trees", "linear", "polynomial"]),
        (3, TypeError, ["H=3", "Trees"]),
        (["sex", 3], TypeError, ["3"]),
        (rc.Trees, TypeError, [r"Trees\(.*\)"]),
        (rc.Groups, TypeError, [r"Groups\(.*\)"]),
    ],
    ids=str,
)
def test_bad_classes(H, error, words):
    refused(words, error, H=H)


@pytest.mark.parametrize(
    "make",
    [
        rc.Trees,
        rc.Linear,
        rc.Polynomial,
        lambda features: rc.Estimator(LinearRegression(), features=features),
    ],
    ids=["Trees", "Linear", "Polynomial", "Estimator"],
)
def test_features_as_a_string(make):
    with pytest.raises(TypeError, match=r"list of column names.*'age'.*\['age'\]"):
        fit_with(*sample(), make(features="age"), **PLAIN)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": 0}, ["levels", "at least 1", "got 0"]),
        ({"levels": 2.5}, ["levels", "whole number", r"got 2\.5"]),
        ({"levels": 10**6}, ["levels", "at most", "1000000"]),
        ({"level_kind": "equal"}, ["level_kind", "'uniform' or 'quantile'", "'equal'"]),
        ({"step": 0}, ["step", "above 0", "got 0"]),
        ({"step": 2}, ["step", "at most 1", "got 2"]),
        ({"step": "big"}, ["step", "number", "'big'"]),
        ({"tables_per_round": 0}, ["tables_per_round", "got 0"]),
        ({"l2": -1}, ["l2", "at least 0", "got -1"]),
        ({"min_gain": -1}, ["min_gain", "got -1"]),
        ({"min_level_rows": 0}, ["min_level_rows", "got 0"]),
        ({"tolerance": -0.1}, ["tolerance", r"got -0\.1"]),
        ({"tolerance": "theirs"}, ["tolerance", "'authors'", "'theirs'"]),
        ({"patience": 0}, ["patience", "got 0"]),
        ({"accept": 2}, ["accept", "at most 1", "got 2"]),
        ({"max_rounds": -1}, ["max_rounds", "got -1"]),
        ({"max_rounds": 1.5}, ["max_rounds", r"got 1\.5"]),
        ({"link": "probit"}, ["link", "'identity'|\"identity\"", "'probit'"]),
        ({"base_link": "probit"}, ["link", "identity", "'probit'"]),
        ({"threads": 0}, ["threads", "at least 1", "got 0"]),
        ({"threads": -1}, ["threads", "at least 1", "got -1"]),
        ({"blocks": 0}, ["blocks", "at least 1", "got 0"]),
        ({"seed": -1}, ["seed", "got -1"]),
        ({"seed": 1.5}, ["seed", r"got 1\.5"]),
        ({"seed": None}, ["seed", "got None"]),
        ({"threads": 1.5}, ["threads", "whole number", r"got 1\.5"]),
        ({"blocks": True}, ["blocks", "whole number", "got True"]),
        ({"rounded": "yes"}, ["rounded", "'yes'"]),
        ({"keep_unrounded": 1}, ["keep_unrounded", "True or False", "got 1"]),
        ({"accept": 0.1}, [r"accept=0\.1", "held-out rows", r"validation=\(X, y\)"]),
        ({"categorical": ["agee"]}, ["categorical", "'agee'", "Did you mean 'age'"]),
    ],
    ids=str,
)
def test_bad_options(options, words):
    refused(words, **options)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**64 + 5, np.int64(7)])
def test_any_whole_number_is_a_seed(seed):
    H = rc.Trees(feature_share=0.5)
    one, two = (rc.fit(*sample(), H, seed=seed, loop=rc.Loop(max_rounds=3)) for _ in range(2))
    assert one.history_.held_out == two.history_.held_out


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (None, TypeError, ["None"]),
        (object(), TypeError, ["array of scores", "function"]),
        ("model.bin", (TypeError, ValueError, FileNotFoundError), ["model.bin"]),
        (lambda X: np.zeros(3), ValueError, ["one finite score per row", "3", "200"]),
        (lambda X: np.full(len(X), np.nan), ValueError, ["finite score", "nan"]),
        (np.zeros((200, 2)), ValueError, [r"\(200, 2\)", r"scores\[:, 1\]"]),
    ],
    ids=["None", "object", "path", "short", "nan", "two columns"],
)
def test_bad_base_models(model, error, words):
    refused(words, error, base_model=model)


def test_text_that_is_no_unicode_is_refused_at_the_door():
    """Files, graphs and reports could not hold it."""
    X = pd.DataFrame({"s": pd.Series(["a\ud800", "b"] * 10, dtype=object)})
    y = [0.0, 1.0] * 10
    for call in (
        lambda: rc.fit(np.full(20, 0.5), X, y),
        lambda: rc.audit(np.full(20, 0.5), X, y, groups="s"),
    ):
        with pytest.raises(ValueError, match=r"'s' has the text 'a\\ud800'.*surrogate"):
            call()


def test_labels_whose_squares_overflow_are_refused_by_an_audit():
    y = np.linspace(0, 1, 20) * 1e160
    with pytest.raises(ValueError, match=r"span 0 to 1e\+160: squared errors.*Rescale"):
        rc.audit(y, None, y)
