"""Graphs of scikit-learn's parts: each says what the part itself says."""

import numpy as np
import pandas as pd
import pytest
import xgboost
from recalibrate_adapters.frames import column_feed, matrix_feed
from sklearn import calibration, compose, ensemble, feature_selection, preprocessing
from sklearn.decomposition import FastICA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.svm import SVC, SVR, NuSVR

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean
from recalibrate.support.onnxfile import GraphRunner

pytestmark = pytest.mark.adapter

ROWS = 400
P = preprocessing
C = calibration.CalibratedClassifierCV


def table(seed, gaps=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.round(rng.uniform(18, 90, ROWS), 1),
            "income": np.exp(rng.normal(3, 0.5, ROWS)),
            "visits": rng.integers(0, 5, ROWS),
            "town": rng.choice(["Bern", "Chur", "Genf", "Thun"], ROWS, p=[0.5, 0.4, 0.05, 0.05]),
        }
    )
    if gaps:
        frame["town"] = frame["town"].where(rng.random(ROWS) > 0.1)
        frame["age"] = frame["age"].where(rng.random(ROWS) > 0.1)
    return frame


def outcome(frame, kind):
    noise = np.random.default_rng(9).logistic(size=len(frame))
    margin = frame["age"].fillna(50) / 20 - 2 + (frame["town"] == "Bern") + noise
    if kind == "three":
        return np.digitize(margin, [0, 2])
    return (margin > 1).astype(int) if kind == "two" else 10 + margin


def logistic(*steps):
    return make_pipeline(*steps, LogisticRegression(max_iter=2000))


def forest():
    return ensemble.RandomForestClassifier(5, max_depth=5, random_state=0)


def by_town(step, last=None):
    encode = compose.make_column_transformer((step, ["town"]), remainder="passthrough")
    return make_pipeline(encode, last or ensemble.HistGradientBoostingClassifier(max_iter=5))


def trained():
    frame = table(3)[["age", "income", "visits"]]
    return FrozenEstimator(logistic(P.StandardScaler()).fit(frame, outcome(table(3), "two")))


def boosting():
    return xgboost.XGBClassifier(n_estimators=3, n_jobs=1)


NUMBERS = {
    "bins": lambda: logistic(P.KBinsDiscretizer(5, strategy="uniform")),
    "ordinal bins": lambda: logistic(P.KBinsDiscretizer(5, encode="ordinal", strategy="uniform")),
    "log1p": lambda: logistic(P.FunctionTransformer(np.log1p)),
    "sqrt": lambda: logistic(P.FunctionTransformer(np.sqrt)),
    "splines": lambda: logistic(P.SplineTransformer()),
    "straight splines": lambda: logistic(P.SplineTransformer(degree=2, extrapolation="linear")),
    "splines that go on": lambda: logistic(
        P.SplineTransformer(extrapolation="continue", include_bias=False)
    ),
    "ranks": lambda: logistic(P.QuantileTransformer(n_quantiles=50)),
    "normal ranks": lambda: logistic(
        P.QuantileTransformer(n_quantiles=50, output_distribution="normal")
    ),
    "products": lambda: logistic(P.StandardScaler(), P.PolynomialFeatures(3)),
    "range": lambda: logistic(P.MinMaxScaler(clip=True)),
    "robust": lambda: logistic(P.RobustScaler(with_centering=False)),
    "union": lambda: logistic(
        FeatureUnion(
            [("s", P.StandardScaler()), ("k", feature_selection.SelectKBest(k=1))],
            transformer_weights={"s": 2.0},
        )
    ),
    "components": lambda: logistic(FastICA(2, random_state=0)),
    "projection": lambda: logistic(LinearDiscriminantAnalysis()),
    "lda": LinearDiscriminantAnalysis,
    "qda": QuadraticDiscriminantAnalysis,
    "dummy": DummyClassifier,
    "weighted vote": lambda: ensemble.VotingClassifier(
        [("a", logistic(P.StandardScaler())), ("b", boosting())], voting="soft", weights=[1, 3]
    ),
    "stack": lambda: ensemble.StackingClassifier(
        [("a", logistic(P.StandardScaler())), ("b", boosting())],
        final_estimator=LogisticRegression(max_iter=2000),
        cv=2,
        passthrough=True,
    ),
    "bag": lambda: ensemble.BaggingClassifier(logistic(), n_estimators=3, max_features=2),
    "sigmoid xgboost": lambda: C(boosting(), cv=2),
    "isotonic pipeline": lambda: C(logistic(P.StandardScaler()), cv=2, method="isotonic"),
    "temperature": lambda: C(logistic(P.StandardScaler()), cv=2, method="temperature"),
    "temperature forest": lambda: C(forest(), cv=2, method="temperature"),
    "frozen pipeline": lambda: C(trained()),
    "calibrated boosting": lambda: C(
        ensemble.GradientBoostingClassifier(n_estimators=3, loss="exponential"), cv=2
    ),
}
THREE = ["lda", "qda", "dummy", "weighted vote", "stack", "sigmoid xgboost", "isotonic pipeline",
         "temperature", "temperature forest"]  # fmt: skip
