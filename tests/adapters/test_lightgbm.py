"""LightGBM models: every form that the adapter reads, against LightGBM's own predict."""

import numpy as np
import pandas as pd
import pytest
from boosted_checks import assert_same, on_thresholds, run_graph
from boosted_data import ROWS, SIZES, TOWNS, categories, codes, labels, numbers, odd_rows
from cases import with_missing
from recalibrate_adapters.lightgbm import Model

from recalibrate.scores import as_base, predicted_mean

lightgbm = pytest.importorskip("lightgbm")

pytestmark = pytest.mark.adapter
TREES = {
    "n_estimators": 15, "num_leaves": 12, "min_child_samples": 5, "n_jobs": 1, "verbose": -1,
    "min_data_per_group": 5, "cat_smooth": 1.0,
}  # fmt: skip
FOREST = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}


def fit(model=lightgbm.LGBMClassifier, rows=numbers, kind="binary", **settings):
    frame = rows(ROWS, 0)
    y = labels(frame, kind)
    return model(**{**TREES, **settings}).fit(with_missing(frame), y)


def second(model, frame):
    return model.predict_proba(frame)[:, 1]


# --- objectives ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "kind", "link"),
    [
        ("regression", "regression", "identity"),
        ("binary", "binary", "logit"),
        ("cross_entropy", "shares", "logit"),
        ("poisson", "counts", "identity"),
        ("gamma", "positive", "identity"),
        ("tweedie", "counts", "identity"),
    ],
)
def test_objectives_that_give_a_mean(objective, kind, link):
    model = fit(lightgbm.LGBMRegressor, kind=kind, objective=objective)
    base, frame = as_base(model), odd_rows(numbers(400, 1))
    assert base.link == link
    assert base.exact == (objective not in ("poisson", "gamma", "tweedie"))
    assert_same(base, frame, model.predict(frame))


@pytest.mark.parametrize(
    ("objective", "word"),
    [
        ("quantile", "a quantile"),
        ("regression_l1", "the median"),
        ("huber", "between median and mean"),
        ("fair", "between median and mean"),
        ("mape", "a weighted median"),
    ],
)
def test_objectives_that_are_no_mean_are_taken_with_a_warning(objective, word):
    model = fit(lightgbm.LGBMRegressor, kind="regression", objective=objective)
    with pytest.warns(UserWarning, match=word) as caught:
        base = as_base(model)
    assert caught[0].filename == __file__
    assert_same(base, numbers(300, 1), model.predict(numbers(300, 1)))


@pytest.mark.parametrize(
    ("objective", "why"), [("lambdarank", "ranks rows"), ("cross_entropy_lambda", "intensity")]
)
def test_objectives_without_a_mean_are_refused(objective, why):
    frame = numbers(100, 0)
    data = lightgbm.Dataset(frame, labels(frame, "binary"), group=[50, 50])
    settings = {"objective": objective, "verbose": -1, "num_threads": 1}
    with pytest.raises(ValueError, match=f"{objective} .*{why}.*cross_entropy"):
        as_base(lightgbm.train(settings, data, 1))


def test_custom_objective_needs_the_link():
    def squares(y, f):
        return f - y, np.ones_like(f)

    model = fit(lightgbm.LGBMRegressor, kind="regression", objective=squares)
    with pytest.raises(ValueError, match="custom objective"):
        as_base(model)
    frame = numbers(200, 1)
    assert_same(as_base(model, link="identity"), frame, model.predict(frame))


def test_link_that_contradicts_the_objective_is_refused():
    with pytest.raises(ValueError, match=r"link='identity' was given.*'logit'"):
        as_base(fit(n_estimators=1), link="identity")


# --- boosting and settings ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"boosting_type": "dart", "drop_rate": 0.5},
        FOREST,
        {**FOREST, "sigmoid": 0.7},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"is_unbalance": True},
        {"boost_from_average": False},
        {"sigmoid": 2.5},
        {"max_bin": 7},
        {"min_child_samples": 10_000},
    ],
    ids=str,
)
def test_settings(settings):
    model = fit(**settings)
    base = as_base(model)
    assert base.exact
    # Thresholds at +-1e-35 are those that LightGBM puts around zero.
    for frame in (odd_rows(numbers(400, 1)), on_thresholds(base, numbers(400, 2))):
        assert_same(base, frame, second(model, frame))
        np.testing.assert_array_equal(run_graph(base, frame), base.scores(frame))


