"""xgboost models for the contract suite."""

from pathlib import Path
from typing import Any

import xgboost
from boosted_data import ROWS, categories, codes, labels, numbers
from cases import Case, with_missing

TREES = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.3, "n_jobs": 1}


def fitted(model, rows=numbers, kind="binary", **settings):
    def build():
        frame = rows(ROWS, 0)
        y = labels(frame, kind)
        return model(**TREES, **settings).fit(with_missing(frame), y)

    return build


def as_booster(build):
    return lambda: build().get_booster()


def on_codes():
    frame = codes(ROWS, 0)
    kinds = ["q", "q", "q", "c", "c"]
    model = xgboost.XGBClassifier(**TREES, feature_types=kinds, enable_categorical=True)
    return model.fit(frame.to_numpy(), labels(frame, "binary"))


def second(model, frame):
    return model.predict_proba(frame)[:, 1]


def predict(model, frame):
    return model.predict(frame)


def predict_booster(model, frame):
    return model.predict(xgboost.DMatrix(frame))


def save_as(suffix: str):
    def save(model: Any, folder: Path) -> Path:
        path = folder / f"model.{suffix}"
        model.save_model(path)
        return path

    return save


def state(model: Any) -> bytes:
    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    return bytes(booster.save_raw())


COMMON = {"frameworks": ("xgboost",), "state": state}
CASES = [
    Case(
        "xgboost binary", fitted(xgboost.XGBClassifier), numbers, second, True, True,
        large=True, alone=True, save=save_as("json"), **COMMON,
    ),
    Case(
        "xgboost booster", as_booster(fitted(xgboost.XGBRegressor, objective="binary:logistic")),
        numbers, predict_booster, True, True, save=save_as("ubj"), **COMMON,
    ),
    Case(
        "xgboost regression dart",
        fitted(xgboost.XGBRegressor, kind="regression", booster="dart", rate_drop=0.3),
        numbers, predict, True, True, save=save_as("ubj"), **COMMON,
    ),
    Case(
        "xgboost counts", fitted(xgboost.XGBRegressor, kind="counts", objective="count:poisson"),
        numbers, predict, False, True, deviance="poisson", **COMMON,
    ),
    Case(
        "xgboost categories",
        fitted(xgboost.XGBClassifier, categories, enable_categorical=True, max_cat_to_onehot=4),
        categories, second, True, True, save=save_as("json"), **COMMON,
    ),
    Case(
        "xgboost codes", on_codes, codes, lambda m, f: second(m, f.to_numpy()), True, True,
        named=False, **COMMON,
    ),
    Case(
        "xgboost three classes", fitted(xgboost.XGBClassifier, kind="three"), numbers,
        lambda m, f: m.predict_proba(f)[:, 2], False, True, options={"target_class": 2}, **COMMON,
    ),
]  # fmt: skip
