"""Cases to measure on: calibration and test rows with base scores, from a folder or simulated.

A folder holds, for every case, ``NAME.parquet`` with features, ``y``, ``split`` ("cal" or "test"),
scores ``base_<base>`` and, if there are any, predictions of other methods ``<reference>_<base>``;
and ``NAME.json`` with ``task`` ("binary", "regression" or "counts"), ``cat``, ``num`` (features)
and ``groups`` (columns). Counts have a column ``exposure``; their scores and predictions are rates.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from recalibrate.simulate import census

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]

LEAST_SHARE = 0.005  # of the test rows, for a segment to be looked at
MOST_VALUES = 12  # a numeric group column with more distinct values is cut into four bands


@dataclass(frozen=True, eq=False)
class Segment:
    """Some of the test rows; ``columns`` is how many columns define them (0: everyone)."""

    label: str
    rows: Mask
    columns: int


@dataclass(frozen=True, eq=False)
class Case:
    """Calibration and test rows of one data set.

    ``bases`` holds the scores (calibration, test) by base; ``stored`` other methods' test
    predictions, and the seconds their fits took where they were made, by base and method.
    """

    name: str
    task: str
    X: tuple[pd.DataFrame, pd.DataFrame]
    y: tuple[Floats, Floats]
    groups: tuple[str, ...]
    categorical: tuple[str, ...]
    bases: dict[str, tuple[Floats, Floats]]
    stored: dict[str, dict[str, tuple[Floats, float]]] = field(default_factory=dict)
    exposure: tuple[Floats, Floats] | None = None


def read_case(folder: Path, name: str) -> Case:
    """One case of a folder."""
    frame = pd.read_parquet(folder / f"{name}.parquet")
    about = json.loads((folder / f"{name}.json").read_text())
    features = [*about["cat"], *about["num"]]
    if missing := sorted({*features, "y", "split"} - set(frame.columns)):
        raise SystemExit(f"case {name}: {name}.parquet has no column {', '.join(missing)}")
    if not about["groups"] or not set(about["groups"]) <= set(features):
        raise SystemExit(
            f"case {name}: groups must name columns of cat or num, got {about['groups']}"
        )
    tasks = ("binary", "regression", "counts")
    if about["task"] not in tasks:
        raise SystemExit(f"case {name}: task must be {', '.join(tasks)}, got {about['task']!r}")
    cal, test = (frame[frame["split"] == part].reset_index(drop=True) for part in ("cal", "test"))

    def finite(rows: pd.DataFrame, column: str) -> Floats:
        values = rows[column].to_numpy(np.float64)
        if not (len(values) and np.isfinite(values).all()):
            raise SystemExit(f"case {name}: {column} needs cal and test rows, all of them finite")
        return values

    own = {*features, "y", "split", "exposure"}
    scores = [column for column in frame.columns if column not in own]
    bases = {
        column.removeprefix("base_"): (finite(cal, column), finite(test, column))
        for column in scores
        if column.startswith("base_")
    }
    if not bases:
        raise SystemExit(f"case {name}: {name}.parquet has no scores base_<base>")
    seconds = about.get("seconds", {})
    stored = {
        base: {
            column.removesuffix(f"_{base}"): (
                finite(test, column),
                float(seconds.get(column, {}).get("fit", np.nan)),
            )
            for column in scores
            if column.endswith(f"_{base}") and not column.startswith("base_")
        }
        for base in bases
    }
    return Case(
        name=name,
        task=about["task"],
        X=(cal[features], test[features]),
        y=(finite(cal, "y"), finite(test, "y")),
        groups=tuple(about["groups"]),
        categorical=tuple(c for c in about["cat"] if pd.api.types.is_numeric_dtype(frame[c])),
        bases=bases,
        stored=stored,
        exposure=(finite(cal, "exposure"), finite(test, "exposure"))
        if about["task"] == "counts"
        else None,
    )


def simulate_case(rows: int) -> Case:
    """A simulated census with two bases, one too simple and one over-fitted.

    A third of the rows trains the bases, a third calibrates, a third tests.
    """
    train, cal, test = (census(rows // 3, seed=seed) for seed in (1, 2, 3))
    few = ["AGEP", "SCHL", "WKHP"]
    simple = make_pipeline(StandardScaler(), LogisticRegression()).fit(train.X[few], train.y)
    tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0).fit(train.X, train.y)

    def scores(model: Any, columns: list[Any]) -> tuple[Floats, Floats]:
        first, second = (model.predict_proba(part.X[columns])[:, 1] for part in (cal, test))
        return first, second

    return Case(
        name="simulated census",
        task="binary",
        X=(cal.X, test.X),
        y=(cal.y, test.y),
        groups=("SEX", "RAC1P", "AGEP", "MAR", "SCHL"),
        categorical=("COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"),
        bases={"lr": scores(simple, few), "tree": scores(tree, train.X.columns.to_list())},
    )


def group_codes(
    values: pd.Series[Any], others: pd.Series[Any] | None = None
) -> tuple[Codes, list[str]]:
    """Group of every row, and the groups' names; of ``others`` in the groups of ``values``.

    Categories and few distinct numbers are taken as they are, other numbers in four quantile
    bands, where a missing number stands with the largest. -1 is a category that others have alone.
    """
    others = values if others is None else others
    if values.dtype.kind in "iuf" and values.nunique() > MOST_VALUES:
        edges = np.unique(np.quantile(values.dropna(), [0.25, 0.5, 0.75]))
        ends = ["-inf", *(f"{edge:g}" for edge in edges), "inf"]
        bands = [f"{values.name} in [{low}, {high})" for low, high in pairwise(ends)]
        return np.searchsorted(edges, others.to_numpy(), side="right"), bands
    names = pd.Index(pd.unique(values))
    return names.get_indexer(pd.Index(others)), [f"{values.name}={name}" for name in names]


def find_segments(X: pd.DataFrame, columns: Sequence[str]) -> list[Segment]:
    """Everyone, every group, and every crossing of two columns' groups that is large enough."""
    coded = {column: group_codes(X[column]) for column in columns}
    found = [Segment("everyone", np.ones(len(X), dtype=bool), 0)]
    for size in (1, 2):
        for chosen in combinations(columns, size):
            code = np.zeros(len(X), dtype=np.intp)
            labels = [""]
            for codes, names in (coded[column] for column in chosen):
                code = code * len(names) + codes
                labels = [f"{a} and {b}" if a else b for a in labels for b in names]
            for value in np.unique(code):
                rows = code == value
                if LEAST_SHARE <= rows.mean() < 1.0:
                    found.append(Segment(labels[value], rows, size))
    return found