@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_numbers_that_are_zero_to_lightgbm(zero_as_missing):
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0, np.nan], size=(ROWS, 2))
    y = (X[:, 0] == 0) + 2.0 * (X[:, 1] < 0) + rng.normal(0, 0.1, ROWS)
    model = lightgbm.LGBMRegressor(**TREES, zero_as_missing=zero_as_missing).fit(X, y)
    thresholds = np.concatenate([e.threshold for e in as_base(model)._form.ensembles])
    assert np.abs(thresholds[thresholds != 0]).min() < 1e-34
    tiny = np.float32([1e-35, 1e-36, 0.0, 2e-35])
    sides = [np.nextafter(tiny, np.float32(side)) for side in (-np.inf, np.inf)]
    values = np.concatenate([tiny, *sides])
    values = np.concatenate([values, -values, np.float32([np.nan, 1, -1])])
    rows = rng.choice(values, size=(400, 2))
    assert_same(as_base(model), rows, model.predict(rows))


def test_random_forest_of_means():
    model = fit(lightgbm.LGBMRegressor, kind="regression", **FOREST)
    assert_same(as_base(model), numbers(200, 1), model.predict(numbers(200, 1)))


@pytest.mark.parametrize(
    ("settings", "kind", "why"),
    [({"linear_tree": True}, "regression", "linear_tree"), ({"reg_sqrt": True}, "counts", "sqrt")],
)
def test_forms_that_lightgbm_scores_itself(settings, kind, why):
    model = fit(lightgbm.LGBMRegressor, kind=kind, **settings)
    base, frame = as_base(model), with_missing(numbers(300, 1))
    assert_same(base, frame, model.predict(frame))
    assert base.graph() is None
    assert why in base.why_no_graph
    assert not base.exact


def test_early_stopping_is_honoured_as_predict_does(tmp_path):
    frame, new = numbers(ROWS, 0), numbers(ROWS, 1)
    train = lightgbm.Dataset(frame, labels(frame, "binary"))
    wrong = train.create_valid(new, 1 - labels(new, "binary"))  # gets worse at once
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "learning_rate": 0.3}
    stop = [lightgbm.early_stopping(5, verbose=False)]
    booster = lightgbm.train(
        settings, train, 100, valid_sets=[wrong], callbacks=stop, keep_training_booster=True
    )
    assert booster.best_iteration < booster.current_iteration()
    everything = booster.predict(new, num_iteration=-1)
    assert np.abs(everything - booster.predict(new)).max() > 0.01
    assert_same(as_base(booster), new, booster.predict(new))
    booster.save_model(tmp_path / "best.txt")
    assert_same(as_base(tmp_path / "best.txt"), new, booster.predict(new))
    booster.save_model(tmp_path / "all.txt", num_iteration=-1)
    assert_same(as_base(tmp_path / "all.txt"), new, everything)


# --- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "link"),
    [({}, "identity"), ({"objective": "multiclassova", "sigmoid": 1.5}, "logit")],
)
def test_one_of_several_classes(settings, link):
    frame = numbers(ROWS, 0)
    y = np.array(["low", "middle", "high"])[labels(frame, "three")]
    model = lightgbm.LGBMClassifier(**TREES, **settings).fit(frame, y)
    new = odd_rows(numbers(300, 1))
    for position, chosen in enumerate(model.classes_):
        base = as_base(model, target_class=chosen)
        assert base.link == link
        assert_same(base, new, model.predict_proba(new)[:, position])
        # float64 sums in another order.
        np.testing.assert_allclose(run_graph(base, new), base.scores(new), rtol=1e-12)


def test_the_first_of_two_classes():
    model, frame = fit(), numbers(200, 1)
    assert_same(as_base(model, target_class=0), frame, model.predict_proba(frame)[:, 0])


# --- categories ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 100], ids=["partitions", "one-hot"])
def categorical(request):
    return fit(rows=categories, max_cat_to_onehot=request.param)


def test_categories_are_those_of_the_training(categorical):
    frame = categories(400, 1)
    frame = frame.assign(town=frame["town"].where(np.arange(400) % 5 != 0))
    base = as_base(categorical)
    assert base.exact
    assert_same(base, frame, second(categorical, frame))
    order = frame.assign(town=frame["town"].cat.reorder_categories(sorted(TOWNS)))
    text = frame.assign(town=frame["town"].astype(object), size=frame["size"].astype(int))
    for same in (order, text, text[["size", "town", "debt", "rooms", "age"]]):
        np.testing.assert_array_equal(base.scores(same), base.scores(frame))


@pytest.mark.parity
def test_unseen_categories_count_as_missing(categorical):
    frame = categories(300, 1)
    unseen = frame.assign(
        town=frame["town"].cat.add_categories(["Ulm"]), size=frame["size"].cat.add_categories([77])
    )
    unseen.loc[::3, "town"] = "Ulm"
    unseen.loc[::4, "size"] = 77
    base = as_base(categorical)
    assert_same(base, unseen, second(categorical, unseen))
    np.testing.assert_array_equal(run_graph(base, unseen), base.scores(unseen))