REGRESSORS = {
    "dummy": DummyRegressor,
    "log of the label": lambda: compose.TransformedTargetRegressor(
        Ridge(), func=np.log, inverse_func=np.exp
    ),
    "log1p of the label": lambda: compose.TransformedTargetRegressor(
        Ridge(), func=np.log1p, inverse_func=np.expm1
    ),
    "scaled label": lambda: compose.TransformedTargetRegressor(
        Ridge(), transformer=P.StandardScaler()
    ),
    "rank of the label": lambda: compose.TransformedTargetRegressor(
        Ridge(), transformer=P.QuantileTransformer(n_quantiles=50)
    ),
    "vote": lambda: ensemble.VotingRegressor(
        [("a", Ridge()), ("b", ensemble.RandomForestRegressor(3))], weights=[1, 2]
    ),
    "stack": lambda: ensemble.StackingRegressor([("a", Ridge())], cv=2),
    "bag": lambda: ensemble.BaggingRegressor(Ridge(), n_estimators=3, max_features=2),
}
TEXTS = {
    "one hot": lambda: by_town(P.OneHotEncoder(sparse_output=False)),
    "one hot, ignored": lambda: by_town(
        P.OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    ),
    "one hot, dropped": lambda: by_town(P.OneHotEncoder(drop="first", sparse_output=False)),
    "one hot, infrequent": lambda: by_town(
        P.OneHotEncoder(
            min_frequency=0.1, handle_unknown="infrequent_if_exist", sparse_output=False
        )
    ),
    "ordinal": lambda: by_town(P.OrdinalEncoder()),
    "ordinal, unknown": lambda: by_town(
        P.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    ),
    "target": lambda: by_town(P.TargetEncoder(cv=KFold(2))),
    "most frequent": lambda: by_town(
        make_pipeline(
            SimpleImputer(strategy="most_frequent"),
            P.OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        )
    ),
    "filled": lambda: by_town(
        make_pipeline(
            SimpleImputer(strategy="constant", fill_value="none"),
            P.OneHotEncoder(sparse_output=False),
        )
    ),
}


