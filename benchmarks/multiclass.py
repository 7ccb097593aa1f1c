"""How good are the probabilities of several classes, on new rows?

    python benchmarks/multiclass.py                      # a generated case
    python benchmarks/multiclass.py FOLDER               # all cases of a folder
    python benchmarks/multiclass.py FOLDER --halves      # calibration rows only, half against half
    python benchmarks/multiclass.py FOLDER --case letter
    python benchmarks/multiclass.py FOLDER --lightgbm    # beside lgbmcv, in processor time

A case is NAME.parquet with features, y in 0..K-1, split in {cal, test} and base_B_k, the
probability of class k by the base model B; columns REF_B_k, where there are any, are other
post-processors' probabilities of the test rows. NAME.json names classes, bases, features ("num",
"cat") and the columns whose groups are looked at ("groups").

Printed are, for the base, every reference and the default fit: log loss, Brier score, accuracy,
class-wise ECE, and cell_excess, the mean squared residual of cells (group x class x decile of the
class's probability) in units of its variance for a calibrated model, minus 1. ``lgbmcv`` is what a
practitioner would do: LightGBM multiclass on features and log-probabilities, started at the base,
with as many trees as five folds say (settings as in ``lgbmcv.py``). Both run on one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import recalibrate as rc
from recalibrate.core.levels import softmax

Floats = NDArray[np.float64]
BINS = 15
LEAST_SHARE, LEAST_CELL = 0.005, 25


@dataclass(frozen=True, eq=False)
class Case:
    """Rows to fit, rows to judge, and the base models' probabilities of both."""

    name: str
    base: str
    fit: pd.DataFrame
    new: pd.DataFrame
    y: NDArray[np.int64]
    outcome: NDArray[np.int64]
    scores: tuple[Floats, Floats]
    references: dict[str, Floats]
    groups: list[str]


