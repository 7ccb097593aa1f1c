"""Exported models, requests for them and Python's answers: what every other runtime must repeat."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from settings import fit_with
from treebase import expected_outputs

import recalibrate as rc
from recalibrate.graph import load_served
from recalibrate.graph.parity import RowMaker, model_thresholds
from recalibrate.scores import sigmoid

ROWS = 1500
TOWNS = ["Thun", "Bern", "Chur", "Genf", "Sion", "Zürich"]
FEW_ROUNDS = {"max_rounds": 3, "validation": False}
TREES = {"n_estimators": 15, "n_jobs": 1}

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Exported:
    """A graph, requests of several sizes, and what Python says to each of them."""

    graph: bytes
    requests: list[Tensors]
    answers: list[Tensors]

    def only(self, numbers: slice) -> "Exported":
        """Fewer requests, for a slow runtime."""
        return Exported(self.graph, self.requests[numbers], self.answers[numbers])

    def check(self, given: list[Tensors]) -> int:
        """Every output of every request is Python's to the last bit; how many were compared."""
        assert len(given) == len(self.answers)
        for own, expected in zip(given, self.answers, strict=True):
            assert set(own) == set(expected)
            for name, values in expected.items():
                assert own[name].dtype == values.dtype, name
                np.testing.assert_array_equal(own[name], values, err_msg=name)
        return sum(len(expected) for expected in self.answers)


def people(seed: int = 0, n: int = ROWS) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers and text with gaps, and log-odds of an outcome."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(45, 15, n)),
            "debt": np.where(rng.random(n) < 0.4, 0.0, rng.exponential(size=n)),
            "sex": rng.choice(["F", "M"], n),
            "town": rng.choice(TOWNS, n),
        }
    )
    X.loc[rng.random(n) < 0.05, "sex"] = None
    margin = X["age"].fillna(30) / 15 - 3 - X["debt"] + 0.8 * (X["town"] == "Bern")
    return X, margin.to_numpy(dtype=np.float64)


def outcomes(margin: np.ndarray, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).random(len(margin)) < sigmoid(margin)).astype(int)


def xgboost_default() -> rc.Recalibrated:
    import xgboost

    X, margin = people()
    y = outcomes(margin)
    base = xgboost.XGBClassifier(max_depth=3, **TREES).fit(X[["age", "debt"]], y)
    calibration, margin = people(2, 4 * ROWS)
    return rc.fit(base, calibration, outcomes(margin + 1.2 * (calibration["sex"] == "F"), 3))


def lightgbm_categories() -> rc.Recalibrated:
    import lightgbm

    X, margin = people()
    own = X[["age", "debt"]].assign(town=X["town"].astype("category"))
    base = lightgbm.LGBMClassifier(verbose=-1, min_data_per_group=10, cat_smooth=1.0, **TREES)
    base.fit(own, outcomes(margin))
    calibration, margin = people(2)
    H = rc.Trees(depth=3, features=["age", "town", "sex"], base_score=True)
    return fit_with(base, calibration, outcomes(margin, 3), H, levels=4, **FEW_ROUNDS)


def scores_groups() -> rc.Recalibrated:
    X, margin = people()
    # Whole numbers that float32 cannot hold: an int64 input.
    X["branch"] = np.random.default_rng(4).choice([2**40 + 1, 2**40 + 2, 5], ROWS)
    H = rc.Groups("sex", "town*sex", "age < 30 and sex != 'M'", "branch", "age is missing")
    scores, y = sigmoid(0.7 * margin), outcomes(margin)
    return fit_with(scores, X, y, H, categorical=["branch"], levels=3, **FEW_ROUNDS)


def linear() -> rc.Recalibrated:
    X, margin = people()
    H = rc.Linear(features=["age", "debt", "town"], base_score=True)
    return fit_with(0.7 * margin, X, outcomes(margin), H, base_link="logit", levels=4, **FEW_ROUNDS)


def polynomial() -> rc.Recalibrated:
    X, margin = people()
    H = rc.Polynomial(["age", "debt", "town"], degree=3, base_score=True)
    return fit_with(0.7 * margin, X, outcomes(margin), H, base_link="logit", levels=4, **FEW_ROUNDS)


def paper() -> rc.Recalibrated:
    X, margin = people()
    H = rc.Trees(depth=2, features=["age", "debt", "sex"])
    return rc.fit(sigmoid(0.3 * margin), X, outcomes(margin), H, alpha=0.02)


def regression() -> rc.Recalibrated:
    import xgboost

    X, margin = people()
    rng = np.random.default_rng(1)
    matrix = X[["age", "debt"]].to_numpy()
    base = xgboost.XGBRegressor(max_depth=3, **TREES).fit(
        matrix, 40 * margin + rng.normal(size=ROWS)
    )
    calibration, margin = people(2)
    matrix = calibration[["age", "debt"]].to_numpy()
    labels = 40 * margin + 25 * (matrix[:, 1] == 0) + rng.normal(size=ROWS)
    return fit_with(base, matrix, labels, rc.Trees(depth=2), levels=5, **FEW_ROUNDS)


MODELS: dict[str, Callable[[], rc.Recalibrated]] = {
    "xgboost, default fit": xgboost_default,
    "lightgbm with categories": lightgbm_categories,
    "scores, groups of text": scores_groups,
    "scores, linear": linear,
    "scores, polynomial": polynomial,
    "paper": paper,
    "regression": regression,
}


@functools.cache
def exported(name: str) -> Exported:
    """The model's file; rows on thresholds and beside, missing, infinite and unknown values."""
    model = MODELS[name]()
    assert model.n_rounds_ > 0
    graph = model.to_onnx().SerializeToString()
    served = load_served(graph)
    rows = RowMaker(model, served.inputs, model_thresholds(model)).make()
    feed = served.feed(rows.X, rows.base)
    answers = expected_outputs(model, rows.X, base=rows.base)
    spread = np.random.default_rng(0).permutation(len(rows))
    parts: list[Any] = [slice(None), *spread[:20].reshape(-1, 1), *spread[20:90].reshape(-1, 7)]
    return Exported(
        graph, [_take(feed, rows) for rows in parts], [_take(answers, p) for p in parts]
    )


def _take(tensors: Tensors, rows: Any) -> Tensors:
    return {name: np.ascontiguousarray(values[rows]) for name, values in tensors.items()}