def check(model, rows, expected, **options):
    """Scores are the model's own, from a graph."""
    base = as_base(model, **options)
    found = predicted_mean(base, rows)
    assert base.why_no_graph == ""
    # All in float64; xgboost's own sigmoid is float32.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    graph = base.graph()
    kinds = {v.name: "string" if v.type.tensor_type.elem_type == 8 else "float64"
             for v in graph.graph.input}  # fmt: skip
    feed = matrix_feed(rows) if "X" in kinds else column_feed(rows, kinds)
    np.testing.assert_array_equal(GraphRunner(graph).run(feed), base.scores(rows))


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name):
    own = ["age", "income", "visits"]
    model = NUMBERS[name]().fit(table(0)[own], outcome(table(0), "two"))
    rows = table(1)[own]
    check(model, rows, model.predict_proba(rows)[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("name", THREE)
def test_three_classes(name):
    own = ["age", "income", "visits"]
    model = NUMBERS[name]().fit(table(0)[own], outcome(table(0), "three"))
    rows = table(1)[own]
    check(model, rows, model.predict_proba(rows)[:, 2], target_class=2)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    own = ["age", "income", "visits"]
    model = REGRESSORS[name]().fit(table(0)[own], outcome(table(0), "number"))
    rows = table(1)[own]
    check(model, rows, model.predict(rows))


KERNELS = {
    "rbf": {},
    "rbf, far from zero": {"gamma": 1e-3},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 0.5},
    "sigmoid": {"kernel": "sigmoid", "gamma": 1e-4},
}


@pytest.mark.parametrize("kind", [SVR, NuSVR, SVC])
@pytest.mark.parametrize("name", KERNELS)
def test_support_vectors(name, kind):
    own = ["age", "income"]
    frame, rows = table(0)[own], table(1)[own]
    if "far" in name:
        frame, rows = frame + 1.7e6, rows + 1.7e6
    y = outcome(table(0), "two" if kind is SVC else "number")
    model = kind(**KERNELS[name]).fit(frame, y)
    options = {"link": "logit"} if kind is SVC else {}
    expected = model.decision_function(rows) if kind is SVC else model.predict(rows)
    base = as_base(model, **options)
    found = base.scores(rows)
    assert base.why_no_graph == ""
    assert all("SVM" not in node.op_type for node in base.graph().graph.node)  # float32 ones
    # Sums of products of hundreds of vectors, in float64, in another order than libsvm's.
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


KERNEL_MODELS = {
    "ridge": lambda: KernelRidge(kernel="rbf", gamma=0.01),
    "ridge, polynomial": lambda: make_pipeline(P.StandardScaler(), KernelRidge(kernel="poly")),
    "Nystroem": lambda: make_pipeline(Nystroem(n_components=20, random_state=0), Ridge()),
    "Nystroem, sigmoid": lambda: make_pipeline(
        P.StandardScaler(), Nystroem("sigmoid", n_components=20, random_state=0), Ridge()
    ),
    "Fourier": lambda: make_pipeline(RBFSampler(gamma=0.01, random_state=0), Ridge()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNEL_MODELS)
def test_kernels(name):
    own = ["age", "income"]
    model = KERNEL_MODELS[name]().fit(table(0)[own], outcome(table(0), "number"))
    check(model, table(1)[own], model.predict(table(1)[own]))


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_texts(name, gaps):
    train, rows = table(0, gaps), table(1, gaps)
    model = TEXTS[name]().fit(train, outcome(train, "two"))
    check(model, rows, model.predict_proba(rows)[:, 1])


def test_whole_numbers_as_categories():
    own = ["visits"]
    train, rows = table(0), table(1)[own]
    model = CategoricalNB().fit(train[own], outcome(train, "two"))
    check(model, rows, model.predict_proba(rows)[:, 1])
    base = as_base(model)
    base.scores(rows)
    with pytest.raises(ValueError, match=r"Column 'visits' holds 7 in row 0.*does not know"):
        base.scores(pd.DataFrame({"visits": [7]}))


def test_isotonic(tmp_path):
    train, rows = table(0), table(1)[["age"]]
    model = IsotonicRegression(out_of_bounds="clip").fit(train["age"], outcome(train, "two"))
    check(model, rows, model.predict(rows["age"]))
    recalibrated = rc.fit(
        model, rows, outcome(table(1), "two"), H=rc.Groups("age < 40"), loop=rc.Loop(levels=1)
    )
    recalibrated.to_onnx(tmp_path / "model.onnx", rows[:20])


@pytest.mark.parametrize("build", [CategoricalNB, IsotonicRegression])
def test_the_gate_makes_rows_that_the_model_takes(build, tmp_path):
    """Codes that are no category, and numbers outside of the range, are refused by these."""
    column = "visits" if build is CategoricalNB else "age"
    train, rows = table(0), table(1)
    model = build().fit(train[[column]], outcome(train, "two"))
    inside = rows[column].between(train[column].min(), train[column].max())
    X, y = rows.loc[inside, [column]], outcome(rows, "two")[inside]
    recalibrated = rc.fit(
        model, X, y, H=rc.Groups(f"{column} < {X[column].median()}"), loop=rc.Loop(levels=1)
    )
    recalibrated.to_onnx(tmp_path / "model.onnx")
    served = rc.load(tmp_path / "model.onnx").predict(X)
    np.testing.assert_allclose(served, recalibrated.predict(X), rtol=0, atol=6e-8)  # float32


@pytest.mark.slow
def test_unknown_categories_are_refused_in_our_words(tmp_path):
    train, rows = table(0), table(1)
    y = outcome(rows, "two")
    model = TEXTS["ordinal"]().fit(train, outcome(train, "two"))
    recalibrated = rc.fit(model, rows, y, H=rc.Groups("age < 40"), loop=rc.Loop(levels=1))
    recalibrated.save(tmp_path / "model.rcal")
    recalibrated.to_onnx(tmp_path / "model.onnx", rows[:20])
    new = rows[:2].assign(town=["Bern", "Visp"])
    for name in ("model.rcal", "model.onnx"):
        with pytest.raises(
            ValueError, match=r"Column 'town' holds 'Visp' in row 1.*It knows: 'Bern'"
        ):
            rc.load(tmp_path / name).predict(new)


def test_kinds_of_missing_text_that_a_graph_cannot_tell_apart():
    train, rows = (table(seed, gaps=True).drop(columns="age") for seed in (0, 1))
    encoder = P.OneHotEncoder(handle_unknown="ignore")
    model = by_town(encoder, LogisticRegression(max_iter=2000))
    model.fit(train, outcome(table(0, gaps=True), "two"))
    base = as_base(model)
    base.scores(rows)
    assert base.why_no_graph == ""
    new = rows[:3].assign(town=pd.Series([None, "Bern", "Chur"], dtype=object))
    # NaN is a category of the encoder, None is unknown to it.
    nan = new.assign(town=pd.Series([np.nan, "Bern", "Chur"], dtype=object))
    assert model.predict_proba(new)[0, 1] != model.predict_proba(nan)[0, 1]
    with pytest.raises(ValueError, match="another kind of missing value"):
        base.scores(new)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: logistic(P.FunctionTransformer(lambda X: X / 2)), "the function <lambda> is Pyth"),
        (lambda: DummyClassifier(strategy="stratified", random_state=0), "predicts at random"),
        (
            lambda: compose.TransformedTargetRegressor(Ridge(), transformer=P.PowerTransformer()),
            "the inverse of a PowerTransformer",
        ),
    ],
)
def test_what_has_no_graph_says_why(build, why):
    own = ["age", "income", "visits"]
    model = build().fit(table(0)[own], outcome(table(0), "two"))
    base = as_base(model)
    base.scores(table(1)[own])
    assert base.graph() is None
    assert why in base.why_no_graph
