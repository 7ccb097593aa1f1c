"""CatBoost models for the contract suite."""

from pathlib import Path

import cases_sklearn as models
from cases import Case
from catboost import CatBoostClassifier, CatBoostRegressor


def classifier(**options):
    return CatBoostClassifier(
        iterations=10, depth=4, random_seed=0, thread_count=1, verbose=0,
        allow_writing_files=False, **options,
    )  # fmt: skip


def regressor(**options):
    return CatBoostRegressor(
        iterations=10, depth=4, random_seed=0, thread_count=1, verbose=0,
        allow_writing_files=False, **options,
    )  # fmt: skip


def save(model, folder: Path) -> Path:
    path = folder / "model.cbm"
    model.save_model(str(path))
    return path


def state(model) -> tuple:
    return model.get_all_params(), model.get_leaf_values().tobytes(), list(model.feature_names_)


def probability(model, frame):
    return model.predict_proba(frame)[:, 1]


CASES = [
    Case(
        name="catboost binary",
        build=models.fitted(classifier, missing=True),
        frame=models.numbers,
        native=probability,
        exact=True,
        has_graph=True,
        large=True,
        alone=True,
        frameworks=("catboost",),
        save=save,
        state=state,
    ),
    Case(
        name="catboost with trees that are not symmetric",
        build=models.fitted(lambda: classifier(grow_policy="Lossguide"), missing=True),
        frame=models.numbers,
        native=probability,
        exact=True,
        has_graph=True,
        state=state,
    ),
    Case(
        name="catboost regression",
        build=models.fitted(regressor, kind="numbers", names=False),
        frame=models.numbers,
        native=lambda model, frame: model.predict(frame.to_numpy()),
        exact=True,
        has_graph=True,
        named=False,
        save=save,
        state=state,
    ),
    Case(
        name="catboost counts",
        deviance="poisson",
        build=models.fitted(lambda: regressor(loss_function="Poisson")),
        frame=models.numbers,
        native=lambda model, frame: model.predict(frame),
        exact=False,
        has_graph=True,
        save=save,
        state=state,
    ),
    Case(
        name="catboost of three classes",
        build=models.fitted(classifier, kind="three"),
        frame=models.numbers,
        native=lambda model, frame: model.predict_proba(frame)[:, 0],
        options={"target_class": "high"},
        exact=False,
        has_graph=True,
        state=state,
    ),
    Case(
        name="catboost with categories",
        build=models.fitted(lambda: classifier(cat_features=["town"]), models.mixed, missing=True),
        frame=models.mixed,
        native=probability,
        exact=False,
        has_graph=False,
        save=save,
        state=state,
    ),
]
