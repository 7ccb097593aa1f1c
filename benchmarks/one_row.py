"""What does `model.predict` cost for one row in Python, beyond the base model's own share?

    python benchmarks/one_row.py
    python benchmarks/one_row.py --rows 100

Models with scores given, with a Python function and with an xgboost base; the row as a pandas
frame, as frames of plain arrays, and as numpy. Processor time of the calling thread, the median
of many calls; a base's own time is that of `model.base.scores` on the same rows, in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost

import recalibrate as rc
from recalibrate.simulate import census

GOAL = 1.0
"""Milliseconds beyond the base."""


@dataclass(frozen=True, eq=False)
class Case:
    """A model, rows to predict, and their base scores where the model needs them."""

    name: str
    model: rc.Recalibrated
    X: Any
    base: Any = None

    def predict(self) -> Any:
        return self.model.predict(self.X, base=self.base)

    def score(self) -> Any:
        return None if self.base is not None else self.model.base.scores(self.X)


def make_cases(n_rows: int, trees: int, batch: int) -> list[Case]:
    """Models of the same simulated rows."""
    texts = census(2 * n_rows, seed=1, categorical=True, gap=0.1)
    codes = census(2 * n_rows, seed=1, categorical=False, gap=0.1)
    matrix = codes.X.to_numpy(np.float64)
    own, other = slice(None, n_rows), slice(n_rows, None)
    booster = xgboost.XGBClassifier(n_estimators=trees, max_depth=6, n_jobs=1)
    booster.fit(codes.X[own].astype(np.float64), codes.y[own])
    on_arrays = xgboost.XGBClassifier(n_estimators=trees, max_depth=6, n_jobs=1)
    on_arrays.fit(matrix[own], codes.y[own])
    X, scores = texts.X[other].reset_index(drop=True), texts.scores[other]
    numbers, y = codes.X[other].astype(np.float64).reset_index(drop=True), codes.y[other]
    groups = rc.Groups("SEX", "RAC1P*SEX", "AGEP < 25")
    row, score = X.iloc[:batch], scores[:batch]
    of_scores = rc.fit(scores, X, y, progress=False)
    return [
        Case("scores given, texts", of_scores, row, score),
        Case(
            "scores given, groups",
            rc.fit(scores, X, y, groups, progress=False),
            row,
            score,
        ),
        Case(
            "scores given, numpy",
            rc.fit(scores, matrix[other], y, progress=False),
            matrix[other][:batch],
            score,
        ),
        Case(
            "function, texts",
            rc.fit(lambda X: np.full(len(X), 0.4), X, y, progress=False),
            row,
        ),
        Case("xgboost, frame", rc.fit(booster, numbers, y, progress=False), numbers.iloc[:batch]),
        Case(
            "xgboost, numpy",
            rc.fit(on_arrays, matrix[other], y, progress=False),
            matrix[other][:batch],
        ),
    ]


def median_times(works: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Median processor time of each, one after the other again and again."""
    found: list[list[float]] = [[] for _ in works]
    for k in range(repeats + 20):
        for own, work in zip(found, works, strict=True):
            start = time.thread_time()
            work()
            if k >= 20:
                own.append(time.thread_time() - start)
    return [float(np.median(own)) for own in found]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibration", type=int, default=20_000, help="calibration rows")
    parser.add_argument("--trees", type=int, default=200, help="trees of the xgboost base")
    parser.add_argument("--rows", type=int, default=1, help="rows of a request")
    parser.add_argument("--repeats", type=int, default=500)
    arguments = parser.parse_args(argv)
    print(f"{'milliseconds':<24}{'whole':>8}{'base':>8}{'beyond':>8}   (goal {GOAL:g})")
    for case in make_cases(arguments.calibration, arguments.trees, arguments.rows):
        whole, base = median_times([case.predict, case.score], arguments.repeats)
        shown = "".join(f"{1e3 * each:>8.3f}" for each in (whole, base, whole - base))
        print(f"{case.name:<24}{shown}   {case.model.n_learners_} learners")


if __name__ == "__main__":
    main()
