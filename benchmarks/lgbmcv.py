"""Time of the default fit and of its predictions, side by side with LightGBM and MCGrad.

``lgbmcv`` is what a practitioner would do: LightGBM on the features and the base score, started
at the base score, cross-validated, refitted with the mean best number of trees. Cases are those
of ``quality.py``. Both take turns, the best of a few runs counts, and wall-clock and processor
time are printed: on a busy machine the latter is the one to look at. Needs lightgbm. MCGrad runs in
an environment of its own (``pip install torch==2.13.0``, then ``pip install mcgrad``), after them.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from measuring import Seconds, ask_child, best_of, timed
from quality import fit_model, log_odds, warm_up
from quality_cases import Case, Floats, case_parser, find_pairs
from quality_figures import SMALLEST
from sklearn.model_selection import KFold

FOLDS, MOST_TREES, PATIENCE = 5, 2000, 30
PREDICTED_ROWS = 100_000
SCORE = "base score"


@dataclass(frozen=True)
class Line:
    """One base of one case."""

    case: str
    base: str
    ours: Seconds
    theirs: Seconds
    predict: Seconds  # of 100,000 rows
    trees: tuple[int, int]
    mcgrad: tuple[Seconds, Seconds] | None = None  # fit and predictions

    def record(self) -> dict[str, Any]:
        """For JSON."""
        found = {
            "case": self.case,
            "base": self.base,
            "fit": vars(self.ours),
            "lgbmcv": vars(self.theirs),
            "predict": vars(self.predict),
        }
        if self.mcgrad is not None:
            found["mcgrad"] = {"fit": vars(self.mcgrad[0]), "predict": vars(self.mcgrad[1])}
        return found


def lgbm_table(case: Case, base: str, part: int) -> tuple[pd.DataFrame, list[str], Floats]:
    """Features with the base score as one more, names of the categories, and where to start."""
    scores = case.bases[base][part]
    start = log_odds(scores) if case.task == "binary" else scores
    X = case.X[part].copy()
    named = set(case.categorical)
    texts = [str(c) for c in X if c in named or not pd.api.types.is_numeric_dtype(X[c])]
    X[texts] = X[texts].astype("category")
    X[SCORE] = start
    return X, texts, start


def predict_lgbmcv(case: Case, base: str, booster: lightgbm.Booster) -> Floats:
    """Predictions of the test rows."""
    X, _, start = lgbm_table(case, base, 1)
    margin = start + booster.predict(X, raw_score=True)
    return 1.0 / (1.0 + np.exp(-margin)) if case.task == "binary" else margin


def fit_lgbmcv(case: Case, base: str, threads: int) -> tuple[lightgbm.Booster, int]:
    """LightGBM from the base score on, and its number of trees."""
    X, texts, start = lgbm_table(case, base, 0)
    y = case.y[0]
    settings = {
        "objective": "binary" if case.task == "binary" else "regression",
        "num_leaves": 15,
        "learning_rate": 0.05,
        "min_data_in_leaf": 40,
        "lambda_l2": 10.0,
        "cat_smooth": 50.0,
        "cat_l2": 20.0,
        "num_threads": threads,
        "verbose": -1,
        "boost_from_average": False,
        "seed": 0,
    }

    def data(rows: Any, reference: Any = None) -> lightgbm.Dataset:
        return lightgbm.Dataset(
            X.iloc[rows],
            y[rows],
            init_score=start[rows],
            reference=reference,
            categorical_feature=texts,
        )

    counts = []
    for train, held_out in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        fitted = data(train)
        booster = lightgbm.train(
            settings,
            fitted,
            MOST_TREES,
            valid_sets=[data(held_out, fitted)],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        counts.append(booster.best_iteration)
    trees = max(1, round(float(np.mean(counts))))
    return lightgbm.train(settings, data(np.arange(len(y))), trees), trees


def many_rows(case: Case, base: str) -> tuple[pd.DataFrame, Floats]:
    """Test rows, as often as it takes, and their base scores."""
    at = np.arange(PREDICTED_ROWS) % len(case.y[1])
    return case.X[1].iloc[at].reset_index(drop=True), case.bases[base][1][at]


def ask_mcgrad(
    python: str,
    case: Case,
    base: str,
    used: Sequence[str],
    rows: tuple[pd.DataFrame, Floats],
    threads: int = 1,
    repeats: int = 1,
) -> tuple[Seconds, Seconds, Floats]:
    """MCGrad's fit on some columns, in another environment, and its predictions of ``rows``."""
    _, texts, _ = lgbm_table(case, base, 0)
    texts = [name for name in texts if name in used]

    def columns(X: pd.DataFrame, scores: Floats, **more: Floats) -> dict[str, Any]:
        # It returns the base unchanged, with a line on the log, where a probability is 0 or 1.
        kept = np.clip(scores, SMALLEST, 1 - SMALLEST) if case.task == "binary" else scores
        named = {str(c): X[c].astype(str) if c in texts else X[c] for c in used}
        return {name: np.asarray(values) for name, values in named.items()} | more | {"score": kept}

    given = {
        "binary": case.task == "binary",
        "rows": columns(case.X[0], case.bases[base][0], label=case.y[0]),
        "many": columns(*rows),
        "categorical": texts,
        "numerical": [name for name in used if name not in texts],
        "repeats": repeats,
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "given.pickle"
        path.write_bytes(pickle.dumps(given))
        found = ask_child(
            "mcgrad",
            [python, str(Path(__file__).with_name("mcgrad_child.py")), str(path)],
            {**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        predictions = np.load(path.with_suffix(".npy"))
    return Seconds(**found["fit"]), Seconds(**found["predict"]), predictions


def measure(case: Case, base: str, threads: int, repeats: int, mcgrad: str | None = None) -> Line:
    """Fits in turns, then predictions."""
    model, ours = timed(lambda: fit_model(case, base, threads))
    (_, trees), theirs = timed(lambda: fit_lgbmcv(case, base, threads))
    for _ in range(repeats - 1):
        ours = ours.best(timed(lambda: fit_model(case, base, threads))[1])
        theirs = theirs.best(timed(lambda: fit_lgbmcv(case, base, threads))[1])
    X, scores = many_rows(case, base)
    model.predict(X, base=scores)
    predict = best_of(2 * repeats + 1, lambda: model.predict(X, base=scores))
    other = None
    if mcgrad is not None:
        used = [str(c) for c in X]
        other = ask_mcgrad(mcgrad, case, base, used, (X, scores), threads, repeats)[:2]
    counts = (len(model.rounds.steps), trees)
    return Line(case.name, base, ours, theirs, predict, counts, other)


HEADER = (
    f"{'case / base':<24}{'ours s':>8}{'lgbmcv s':>10}{'ratio':>7}"
    f"{'CPU: ours':>11}{'lgbmcv':>8}{'ratio':>7}{'predict ms':>12}{'CPU ms':>8}"
    f"{'steps, trees':>14}"
)


def show(line: Line) -> str:
    """A line of the table."""
    ours, theirs, predict = line.ours, line.theirs, line.predict
    return (
        f"{line.case + ' / ' + line.base:<24}{ours.wall:>8.2f}{theirs.wall:>10.2f}"
        f"{ours.wall / theirs.wall:>7.2f}{ours.cpu:>11.2f}{theirs.cpu:>8.2f}"
        f"{ours.cpu / theirs.cpu:>7.2f}{1e3 * predict.wall:>12.0f}{1e3 * predict.cpu:>8.0f}"
        f"{line.trees[0]:>8}, {line.trees[1]}" + show_mcgrad(line)
    )


def show_mcgrad(line: Line) -> str:
    """How long MCGrad takes, if it was asked."""
    if line.mcgrad is None:
        return ""
    fit, predict = line.mcgrad
    return (
        f"   MCGrad fit {fit.wall:.2f} s ({fit.wall / line.ours.wall:.1f} times ours), "
        f"predict {1e3 * predict.wall:.0f} ms ({predict.wall / line.predict.wall:.1f})"
    )


def main(argv: Sequence[str] | None = None) -> list[Line]:
    """Measure and print."""
    made = case_parser(__doc__, rows=60_000)
    made.add_argument("--repeats", type=int, default=3, help="runs of each; the best counts")
    made.add_argument("--mcgrad", help="python of an environment with mcgrad")
    made.add_argument("--json", type=Path, help="file to write all figures to")
    arguments = made.parse_args(argv)
    warm_up(arguments.threads)
    print(HEADER, flush=True)
    lines = []
    for case, base in find_pairs(arguments):
        how = (arguments.threads, arguments.repeats, arguments.mcgrad)
        lines.append(measure(case, base, *how))
        print(show(lines[-1]), flush=True)
    if lines:
        ratios = [[line.ours.wall / line.theirs.wall for line in lines]]
        ratios.append([line.ours.cpu / line.theirs.cpu for line in lines])
        worst = [max(each) for each in ratios]
        above = [sum(ratio > 1 for ratio in each) for each in ratios]
        print(
            f"{len(lines)} pairs; slower than lgbmcv on {above[0]} by the clock (worst "
            f"{worst[0]:.2f}), on {above[1]} by processor time (worst {worst[1]:.2f})"
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([line.record() for line in lines], indent=1))
    return lines


if __name__ == "__main__":
    main()
