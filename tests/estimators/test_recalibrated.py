"""RecalibratedClassifier and RecalibratedRegressor, where people use CalibratedClassifierCV."""

import inspect
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    LeavePOut,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_unfitted_model_is_cross_fitted(people):
    X, Z, y = people
    inner = LogisticRegression()
    model = RecalibratedClassifier(inner, Groups("sex")).fit(X, y, Z=Z)
    assert not hasattr(inner, "coef_")
    assert model.n_features_in_ == 2
    assert_array_equal(model.feature_names_in_, ["age", "hours"])
    assert gaps(model.predict_proba(X, Z=Z)[:, 1], y, Z["sex"]) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("state", [None, 7])
def test_equal_fits_give_equal_models(state):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 0] * X[:, 1]))).astype(int)
    seed = 0 if state is None else state
    # The forest draws rows, and has no seed of its own.
    forest = RandomForestClassifier(n_estimators=5, max_depth=3)
    first, second = (
        RecalibratedClassifier(forest, cv=3, random_state=state).fit(X, y) for _ in range(2)
    )
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.model_.fingerprint_ == second.model_.fingerprint_
    twin = rc.fit(forest, X, y, cv=3, seed=seed)
    assert_array_equal(first.predict_proba(X), twin.predict_proba(X))
    assert forest.random_state is None


def test_regression_and_its_weights(people):
    X, Z, _ = people
    income = 30.0 + X["age"] / 2 + np.where(Z["sex"] == "F", -5.0, 5.0)
    weight = np.where(Z["sex"] == "F", 2.0, 1.0)
    model = RecalibratedRegressor(Ridge(), Groups("sex")).fit(X, income, weight, Z=Z)
    error = income - model.predict(X, Z=Z)
    assert np.abs(error.groupby(Z["sex"]).mean()).max() < 0.3
    assert is_regressor(model)


@pytest.mark.slow
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


@pytest.mark.slow
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

    @pytest.mark.slow
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

    @pytest.mark.slow
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


@pytest.mark.slow
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


class TestRowsOfTheEstimator:
    """What the estimator makes of X is its own affair; H has a table of its own."""

    @pytest.mark.slow
    def test_an_imputer_gets_missing_values(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 3))
        y = (rng.random(600) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
        X[rng.random(X.shape) < 0.1] = np.nan
        pipe = make_pipeline(SimpleImputer(), LogisticRegression())
        model = RecalibratedClassifier(pipe, cv=3).fit(X, y)
        named = pd.DataFrame(X, columns=["x0", "x1", "x2"])
        same = RecalibratedClassifier(pipe, cv=3).fit(named, y)
        # Sums of products of arrays and of frames may differ in the last bit.
        assert_allclose(model.predict_proba(X), same.predict_proba(named), rtol=1e-13)
        regressor = RecalibratedRegressor(make_pipeline(SimpleImputer(), Ridge()), cv=3)
        assert np.isfinite(regressor.fit(X, y * 3.0).predict(X)).all()
        with pytest.raises(ValueError, match="contains NaN"):
            RecalibratedClassifier(LogisticRegression(), cv=3).fit(X, y)

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["texts", "documents in a Series", "dicts", "images"])
    @pytest.mark.parametrize("way", ["cross-fitted", "frozen"])
    def test_texts_dicts_and_images(self, people, kind, way):
        X, Z, y = people
        old = (X["age"] > 45).to_numpy()
        rows, inner = {
            "texts": (np.where(old, "old person", "young one").tolist(), text_model()),
            "documents in a Series": (
                pd.Series(np.where(old, "old person", "young one")),
                text_model(),
            ),
            "dicts": (
                [{"age": a, "hours": h} for a, h in X.to_numpy()],
                make_pipeline(
                    DictVectorizer(), StandardScaler(with_mean=False), LogisticRegression()
                ),
            ),
            "images": (
                np.tile(old[:, None, None], (1, 2, 3)).astype(float),
                make_pipeline(FunctionTransformer(flattened), LogisticRegression()),
            ),
        }[kind]
        estimator = FrozenEstimator(inner.fit(rows, y)) if way == "frozen" else inner
        model = RecalibratedClassifier(estimator, Groups("sex"), cv=3).fit(rows, y, Z=Z)
        proba = model.predict_proba(rows, Z=Z)[:, 1]
        assert gaps(proba, y, Z["sex"]) < 0.03
        assert gaps(inner.fit(rows, y).predict_proba(rows)[:, 1], y, Z["sex"]) > 0.1
        assert len(model.predict(rows, Z=Z)) == len(y)

    @pytest.mark.slow
    @pytest.mark.parametrize("way", ["cross-fitted", "frozen"])
    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_decision_function_can_be_declared_log_odds(self, way, classes):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1500, 3))
        y = (X[:, :classes] + rng.gumbel(size=(1500, classes))).argmax(axis=1)
        svc = LinearSVC(random_state=0)
        with pytest.raises(ValueError, match="base_link"):
            RecalibratedClassifier(svc, cv=3).fit(X, y)
        inner = FrozenEstimator(svc.fit(X[:500], y[:500])) if way == "frozen" else svc
        model = RecalibratedClassifier(inner, Groups("x0 > 0"), cv=3, base_link="logit")
        proba = model.fit(X[500:], y[500:]).predict_proba(X)
        assert proba.shape == (1500, classes)
        assert log_loss(y, proba) < 0.97 * np.log(classes)
        assert model.get_params()["base_link"] == "logit"


