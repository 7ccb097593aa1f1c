"""xgboost models: every form that the adapter reads, against xgboost's own predict."""

import json

import numpy as np
import pandas as pd
import pytest
from boosted_checks import assert_same, on_thresholds, run_graph
from boosted_data import ROWS, SIZES, TOWNS, categories, codes, labels, numbers, odd_rows
from cases import with_missing
from recalibrate_adapters.xgboost import Model, XGBoostBase
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recalibrate.core.levels import softmax
from recalibrate.scores import as_base, predicted_mean

xgboost = pytest.importorskip("xgboost")

pytestmark = pytest.mark.adapter
TREES = {"n_estimators": 15, "max_depth": 4, "learning_rate": 0.3, "n_jobs": 1}


def fit(model=xgboost.XGBClassifier, rows=numbers, kind="binary", **settings):
    frame = rows(ROWS, 0)
    y = labels(frame, kind)
    return model(**{**TREES, **settings}).fit(with_missing(frame), y)


def second(model, frame):
    return model.predict_proba(frame)[:, 1]


# --- objectives ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "kind", "link"),
    [
        ("reg:squarederror", "regression", "identity"),
        ("reg:logistic", "shares", "logit"),
        ("binary:logistic", "binary", "logit"),
        ("count:poisson", "counts", "identity"),
        ("reg:gamma", "positive", "identity"),
        ("reg:tweedie", "counts", "identity"),
    ],
)
def test_objectives_that_give_a_mean(objective, kind, link):
    model = fit(xgboost.XGBRegressor, kind=kind, objective=objective)
    base, frame = as_base(model), odd_rows(numbers(400, 1))
    assert base.link == link
    assert base.exact == (objective not in ("count:poisson", "reg:gamma", "reg:tweedie"))
    assert_same(base, frame, model.predict(frame))


@pytest.mark.parametrize(
    ("objective", "word"),
    [
        ("reg:absoluteerror", "the median"),
        ("reg:quantileerror", "a quantile"),
        ("reg:pseudohubererror", "between median and mean"),
    ],
)
def test_objectives_that_are_no_mean_are_taken_with_a_warning(objective, word):
    more = {"quantile_alpha": 0.3} if "quantile" in objective else {}
    model = fit(xgboost.XGBRegressor, kind="regression", objective=objective, **more)
    with pytest.warns(UserWarning, match=word) as caught:
        base = as_base(model)
    assert caught[0].filename == __file__
    frame = numbers(300, 1)
    assert_same(base, frame, model.predict(frame))


def test_raw_log_odds_are_log_odds():
    model = fit(xgboost.XGBRegressor, objective="binary:logitraw")
    base, frame = as_base(model), numbers(300, 1)
    assert base.link == "logit"
    # xgboost adds up leaves in float32, we in float64.
    np.testing.assert_allclose(base.scores(frame), model.predict(frame), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("objective", "why"),
    [
        ("rank:pairwise", "ranks rows"),
        ("survival:cox", "censored"),
        ("binary:hinge", "without a probability"),
    ],
)
def test_objectives_without_a_mean_are_refused(objective, why):
    frame = numbers(100, 0)
    data = xgboost.DMatrix(frame, labels(frame, "binary"))
    booster = xgboost.train({"objective": objective, "nthread": 1}, data, 1)
    with pytest.raises(ValueError, match=f"{objective} .*{why}.*binary:logistic"):
        as_base(booster)


def test_several_quantiles_are_refused():
    model = fit(
        xgboost.XGBRegressor, kind="regression", objective="reg:quantileerror",
        quantile_alpha=[0.1, 0.9],
    )  # fmt: skip
    with (
        pytest.warns(UserWarning, match="a quantile"),
        pytest.raises(ValueError, match="predicts 2 numbers per row"),
    ):
        as_base(model)


def test_custom_objective_needs_the_link():
    def squares(y, f):
        return f - y, np.ones_like(f)

    model = fit(xgboost.XGBRegressor, kind="regression", objective=squares)
    with pytest.raises(ValueError, match="custom objective"):
        as_base(model)
    frame = numbers(200, 1)
    assert_same(as_base(model, link="identity"), frame, model.predict(frame))
    assert as_base(model, link="logit").link == "logit"


def test_link_that_contradicts_the_objective_is_refused():
    with pytest.raises(ValueError, match=r"link='identity' was given.*'logit'"):
        as_base(fit(n_estimators=1), link="identity")


