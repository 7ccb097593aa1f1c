"""Does the held-out line of a certificate cover the truth?

    python benchmarks/certificate.py --draws 200

Populations whose means are known: a model is fitted by Algorithm 1 with held-out rows, and what its
class could still gain on the population (B times the largest fall of the squared error by functions
of H, one for every level set; no K2 is larger) is compared with the certificate's limits.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import recalibrate as rc

Floats = NDArray[np.float64]
POPULATION = 50_000


@dataclass(frozen=True)
class Kind:
    """A population, a class, and a function from level sets and means to the largest gain."""

    name: str
    H: Any
    alpha: float
    fitted: int
    held_out: int
    mean: Callable[[pd.DataFrame], Floats]
    design: Callable[[pd.DataFrame], Floats]


def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "group": rng.choice(list("abcd"), n),
            "age": rng.integers(0, 50, n).astype(float),
            "score": rng.random(n),
        }
    )


def score_of(X: pd.DataFrame) -> Floats:
    return X["score"].to_numpy()


def noise(X: pd.DataFrame) -> Floats:
    return np.full(len(X), 0.5)


def biased(X: pd.DataFrame) -> Floats:
    shift = np.where(X["group"] == "a", 0.15, -0.05) + 0.004 * (X["age"] - 25)
    return np.clip(X["score"] + shift, 0, 1).to_numpy()


def groups(X: pd.DataFrame) -> Floats:
    return np.column_stack([X["group"] == each for each in "abcd"]).astype(float)


def lines(X: pd.DataFrame) -> Floats:
    return np.column_stack([np.ones(len(X)), X["age"] / 50])


KINDS = (
    Kind("noise, groups, 2,000 rows", rc.Groups("group"), 0.01, 2000, 2000, noise, groups),
    Kind("noise, groups, 500 held out", rc.Groups("group"), 0.02, 2000, 500, noise, groups),
    Kind("biased base, groups", rc.Groups("group"), 0.05, 2000, 2000, biased, groups),
    Kind("biased base, 100 held out", rc.Groups("group"), 0.1, 1000, 100, biased, groups),
    Kind("biased base, linear", rc.Linear(features=["age"]), 0.05, 2000, 1000, biased, lines),
    Kind("many rows, groups", rc.Groups("group"), 0.05, 20000, 20000, biased, groups),
)


def largest_gain(model: Any, kind: Kind, X: pd.DataFrame) -> float:
    """By least squares on the means of every level set of the population."""
    f, mean, design = model.predict(X), kind.mean(X), kind.design(X)
    total = 0.0
    for v in np.unique(f):
        rows = f == v
        gap = mean[rows] - v
        found = design[rows] @ np.linalg.lstsq(design[rows], gap, rcond=None)[0]
        total += float(gap @ gap - (gap - found) @ (gap - found))
    return total / len(X)


def trial(kind: Kind, seed: int) -> tuple[float, float, float, float]:
    """The truth, and what the held-out line says: estimate, low and high."""
    rng = np.random.default_rng(seed)
    X, new = draw(rng, kind.fitted), draw(rng, kind.held_out)
    y, new_y = (rng.random(len(each)) < kind.mean(each) for each in (X, new))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = rc.fit(score_of, X, y, kind.H, alpha=kind.alpha, validation=(new, new_y))
    found = model.certificate_.held_out
    truth = largest_gain(model, kind, draw(np.random.default_rng(seed + 10**6), POPULATION))
    return truth, found.estimate, found.low, found.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200, help="simulations of every kind")
    draws = parser.parse_args().draws
    print(f"{draws} simulations each; shares of those in which the limits cover\n")
    print(
        f"{'':<30} {'truth':>9} {'estimate':>9} {'high':>9}  {'above':>6} {'below':>6} {'both':>6}"
    )
    for kind in KINDS:
        found = np.array([trial(kind, seed) for seed in range(draws)])
        truth, guess, low, high = found.T
        above, below = high >= truth, low <= truth
        means = " ".join(f"{value:9.2g}" for value in (truth.mean(), guess.mean(), high.mean()))
        shares = " ".join(f"{each.mean():6.1%}" for each in (above, below, above & below))
        print(f"{kind.name:<30} {means}  {shares}", flush=True)


if __name__ == "__main__":
    main()