def text_model():
    return make_pipeline(CountVectorizer(), LogisticRegression())


def flattened(images):
    return images.reshape(len(images), -1)


class Noted(LogisticRegression):
    """Keeps what it was trained with."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None, marks=None, words=None, mode=None):
        self.seen.append((X[:, 0], marks, words, mode))
        return super().fit(X, y, sample_weight)


def test_fit_params_reach_the_estimator_cut_to_its_rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(90.0), rng.normal(size=90)])
    y = rng.integers(0, 2, 90)
    params = {"marks": np.arange(90), "words": [str(k) for k in range(90)], "mode": [1, 2]}
    Noted.seen.clear()
    RecalibratedClassifier(Noted(), Groups("x1 > 0"), cv=3).fit(X, y, **params)
    assert len(Noted.seen) == 4
    for rows, marks, words, mode in Noted.seen:
        assert_array_equal(rows, marks)
        assert words == [str(int(k)) for k in rows]
        assert mode == [1, 2]
    assert sorted(len(rows) for rows, *_ in Noted.seen) == [60, 60, 60, 90]
    Noted.seen.clear()
    base = Noted().fit(X, y)
    with pytest.raises(ValueError, match=r"fit_params=\['mode'\].*fitted already"):
        RecalibratedClassifier(FrozenEstimator(base)).fit(X, y, mode=1)


class Weighed(LogisticRegression):
    """Keeps the number of weights that it was trained with."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        self.seen.append(None if sample_weight is None else len(sample_weight))
        return super().fit(X, y, sample_weight)


