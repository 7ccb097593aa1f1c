"""RecalibratedClassifier and RecalibratedRegressor, where people use CalibratedClassifierCV."""

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import recalibrate as rc
from recalibrate import Groups, RecalibratedClassifier, RecalibratedRegressor

CHECKED = [
    RecalibratedClassifier(LogisticRegression(), cv=3),
    RecalibratedRegressor(Ridge(), cv=3),
]


def expected_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": "trees are grown on rows that are drawn",
        "check_dtype_object": "what a column holds is refused with a ValueError of its own words",
        "check_regressors_train": "the check sets alpha, which here asks for Algorithm 1",
    }


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def people():
    """Rows whose outcome depends on a column that a model may not see."""
    rng = np.random.default_rng(0)
    n = 3000
    X = pd.DataFrame({"age": rng.uniform(20, 70, n), "hours": rng.normal(40, 8, n)})
    sex = rng.choice(["F", "M"], n)
    margin = 0.05 * (X["age"] - 45) + np.where(sex == "F", -0.8, 0.8)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-margin)), "yes", "no")
    return X, X.assign(sex=sex), y


def gaps(p, y, group):
    error = pd.Series((y == "yes") - p)
    return error.groupby(group).mean().abs().max()


def test_a_frozen_model_is_the_model_of_fit(people):
    X, Z, y = people
    base = LogisticRegression().fit(X[:1000], y[:1000])
    H = Groups("sex")
    model = RecalibratedClassifier(FrozenEstimator(base), H).fit(X[1000:], y[1000:], Z=Z[1000:])
    twin = rc.fit(base, X[1000:], y[1000:], H, Z=Z[1000:], seed=model.model_.settings.seed)
    assert_array_equal(model.predict_proba(X, Z=Z), twin.predict_proba(X, Z=Z))
    assert_array_equal(model.classes_, ["no", "yes"])
    assert set(model.predict(X, Z=Z)) <= {"no", "yes"}
    assert gaps(model.predict_proba(X, Z=Z)[:, 1], y, Z["sex"]) < 0.05
    prefit = RecalibratedClassifier(base, H, cv="prefit", random_state=0)
    frozen = RecalibratedClassifier(FrozenEstimator(base), H, random_state=0)
    fitted = [each.fit(X[1000:], y[1000:], Z=Z[1000:]) for each in (prefit, frozen)]
    assert_array_equal(*(each.predict_proba(X, Z=Z) for each in fitted))


def test_an_unfitted_model_is_cross_fitted(people):
    X, Z, y = people
    inner = LogisticRegression()
    model = RecalibratedClassifier(inner, Groups("sex")).fit(X, y, Z=Z)
    assert not hasattr(inner, "coef_")
    assert model.n_features_in_ == 2
    assert_array_equal(model.feature_names_in_, ["age", "hours"])
    assert gaps(model.predict_proba(X, Z=Z)[:, 1], y, Z["sex"]) < 0.03


def test_regression_and_its_weights(people):
    X, Z, _ = people
    income = 30.0 + X["age"] / 2 + np.where(Z["sex"] == "F", -5.0, 5.0)
    weight = np.where(Z["sex"] == "F", 2.0, 1.0)
    model = RecalibratedRegressor(Ridge(), Groups("sex")).fit(X, income, weight, Z=Z)
    error = income - model.predict(X, Z=Z)
    assert np.abs(error.groupby(Z["sex"]).mean()).max() < 0.3
    assert is_regressor(model)


def test_in_pipelines_searches_and_displays(people):
    X, Z, y = people
    encode = make_column_transformer(
        (OneHotEncoder(), ["sex"]), (StandardScaler(), ["age", "hours"])
    )
    inner = make_pipeline(encode, LogisticRegression())
    model = RecalibratedClassifier(inner, rc.Trees(depth=1), cv=3, random_state=0)
    score = cross_val_score(model, Z, y, cv=3, scoring="neg_log_loss")
    assert score.mean() > -log_loss(y == "yes", np.full(len(y), np.mean(y == "yes")))
    search = GridSearchCV(model, {"H__depth": [1, 2], "estimator__logisticregression__C": [1.0]})
    search.set_params(cv=2, scoring="neg_log_loss").fit(Z, y)
    assert search.best_params_["H__depth"] in (1, 2)
    assert search.best_estimator_.H.depth == search.best_params_["H__depth"]
    fitted = clone(model).fit(Z, y)
    assert is_classifier(fitted)
    found = permutation_importance(fitted, Z[:300], y[:300], n_repeats=2, random_state=0)
    assert found.importances_mean[list(Z.columns).index("sex")] > 0
    assert CalibrationDisplay.from_estimator(fitted, Z, y, pos_label="yes").prob_pred.size > 2
    scaled = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        clone(model).set_params(estimator=LogisticRegression()),
    )
    assert scaled.fit(X, y).predict_proba(X).shape == (len(y), 2)


