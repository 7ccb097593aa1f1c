"""scikit-learn models for the contract suite."""

import numpy as np
import pandas as pd
from cases import Case, with_missing
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

TRAINING_ROWS = 600


def numbers(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"age": rng.normal(45, 15, n), "rooms": rng.integers(1, 9, n), "share": rng.random(n)}
    )


def mixed(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed + 100)
    return numbers(n, seed).assign(town=rng.choice(["Bern", "Chur", "Genf"], n))


def categorical(n: int, seed: int) -> pd.DataFrame:
    frame = mixed(n, seed)
    return frame.assign(town=pd.Categorical(frame["town"], categories=["Genf", "Chur", "Bern"]))


def margin(frame: pd.DataFrame) -> np.ndarray:
    age = frame["age"].fillna(30) / 15 - 3
    town = frame["town"].astype(str).map({"Bern": 0.8, "Chur": -0.5, "Genf": 0.0})
    return (age + 2 * frame["share"] + (town if "town" in frame else 0)).to_numpy()


def outcome(frame: pd.DataFrame, kind: str) -> np.ndarray:
    towns = frame if "town" in frame else frame.assign(town="Genf")
    score = margin(towns) + np.random.default_rng(1).logistic(size=len(frame))
    if kind == "three":
        return np.array(["low", "middle", "high"])[np.digitize(score, [0.0, 2.0])]
    return (score > 1).astype(int) if kind == "binary" else score


def fitted(make, rows=numbers, kind="binary", *, missing=False, names=True):
    def build():
        frame = rows(TRAINING_ROWS, 0)
        y = outcome(frame, kind)
        frame = with_missing(frame) if missing else frame
        return make().fit(frame if names else frame.to_numpy(), y)

    return build


def probability(model, frame):
    return model.predict_proba(frame)[:, 1]


def encoded(numeric, texts):
    return ColumnTransformer([("texts", texts, ["town"]), ("numbers", numeric, ["age", "share"])])


def one_hot_regression():
    encode = encoded(StandardScaler(), OneHotEncoder(handle_unknown="ignore"))
    return make_pipeline(encode, LogisticRegression())


def encoded_boosting():
    known = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    encode = encoded(make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), known)
    return make_pipeline(encode, HistGradientBoostingClassifier(max_iter=10))


class Squashed(Ridge):
    """A model of a third party, which no converter knows."""

    def predict(self, X):
        return np.tanh(super().predict(X))


def vote():
    boosting = HistGradientBoostingClassifier(max_iter=5)
    return VotingClassifier([("a", LogisticRegression()), ("b", boosting)], voting="soft")


CASES = [
    Case(
        name="sklearn forest",
        build=fitted(lambda: RandomForestClassifier(10, random_state=0), missing=True),
        frame=numbers,
        native=probability,
        exact=True,
        has_graph=True,
        large=True,
        alone=True,
    ),
    Case(
        name="sklearn forest of three classes",
        build=fitted(lambda: RandomForestClassifier(10, random_state=0), kind="three"),
        frame=numbers,
        native=lambda model, frame: model.predict_proba(frame)[:, 2],
        options={"target_class": "middle"},
        exact=True,
        has_graph=True,
    ),
    Case(
        name="sklearn boosting",
        build=fitted(lambda: GradientBoostingClassifier(n_estimators=10, random_state=0)),
        frame=numbers,
        native=probability,
        exact=True,
        has_graph=True,
        missing=False,
    ),
    Case(
        name="sklearn histogram boosting with categories",
        build=fitted(
            lambda: HistGradientBoostingClassifier(max_iter=10), categorical, missing=True
        ),
        frame=categorical,
        native=probability,
        exact=True,
        has_graph=True,
        rounds=False,
    ),
    Case(
        name="sklearn histogram boosting of numbers",
        build=fitted(lambda: HistGradientBoostingRegressor(max_iter=10), kind="numbers"),
        frame=numbers,
        native=lambda model, frame: model.predict(frame),
        exact=True,
        has_graph=True,
        rounds=False,
    ),
    Case(
        name="sklearn pipeline without names",
        build=fitted(lambda: make_pipeline(StandardScaler(), LogisticRegression()), names=False),
        frame=numbers,
        native=lambda model, frame: probability(model, frame.to_numpy()),
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
        named=False,
    ),
    Case(
        name="sklearn pipeline with texts",
        build=fitted(one_hot_regression, mixed),
        frame=lambda n, seed: mixed(n, seed),
        native=probability,
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
        large=True,
    ),
    Case(
        name="sklearn search over a pipeline",
        build=fitted(
            lambda: GridSearchCV(encoded_boosting(), {"columntransformer__n_jobs": [None]}, cv=2),
            mixed,
            missing=True,
        ),
        frame=mixed,
        native=probability,
        exact=False,
        has_graph=True,
        rounds=False,
    ),
    Case(
        name="sklearn ridge",
        build=fitted(Ridge, kind="numbers"),
        frame=numbers,
        native=lambda model, frame: model.predict(frame),
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
    ),
    Case(
        name="sklearn vote",
        build=fitted(lambda: make_pipeline(StandardScaler(), vote())),
        frame=numbers,
        native=probability,
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
    ),
    Case(
        name="sklearn calibrated by sigmoids",
        build=fitted(lambda: CalibratedClassifierCV(LogisticRegression(), cv=3)),
        frame=numbers,
        native=probability,
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
    ),
    Case(
        name="sklearn calibrated isotonically",
        build=fitted(lambda: CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=3)),
        frame=numbers,
        native=probability,
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
    ),
    Case(
        name="sklearn model without a converter",
        build=fitted(lambda: make_pipeline(StandardScaler(), Squashed()), kind="numbers"),
        frame=numbers,
        native=lambda model, frame: model.predict(frame),
        exact=False,
        has_graph=False,
        rounds=False,
        missing=False,
    ),
]
