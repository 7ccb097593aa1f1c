"""Hypothesis strategies shared by the tests: small awkward tables, labels, scores, weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.classes.trees import Trees

CATEGORIES = "pqrst"


@dataclass(frozen=True, eq=False)
class Case:
    """Rows to fit on, and the same number of columns on other rows."""

    X: pd.DataFrame
    y: np.ndarray
    base: np.ndarray
    weight: np.ndarray | None
    X_other: pd.DataFrame
    base_other: np.ndarray

    def __repr__(self) -> str:
        weight = None if self.weight is None else self.weight.tolist()
        return (
            f"Case({self.X.to_dict('list')}, y={self.y.tolist()}, base={self.base.tolist()}, "
            f"weight={weight}, X_other={self.X_other.to_dict('list')}, "
            f"base_other={self.base_other.tolist()})"
        )


def frames(n_rows: int) -> st.SearchStrategy[pd.DataFrame]:
    """Tables with ties, missing values, and categories of which some have no rows."""
    missing = st.just(float("nan"))
    whole = st.integers(-2, 3).map(float) | missing
    halves = st.sampled_from([-1.5, -0.25, 0.0, 0.125, 1.0, 1e6])
    letters = st.sampled_from([*CATEGORIES, None])

    def column(elements: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
        return st.lists(elements, min_size=n_rows, max_size=n_rows)

    def frame(whole: list[float], halves: list[float], letters: list[str | None]) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "whole": np.array(whole, dtype=float),
                "halves": np.array(halves, dtype=float),
                "letter": pd.Categorical(letters, categories=list(CATEGORIES)),
            }
        )

    return st.builds(frame, column(whole), column(halves), column(letters))


def labels(n_rows: int, *, binary: bool | None = None) -> st.SearchStrategy[np.ndarray]:
    """0/1 labels, or labels in [0, 1] with and without short binary fractions."""
    zero_one = st.sampled_from([0.0, 1.0])
    soft = st.sampled_from([0.0, 0.125, 0.3, 0.5, 2 / 3, 1.0])
    kinds = {True: [zero_one], False: [soft], None: [zero_one, soft]}[binary]
    return st.one_of([hnp.arrays(float, n_rows, elements=kind) for kind in kinds])


def scores(n_rows: int) -> st.SearchStrategy[np.ndarray]:
    """Probabilities, with some on borders of level sets."""
    borders = st.sampled_from([0.0, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0])
    return hnp.arrays(float, n_rows, elements=borders | st.floats(0.0, 1.0))


def weights(n_rows: int) -> st.SearchStrategy[np.ndarray | None]:
    """No weights, whole ones, or any positive ones that sums can hold."""
    whole = st.sampled_from([1.0, 2.0, 3.0])
    anything = st.floats(1e-6, 1e6)
    return st.none() | st.one_of(
        [hnp.arrays(float, n_rows, elements=kind) for kind in (whole, anything)]
    )


@st.composite
def cases(draw: st.DrawFn, *, binary: bool | None = None, most_rows: int = 24) -> Case:
    """A table with labels, base scores and weights, and other rows to be scored."""
    n = draw(st.integers(1, most_rows))
    others = draw(st.integers(1, 6))
    return Case(
        draw(frames(n)),
        draw(labels(n, binary=binary)),
        draw(scores(n)),
        draw(weights(n)),
        draw(frames(others)),
        draw(scores(others)),
    )


def tree_specs() -> st.SearchStrategy[Trees]:
    """Trees of depth 1 to 3 with their limits."""
    return st.builds(
        Trees,
        depth=st.integers(1, 3),
        leaves=st.none() | st.integers(2, 6),
        bins=st.sampled_from([255, 3, "exact"]),
        min_leaf_rows=st.sampled_from([1, 1, 2, 4]),
        one_vs_rest=st.sampled_from([0, 10]),
        category_smoothing=st.sampled_from([0.0, 10.0]),
    )


def people(n: int, seed: int, *, binary: bool, weighted: bool) -> Case:
    rng = np.random.default_rng(seed)

    def frame(n: int) -> pd.DataFrame:
        age = rng.integers(18, 70, n).astype(float)
        age[rng.random(n) < 0.1] = np.nan
        letters = rng.choice([*CATEGORIES, None], n, p=[0.4, 0.2, 0.1, 0.1, 0.05, 0.15])
        return pd.DataFrame(
            {
                "age": age,
                "hours": rng.normal(size=n).round(3),
                "letter": pd.Categorical(letters, categories=list(CATEGORIES)),
                "code": rng.integers(0, 12, n).astype(str),
            }
        )

    X, X_other = frame(n), frame(200)
    X_other.loc[:5, "code"] = "never seen"
    old = X["age"].fillna(30).to_numpy() > 45
    odd = X["code"].isin(["1", "3", "5", "7"]).to_numpy()
    mean = 0.2 + 0.3 * (old ^ odd) + 0.2 * (X["letter"] == "p").to_numpy()
    base, base_other = rng.beta(2, 3, n), rng.beta(2, 3, 200)
    base[::2] = np.rint(base[::2] * 20) / 20  # half of these are thresholds of ten levels
    mean = np.clip(0.7 * mean + 0.3 * base, 0, 1)
    y = (rng.random(n) < mean).astype(float) if binary else rng.beta(4 * mean, 4 * (1 - mean))
    weight = rng.gamma(2.0, size=n) if weighted else None
    return Case(X, y, base, weight, X_other, base_other)