class TestMetadataRouting:
    """With scikit-learn's routing, estimators get the weights that they request."""

    def counts(self, estimator, **params):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(90, 2)), rng.integers(0, 2, 90)
        Weighed.seen.clear()
        params = {name: rng.random(90) for name in params}
        RecalibratedClassifier(estimator, Groups("x1 > 0"), cv=3).fit(X, y, **params)
        return Weighed.seen

    def test_requests(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yes, no = (Weighed().set_fit_request(sample_weight=each) for each in (True, False))
            other = Weighed().set_fit_request(sample_weight="mass")
            assert self.counts(yes, sample_weight=1) == [60, 60, 60, 90]
            assert self.counts(no, sample_weight=1) == [None] * 4
            assert self.counts(other, mass=1) == [60, 60, 60, 90]
            assert self.counts(Weighed(), sample_weight=1) == [60, 60, 60, 90]
            with pytest.raises(TypeError, match=r"unexpected argument.*mass"):
                self.counts(yes, mass=1)

    def test_a_pipeline_asks_its_steps(self):
        with sklearn.config_context(enable_metadata_routing=True):
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            pipe = make_pipeline(scaler, Weighed().set_fit_request(sample_weight=True))
            assert self.counts(pipe, sample_weight=1) == [60, 60, 60, 90]
            with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
                self.counts(make_pipeline(StandardScaler(), Weighed()), sample_weight=1)
        plain = make_pipeline(StandardScaler(), Weighed())
        assert self.counts(plain, sample_weight=1) == [60, 60, 60, 90]


class TestDocumentsAndTheTableOfH:
    """Messages say where documents and the columns of H belong."""

    @pytest.fixture
    def documents(self):
        rng = np.random.default_rng(0)
        texts = np.array(["good film", "bad film", "fine"])[rng.integers(0, 3, 90)]
        return texts, pd.DataFrame({"text": texts, "g": rng.choice(["a", "b"], 90)})

    @pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
    def test_texts_without_a_table(self, documents, kind):
        texts, _ = documents
        y = np.arange(90) % 2
        with pytest.raises(ValueError, match=r"X holds texts or dicts.*as Z=\."):
            RecalibratedClassifier(text_model(), cv=3).fit(kind(texts.tolist()), y)

    def test_a_table_as_documents(self, documents):
        _, table = documents
        y = np.arange(90) % 2
        said = r"60 rows in a table of 2 columns: does it read documents\?.*Z=\."
        with pytest.raises(ValueError, match=said):
            rc.fit(text_model(), table, y, cv=3)
        with pytest.raises(ValueError, match=said):
            RecalibratedClassifier(text_model(), cv=3).fit(table, y)

    def test_a_table_with_other_rows(self, documents):
        texts, table = documents
        y = np.arange(90) % 2
        fitted = text_model().fit(texts, y)
        said = "Z has 50 rows, but X has 90"
        with pytest.raises(ValueError, match=said):
            RecalibratedClassifier(text_model(), cv=3).fit(texts, y, Z=table[:50])
        with pytest.raises(ValueError, match=said):
            rc.fit(fitted, texts, y, Z=table[:50])
        with pytest.raises(ValueError, match=said):
            rc.fit(fitted, texts, y, H=["g"], Z=table).predict(texts, Z=table[:50])


@pytest.mark.parametrize("cv", [LeaveOneOut(), LeavePOut(2)])
def test_folds_of_a_row_or_two_are_refused(cv):
    """As many models as rows would be trained, and no fold has all classes."""
    X, y = np.random.default_rng(0).normal(size=(100, 2)), np.repeat([0, 1], [70, 30])
    with pytest.raises(ValueError, match=rf"{cv.get_n_splits(X)}-fold cross-validation"):
        RecalibratedClassifier(LogisticRegression(), cv=cv).fit(X, y)


@pytest.mark.parametrize("cv", [31, KFold(31)])
def test_more_folds_than_a_class_has_rows_are_refused(cv):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), np.repeat([0, 1], [70, 30])
    with pytest.raises(ValueError, match=r"Requesting 31-fold cross-validation.* 1 has 30"):
        RecalibratedClassifier(LogisticRegression(), cv=cv).fit(X, y)
    with pytest.raises(ValueError, match="cv=101 asks for more folds than there are rows, 100"):
        RecalibratedRegressor(Ridge(), cv=101).fit(X, X[:, 0])


@pytest.mark.parametrize("kind", [RecalibratedClassifier, RecalibratedRegressor])
def test_wrong_arguments_are_those_of_the_class_itself(kind):
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}.__init__\(\) got an unexpected .*method"
    ):
        kind(Ridge(), method="isotonic")
    with pytest.raises(TypeError, match=rf"^{kind.__name__}.__init__\(\) missing 1 required"):
        kind()