# --- boosters and settings ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"booster": "dart", "rate_drop": 0.4},
        {"num_parallel_tree": 5, "n_estimators": 2, "subsample": 0.6, "learning_rate": 1.0},
        {"base_score": 0.1},
        {"tree_method": "exact"},
        {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 20},
        {"n_estimators": 1, "gamma": 1e9},
        {"missing": 0.0},
        {"missing": -999.0},
    ],
    ids=str,
)
def test_settings(settings):
    model = fit(**settings)
    base = as_base(model)
    assert base.exact
    for frame in (odd_rows(numbers(400, 1)), on_thresholds(base, numbers(400, 2))):
        frame.loc[frame.index[::9], "age"] = -999.0
        assert_same(base, frame, second(model, frame.astype(np.float32)))
        np.testing.assert_array_equal(run_graph(base, frame), base.scores(frame))


# xgboost deprecates these classes; models that users have are served all the same.
@pytest.mark.filterwarnings("ignore:`XGBRF:FutureWarning")
def test_random_forest_classes():
    model = xgboost.XGBRFRegressor(n_estimators=10, max_depth=4, n_jobs=1)
    frame = numbers(ROWS, 0)
    model.fit(frame, labels(frame, "regression"))
    assert_same(as_base(model), numbers(200, 1), model.predict(numbers(200, 1)))


@pytest.mark.parity
def test_linear_booster():
    frame = numbers(ROWS, 0)
    model = xgboost.XGBClassifier(booster="gblinear", n_estimators=20, n_jobs=1)
    model.fit(frame, labels(frame, "binary"))
    base, new = as_base(model), with_missing(numbers(300, 1))
    assert not base.exact
    assert_same(base, new, second(model, new))
    # float64 sums in another order, here and below.
    np.testing.assert_allclose(run_graph(base, new), base.scores(new), rtol=1e-12)