def test_metadata_is_routed(people):
    X, Z, y = people
    with sklearn.config_context(enable_metadata_routing=True):
        model = RecalibratedClassifier(LogisticRegression(), Groups("sex"), cv=3)
        model.set_fit_request(sample_weight=True, Z=True).set_predict_request(Z=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, model)
        weight = np.ones(len(y))
        weight[: len(y) // 2] = 3.0
        pipe.fit(X, y, sample_weight=weight, Z=Z)
        labels = pipe.predict(X, Z=Z)
    assert np.mean(labels == y) > 0.6
    assert gaps(pipe[-1].predict_proba(pipe[0].transform(X), Z=Z)[:, 1], y, Z["sex"]) < 0.05


@pytest.mark.parametrize("kind", [RecalibratedClassifier, RecalibratedRegressor])
def test_every_parameter_is_documented(kind):
    documented = inspect.getdoc(kind).split("Attributes\n")[0].split("Parameters\n")[1]
    lines = [line for line in documented.splitlines() if not line.startswith((" ", "-"))]
    names = {name.strip() for line in lines for name in line.split(",")} - {""}
    assert names == set(kind(Ridge()).get_params(deep=False))


def test_what_is_wrong_is_said(people):
    X, _, y = people
    with pytest.raises(ValueError, match="a splitter or 'prefit', got 'prefitted'"):
        RecalibratedClassifier(LogisticRegression(), cv="prefitted").fit(X, y)
    with pytest.raises(NotFittedError):
        RecalibratedClassifier(LogisticRegression(), cv="prefit").fit(X, y)
    with pytest.raises(NotFittedError):
        RecalibratedClassifier(LogisticRegression()).predict(X)
    with pytest.raises(ValueError, match="one class"):
        RecalibratedClassifier(LogisticRegression()).fit(X, np.full(len(X), "yes"))


class TestSeveralClasses:
    """The same with more than two classes."""

    @pytest.fixture(scope="class")
    @classmethod
    def flowers(cls):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(1500, 2)), columns=["a", "b"])
        group = rng.choice(["u", "v"], 1500)
        margin = np.column_stack([X["a"], X["b"], 1.5 * (group == "u")])
        y = np.array(["red", "green", "blue"])[np.argmax(margin + rng.gumbel(size=(1500, 3)), 1)]
        return X, X.assign(group=group), y

    @pytest.mark.parametrize("kind", ["cross-fitted", "frozen", "prefit"])
    def test_probabilities_are_right_in_the_groups(self, flowers, kind):
        X, Z, y = flowers
        base = LogisticRegression().fit(X[:500], y[:500])
        given = {
            "cross-fitted": RecalibratedClassifier(LogisticRegression(), ["group"]),
            "frozen": RecalibratedClassifier(FrozenEstimator(base), ["group"]),
            "prefit": RecalibratedClassifier(base, ["group"], cv="prefit"),
        }[kind]
        model = given.fit(X[500:], y[500:], Z=Z[500:])
        assert_array_equal(model.classes_, ["blue", "green", "red"])
        proba = model.predict_proba(X, Z=Z)
        assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
        assert_array_equal(model.predict(X, Z=Z), model.classes_[proba.argmax(axis=1)])
        assert log_loss(y, proba) < log_loss(y, base.predict_proba(X))
        for value in "uv":
            own = (Z["group"] == value).to_numpy()
            for k, label in enumerate(model.classes_):
                # 750 rows: the standard error of a share is at most .018.
                assert abs(np.mean(y[own] == label) - proba[own, k].mean()) < 0.06

    def test_classes_that_a_fitted_model_knows_need_not_be_in_y(self, flowers):
        X, _, y = flowers
        base = LogisticRegression().fit(X, y)
        some = y != "red"
        model = RecalibratedClassifier(FrozenEstimator(base), ["a > 0"]).fit(X[some], y[some])
        assert_array_equal(model.classes_, base.classes_)
        assert model.predict_proba(X).shape == (1500, 3)

    def test_what_is_for_two_classes_says_so(self, flowers):
        X, _, y = flowers
        for options in ({"alpha": 0.1}, {"loop": "paper"}, {"link": "identity"}):
            model = RecalibratedClassifier(LogisticRegression(), **options)
            assert not get_tags(model).classifier_tags.multi_class
            with pytest.raises(ValueError, match=r"Only binary.*OneVsRestClassifier"):
                model.fit(X, y)


def test_sparse_rows_need_a_table_for_the_groups(people):
    X, Z, y = people
    rows = csr_matrix(X.to_numpy())
    model = RecalibratedClassifier(LogisticRegression(), Groups("sex"), cv=3).fit(rows, y, Z=Z)
    assert gaps(model.predict_proba(rows, Z=Z)[:, 1], y, Z["sex"]) < 0.05
    with pytest.raises(TypeError, match="Sparse data"):
        RecalibratedClassifier(LogisticRegression()).fit(rows, y)


class TestTheModelItself:
    """What scikit-learn asks of a model that ``fit`` returned."""

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls, people):
        X, Z, y = people
        label = (y == "yes").astype(int)
        base = LogisticRegression().fit(X[:1000], label[:1000])
        return rc.fit(base, Z[1000:], label[1000:], Groups("sex")), Z, label

    def test_it_is_a_fitted_classifier(self, fitted):
        model, Z, y = fitted
        assert is_classifier(model)
        check_is_fitted(model)
        assert_array_equal(model.classes_, [0, 1])
        display = CalibrationDisplay.from_estimator(model, Z, y)
        assert_array_equal(display.y_prob, model.predict(Z))
        assert clone(model) is model
        assert model.fit(Z, y) is model

    def test_scorers_of_probabilities(self, fitted):
        model, Z, y = fitted
        score = cross_val_score(model, Z, y, scoring="neg_log_loss", cv=StratifiedKFold(3))
        assert_allclose(-score.mean(), log_loss(y, model.predict(Z)), rtol=0.02)

    def test_a_regression_is_a_regressor(self, people):
        X, _, _ = people
        income = X["age"] / 2 + np.random.default_rng(1).normal(0, 2, len(X))
        model = rc.fit(LinearRegression().fit(X[:99], income[:99]), X, income, Groups("age < 40"))
        assert is_regressor(model)
        assert cross_val_score(model, X, income, cv=3, scoring="r2").mean() > 0.8
