"""scikit-learn: every kind of model, and the converters that are known to be wrong."""

import warnings

import cases_sklearn as models
import numpy as np
import pandas as pd
import pytest
from cases import with_missing, with_neighbours
from onnx import numpy_helper
from recalibrate_adapters.sklearn import SklearnBase
from sklearn import ensemble, linear_model, tree
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVR, LinearSVC

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

pytestmark = pytest.mark.adapter

ROWS = 400


def assert_same(model, frame, *, has_graph=True, exact=False, **options):
    """Scores are those of the model itself; a graph is there or not."""
    base = as_base(model, **options)
    own = predicted_mean(base, frame)
    if hasattr(model, "predict_proba"):
        expected = model.predict_proba(frame)[:, 1]
    else:
        expected = model.predict(frame)
    # Some graphs compute in float32, with errors relative to the parts of a sum.
    np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).mean())
    assert base.exact is exact
    assert (base.graph() is not None) is has_graph
    assert (base.why_no_graph == "") is has_graph
    return base


# --- trees, read by ourselves -------------------------------------------------------------------

SMALL = {"n_estimators": 8, "max_depth": 4, "random_state": 0}
TREES = {
    "tree": (lambda: tree.DecisionTreeClassifier(max_depth=5), "binary", True),
    "extra tree": (lambda: tree.ExtraTreeClassifier(max_depth=5, random_state=0), "binary", True),
    "regression tree": (lambda: tree.DecisionTreeRegressor(max_depth=5), "numbers", True),
    "forest": (lambda: RandomForestClassifier(**SMALL), "binary", True),
    "regression forest": (lambda: ensemble.RandomForestRegressor(**SMALL), "numbers", True),
    "extra trees": (lambda: ensemble.ExtraTreesClassifier(**SMALL), "binary", True),
    "boosting": (lambda: GradientBoostingClassifier(**SMALL), "binary", False),
    "exponential": (
        lambda: GradientBoostingClassifier(**SMALL, loss="exponential"), "binary", False,
    ),
    "from zero": (lambda: GradientBoostingClassifier(**SMALL, init="zero"), "binary", False),
    "regression boosting": (
        lambda: ensemble.GradientBoostingRegressor(**SMALL), "numbers", False,
    ),
    "histogram": (lambda: HistGradientBoostingClassifier(max_iter=8), "binary", True),
    "histogram regression": (lambda: HistGradientBoostingRegressor(max_iter=8), "numbers", True),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_trees_are_exact(name):
    make, kind, missing = TREES[name]
    model = models.fitted(make, kind=kind, missing=missing)()
    frame = models.numbers(ROWS, 1)
    assert_same(model, with_missing(frame) if missing else frame, exact=True)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["forest", "boosting", "histogram"])
def test_rows_on_thresholds(name):
    make, kind, missing = TREES[name]
    model = models.fitted(make, kind=kind, missing=missing)()
    base = as_base(model)
    trees = next(n for n in base.graph().graph.node if n.op_type == "TreeEnsemble")
    splits = next(a for a in trees.attribute if a.name == "nodes_splits").t
    at = numpy_helper.to_array(splits)
    at = with_neighbours(at[np.abs(at) < 1e30])
    rng = np.random.default_rng(0)
    values = {c: rng.choice(at, 2000).astype(float) for c in ("age", "rooms", "share")}
    frame = pd.DataFrame(values)
    # To the log-odds and back, in float64.
    np.testing.assert_allclose(
        predicted_mean(base, frame), model.predict_proba(frame)[:, 1], atol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [GradientBoostingClassifier, HistGradientBoostingClassifier])
def test_boosting_of_three_classes(make):
    model = models.fitted(lambda: make(max_depth=3), kind="three")()
    frame = models.numbers(50, 1)
    base = as_base(model, target_class="high")
    np.testing.assert_allclose(base.scores(frame), model.predict_proba(frame)[:, 0], atol=1e-9)
    assert base.graph() is not None


def test_counts_have_a_logarithmic_link():
    frame = models.numbers(ROWS, 0)
    counts = np.random.default_rng(0).poisson(np.exp(frame["share"]))
    model = HistGradientBoostingRegressor(max_iter=5, loss="poisson").fit(frame, counts)
    assert_same(model, frame)