@pytest.mark.parity
def test_linear_booster_with_a_log_link():
    frame = numbers(ROWS, 0)
    model = xgboost.XGBRegressor(booster="gblinear", objective="count:poisson", n_jobs=1)
    model.fit(frame, labels(frame, "counts"))
    base, new = as_base(model), numbers(300, 1)
    assert_same(base, new, model.predict(new))
    np.testing.assert_allclose(run_graph(base, new), base.scores(new), rtol=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("target_class", [None, 0, 2])
def test_linear_booster_of_several_classes(target_class):
    frame = numbers(ROWS, 0)
    model = xgboost.XGBClassifier(booster="gblinear", n_estimators=20, n_jobs=1)
    model.fit(frame, labels(frame, "binary") + (np.arange(ROWS) % 2))
    base, new = as_base(model, target_class=target_class), with_missing(numbers(300, 1))
    own = model.predict_proba(new)
    found = base.scores(new)
    shares = softmax(found) if target_class is None else found
    expected = own if target_class is None else own[:, target_class]
    np.testing.assert_allclose(shares, expected, atol=1e-6)  # xgboost sums in float32
    np.testing.assert_allclose(run_graph(base, new), found, rtol=1e-11, atol=1e-12)


def test_base_scores_of_old_and_new_files():
    def model(text, classes="0"):
        parameters = {"base_score": text, "num_class": classes, "num_feature": "1"}
        return Model({"learner_model_param": parameters, "objective": {"name": "any"}})

    assert model("5E-1").base_scores.tolist() == [0.5]
    assert model("[2.5E-1]").base_scores.tolist() == [0.25]
    assert model("5E-1", "3").base_scores.tolist() == [0.5] * 3
    assert model("[1E0,-2E0,5E-1]", "3").base_scores.tolist() == [1.0, -2.0, 0.5]


# --- early stopping -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped():
    frame, new = numbers(ROWS, 0), numbers(ROWS, 1)
    model = xgboost.XGBClassifier(
        n_estimators=200, learning_rate=0.5, early_stopping_rounds=4, n_jobs=1
    )
    evaluation = [(new, 1 - labels(new, "binary"))]  # gets worse at once
    model.fit(frame, labels(frame, "binary"), eval_set=evaluation, verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_early_stopping_is_honoured_as_predict_does(stopped, suffix, tmp_path):
    frame, booster = numbers(300, 2), stopped.get_booster()
    everything = booster.predict(xgboost.DMatrix(frame))
    assert np.abs(everything - second(stopped, frame)).max() > 0.01
    assert_same(as_base(stopped), frame, second(stopped, frame))
    assert_same(as_base(booster), frame, everything)
    stopped.save_model(tmp_path / f"classes.{suffix}")
    assert_same(as_base(tmp_path / f"classes.{suffix}"), frame, second(stopped, frame))
    booster.save_model(tmp_path / f"booster.{suffix}")
    assert_same(as_base(tmp_path / f"booster.{suffix}"), frame, everything)


def test_iterations_of_models_before_version_2(stopped):
    model = Model.read(stopped.get_booster())
    part = model.learner["gradient_booster"]["model"]
    counts = [model.count_trees(k) for k in (0, 2, 1000, None)]
    del part["iteration_indptr"]
    assert [model.count_trees(k) for k in (0, 2, 1000, None)] == counts


# --- classes ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_of_several_classes():
    model = fit(kind="three")
    with pytest.raises(ValueError, match="target_class=7 is not a class"):
        as_base(model, target_class=7)
    frame = odd_rows(numbers(300, 1))
    for chosen in range(3):
        base = as_base(model, target_class=chosen)
        assert (base.link, base.exact) == ("identity", False)
        assert_same(base, frame, model.predict_proba(frame)[:, chosen])
        np.testing.assert_allclose(run_graph(base, frame), base.scores(frame), rtol=1e-12)


def test_the_first_of_two_classes():
    model, frame = fit(), numbers(200, 1)
    assert_same(as_base(model, target_class=0), frame, model.predict_proba(frame)[:, 0])
    assert_same(as_base(model, target_class=1), frame, model.predict_proba(frame)[:, 1])


def test_a_regressor_has_no_target_class():
    with pytest.raises(ValueError, match="has no classes"):
        as_base(fit(xgboost.XGBRegressor, kind="regression"), target_class=1)


# --- categories ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 100], ids=["partitions", "one-hot"])
def categorical(request):
    return fit(rows=categories, enable_categorical=True, max_cat_to_onehot=request.param)


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(town=frame["town"].where(np.arange(len(frame)) % 5 != 0))


def test_categories_are_those_of_the_training(categorical):
    base, frame = as_base(categorical), with_gaps(categories(400, 1))
    assert base.exact
    expected = second(categorical, frame)
    assert_same(base, frame, expected)
    order = frame.assign(town=frame["town"].cat.reorder_categories(sorted(TOWNS)))
    few = frame.assign(town=frame["town"].cat.remove_unused_categories())
    text = frame.assign(town=frame["town"].astype(object), size=frame["size"].astype(int))
    for same in (order, few, text, text[["size", "town", "debt", "rooms", "age"]]):
        np.testing.assert_array_equal(base.scores(same), base.scores(frame))


@pytest.mark.parity
def test_unseen_categories_count_as_missing(categorical):
    base, frame = as_base(categorical), with_gaps(categories(300, 1))
    unseen = frame.assign(town=frame["town"].astype(object), size=frame["size"].astype(int))
    unseen.loc[::3, "town"] = "Ulm"
    unseen.loc[::4, "size"] = 77
    gone = unseen.assign(
        town=pd.Categorical(unseen["town"].where(unseen["town"] != "Ulm"), categories=TOWNS),
        size=pd.Categorical(unseen["size"].where(unseen["size"] != 77), categories=SIZES),
    )
    assert_same(base, unseen, second(categorical, gone))
    np.testing.assert_array_equal(run_graph(base, unseen), base.scores(unseen))


def test_codes_in_the_place_of_text_are_refused(categorical):
    frame = categories(20, 1)
    with pytest.raises(ValueError, match=r"'town' holds numbers.*'Thun', 'Bern'"):
        as_base(categorical).scores(frame.assign(town=frame["town"].cat.codes))


@pytest.mark.parity
@pytest.mark.parametrize("onehot", [1, 100])
def test_models_trained_on_codes(onehot):
    frame = codes(ROWS, 0)
    model = xgboost.XGBClassifier(
        **TREES, feature_types=["q", "q", "q", "c", "c"], enable_categorical=True,
        max_cat_to_onehot=onehot,
    ).fit(frame.to_numpy(), labels(frame, "binary"))  # fmt: skip
    new = codes(600, 1)
    odd = [np.nan, 7.0, 31.0, 32.0, 1000.0, 1.7, 2.0**24]
    new["town"] = np.resize([*odd, *new["town"][:10]], 600)
    base = as_base(model)
    assert_same(base, new, second(model, new.to_numpy()))
    # xgboost checks no codes here, so these go the way of its own predictor: not in the set
    new.loc[::2, "town"] = -1.0
    as_unseen = base.scores(new.assign(town=new["town"].where(new["town"] != -1.0, 1000.0)))
    np.testing.assert_array_equal(base.scores(new), as_unseen)
    np.testing.assert_array_equal(run_graph(base, new), base.scores(new))


# --- files, agreement, size ---------------------------------------------------------------------


def test_files_that_are_no_models(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"a": 1}))
    with pytest.raises(ValueError, match=r"xgboost cannot read .*other\.json"):
        as_base(path)
    fit().save_model(tmp_path / "model.ubj")
    content = (tmp_path / "model.ubj").read_bytes()
    (tmp_path / "model.ubj").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="xgboost cannot read"):
        as_base(tmp_path / "model.ubj")


