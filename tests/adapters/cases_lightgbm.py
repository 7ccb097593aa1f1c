"""LightGBM models for the contract suite."""

from pathlib import Path
from typing import Any

import lightgbm
from boosted_data import ROWS, categories, codes, labels, numbers
from cases import Case, with_missing

TREES = {
    "n_estimators": 12, "num_leaves": 8, "min_child_samples": 10, "n_jobs": 1, "verbose": -1,
    "min_data_per_group": 10, "cat_smooth": 1.0,
}  # fmt: skip


def fitted(model, rows=numbers, kind="binary", **settings):
    def build():
        frame = rows(ROWS, 0)
        y = labels(frame, kind)
        return model(**{**TREES, **settings}).fit(with_missing(frame), y)

    return build


def as_booster(build):
    return lambda: build().booster_


def on_codes():
    frame = codes(ROWS, 0)
    model = lightgbm.LGBMClassifier(**TREES)
    return model.fit(frame.to_numpy(), labels(frame, "binary"), categorical_feature=[3, 4])


def second(model, frame):
    return model.predict_proba(frame)[:, 1]


def predict(model, frame):
    return model.predict(frame)


def save(model: Any, folder: Path) -> Path:
    path = folder / "model.txt"
    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    booster.save_model(path)
    return path


def state(model: Any) -> str:
    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    return str(booster.model_to_string())


COMMON = {"frameworks": ("lightgbm",), "state": state, "rounds": False}
FOREST = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
CASES = [
    Case(
        "lightgbm binary", fitted(lightgbm.LGBMClassifier), numbers, second, True, True,
        large=True, alone=True, save=save, **COMMON,
    ),
    Case(
        "lightgbm booster", as_booster(fitted(lightgbm.LGBMRegressor, kind="regression")),
        numbers, predict, True, True, save=save, **COMMON,
    ),
    Case(
        "lightgbm zero missing", fitted(lightgbm.LGBMClassifier, zero_as_missing=True), numbers,
        second, True, True, save=save, **COMMON,
    ),
    Case(
        "lightgbm forest", fitted(lightgbm.LGBMClassifier, **FOREST), numbers, second, True, True,
        save=save, **COMMON,
    ),
    Case(
        "lightgbm counts", fitted(lightgbm.LGBMRegressor, kind="counts", objective="poisson"),
        numbers, predict, False, True, deviance="poisson", **COMMON,
    ),
    Case(
        "lightgbm linear tree", fitted(lightgbm.LGBMRegressor, kind="regression", linear_tree=True),
        numbers, predict, False, False, save=save, **COMMON,
    ),
    Case(
        "lightgbm categories", fitted(lightgbm.LGBMClassifier, categories), categories, second,
        True, True, save=save, **COMMON,
    ),
    Case(
        "lightgbm codes", on_codes, codes, lambda m, f: second(m, f.to_numpy()), True, True,
        named=False, **COMMON,
    ),
    Case(
        "lightgbm three classes", fitted(lightgbm.LGBMClassifier, kind="three"), numbers,
        lambda m, f: m.predict_proba(f)[:, 2], False, True, options={"target_class": 2}, **COMMON,
    ),
]  # fmt: skip
