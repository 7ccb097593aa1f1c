"""scikit-learn's models, alone and in pipelines, for the zoo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import calibration, compose, ensemble, feature_selection, preprocessing
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils import all_estimators
from zoo import Case, Given

import recalibrate as rc

ROWS = 1600
NUMBERS = ["age", "income", "visits"]


def table(seed: int = 0) -> pd.DataFrame:
    """Numbers (some with one decimal, some whole), text, booleans; "sex" is for H."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.round(np.clip(rng.normal(45, 15, ROWS), 18, 90), 1),
            "income": np.exp(rng.normal(3, 0.5, ROWS)),
            "visits": rng.poisson(2.0, ROWS),
            "town": rng.choice(["Bern", "Chur", "Genf"], ROWS, p=[0.6, 0.37, 0.03]),
            "member": rng.random(ROWS) < 0.4,
            "sex": rng.choice(["F", "M"], ROWS),
        }
    )


def margin(X: pd.DataFrame) -> NDArray[np.float64]:
    town = X["town"].map({"Bern": 0.5, "Chur": -0.7, "Genf": 0.2}).to_numpy(dtype=float)
    own = X["age"] / 15 - 3 + np.log(X["income"]) - 3 + 0.2 * X["visits"] + 0.5 * X["member"]
    return np.asarray(own + town + 0.4 * (X["sex"] == "F"), dtype=np.float64)


def labels(X: pd.DataFrame, kind: str) -> NDArray[Any]:
    noisy = margin(X) + np.random.default_rng(1).logistic(size=len(X))
    if kind == "binary":
        return (noisy > 0.5).astype(int)
    if kind == "three":
        return np.digitize(noisy, [-0.5, 1.5])
    return np.clip(noisy, -6, 8) + 8  # positive, for Poisson and its like


def _means(model: Any, X: Any, own: Any, position: int) -> Any:
    rows = X[own] if hasattr(X, "columns") else X
    return model.predict_proba(rows)[:, position] if is_classifier(model) else model.predict(rows)


def fitted(
    make: Callable[[], Any], columns: Any = None, kind: str = "", *, names: bool = True, gaps=()
) -> Given:
    """A model fitted on the first table, to be recalibrated on the second."""
    train, rows = table(0), table(2)
    columns = NUMBERS if columns is None else columns
    model = make()
    kind = kind or ("binary" if is_classifier(model) else "number")
    y_train, y = labels(train, kind), labels(rows, kind)
    for frame in (train, rows):
        for name in gaps:
            frame[name] = frame[name].where(np.random.default_rng(3).random(ROWS) > 0.1)
    options: dict[str, Any] = {}
    position, H = 1, None
    if kind == "three":
        options = {"target_class": 2}
        position = 2
    slow = "GaussianProcess" in repr(model)
    few = slice(0, 150 if slow else None)
    if names:
        model.fit(train[columns][few], y_train[few])
    else:
        model.fit(train[columns].to_numpy()[few], y_train[few])
        rows, H = rows[columns].to_numpy(), rc.Groups("x0 < 40")
    if type(model).__name__ == "IsotonicRegression" and names:
        rows, H = rows[columns], rc.Groups("age < 40")
    if is_classifier(model) and not hasattr(model, "predict_proba"):
        options["base_link"] = "logit"
        own = partial(_decision, model, own=columns, position=position)
        return Given(model, rows, y, own, H, options=options)
    return Given(model, rows, y, lambda X: _means(model, X, columns, position), H, options=options)


def _decision(model: Any, X: Any, own: Any, position: int) -> Any:
    found = model.decision_function(X[own] if hasattr(X, "columns") else X)
    return 1 / (1 + np.exp(-(found[:, position] if found.ndim == 2 else found)))