def test_trees_that_disagree_with_xgboost_are_not_used(monkeypatch):
    model, frame = fit(), numbers(200, 1)
    read = Model.trees

    def without_the_last(self, iterations, factor):
        return [trees[:-1] for trees in read(self, iterations, factor)]

    monkeypatch.setattr(Model, "trees", without_the_last)
    base = as_base(model)
    assert base.graph() is None
    assert "differs" in base.why_no_graph
    assert not base.exact
    assert_same(base, frame, second(model, frame))


def test_scores_hardly_ever_change_level():
    base_model = fit(n_estimators=60, max_depth=6)
    base, frame = as_base(base_model), numbers(20_000, 3).astype(np.float32)
    own = np.floor(100 * predicted_mean(base, frame) + 0.5)
    native = np.floor(100 * second(base_model, frame).astype(np.float64) + 0.5)
    assert np.sum(own != native) <= 2  # 20 in a million are allowed; of 20,000 rows 0.4


def test_names_and_positions():
    frame = numbers(ROWS, 0)
    unnamed = xgboost.XGBClassifier(**TREES).fit(frame.to_numpy(), labels(frame, "binary"))
    base = XGBoostBase(unnamed)
    assert base.columns() is None
    np.testing.assert_array_equal(base.scores(frame), base.scores(frame.to_numpy()))
    with pytest.raises(ValueError, match="2 columns, but 3"):
        base.scores(frame[["age", "debt"]])


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_calibrated_models_keep_their_own_scores(method):
    """An isotonic curve turns the last bit of a float32 probability into a step."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 5))
    margin = 2 * X[:, 0] - X[:, 1] * X[:, 2]
    y = (rng.random(6000) < 1 / (1 + np.exp(-margin))).astype(int)
    inner = xgboost.XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
    model = CalibratedClassifierCV(inner, method=method, cv=3).fit(X[:3000], y[:3000])
    base, rows = as_base(model), X[3000:]
    scores, expected = predicted_mean(base, rows), second(model, rows)
    if method == "sigmoid":
        assert base.graph() is not None
        # A smooth curve only passes on how float32 sums differ.
        np.testing.assert_allclose(scores, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(scores, expected)
        assert base.graph() is None
        assert "isotonic curves are so steep" in base.why_no_graph


@pytest.mark.parametrize("final", ["trees", "logistic"])
def test_trees_over_float32_scores_keep_their_own_scores(final):
    """Trees split between float32 scores that a graph can only follow but for the last bit."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40_000, 3))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))).astype(int)
    inner = xgboost.XGBClassifier(n_estimators=30, max_depth=6, n_jobs=1)
    trees = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=1)
    last = make_pipeline(StandardScaler(), trees) if final == "trees" else LogisticRegression()
    vote = VotingClassifier([("a", inner)], voting="soft")
    model = StackingClassifier([("a", vote)], final_estimator=last, cv=2).fit(X[:2500], y[:2500])
    base = as_base(model)
    scores, expected = predicted_mean(base, X), second(model, X)
    if final == "logistic":
        assert base.graph() is not None
        # A smooth model only passes on how float32 sums differ.
        np.testing.assert_allclose(scores, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(scores, expected)
        assert base.graph() is None
        assert "splits scores that a model inside computes in float32" in base.why_no_graph