def generated(rows: int = 6000, seed: int = 0) -> Iterator[Case]:
    """Four classes; a base that is too sure of itself and does not see a group."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(2 * rows, 3)), columns=["a", "b", "c"])
    X["g"] = rng.choice(list("uvwx"), 2 * rows)
    logits = np.column_stack([X["a"], X["b"] - X["a"] / 2, X["c"] * X["b"], 0 * X["a"]])
    shift = np.column_stack([X["g"] == name for name in "uvwx"]).astype(float)
    truth = softmax(logits + shift)
    y = (truth.cumsum(axis=1) > rng.random((2 * rows, 1))).argmax(axis=1)
    base, first, last = softmax(2 * logits), slice(0, rows), slice(rows, None)
    parts = X[first], X[last].reset_index(drop=True)
    references = {"truth": truth[last]}
    yield Case(
        "generated", "sure", *parts, y[first], y[last], (base[first], base[last]), references, ["g"]
    )


def stored(folder: Path, name: str, halves: bool, seed: int) -> Iterator[Case]:
    """The cases of a file, one for every base model."""
    table, facts = pd.read_parquet(folder / f"{name}.parquet"), _facts(folder, name)
    count = len(facts["classes"])
    cal = table[table["split"] == "cal"].reset_index(drop=True)
    new = table[table["split"] == "test"].reset_index(drop=True)
    if halves:
        chosen = np.random.default_rng(seed).random(len(cal)) < 0.5
        cal, new = (cal[rows].reset_index(drop=True) for rows in (chosen, ~chosen))
    features = [c for c in facts["num"] + facts["cat"] if c in table]
    for base in facts["bases"]:
        found = {c[: -len(f"_{base}_0")] for c in table if c.endswith(f"_{base}_0")} - {"base"}
        references = {} if halves else {r: _columns(new, f"{r}_{base}", count) for r in found}
        scores = tuple(_columns(part, f"base_{base}", count) for part in (cal, new))
        yield Case(
            name,
            base,
            cal[features],
            new[features],
            cal["y"].to_numpy(),
            new["y"].to_numpy(),
            (scores[0], scores[1]),
            dict(sorted(references.items())),
            facts["groups"],
        )


def _facts(folder: Path, name: str) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = json.loads((folder / f"{name}.json").read_text())
    return facts


def _columns(table: pd.DataFrame, start: str, count: int) -> Floats:
    p = table[[f"{start}_{k}" for k in range(count)]].to_numpy(float)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def groups_of(X: pd.DataFrame, columns: list[str]) -> list[NDArray[np.intp]]:
    """Rows of everyone, of every group and of every pair of groups that is large enough."""
    codes = {}
    for name in columns:
        values = X[name]
        if values.dtype.kind in "if" and values.nunique() > 12:
            codes[name] = pd.qcut(values, 4, labels=False, duplicates="drop").fillna(-1).to_numpy()
        else:
            codes[name] = pd.factorize(values, use_na_sentinel=False)[0]
    found = [np.arange(len(X))]
    for size in (1, 2):
        for chosen in combinations(columns, size):
            keys = pd.DataFrame({name: codes[name] for name in chosen})
            for rows in keys.groupby(list(chosen)).indices.values():
                if LEAST_SHARE * len(X) <= len(rows) < len(X):
                    found.append(np.asarray(rows))
    return found


def measure(p: Floats, y: NDArray[np.int64], rows_of: list[NDArray[np.intp]]) -> list[float]:
    """Log loss, Brier score, accuracy, class-wise ECE and cell_excess."""
    truth = np.eye(p.shape[1])[y]
    loss = -float(np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-6))))
    cell = np.arange(p.shape[1]) * BINS + np.minimum((p * BINS).astype(int), BINS - 1)
    ece = np.abs(np.bincount(cell.ravel(), weights=(p - truth).ravel())).sum() / p.size
    brier = float(np.mean(np.sum((p - truth) ** 2, axis=1)))
    return [loss, brier, float(np.mean(p.argmax(1) == y)), float(ece), excess(truth, p, rows_of)]


def excess(truth: Floats, p: Floats, rows_of: list[NDArray[np.intp]]) -> float:
    """Mean squared residual of cells in units of its variance if calibrated, minus 1."""
    count = p.shape[1]
    cell = np.empty(p.shape, np.int64)
    for k in range(count):
        edges = np.unique(np.quantile(p[:, k], np.arange(1, 10) / 10))
        cell[:, k] = 10 * k + np.searchsorted(edges, p[:, k], side="right")
    top = bottom = 0.0
    for rows in rows_of:
        where = cell[rows].ravel()
        size = np.bincount(where, minlength=10 * count) >= LEAST_CELL
        residual, noise = (truth - p)[rows].ravel(), (p * (1 - p))[rows].ravel()
        r = np.bincount(where, weights=residual, minlength=10 * count)[size]
        v = np.bincount(where, weights=noise, minlength=10 * count)[size]
        top += float(np.sum(r**2 / np.maximum(v, 1.0)))
        bottom += float(np.sum(np.minimum(v, 1.0)))
    return top / bottom - 1.0


def fit_lgbmcv(case: Case) -> tuple[int, Callable[[], Floats]]:
    """Number of trees for each class after all are fitted, and what gives the new predictions."""
    import lightgbm

    def read(rows: pd.DataFrame, scores: Floats) -> tuple[pd.DataFrame, Floats]:
        X, start = rows.copy(), np.log(np.maximum(scores, 1e-6))
        texts = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
        X[texts] = X[texts].astype("category")
        X[[f"score {k}" for k in range(start.shape[1])]] = start
        return X, start

    X, start = read(case.fit, case.scores[0])
    settings = {
        "objective": "multiclass",
        "num_class": start.shape[1],
        "num_leaves": 15,
        "learning_rate": 0.05,
        "min_data_in_leaf": 40,
        "lambda_l2": 10.0,
        "cat_smooth": 50.0,
        "cat_l2": 20.0,
        "num_threads": 1,
        "verbose": -1,
        "boost_from_average": False,
        "seed": 0,
    }
    rows = lightgbm.Dataset(X, case.y, init_score=start, free_raw_data=False)
    stop = [lightgbm.early_stopping(30, verbose=False)]
    curve = lightgbm.cv(settings, rows, 2000, nfold=5, callbacks=stop, seed=0)
    trees = len(next(iter(curve.values())))
    booster = lightgbm.train(settings, rows, trees)

    def predict() -> Floats:
        X, start = read(case.new, case.scores[1])
        return softmax(booster.predict(X, raw_score=True) + start)

    return trees, predict


def judge(case: Case, beside: bool) -> float:
    """Print a case's lines; log loss of the default fit over that of the best reference."""
    rows_of = groups_of(case.new, case.groups)
    classes = list(range(case.scores[0].shape[1]))
    start = time.process_time()
    model = rc.fit(case.scores[0], case.fit, case.y, classes=classes, engine=rc.Engine(threads=1))
    took = f"  {time.process_time() - start:6.1f} s, {model.n_learners_} tables"
    if beside:
        start = time.process_time()
        trees, _ = fit_lgbmcv(case)
        took += f"; lgbmcv {time.process_time() - start:6.1f} s, {trees * len(classes)} trees"
    found = {"base": case.scores[1], **case.references}
    found["recalibrate"] = model.predict(case.new, base=case.scores[1])
    losses = {}
    for name, p in found.items():
        numbers = measure(p, case.outcome, rows_of)
        losses[name] = numbers[0]
        shown = "  ".join(f"{number:9.4f}" for number in numbers)
        end = took if name == "recalibrate" else ""
        print(f"{case.name:16s} {case.base:6s} {name:12s} {shown}{end}", flush=True)
    others = [losses[name] for name in case.references if name != "truth"] or [losses["base"]]
    return losses["recalibrate"] / min(others)


def main() -> None:
    """Read the arguments, print a line per post-processor, and how often the fit is the best."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--case", action="append", help="only this case of the folder")
    parser.add_argument("--halves", action="store_true", help="only calibration rows")
    parser.add_argument("--lightgbm", action="store_true", help="time LightGBM side by side")
    parser.add_argument("--rows", type=int, default=6000, help="of the generated case")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(
        f"{'case':16s} {'base':6s} {'':12s}   log loss      Brier   accuracy  class ECE     excess"
    )
    if args.folder is None:
        cases = generated(args.rows, args.seed)
    else:
        names = args.case or sorted(path.stem for path in args.folder.glob("*.json"))
        cases = (c for name in names for c in stored(args.folder, name, args.halves, args.seed))
    ratios = np.array([judge(case, args.lightgbm) for case in cases])
    best, most = int(np.sum(ratios < 1)), 100 * (ratios.max() - 1)
    print(
        f"below the best of the others on {best} of {len(ratios)}, at most {most:+.2f} % above it"
    )


if __name__ == "__main__":
    main()