def test_mean_of_ones_is_one():
    frame = models.numbers(200, 0)
    model = RandomForestClassifier(7, random_state=0).fit(frame, frame["age"] > 45)
    scores = as_base(model).scores(frame)
    assert scores.min() == 0.0
    assert scores.max() == 1.0


@pytest.mark.parametrize(
    ("make", "bad"),
    [(lambda: RandomForestClassifier(**SMALL), np.inf),
     (lambda: GradientBoostingClassifier(**SMALL), np.nan)],
)  # fmt: skip
def test_numbers_that_trees_do_not_take(make, bad):
    base = as_base(models.fitted(make)())
    with pytest.raises(ValueError, match=r"'share'"):
        base.scores(models.numbers(5, 1).assign(share=[0.5, bad, 0.1, 0.2, 0.3]))


def test_a_derived_class_is_not_taken_apart():
    class Doubtful(RandomForestClassifier):
        def predict_proba(self, X):
            return 0.5 + 0.5 * (super().predict_proba(X) - 0.5)

    model = models.fitted(lambda: Doubtful(**SMALL))()
    assert_same(model, models.numbers(ROWS, 1), has_graph=False)


def test_boosting_from_another_model_is_scored_by_itself():
    model = models.fitted(lambda: GradientBoostingClassifier(**SMALL, init=LogisticRegression()))()
    assert_same(model, models.numbers(ROWS, 1), has_graph=False)


# --- categories ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parity
def test_categories_of_numbers_with_unknown_and_missing_ones():
    frame = models.numbers(800, 0).assign(code=np.random.default_rng(0).integers(0, 6, 800) * 10.0)
    y = (frame["code"].isin([0, 30]) & (frame["share"] > 0.3)).astype(int)
    frame.loc[::9, "code"] = np.nan
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features=["code"])
    model.fit(frame, y)
    new = frame.assign(code=np.resize([0.0, 10.0, 70.0, -3.0, np.nan, 30.0, 0.5], 800))
    base = assert_same(model, new, exact=True)
    assert [i.name for i in base.graph().graph.input] == ["X"]


def test_categories_of_text_with_unknown_ones():
    model = models.fitted(lambda: HistGradientBoostingClassifier(max_iter=10), models.categorical)()
    frame = models.mixed(ROWS, 1)
    frame.loc[::5, "town"] = "Brig"
    frame.loc[::7, "town"] = None
    assert_same(model, frame, exact=True)


# --- known-wrong converters of skl2onnx ---------------------------------------------------------


def test_forest_with_missing_values_is_converted_by_us():
    model = models.fitted(lambda: RandomForestClassifier(**SMALL), missing=True)()
    assert_same(model, with_missing(models.numbers(ROWS, 1)), exact=True)


def test_forest_with_missing_values_inside_of_another_model():
    model = models.fitted(
        lambda: CalibratedClassifierCV(RandomForestClassifier(**SMALL), cv=2), missing=True
    )()
    assert_same(model, with_missing(models.numbers(ROWS, 1)))


ISOTONIC = {
    "bayes": GaussianNB,
    "margins": LinearSVC,
    "forest": lambda: RandomForestClassifier(**SMALL),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ISOTONIC)
def test_isotonic_calibration_is_converted_by_us(name):
    def calibrated():
        return CalibratedClassifierCV(ISOTONIC[name](), method="isotonic", cv=3)

    assert_same(models.fitted(calibrated)(), models.numbers(1500, 1))