def _small(estimator: Any) -> Any:
    """Fewer trees and a seed, so that the zoo is quick."""
    wanted = {"n_estimators": 10, "max_iter": 50, "random_state": 0, "n_jobs": 1, "degree": 2}
    known = estimator.get_params()
    del wanted["max_iter" if "Hist" not in type(estimator).__name__ else "degree"]
    return estimator.set_params(**{k: v for k, v in wanted.items() if k in known})


def _needs(cls: type) -> Any:
    """An estimator whose constructor asks for others."""
    name = cls.__name__
    regressor, classifier = Ridge(), LogisticRegression()
    if name in ("StackingClassifier", "VotingClassifier"):
        voting = {"voting": "soft"} if name == "VotingClassifier" else {}
        return cls([("a", classifier), ("b", ensemble.RandomForestClassifier(5))], **voting)
    if name in ("StackingRegressor", "VotingRegressor"):
        return cls([("a", regressor), ("b", ensemble.RandomForestRegressor(5))])
    if name in ("ClassifierChain", "MultiOutputClassifier", "RegressorChain"):
        return None
    if name == "MultiOutputRegressor":
        return None
    return cls(classifier if issubclass(cls, _classifiers()) else regressor)


def _classifiers() -> type:
    from sklearn.base import ClassifierMixin

    return ClassifierMixin


def _make(cls: type) -> Any:
    try:
        estimator = _small(cls())
    except TypeError:
        return _needs(cls)
    lacks = estimator.get_params(deep=False).get("estimator", "") is None
    return _needs(cls) if lacks and cls.__name__ == "SelfTrainingClassifier" else estimator


def estimators(kind: str) -> Iterator[tuple[str, Any]]:
    for name, cls in all_estimators(type_filter=kind):
        estimator = _make(cls)
        if estimator is not None and not name.startswith(("MultiTask", "CCA", "PLSCanonical")):
            yield name, estimator


def cases() -> Iterator[Case]:
    yield from _alone()
    yield from _transformed()
    yield from _mixed()
    yield from _wrapped()


def _alone() -> Iterator[Case]:
    """Every classifier and regressor: on a table, on an array, after scaling, of three classes."""
    for name, model in [*estimators("classifier"), *estimators("regressor")]:
        single = [NUMBERS[0]] if name == "IsotonicRegression" else None
        whole = ["visits", "member"] if name == "CategoricalNB" else single
        yield Case(f"sklearn {name}", partial(fitted, partial(clone, model), whole))
        yield Case(
            f"sklearn {name}, array", partial(fitted, partial(clone, model), whole, names=False)
        )
        if name in ("CategoricalNB", "IsotonicRegression"):
            continue
        scaled = partial(make_pipeline, preprocessing.StandardScaler())
        if "NB" not in name or name == "GaussianNB":
            yield Case(
                f"sklearn StandardScaler, {name}",
                partial(fitted, lambda s=scaled, m=model: s(clone(m))),
            )
        if is_classifier(model):
            yield Case(
                f"sklearn {name}, three classes",
                partial(fitted, partial(clone, model), kind="three"),
            )


def _transformers() -> dict[str, Any]:
    p = preprocessing
    return {
        "Binarizer": p.Binarizer(threshold=2.0),
        "FunctionTransformer(log1p)": p.FunctionTransformer(np.log1p),
        "FunctionTransformer()": p.FunctionTransformer(),
        "KBinsDiscretizer": p.KBinsDiscretizer(5),
        "KBinsDiscretizer(ordinal)": p.KBinsDiscretizer(5, encode="ordinal"),
        "KBinsDiscretizer(onehot-dense)": p.KBinsDiscretizer(5, encode="onehot-dense"),
        "MaxAbsScaler": p.MaxAbsScaler(),
        "MinMaxScaler": p.MinMaxScaler(clip=True),
        "Normalizer": p.Normalizer(),
        "PolynomialFeatures": p.PolynomialFeatures(2),
        "PowerTransformer": p.PowerTransformer(),
        "QuantileTransformer": p.QuantileTransformer(n_quantiles=100),
        "QuantileTransformer(normal)": p.QuantileTransformer(
            n_quantiles=100, output_distribution="normal"
        ),
        "RobustScaler": p.RobustScaler(),
        "SplineTransformer": p.SplineTransformer(),
        "SplineTransformer(linear)": p.SplineTransformer(degree=2, extrapolation="linear"),
        "SelectKBest": feature_selection.SelectKBest(k=2),
        "SelectFromModel": feature_selection.SelectFromModel(LogisticRegression()),
        "VarianceThreshold": feature_selection.VarianceThreshold(),
        "RFE": feature_selection.RFE(LogisticRegression(), n_features_to_select=2),
        **_decompositions(),
    }


