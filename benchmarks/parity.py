"""Does an exported graph give the bits that Python gives, on a million rows?

    python benchmarks/parity.py
    python benchmarks/parity.py --rows 100000
    python benchmarks/parity.py --every-row         # batches of 1 and 7 on all rows too: minutes

Rows are drawn from the simulated census. A third of their values are replaced by special ones:
thresholds of the base model and of the learners, the float32 numbers beside them, missing and
infinite values, categories that no model has seen; base scores by thresholds of the level sets
and their neighbours. Margins (float64), scores (float32) and labels of onnxruntime are compared
with Python's for several batch sizes on one and two threads; every row counts that differs in
any bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost

import recalibrate as rc
from recalibrate.graph import ServedModel, load_served
from recalibrate.graph.parity import RowMaker, model_thresholds
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]
SMALL_BATCHES = {1: 2_000, 7: 20_000}
"""Batches that are run on some of the rows only, unless asked: every call has its own cost."""
BATCHES = (1, 7, 64, 1000)
THREADS = (1, 2)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, base scores where the model takes some, and what the model says to them."""

    X: pd.DataFrame
    base: Any
    expected: dict[str, Any]


def xgboost_default(n_rows: int) -> rc.Recalibrated:
    train, calibration = (census(n_rows, seed=seed, categorical=True) for seed in (1, 2))
    base = xgboost.XGBClassifier(n_estimators=200, max_depth=6, learning_rate=0.1, n_jobs=1)
    return rc.fit(base.fit(train.X[SEEN], train.y), calibration.X, calibration.y)


def lightgbm_groups(n_rows: int) -> rc.Recalibrated:
    train, calibration = (census(n_rows, seed=seed, categorical=True) for seed in (1, 2))
    own = train.X[[*SEEN, "COW", "OCCP"]].astype({"COW": "category", "OCCP": "category"})
    base = lightgbm.LGBMClassifier(n_estimators=100, num_leaves=15, n_jobs=1, verbose=-1)
    H = rc.Groups("SEX", "RAC1P", "SEX*MAR", "AGEP < 25", "WKHP >= 40 and SEX == 'female'")
    return rc.fit(base.fit(own, train.y), calibration.X, calibration.y, H)


def scores_linear(n_rows: int) -> rc.Recalibrated:
    calibration = census(n_rows, seed=2, categorical=True)
    H = rc.Linear(features=[*SEEN, "SEX", "MAR"], base_score=True)
    loop = rc.Loop(levels=5, max_rounds=5)
    rows = calibration.X, calibration.y
    return rc.fit(calibration.scores, *rows, H, validation=False, loop=loop)


def xgboost_rounded(n_rows: int) -> rc.Recalibrated:
    train, calibration = (census(n_rows, seed=seed, categorical=True) for seed in (1, 2))
    base = xgboost.XGBClassifier(n_estimators=50, max_depth=4, n_jobs=1)
    H = rc.Trees(depth=3)
    loop = rc.Loop(rounded=True, levels=50, max_rounds=10)
    base.fit(train.X[SEEN], train.y)
    return rc.fit(base, calibration.X, calibration.y, H, validation=False, loop=loop)


CASES: dict[str, Callable[[int], rc.Recalibrated]] = {
    "xgboost, default fit": xgboost_default,
    "lightgbm with categories, groups": lightgbm_groups,
    "scores, linear": scores_linear,
    "xgboost, rounded trees": xgboost_rounded,
}


def draw_rows(model: rc.Recalibrated, served: ServedModel, n_rows: int) -> Rows:
    """Real rows, of which a third of the values are special ones."""
    special = RowMaker(model, served.inputs, model_thresholds(model)).make()
    rng = np.random.default_rng(0)
    drawn = census(n_rows, seed=3, categorical=True)
    rows = pd.DataFrame(index=drawn.X.index)
    for name in special.X:
        values = drawn.X[name].to_numpy()
        values = values.astype(object if values.dtype.kind not in "if" else np.float64)
        swap = rng.random(n_rows) < 1 / 3
        values[swap] = rng.choice(special.X[name].to_numpy(), int(swap.sum()))
        rows[name] = values
    base = None
    if special.base is not None:
        swap = rng.random(n_rows) < 1 / 3
        base = np.where(swap, rng.choice(special.base, n_rows), drawn.scores)
    mean = model.predict(rows, base=base)
    expected = {
        "score_margin": model.margins(rows, base=base),
        "score": mean.astype(np.float32),
        "label": (mean > 0.5).astype(np.int64),
    }
    return Rows(rows, base, expected)


def count_differing(
    served: ServedModel, rows: Rows, *, every_row: bool
) -> Iterator[tuple[int, int, int]]:
    """Batch size, rows that were run, and rows that differ."""
    feed = served.feed(rows.X, base=rows.base)
    n_rows = len(rows.X)
    for size in (*BATCHES, n_rows):
        last = n_rows if every_row else min(n_rows, SMALL_BATCHES.get(size, n_rows))
        wrong = 0
        for start in range(0, last, size):
            part = slice(start, min(start + size, last))
            answer = served.answer({name: values[part] for name, values in feed.items()})
            differs = [answer[name] != values[part] for name, values in rows.expected.items()]
            wrong += int(np.logical_or.reduce(differs).sum())
        yield size, last, wrong


def compare(name: str, n_rows: int, fit_rows: int, *, every_row: bool) -> int:
    """Print the rows of one case that differ, and return how many there are."""
    model = CASES[name](fit_rows)
    graph = model.to_onnx().SerializeToString()
    rows = draw_rows(model, load_served(graph), n_rows)
    print(f"{name}: {model.n_rounds_} rounds, {model.n_learners_} learners")
    total = 0
    for threads in THREADS:
        served = load_served(graph, threads)
        for size, last, wrong in count_differing(served, rows, every_row=every_row):
            print(
                f"  threads {threads}, batch {size:>9,}: {wrong} of {last:,} rows differ",
                flush=True,
            )
            total += wrong
    return total


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to compare")
    parser.add_argument("--fit-rows", type=int, default=60_000, help="calibration rows")
    parser.add_argument("--case", choices=CASES, action="append", help="only this one")
    parser.add_argument("--every-row", action="store_true", help="small batches on all rows too")
    chosen = parser.parse_args(arguments)
    total = sum(
        compare(name, chosen.rows, chosen.fit_rows, every_row=chosen.every_row)
        for name in chosen.case or CASES
    )
    print(f"{total} rows differ")
    return total


if __name__ == "__main__":
    raise SystemExit(1 if main() else 0)