def test_isotonic_calibration_of_a_frozen_model():
    frame = models.numbers(ROWS, 0)
    frozen = FrozenEstimator(models.fitted(GaussianNB)())
    model = CalibratedClassifierCV(frozen, method="isotonic")
    assert_same(model.fit(frame, models.outcome(frame, "binary")), models.numbers(1500, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [LinearDiscriminantAnalysis, lambda: CalibratedClassifierCV(GaussianNB(), method="isotonic")],
)
def test_wrong_converters_of_today_do_no_harm(make):
    model, frame = models.fitted(make, kind="three")(), models.numbers(1500, 1)
    scores = as_base(model, target_class="low").scores(frame)
    # Some of these models compute in float32.
    np.testing.assert_allclose(scores, model.predict_proba(frame)[:, 1], rtol=1e-5)


def wrongly_converted():
    """A base whose converter takes another model for its own."""
    right, wrong = (models.fitted(lambda a=a: Ridge(alpha=a), kind="numbers")() for a in (1, 99))
    base = SklearnBase(right)
    base._decision.candidates = SklearnBase(wrong)._decision.candidates
    return right, base


@pytest.mark.parametrize("n_rows", [1, 3, 1500])
def test_a_wrong_graph_is_seen_however_few_the_rows(n_rows):
    model, base = wrongly_converted()
    frame = models.numbers(n_rows, 1)
    # float64 sums in another order.
    np.testing.assert_allclose(base.scores(frame), model.predict(frame), rtol=1e-12)
    assert base.graph() is None
    assert "differs" in base.why_no_graph


@pytest.mark.slow
def test_categorical_boosting_inside_of_a_pipeline():
    model = models.fitted(models.encoded_boosting, models.mixed, missing=True)()
    model[-1].set_params(verbose=0)
    assert_same(model, with_missing(models.mixed(ROWS, 1)))


def test_imputer_with_indicators():
    model = models.fitted(
        lambda: make_pipeline(SimpleImputer(add_indicator=True), LogisticRegression()),
        missing=True,
    )()
    assert_same(model, with_missing(models.numbers(ROWS, 1)))


# --- other models -------------------------------------------------------------------------------

OTHERS = {
    "bayes": (GaussianNB, "binary", True),
    "neighbours": (KNeighborsClassifier, "binary", True),
    "support vectors": (lambda: make_pipeline(StandardScaler(), SVR()), "numbers", True),
    "bag": (lambda: BaggingClassifier(n_estimators=3, random_state=0), "binary", True),
    "poisson": (lambda: make_pipeline(StandardScaler(), linear_model.Lasso()), "numbers", True),
    "splines": (lambda: make_pipeline(SplineTransformer(3), Ridge()), "numbers", True),
    "transformed": (
        lambda: TransformedTargetRegressor(Ridge(), func=np.sinh, inverse_func=np.arcsinh),
        "numbers", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_models(name):
    make, kind, has_graph = OTHERS[name]
    assert_same(models.fitted(make, kind=kind)(), models.numbers(ROWS, 1), has_graph=has_graph)


def test_search_thresholds_and_frozen_models_stand_for_what_is_inside():
    forest = models.fitted(lambda: RandomForestClassifier(**SMALL))()
    frame, y = models.numbers(ROWS, 0), models.outcome(models.numbers(ROWS, 0), "binary")
    search = GridSearchCV(RandomForestClassifier(**SMALL), {"max_depth": [2, 3]}, cv=2)
    wrapped = [
        search.fit(frame, y),
        FixedThresholdClassifier(FrozenEstimator(forest), threshold=0.3).fit(frame, y),
        make_pipeline(forest),
    ]
    for model in wrapped:
        assert_same(model, frame, exact=True)


class Shrunk(ClassifierMixin, BaseEstimator):
    """A classifier of a third party, which no converter knows."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self.mean_ = np.mean(y)
        return self

    def predict_proba(self, X):
        p = 0.5 * self.mean_ + 0.5 / (1 + np.exp(-np.asarray(X)[:, 0]))
        return np.stack([1 - p, p], axis=1)


def test_third_party_in_a_pipeline():
    model = models.fitted(lambda: make_pipeline(StandardScaler(), Shrunk()))()
    base = assert_same(model, models.numbers(ROWS, 1), has_graph=False)
    assert "Shrunk" in base.why_no_graph


def test_xgboost_in_a_pipeline_and_in_a_search():
    xgboost = pytest.importorskip("xgboost")
    boosted = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
    model = models.fitted(lambda: make_pipeline(StandardScaler(), boosted))()
    base = assert_same(model, models.numbers(ROWS, 1))
    assert base.link == "logit"
    frame = models.numbers(ROWS, 0)
    search = GridSearchCV(boosted, {"max_depth": [2]}, cv=2)
    search.fit(frame, models.outcome(frame, "binary"))
    assert_same(search, frame, exact=True)


def test_documents_are_scored_by_the_model():
    texts = np.array(["good good", "bad", "good", "bad bad", "fine good"])
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0, 1])
    base = as_base(model)
    np.testing.assert_allclose(base.scores(texts), model.predict_proba(texts)[:, 1])
    assert "documents" in base.why_no_graph


# --- classes and links --------------------------------------------------------------------------


def test_classes_are_named_in_the_error():
    model = models.fitted(GaussianNB, kind="three")()
    with pytest.raises(ValueError, match=r"'upper' is not a class.*'high', 'low', 'middle'"):
        as_base(model, target_class="upper")


@pytest.mark.parametrize("make", [LogisticRegression, lambda: GradientBoostingClassifier(**SMALL)])
def test_first_class_is_the_complement(make):
    model, frame = models.fitted(make)(), models.numbers(50, 1)
    first = predicted_mean(as_base(model, target_class=0), frame)
    # Features are float32 here and float64 there.
    np.testing.assert_allclose(first, model.predict_proba(frame)[:, 0], atol=1e-6)


def test_no_probabilities_without_a_declared_link():
    model = models.fitted(lambda: make_pipeline(StandardScaler(), LinearSVC()))()
    with pytest.raises(ValueError, match=r"predict_proba.*logit.*CalibratedClassifierCV"):
        as_base(model)
    frame = models.numbers(ROWS, 1)
    base = as_base(model, link="logit")
    assert base.link == "logit"
    # Sums of float32, rounded differently.
    np.testing.assert_allclose(
        base.scores(frame), model.decision_function(frame), rtol=1e-5, atol=1e-6
    )
    assert base.graph() is not None


def test_log_odds_of_probabilities_are_refused():
    with pytest.raises(ValueError, match="no decision_function"):
        as_base(models.fitted(GaussianNB)(), link="logit")


def test_probabilities_of_boosting_if_declared():
    model, frame = models.fitted(TREES["histogram"][0])(), models.numbers(ROWS, 1)
    base = assert_same(model, frame, link="identity")
    assert base.link == "identity"


@pytest.mark.parametrize(
    "make",
    [
        lambda: QuantileRegressor(quantile=0.9),
        lambda: HistGradientBoostingRegressor(loss="absolute_error", max_iter=3),
    ],
)
def test_models_that_estimate_no_mean_are_taken_with_a_warning(make):
    model = models.fitted(make, kind="numbers")()
    with pytest.warns(UserWarning, match="not the mean") as caught:
        as_base(model)
    assert caught[0].filename == __file__


# --- what is refused ----------------------------------------------------------------------------


def test_not_fitted():
    with pytest.raises(NotFittedError, match="not fitted"):
        SklearnBase(LogisticRegression())


def test_neither_classifier_nor_regressor():
    with pytest.raises(ValueError, match="neither a classifier nor a regressor"):
        as_base(models.fitted(lambda: KMeans(2, n_init=1, random_state=0))())


def test_several_outputs():
    frame = models.numbers(60, 1)
    labels = np.stack([frame["age"] > 45, frame["share"] > 0.5], axis=1)
    with pytest.raises(ValueError, match="several outputs"):
        as_base(RandomForestClassifier(**SMALL).fit(frame, labels))
    base = as_base(Ridge().fit(frame, labels))
    with pytest.raises(ValueError, match="2 numbers per row"):
        base.scores(frame)


def test_infinite_values_are_refused_without_further_noise():
    base = as_base(models.fitted(Ridge, kind="numbers")())
    with pytest.raises(ValueError, match="infinity"):
        base.scores(models.numbers(4, 1).assign(age=[np.inf, -np.inf, 1.0, 2.0]))


def test_no_rows():
    base = as_base(models.fitted(Ridge, kind="numbers")())
    with pytest.raises(ValueError, match="X is empty"):
        base.scores(models.numbers(0, 1))


def test_unknown_text_is_refused_as_the_model_refuses_it():
    strict = models.encoded(StandardScaler(), OneHotEncoder())
    model = models.fitted(lambda: make_pipeline(strict, LogisticRegression()), models.mixed)()
    base = as_base(model)
    base.scores(models.mixed(ROWS, 1))
    assert base.graph() is not None
    with pytest.raises(ValueError, match="Brig"):
        base.scores(models.mixed(5, 2).assign(town="Brig"))


def test_missing_values_are_refused_after_the_first_rows_too():
    base = as_base(models.fitted(KNeighborsClassifier)())
    base.scores(models.numbers(ROWS, 1))
    with pytest.raises(ValueError, match="NaN"):
        base.scores(with_missing(models.numbers(50, 2)))


# --- the decision between graph and model -------------------------------------------------------


def test_decision_is_made_once_and_kept():
    model = models.fitted(models.one_hot_regression, models.mixed)()
    base = as_base(model)
    assert base.graph() is None
    assert "rows" in base.why_no_graph
    first = base.scores(models.mixed(3, 1))
    graph = base.graph()
    base.scores(models.mixed(ROWS, 2))
    assert base.graph() is graph
    np.testing.assert_array_equal(base.scores(models.mixed(3, 1)), first)


def test_a_graph_that_turns_out_wrong_is_an_error():
    class Later(Ridge):
        """Agrees with its linear form below 1,000 only."""

        def predict(self, X):
            return super().predict(X) + (np.asarray(X)[:, 0] > 1000)

    frame = pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50.0) % 7})
    model = Later().fit(frame, frame["a"])
    base = SklearnBase(model)
    base._decision.candidates = SklearnBase(Ridge().fit(frame, frame["a"]))._decision.candidates
    base.scores(frame)
    assert base.graph() is not None
    with pytest.raises(ValueError, match=r"agreed with it on 50 rows"):
        base.scores(frame + 5000)


def test_no_warning_of_converters_gets_out():
    model = models.fitted(models.one_hot_regression, models.mixed)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = as_base(model).scores(models.mixed(50, 1))
    assert np.isfinite(scores).all()


def test_arrays_and_tables_score_alike():
    model = models.fitted(TREES["forest"][0])()
    frame = models.numbers(50, 1)
    np.testing.assert_array_equal(
        as_base(model).scores(frame.to_numpy()), as_base(model).scores(frame)
    )


def test_fit_uses_columns_that_the_model_has_not():
    model = models.fitted(models.one_hot_regression, models.mixed)()
    frame = models.mixed(800, 3).assign(sex=np.resize(["F", "M"], 800))
    y = models.outcome(frame, "binary")
    fitted = rc.fit(model, frame, y, H=rc.Groups("sex"), loop=rc.Loop(levels=3, max_rounds=2))
    assert fitted.predict(frame.iloc[:, ::-1]).shape == (800,)


@pytest.mark.parametrize("several", [True, False])
def test_one_vs_rest_around_a_model_of_another_framework_has_a_graph(several):
    from sklearn.multiclass import OneVsRestClassifier
    from xgboost import XGBClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] + rng.normal(size=300), [-0.5, 0.5] if several else [0.0])
    model = OneVsRestClassifier(XGBClassifier(n_estimators=4, n_jobs=1)).fit(X, y)
    base = as_base(model)
    found = predicted_mean(base, X)
    expected = model.predict_proba(X)
    # xgboost computes in float32.
    np.testing.assert_allclose(found, expected if several else expected[:, 1], atol=1e-6)
    assert base.graph() is not None, base.why_no_graph


def test_documents_in_a_table_are_told_of_the_table_for_h():
    from sklearn.feature_extraction.text import TfidfVectorizer

    rng = np.random.default_rng(0)
    documents = np.array(["good film", "bad film", "fine", "poor plot"])[rng.integers(0, 4, 300)]
    y = rng.integers(0, 2, 300)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(documents, y)
    table = pd.DataFrame({"text": documents, "g": rng.choice(["a", "b"], 300)})
    with pytest.raises(ValueError, match=r"2 scores for a table of 300 rows.*Z="):
        rc.fit(model, table, y, H=rc.Groups("g"))
    with pytest.raises(ValueError, match="Z="):
        rc.fit(model, documents, y)
    fitted = rc.fit(model, table["text"], y, H=rc.Groups("g"), Z=table)
    assert fitted.n_rows == 300
    # With as many rows as columns the number of scores says nothing.
    with pytest.raises(ValueError, match=r"not one per row: does it read documents.*Z="):
        fitted.predict(table[:2], Z=table[:2])


FEW_ROUNDS = {"loop": rc.Loop(levels=2, max_rounds=2), "validation": False}


class TestColumnsThatOnlyTheModelCanRead:
    """Dates and the like: the base's columns are the base's business."""

    @pytest.fixture(scope="class")
    @classmethod
    def visits(cls):
        rng = np.random.default_rng(0)
        hours = pd.to_timedelta(rng.integers(0, 8760, 2000), unit="h")
        X = pd.DataFrame(
            {
                "when": pd.Timestamp("2024-01-01") + hours,
                "x": rng.normal(size=2000),
                "sex": rng.choice(["F", "M"], 2000),
            }
        )
        late = (X["when"].dt.hour > 12).to_numpy()
        margin = X["x"] + late + np.where(X["sex"] == "F", -1.0, 1.0)
        return X, (rng.random(2000) < 1 / (1 + np.exp(-margin))).astype(int)

    @pytest.fixture(scope="class")
    @classmethod
    def pipe(cls, visits):
        X, y = visits
        return cls.unfitted().fit(X[:1000][["when", "x"]], y[:1000])

    @staticmethod
    def unfitted():
        return make_pipeline(FunctionTransformer(hour_and_x), LogisticRegression())

    @pytest.mark.slow
    @pytest.mark.parametrize("H", [["sex"], rc.Trees(features=["x", "sex"]), rc.Linear(["x"])])
    def test_h_that_does_not_name_them(self, visits, pipe, H):
        X, y = visits
        model = rc.fit(pipe, X[1000:], y[1000:], H)
        expected = pipe.predict_proba(X[["when", "x"]])[:, 1]
        np.testing.assert_array_equal(as_base(pipe).scores(X), expected)
        assert "when" not in model.schema.names
        assert model.predict(X).shape == (2000,)
        with pytest.raises(ValueError, match=r"'when' holds datetime64.*not numbers or text"):
            model.to_onnx(None, X)

    @pytest.mark.slow
    def test_the_default_leaves_them_out_with_a_warning(self, visits, pipe):
        X, y = visits
        with pytest.warns(UserWarning, match="H leaves out columns .*: 'when'"):
            model = rc.fit(pipe, X[1000:], y[1000:])
        gaps = pd.Series(y - model.predict(X)).groupby(X["sex"]).mean()
        assert gaps.abs().max() < 0.05
        with pytest.warns(UserWarning, match="H leaves out columns .*: 'when'"):
            rc.RecalibratedClassifier(self.unfitted(), cv=3).fit(X, y)
        # What nobody can read is an error, as before.
        with pytest.raises(ValueError, match="'when' holds datetime64"):
            rc.fit(np.full(1000, 0.5), X[1000:], y[1000:])
        with pytest.raises(ValueError, match="'when' holds datetime64"):
            rc.fit(pipe, X[1000:], y[1000:], rc.Trees(features=["when"]))

    @pytest.mark.parametrize("H", [rc.Trees(depth=2), rc.Linear()])
    def test_h_of_all_columns_leaves_them_out_with_the_same_warning(self, visits, pipe, H):
        X, y = visits
        with pytest.warns(UserWarning, match="H leaves out columns .*: 'when'"):
            model = rc.fit(pipe, X[1000:], y[1000:], H, **FEW_ROUNDS)
        assert "when" not in model.schema.names
        with pytest.warns(UserWarning, match="H leaves out columns .*: 'when'"):
            rc.fit(self.unfitted(), X, y, H, cv=3, **FEW_ROUNDS)

    @pytest.mark.parametrize("H", [["sex"], rc.Trees(depth=2)])
    def test_parquet_files_give_the_same_model(self, visits, pipe, H, tmp_path):
        X, y = visits
        X[1000:].assign(y=y[1000:]).to_parquet(tmp_path / "rows.parquet", row_group_size=300)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "H leaves out columns")
            expected = rc.fit(pipe, X[1000:], y[1000:], H, **FEW_ROUNDS)
            model = rc.fit(pipe, tmp_path / "rows.parquet", "y", H, **FEW_ROUNDS)
        assert model.schema == expected.schema
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))
        with pytest.raises(ValueError, match="'when' holds datetime64"):
            rc.fit(pipe, tmp_path / "rows.parquet", "y", rc.Trees(features=["when"]))

    def test_an_estimator(self, visits):
        X, y = visits
        model = rc.RecalibratedClassifier(self.unfitted(), ["sex"], cv=3).fit(X, y)
        gaps = pd.Series(y - model.predict_proba(X)[:, 1]).groupby(X["sex"]).mean()
        assert gaps.abs().max() < 0.05


def hour_and_x(frame):
    return np.column_stack([frame["when"].dt.hour, frame["x"]])