def calibration_rows(case: Case, label: str) -> Mask:
    """The calibration rows of a single column's group of test rows."""
    cal, test = case.X
    for column in case.groups:
        codes, names = group_codes(test[column], cal[column])
        if label in names:
            return np.equal(codes, names.index(label))
    return np.ones(len(cal), dtype=bool)


def find_cases(folder: Path | None, chosen: list[str] | None, rows: int) -> Iterator[Case]:
    """The folder's cases, one at a time, or the simulated one."""
    if folder is None:
        yield simulate_case(rows)
        return
    found = sorted(path.stem for path in folder.glob("*.json"))
    if not found or (unknown := sorted(set(chosen or []) - set(found))):
        said = f"no case {', '.join(unknown)}" if found else "no cases (NAME.json, NAME.parquet)"
        raise SystemExit(f"{folder} has {said}; it has {', '.join(found) or 'nothing'}")
    for name in chosen or found:
        yield read_case(folder, name)


def case_parser(about: str | None, rows: int) -> argparse.ArgumentParser:
    """The command line of a benchmark on cases; ``rows`` of the simulated one by default."""
    made = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    made.add_argument("folder", nargs="?", type=Path, help="cases; default: a simulated one")
    made.add_argument("--cases", type=lambda text: text.split(","), help="as a,b; default all")
    made.add_argument("--bases", type=lambda text: text.split(","), help="as a,b; default all")
    made.add_argument("--rows", type=int, default=rows, help="rows of the simulated case")
    made.add_argument("--threads", type=int, default=2)
    return made


def find_pairs(arguments: argparse.Namespace) -> Iterator[tuple[Case, str]]:
    """Every chosen base of every chosen case."""
    for case in find_cases(arguments.folder, arguments.cases, arguments.rows):
        for base in case.bases:
            if arguments.bases is None or base in arguments.bases:
                yield case, base