def _decompositions() -> dict[str, Any]:
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA, FastICA, TruncatedSVD
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.random_projection import GaussianRandomProjection

    return {
        "PCA": PCA(2, random_state=0),
        "TruncatedSVD": TruncatedSVD(2, random_state=0),
        "FastICA": FastICA(2, random_state=0),
        "KMeans": KMeans(3, random_state=0, n_init=1),
        "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(n_components=1),
        "GaussianRandomProjection": GaussianRandomProjection(2, random_state=0),
        "RBFSampler": RBFSampler(random_state=0, gamma=0.001),
        "Nystroem": Nystroem(n_components=20, random_state=0, gamma=0.001),
    }


def _transformed() -> Iterator[Case]:
    """Every transformer before a linear model, and before boosted trees."""
    for name, step in _transformers().items():
        for last in (
            LogisticRegression(max_iter=1000),
            ensemble.HistGradientBoostingClassifier(max_iter=5),
        ):
            yield Case(
                f"sklearn {name}, {type(last).__name__}",
                partial(fitted, lambda s=step, m=last: make_pipeline(clone(s), clone(m))),
            )
    for name, step in {
        "SimpleImputer(median)": SimpleImputer(strategy="median"),
        "SimpleImputer(indicator)": SimpleImputer(add_indicator=True),
        "SimpleImputer(constant)": SimpleImputer(strategy="constant", fill_value=-1.0),
        "KNNImputer": KNNImputer(),
    }.items():
        yield Case(
            f"sklearn {name}, LogisticRegression, gaps",
            partial(
                fitted,
                lambda s=step: make_pipeline(clone(s), LogisticRegression(max_iter=1000)),
                gaps=["age", "income"],
            ),
        )


def _encoders() -> dict[str, Any]:
    p = preprocessing
    return {
        "OneHotEncoder": p.OneHotEncoder(),
        "OneHotEncoder(ignore)": p.OneHotEncoder(handle_unknown="ignore"),
        "OneHotEncoder(drop first)": p.OneHotEncoder(drop="first"),
        "OneHotEncoder(if_binary)": p.OneHotEncoder(drop="if_binary", sparse_output=False),
        "OneHotEncoder(infrequent)": p.OneHotEncoder(
            min_frequency=0.1, handle_unknown="infrequent_if_exist"
        ),
        "OneHotEncoder(max categories)": p.OneHotEncoder(max_categories=2),
        "OrdinalEncoder": p.OrdinalEncoder(),
        "OrdinalEncoder(unknown)": p.OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1
        ),
        "TargetEncoder": p.TargetEncoder(random_state=0),
        "SimpleImputer(text), OneHotEncoder": make_pipeline(
            SimpleImputer(strategy="most_frequent"), p.OneHotEncoder(handle_unknown="ignore")
        ),
        "SimpleImputer(constant text), OneHotEncoder": make_pipeline(
            SimpleImputer(strategy="constant", fill_value="none"), p.OneHotEncoder()
        ),
    }


