"""Writes the stored files of the current format version: run once, when a version is new.

    python tests/files/make_stored.py

Files of a version that was released are never written again: `test_stored.py` proves that they
still load and still give the predictions that they gave when they were saved.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from settings import fit_with
from sklearn.tree import DecisionTreeClassifier

import recalibrate as rc
from recalibrate.files import VERSION

FOLDER = Path(__file__).parent / "data" / f"v{VERSION}"


def people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "city": rng.choice(list("abcdefghijkl"), n),
            "x": rng.normal(size=n).astype(np.float32).astype(float),
        }
    )
    score = np.round(1 / (1 + np.exp(-0.5 * X["x"].to_numpy())), 6)
    return X, score, (rng.random(n) < score * (0.6 + 0.4 * (X["sex"] == "F"))) * 1.0


def make_models() -> dict[str, rc.Recalibrated]:
    X, score, y = people(1500, seed=0)
    plain = {"validation": False, "max_rounds": 3, "levels": 3}
    classifier = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[["age", "x"]], y)
    groups = rc.Groups("sex", "age", "sex*(x < 0)")
    return {
        "default": rc.fit(0.5 * score, X, y),
        "trees": fit_with(score, X, y, rc.Trees(depth=3, base_score=True), **plain),
        "orders": fit_with(score, X, y, rc.Trees(depth=3, score_order=2, one_vs_rest=12), **plain),
        "linear": fit_with(score, X, y, rc.Linear(base_score=True), **plain),
        "groups": fit_with(score, X, y, groups, **plain),
        "paper": rc.fit(score, X, y, rc.Groups("sex"), alpha=0.05, validation=0.3),
        "regression": fit_with(100 * score, X, 90 * y + X["age"], groups, **plain),
        "graph": fit_with(classifier, X, y, groups, **plain),
    }


def main() -> None:
    FOLDER.mkdir(parents=True)  # fails if the version has its files already
    rows, score, _ = people(40, seed=1)
    rows.loc[:2, "x"] = [np.nan, np.inf, -np.inf]
    rows.loc[:2, "sex"] = ["other", None, "F"]
    rows.to_csv(FOLDER / "rows.csv", index=False)
    expected = {"base": score.tolist()}
    for name, model in make_models().items():
        path = model.save(FOLDER / f"{name}.rcal")
        base = None if name == "graph" else 100 * score if name == "regression" else score
        expected[name] = {
            "predictions": rc.load(path).predict(rows, base=base).tolist(),
            "summary": model.summary(),
        }
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
