"""xgboost, LightGBM and CatBoost: objectives, boosters, kinds of rows, files; for the zoo."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from zoo import Case, Given
from zoo_sklearn import NUMBERS, labels, table

import recalibrate as rc

CATEGORIES = {
    "text": lambda X: X.assign(town=X["town"].astype("category")),
    "ordered": lambda X: X.assign(
        town=pd.Categorical(X["town"], ["Genf", "Bern", "Chur"], ordered=True)
    ),
    "booleans": lambda X: X.assign(town=pd.Categorical(X["member"])),
    "whole numbers": lambda X: X.assign(town=pd.Categorical(X["visits"].clip(upper=4))),
    "with gaps": lambda X: X.assign(
        town=pd.Categorical(X["town"].where(np.arange(len(X)) % 9 > 0))
    ),
    "bands": lambda X: X.assign(town=pd.cut(X["age"], [-100, 30, 60, 200])),
}


def cases() -> Iterator[Case]:
    yield from _xgboost()
    yield from _lightgbm()
    yield from _catboost()


def _y(X: pd.DataFrame, objective: str) -> Any:
    if any(word in objective for word in ("multi", "Multi")):
        return labels(X, "three")
    binary = ("binary", "logistic", "cross_entropy", "Logloss", "CrossEntropy", "hinge")
    if any(word in objective for word in binary):
        return labels(X, "binary")
    y = labels(X, "number")
    return np.round(y) if any(w in objective.lower() for w in ("poisson", "rank", "lambda")) else y


def _given(model: Any, objective: str, own: Any, means: Any = None, **more: Any) -> Given:
    rows = table(2)
    y = _y(rows, objective)
    if "ulti" in objective:
        more["options"] = {"target_class": 2}
    return Given(model, rows, y, None if means is None else lambda X: means(X[own]), **more)


def _xgb_fit(objective: str, extra: dict[str, Any], kind: str = "sklearn") -> Given:
    import xgboost

    train = table(0)
    y = _y(train, objective)
    settings = {"objective": objective, "nthread": 1, **extra}
    if "multi" in objective:
        settings["num_class"] = 3
    booster = xgboost.train(settings, xgboost.DMatrix(train[NUMBERS], y), 8)
    softmax = objective == "multi:softmax"

    def means(X: Any) -> Any:
        rows = xgboost.DMatrix(X)
        if softmax:
            raw = booster.predict(rows, output_margin=True)
            return np.exp(raw[:, 2]) / np.exp(raw).sum(axis=1)
        found = booster.predict(rows)
        if objective == "binary:logitraw":
            found = 1 / (1 + np.exp(-found))
        return found[:, 2] if found.ndim == 2 else found

    if kind == "file":
        path = Path(tempfile.mkdtemp()) / "model.ubj"
        booster.save_model(path)
        return _given(path, objective, NUMBERS, means)
    return _given(booster, objective, NUMBERS, means)


def _xgboost() -> Iterator[Case]:
    objectives = [
        "binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic", "reg:squarederror",
        "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror", "reg:gamma",
        "reg:tweedie", "count:poisson", "multi:softprob", "multi:softmax", "rank:pairwise",
        "rank:ndcg", "survival:cox", "survival:aft", "reg:quantileerror",
    ]  # fmt: skip
    for objective in objectives:
        extra = {"quantile_alpha": 0.5} if "quantile" in objective else {}
        yield Case(f"xgboost {objective}", partial(_xgb_fit, objective, extra))
    boosters = {
        "dart": {"booster": "dart", "rate_drop": 0.2, "seed": 0},
        "gblinear": {"booster": "gblinear"},
        "exact": {"tree_method": "exact"},
        "approx": {"tree_method": "approx"},
        "lossguide": {"grow_policy": "lossguide", "max_leaves": 8, "max_depth": 0},
        "random forest": {"num_parallel_tree": 5, "subsample": 0.5, "seed": 0},
        "monotone": {"monotone_constraints": "(1,0,0)"},
        "base_score": {"base_score": 0.2},
        "depth 0": {"max_depth": 1},
    }
    for name, extra in boosters.items():
        for objective in ("binary:logistic", "reg:squarederror", "multi:softprob"):
            yield Case(f"xgboost {name}, {objective}", partial(_xgb_fit, objective, extra))
    yield Case(
        "xgboost gblinear poisson", partial(_xgb_fit, "count:poisson", {"booster": "gblinear"})
    )
    yield Case("xgboost file", partial(_xgb_fit, "binary:logistic", {}, "file"))
    for name in CATEGORIES:
        yield Case(f"xgboost categories, {name}", partial(_xgb_categories, name))
    for name in (
        "array",
        "missing=-1",
        "sparse",
        "early stopping",
        "XGBRFClassifier",
        "XGBRegressor",
        "XGBRanker",
        "custom objective",
        "more columns, array",
    ):
        yield Case(f"xgboost {name}", partial(_xgb_wrapped, name))


def _xgb_categories(name: str) -> Given:
    import xgboost

    train, own = CATEGORIES[name](table(0)), ["age", "town"]
    model = xgboost.XGBClassifier(n_estimators=8, n_jobs=1, enable_categorical=True)
    model.fit(train[own], labels(table(0), "binary"))
    rows = CATEGORIES[name](table(2))
    y = labels(table(2), "binary")
    return Given(model, rows, y, lambda X: model.predict_proba(X[own])[:, 1])


def _xgb_wrapped(name: str) -> Given:
    import scipy.sparse
    import xgboost

    train, rows = table(0), table(2)
    y_train, y = labels(train, "binary"), labels(rows, "binary")
    make = partial(xgboost.XGBClassifier, n_estimators=8, n_jobs=1)
    model: Any = make()
    if name == "array":
        model.fit(train[NUMBERS].to_numpy(), y_train)
        X = rows[NUMBERS].to_numpy()
        return Given(model, X, y, lambda X: model.predict_proba(X)[:, 1], rc.Groups("x0 < 40"))
    if name == "more columns, array":
        model.fit(train[NUMBERS].to_numpy(), y_train)
        return Given(model, rows, y, lambda X: model.predict_proba(X[NUMBERS])[:, 1])
    if name == "missing=-1":
        model = make(missing=-1.0).fit(train[NUMBERS].replace(0, -1), y_train)
        X = rows.assign(visits=rows["visits"].replace(0, -1))
        return Given(model, X, y, lambda X: model.predict_proba(X[NUMBERS])[:, 1])
    if name == "sparse":
        S = scipy.sparse.csr_matrix(train[NUMBERS].to_numpy(dtype=float))
        model.fit(S, y_train)
        T = scipy.sparse.csr_matrix(rows[NUMBERS].to_numpy(dtype=float))
        return Given(model, T, y, lambda X: model.predict_proba(X)[:, 1], Z=rows[["sex"]])
    if name == "early stopping":
        model = make(n_estimators=60, early_stopping_rounds=2)
        model.fit(train[NUMBERS], y_train, eval_set=[(rows[NUMBERS][:400], y[:400])], verbose=False)
        return Given(model, rows, y, lambda X: model.predict_proba(X[NUMBERS])[:, 1])
    if name == "custom objective":

        def objective(y: Any, p: Any) -> Any:
            q = 1 / (1 + np.exp(-p))
            return q - y, q * (1 - q)

        model = xgboost.XGBRegressor(n_estimators=8, objective=objective, base_score=0.0)
        model.fit(train[NUMBERS], y_train)
        return Given(model, rows, y, lambda X: 1 / (1 + np.exp(-model.predict(X[NUMBERS]))),
                     options={"base_link": "logit"})  # fmt: skip
    if name == "XGBRFClassifier":
        model = xgboost.XGBRFClassifier(n_estimators=8).fit(train[NUMBERS], y_train)
        return Given(model, rows, y, lambda X: model.predict_proba(X[NUMBERS])[:, 1])
    if name == "XGBRanker":
        model = xgboost.XGBRanker(n_estimators=3).fit(
            train[NUMBERS], y_train, qid=np.arange(len(train)) // 50
        )
        return Given(model, rows, y)
    model = xgboost.XGBRegressor(n_estimators=8).fit(train[NUMBERS], labels(train, "number"))
    return Given(model, rows, labels(rows, "number"), lambda X: model.predict(X[NUMBERS]))


def _lgb_fit(objective: str, extra: dict[str, Any], kind: str = "") -> Given:
    import lightgbm

    train = table(0)
    settings = {"objective": objective, "verbose": -1, "num_threads": 1, **extra}
    if "multi" in objective:
        settings["num_class"] = 3
    y = _y(train, objective)
    group = (
        {"group": np.full(len(train) // 50, 50)}
        if objective in ("lambdarank", "rank_xendcg")
        else {}
    )
    booster = lightgbm.train(settings, lightgbm.Dataset(train[NUMBERS], y, **group), 8)

    def means(X: Any) -> Any:
        found = np.asarray(booster.predict(X))
        if objective == "multiclassova":
            return found[:, 2]
        return found[:, 2] if found.ndim == 2 else found

    if kind == "file":
        path = Path(tempfile.mkdtemp()) / "model.txt"
        booster.save_model(path)
        return _given(path, objective, NUMBERS, means)
    return _given(booster, objective, NUMBERS, means)


def _lightgbm() -> Iterator[Case]:
    for objective in (
        "binary", "cross_entropy", "cross_entropy_lambda", "regression", "regression_l1", "huber",
        "fair", "poisson", "quantile", "mape", "gamma", "tweedie", "multiclass", "multiclassova",
        "lambdarank", "rank_xendcg",
    ):  # fmt: skip
        yield Case(f"lightgbm {objective}", partial(_lgb_fit, objective, {}))
    boosters = {
        "dart": {"boosting": "dart"},
        "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        "goss": {"data_sample_strategy": "goss"},
        "linear_tree": {"linear_tree": True},
        "zero_as_missing": {"zero_as_missing": True},
        "no missing": {"use_missing": False},
        "sigmoid=2": {"sigmoid": 2.0},
        "extra_trees": {"extra_trees": True},
        "unbalanced": {"is_unbalance": True},
    }
    for name, extra in boosters.items():
        for objective in ("binary", "regression", "multiclass"):
            yield Case(f"lightgbm {name}, {objective}", partial(_lgb_fit, objective, extra))
    yield Case("lightgbm reg_sqrt", partial(_lgb_fit, "regression", {"reg_sqrt": True}))
    yield Case("lightgbm file", partial(_lgb_fit, "binary", {}, "file"))
    for name in CATEGORIES:
        yield Case(f"lightgbm categories, {name}", partial(_lgb_categories, name))
    for name in (
        "array",
        "sparse",
        "early stopping",
        "spaces",
        "codes",
        "custom objective",
        "CVBooster",
        "Regressor",
        "two kinds of categories",
        "constant category",
    ):
        yield Case(f"lightgbm {name}", partial(_lgb_wrapped, name))


def _lgb_categories(name: str) -> Given:
    import lightgbm

    train, own = CATEGORIES[name](table(0)), ["age", "town"]
    model = lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1, min_child_samples=5)
    model.fit(train[own], labels(table(0), "binary"))
    rows = CATEGORIES[name](table(2))
    y = labels(table(2), "binary")
    return Given(model, rows, y, lambda X: model.predict_proba(X[own])[:, 1])


def _lgb_wrapped(name: str) -> Given:
    import lightgbm
    import scipy.sparse

    train, rows = table(0), table(2)
    y_train, y = labels(train, "binary"), labels(rows, "binary")
    make = partial(lightgbm.LGBMClassifier, n_estimators=8, n_jobs=1, verbose=-1)
    model: Any = make()
    own: Any = NUMBERS
    if name == "array":
        model.fit(train[NUMBERS].to_numpy(), y_train)
        X = rows[NUMBERS].to_numpy()
        return Given(model, X, y, lambda X: model.predict_proba(X)[:, 1], rc.Groups("x0 < 40"))
    if name == "sparse":
        model.fit(scipy.sparse.csr_matrix(train[NUMBERS].to_numpy(dtype=float)), y_train)
        T = scipy.sparse.csr_matrix(rows[NUMBERS].to_numpy(dtype=float))
        return Given(model, T, y, lambda X: model.predict_proba(X)[:, 1], Z=rows[["sex"]])
    if name == "spaces":
        spaced = {"age": "my age"}
        own = ["my age", "income"]
        train, rows = train.rename(columns=spaced), rows.rename(columns=spaced)
    if name == "codes":
        own = ["age", "visits"]
        model.fit(train[own], y_train, categorical_feature=["visits"])
        return Given(model, rows, y, lambda X: model.predict_proba(X[own])[:, 1])
    if name == "two kinds of categories":
        own = ["age", "town", "sex", "member"]
        both = lambda X: X.assign(  # noqa: E731
            town=pd.Categorical(X["town"], ["Genf", "Bern", "Chur"], ordered=True),
            sex=X["sex"].astype("category"),
        )
        train, rows = both(train), both(rows)
    if name == "constant category":
        own = ["age", "town"]
        train = train.assign(town=pd.Categorical(["Bern"] * len(train)))
        rows = rows.assign(town=pd.Categorical(["Bern"] * len(rows)))
    if name == "CVBooster":
        data = lightgbm.Dataset(train[NUMBERS], y_train)
        found = lightgbm.cv(
            {"verbose": -1, "objective": "binary"}, data, 3, nfold=2, return_cvbooster=True
        )
        return Given(found["cvbooster"], rows, y)
    if name == "Regressor":
        model = lightgbm.LGBMRegressor(n_estimators=8, verbose=-1).fit(
            train[own], labels(train, "number")
        )
        return Given(model, rows, labels(rows, "number"), lambda X: model.predict(X[own]))
    if name == "custom objective":

        def objective(y: Any, p: Any) -> Any:
            q = 1 / (1 + np.exp(-p))
            return q - y, q * (1 - q)

        model = lightgbm.LGBMRegressor(n_estimators=8, objective=objective, verbose=-1)
        model.fit(train[own], y_train)
        logit = {"base_link": "logit"}
        mean = lambda X: 1 / (1 + np.exp(-model.predict(X[own], raw_score=True)))  # noqa: E731
        return Given(model, rows, y, mean, options=logit)
    if name == "early stopping":
        model = make(n_estimators=60)
        stop = [lightgbm.early_stopping(2, verbose=False)]
        model.fit(train[own], y_train, eval_set=[(rows[own][:400], y[:400])], callbacks=stop)
    else:
        model.fit(train[own], y_train)
    return Given(model, rows, y, lambda X: model.predict_proba(X[own])[:, 1])


def _cat_fit(objective: str, extra: dict[str, Any], own: Any = None) -> Given:
    import catboost

    train = table(0)
    own = NUMBERS if own is None else own
    model = catboost.CatBoost(
        {"loss_function": objective, "iterations": 8, "verbose": 0, "thread_count": 1,
         "allow_writing_files": False, **extra}
    )  # fmt: skip
    group = (
        {"group_id": np.arange(len(train)) // 50} if objective in ("YetiRank", "QueryRMSE") else {}
    )
    y = _y(train, objective)
    model.fit(
        catboost.Pool(train[own], y, cat_features=[n for n in own if n in ("town", "sex")], **group)
    )

    def means(X: Any) -> Any:
        raw = np.asarray(model.predict(X, prediction_type="RawFormulaVal"))
        if objective == "MultiClass":
            return np.exp(raw[:, 2]) / np.exp(raw).sum(axis=1)
        if objective == "MultiClassOneVsAll":
            return 1 / (1 + np.exp(-raw[:, 2]))
        if objective in ("Logloss", "CrossEntropy"):
            return 1 / (1 + np.exp(-raw))
        if objective == "RMSEWithUncertainty":
            return raw[:, 0]
        return np.exp(raw) if objective in ("Poisson", "Tweedie:variance_power=1.5") else raw

    return _given(model, objective, own, means)


def _catboost() -> Iterator[Case]:
    for objective in (
        "Logloss", "CrossEntropy", "RMSE", "MAE", "Quantile:alpha=0.5", "Poisson",
        "Tweedie:variance_power=1.5", "MultiClass", "MultiClassOneVsAll", "RMSEWithUncertainty",
        "Huber:delta=1", "YetiRank", "QueryRMSE", "Expectile:alpha=0.5", "LogCosh",
    ):  # fmt: skip
        yield Case(f"catboost {objective}", partial(_cat_fit, objective, {}))
    for name, extra in {
        "Depthwise": {"grow_policy": "Depthwise"},
        "Lossguide": {"grow_policy": "Lossguide"},
        "Min": {"nan_mode": "Max"},
        "Bernoulli": {"bootstrap_type": "Bernoulli"},
    }.items():
        for objective in ("Logloss", "RMSE"):
            yield Case(f"catboost {name}, {objective}", partial(_cat_fit, objective, extra))
    yield Case("catboost categories", partial(_cat_fit, "Logloss", {}, ["age", "town"]))
    yield Case(
        "catboost one-hot categories",
        partial(_cat_fit, "Logloss", {"one_hot_max_size": 10}, ["age", "town"]),
    )