def _mixed() -> Iterator[Case]:
    """Text encoded in every way, beside numbers; with and without gaps."""
    own = ["age", "visits", "town"]
    for name, step in _encoders().items():
        for gaps in ((), ("town",)):
            for last in (
                LogisticRegression(max_iter=1000),
                ensemble.RandomForestClassifier(5, random_state=0),
            ):
                yield Case(
                    f"sklearn {name}, {type(last).__name__}{', gaps' if gaps else ''}",
                    partial(
                        fitted,
                        lambda s=step, m=last: make_pipeline(
                            compose.make_column_transformer(
                                (clone(s), ["town"]), remainder="passthrough"
                            ),
                            clone(m),
                        ),
                        own,
                        gaps=gaps,
                    ),
                )
    for last in (LogisticRegression(max_iter=1000), ensemble.HistGradientBoostingClassifier()):
        union = partial(
            FeatureUnion,
            [("s", preprocessing.StandardScaler()), ("p", preprocessing.PolynomialFeatures(2))],
        )
        yield Case(
            f"sklearn FeatureUnion, {type(last).__name__}",
            partial(fitted, lambda u=union, m=last: make_pipeline(u(), clone(m))),
        )
    yield Case(
        "sklearn HistGradientBoosting, categories",
        partial(fitted, partial(_histogram_of_categories), own, gaps=("town",)),
    )
    yield Case(
        "sklearn boolean column, LogisticRegression",
        partial(fitted, LogisticRegression, ["age", "member"]),
    )


def _histogram_of_categories() -> Any:
    encode = compose.make_column_transformer(
        (
            preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            ["town"],
        ),
        remainder="passthrough",
    )
    return make_pipeline(
        encode, ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features=[0])
    )


def _wrapped() -> Iterator[Case]:
    """Models of models."""
    for name, make in _wrappers().items():
        yield Case(f"sklearn {name}", partial(fitted, make))