def test_codes_in_the_place_of_text_are_refused(categorical):
    frame = categories(20, 1)
    with pytest.raises(ValueError, match=r"'town' holds numbers.*'Thun', 'Bern'"):
        as_base(categorical).scores(frame.assign(town=frame["town"].cat.codes))


@pytest.mark.parity
@pytest.mark.parametrize("settings", [{}, {"max_cat_to_onehot": 100}, {"zero_as_missing": True}])
def test_models_trained_on_codes(settings):
    frame = codes(ROWS, 0)
    model = lightgbm.LGBMClassifier(**TREES, **settings)
    model.fit(frame.to_numpy(), labels(frame, "binary"), categorical_feature=[3, 4])
    new = odd_rows(codes(600, 1))
    odd = [np.nan, 7.0, 31.0, 32.0, 1000.0, 1.7, -0.5, -1.0, -1.5, -7.0, 2.0**24, -np.inf]
    new["town"] = np.resize([*odd, *new["town"][:10]], 600)
    base = as_base(model)
    assert_same(base, new, second(model, new.to_numpy(dtype=np.float64)))
    np.testing.assert_array_equal(run_graph(base, new), base.scores(new))


def test_ordered_categories_are_told_by_the_first_rows():
    frame = categories(ROWS, 0)
    frame = frame.assign(town=frame["town"].cat.as_ordered())
    model = lightgbm.LGBMClassifier(**TREES).fit(frame, labels(frame, "binary"))
    base = as_base(model)
    assert "does not tell which" in base.why_no_graph
    assert_same(base, frame, second(model, frame))
    assert base.exact
    assert base.graph() is not None
    # Categories as plain text are found, too, once it is known where they are.
    assert_same(base, frame.astype({"town": object}), second(model, frame))


def test_categories_of_booleans():
    frame = categories(ROWS, 0)
    frame = frame.assign(town=pd.Categorical(frame["age"] > 40))
    model = lightgbm.LGBMClassifier(**TREES).fit(frame, labels(categories(ROWS, 0), "binary"))
    base = as_base(model)
    assert_same(base, frame, second(model, frame))
    assert base.exact
    assert base.graph() is not None


def test_constant_categories():
    frame = categories(ROWS, 0)
    frame = frame.assign(town=pd.Categorical(["Bern"] * ROWS, categories=TOWNS))
    model = lightgbm.LGBMClassifier(**TREES).fit(frame, labels(frame, "binary"))
    base, new = as_base(model), categories(200, 1)
    assert base.exact
    assert_same(base, new, second(model, new))
    assert base._form.schema.columns[4].categories == tuple(SIZES)


# --- names, files, agreement, size --------------------------------------------------------------


def test_names_with_spaces():
    frame = numbers(ROWS, 0).rename(columns={"age": "age in years"})
    y = labels(frame.rename(columns={"age in years": "age"}), "binary")
    model = lightgbm.LGBMClassifier(**TREES).fit(frame, y)
    base = as_base(model)
    assert base.columns() == ("age_in_years", "rooms", "debt")
    assert_same(base, frame[["debt", "age in years", "rooms"]], second(model, frame))
    renamed = frame.rename(columns={"age in years": "age_in_years"})
    np.testing.assert_array_equal(base.scores(renamed), base.scores(frame))


def test_columns_without_names():
    frame = numbers(ROWS, 0)
    model = lightgbm.LGBMClassifier(**TREES).fit(frame.to_numpy(), labels(frame, "binary"))
    base = as_base(model)
    assert base.columns() is None
    np.testing.assert_array_equal(base.scores(frame), base.scores(frame.to_numpy()))


def test_files_that_are_no_models(tmp_path):
    (tmp_path / "other.txt").write_text("some text\n")
    with pytest.raises(ValueError, match=r"LightGBM cannot read .*other\.txt"):
        as_base(tmp_path / "other.txt")


def test_trees_that_disagree_with_lightgbm_are_not_used(monkeypatch):
    model, frame = fit(), numbers(200, 1)
    read = Model.trees

    def without_the_last(self, factor, encoded):
        return [trees[:-1] for trees in read(self, factor, encoded)]

    monkeypatch.setattr(Model, "trees", without_the_last)
    base = as_base(model)
    assert base.graph() is None
    assert "differs" in base.why_no_graph
    assert_same(base, frame, second(model, frame))


@pytest.mark.slow
def test_scores_never_change_level():
    model = fit(n_estimators=60, num_leaves=31)
    base, frame = as_base(model), numbers(20_000, 3).astype(np.float32)
    own = np.floor(100 * predicted_mean(base, frame) + 0.5)
    assert np.sum(own != np.floor(100 * second(model, frame) + 0.5)) == 0