def _wrappers() -> dict[str, Callable[[], Any]]:
    C, LR = calibration.CalibratedClassifierCV, partial(LogisticRegression, max_iter=1000)
    forest = partial(ensemble.RandomForestClassifier, 5, random_state=0)
    scaled = lambda: make_pipeline(preprocessing.StandardScaler(), LR())  # noqa: E731
    found: dict[str, Callable[[], Any]] = {}
    for method in ("sigmoid", "isotonic", "temperature"):
        found |= {
            f"Calibrated({method}), LR": partial(lambda m: C(LR(), method=m, cv=3), method),
            f"Calibrated({method}), LinearSVC": partial(
                lambda m: C(_svc(), method=m, cv=3), method
            ),
            f"Calibrated({method}), forest": partial(lambda m: C(forest(), method=m, cv=3), method),
            f"Calibrated({method}), pipeline": partial(
                lambda m: C(scaled(), method=m, cv=3), method
            ),
            f"Calibrated({method}), frozen pipeline": partial(
                lambda m: C(FrozenEstimator(_trained(scaled())), method=m), method
            ),
            f"Calibrated({method}), frozen forest": partial(
                lambda m: C(FrozenEstimator(_trained(forest())), method=m), method
            ),
            f"Calibrated({method}), one": partial(
                lambda m: C(scaled(), method=m, cv=3, ensemble=False), method
            ),
            f"Calibrated({method}), xgboost": partial(lambda m: C(_xgb(), method=m, cv=2), method),
            f"Calibrated({method}), LightGBM": partial(
                lambda m: C(_lgbm(), method=m, cv=2), method
            ),
            f"Calibrated({method}), HistGradientBoosting": partial(
                lambda m: C(ensemble.HistGradientBoostingClassifier(max_iter=5), method=m, cv=2),
                method,
            ),
            f"Calibrated({method}), GaussianNB": partial(
                lambda m: C(_bayes(), method=m, cv=3), method
            ),
        }
    V = ensemble.VotingClassifier
    pair = lambda: [("a", LR()), ("b", forest())]  # noqa: E731
    T = compose.TransformedTargetRegressor
    found |= {
        "Voting, weighted": lambda: V(pair(), voting="soft", weights=[1, 3]),
        "Voting of xgboost": lambda: V([("a", LR()), ("b", _xgb())], voting="soft"),
        "Voting of pipelines": lambda: V([("a", scaled()), ("b", forest())], voting="soft"),
        "Voting, hard": lambda: V(pair()),
        "VotingRegressor, weighted": lambda: ensemble.VotingRegressor(
            [("a", Ridge()), ("b", ensemble.RandomForestRegressor(5, random_state=0))],
            weights=[1, 2],
        ),
        "Stacking of xgboost": lambda: ensemble.StackingClassifier([("a", LR()), ("b", _xgb())]),
        "Stacking, passthrough": lambda: ensemble.StackingClassifier(pair(), passthrough=True),
        "Stacking of boosting": lambda: ensemble.StackingClassifier(
            [("a", scaled()), ("b", ensemble.HistGradientBoostingClassifier(max_iter=5))]
        ),
        "Bagging of trees": lambda: ensemble.BaggingClassifier(n_estimators=5, random_state=0),
        "Bagging of LR": lambda: ensemble.BaggingClassifier(LR(), n_estimators=5, random_state=0),
        "GridSearchCV": lambda: GridSearchCV(scaled(), {"logisticregression__C": [0.1, 1]}, cv=2),
        "FixedThreshold": lambda: FixedThresholdClassifier(scaled(), threshold=0.3),
        "FrozenEstimator": lambda: FrozenEstimator(_trained(scaled())),
        "TransformedTarget(log)": lambda: T(LinearRegression(), func=np.log, inverse_func=np.exp),
        "TransformedTarget(log1p)": lambda: T(_ridge(), func=np.log1p, inverse_func=np.expm1),
        "TransformedTarget(sqrt)": lambda: T(_ridge(), func=np.sqrt, inverse_func=np.square),
        "TransformedTarget(StandardScaler)": lambda: T(
            _ridge(), transformer=preprocessing.StandardScaler()
        ),
        "TransformedTarget(QuantileTransformer)": lambda: T(
            _ridge(), transformer=preprocessing.QuantileTransformer(n_quantiles=50)
        ),
        "TransformedTarget(PowerTransformer)": lambda: T(
            _ridge(), transformer=preprocessing.PowerTransformer()
        ),
        "TransformedTarget of trees": lambda: T(
            ensemble.GradientBoostingRegressor(n_estimators=5), func=np.log, inverse_func=np.exp
        ),
        "pipeline of xgboost": lambda: make_pipeline(preprocessing.StandardScaler(), _xgb()),
        "pipeline of LightGBM": lambda: make_pipeline(preprocessing.StandardScaler(), _lgbm()),
        "pipeline of CatBoost": lambda: make_pipeline(preprocessing.StandardScaler(), _cat()),
        "LSBoostClassifier": lambda: rc.LSBoostClassifier(loop="paper"),
        "LSBoostRegressor": lambda: rc.LSBoostRegressor(loop="paper"),
        "pipeline of LSBoost": lambda: make_pipeline(
            preprocessing.StandardScaler(), rc.LSBoostClassifier(loop="paper")
        ),
    }
    return found


def _trained(model: Any) -> Any:
    train = table(5)
    return model.fit(train[NUMBERS], labels(train, "binary"))


def _ridge() -> Any:
    return make_pipeline(preprocessing.StandardScaler(), Ridge())


def _svc() -> Any:
    from sklearn.svm import LinearSVC

    return make_pipeline(preprocessing.StandardScaler(), LinearSVC())


def _bayes() -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def _xgb() -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=5, n_jobs=1)


def _lgbm() -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)


def _cat() -> Any:
    import catboost

    return catboost.CatBoostClassifier(
        iterations=5, verbose=0, thread_count=1, allow_writing_files=False
    )
