"""Kinds of data that an audit meets, with true means: calibrated and not, of many noises.

A kind draws rows of known truth: predictions, outcomes, and the means that outcomes vary around.
True gaps of groups are those of a million rows, not those of the rows at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

POPULATION = 1_000_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Predictions, true means, outcomes, and further arguments of `audit`."""

    f: np.ndarray
    mean: np.ndarray
    y: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)


Draw = Callable[[np.random.Generator, pd.DataFrame], Rows]


@dataclass(frozen=True)
class Kind:
    """How to draw, how many rows, and what is known about it."""

    draw: Draw
    calibrated: bool = True
    rows: int = 2_000
    columns: Callable[[np.random.Generator, int], pd.DataFrame] | None = None

    def table(self, rng: np.random.Generator, rows: int) -> pd.DataFrame:
        return (self.columns or people)(rng, rows)


def people(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Four columns; crossed in pairs they make about a hundred groups, some of five rows."""
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], rows),
            "race": rng.choice(list("abcde"), rows, p=[0.6, 0.25, 0.1, 0.04, 0.01]),
            "age": rng.choice(["young", "middle", "old", "eldest"], rows),
            "job": rng.choice(list("pqrs"), rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )


def many(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Five columns of ten values: 1,051 groups with their pairs."""
    return pd.DataFrame({f"c{j}": rng.choice(list("abcdefghij"), rows) for j in range(5)})


def few(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Two columns: 12 groups."""
    return people(rng, rows)[["sex", "race"]]


def sigmoid(margin: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-margin))


def events(rng: np.random.Generator, f: np.ndarray, p: np.ndarray, **options: Any) -> Rows:
    return Rows(f, p, (rng.random(len(p)) < p).astype(float), options)


def margins(rng: np.random.Generator, X: pd.DataFrame) -> np.ndarray:
    """Log-odds that differ between rows and, by their first column, between groups."""
    shift = pd.factorize(X.iloc[:, 0], sort=True)[0] % 2
    return rng.normal(-0.8, 1.0, len(X)) + 0.6 * shift


# --- 0/1 labels ----------------------------------------------------------------------------------


def binary(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    p = sigmoid(margins(rng, X))
    return events(rng, p, p)


def rare(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Outcomes of 1 in 200."""
    p = rng.beta(0.5, 99.5, len(X))
    return events(rng, p, p)


def near_certain(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Calibrated predictions, most of them near 0 or 1."""
    p = np.clip(rng.beta(0.1, 0.1, len(X)), 1e-6, 1 - 1e-6)
    return events(rng, p, p)


def overconfident(slope: float) -> Draw:
    def draw(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
        margin = margins(rng, X)
        return events(rng, sigmoid(slope * margin), sigmoid(margin))

    return draw


def one_group(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Over-confident for one race only."""
    margin = margins(rng, X)
    return events(rng, sigmoid(np.where(X["race"] == "b", 3.0, 1.0) * margin), sigmoid(margin))


def noisy(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Predictions with noise that has nothing to do with outcomes."""
    margin = margins(rng, X)
    return events(rng, sigmoid(margin + rng.normal(0, 1.5, len(X))), sigmoid(margin))


def certain(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Predictions of .01 and .99 where the truth is .1 and .9."""
    high = rng.random(len(X)) < 0.4
    return events(rng, np.where(high, 0.99, 0.01), np.where(high, 0.9, 0.1))


def weighted(spread: float) -> Draw:
    def draw(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
        p = sigmoid(margins(rng, X))
        return events(rng, p, p, sample_weight=rng.lognormal(0, spread, len(X)))

    return draw


def households(X: pd.DataFrame, size: int) -> np.ndarray:
    """Clusters of rows, which share their columns (in place)."""
    household = np.arange(len(X)) // size
    for name in X.columns:
        X[name] = X[name].to_numpy()[household * size]
    return household


def clustered(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Households of four with dependent outcomes."""
    from scipy.special import ndtr

    household = households(X, 4)
    p = sigmoid(margins(rng, X))
    shared = rng.normal(size=household[-1] + 1)[household]
    u = ndtr(np.sqrt(0.4) * shared + np.sqrt(0.6) * rng.normal(size=len(X)))
    return Rows(p, p, (u < p).astype(float), {"cluster": household})


# --- other labels --------------------------------------------------------------------------------


def soft(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    f = rng.beta(2, 4, len(X))
    return Rows(f, f, rng.beta(3 * f, 3 * (1 - f)))


def soft_off(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    mean = rng.beta(2, 4, len(X))
    return Rows(0.8 * mean + 0.05, mean, rng.beta(3 * mean, 3 * (1 - mean)))


Noise = Callable[[np.random.Generator, pd.DataFrame, np.ndarray], np.ndarray]


def regression(noise: Noise, off: float = 0.0) -> Draw:
    """Means between 10 and 100; predictions are too low by ``off`` for one race."""

    def draw(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
        mean = rng.uniform(10, 100, len(X))
        f = mean - off * (X.iloc[:, 1] == "b").to_numpy() if off else mean
        return Rows(f, mean, mean + noise(rng, X, mean))

    return draw


def normal(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    return rng.normal(0, 20, len(X))


def unequal(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Ten times the noise in some groups, and more in some rows than in others."""
    scale = np.where(X.iloc[:, 1].isin(["c", "e"]), 10.0, 1.0) * rng.lognormal(0, 0.7, len(X))
    return scale * rng.normal(0, 5, len(X))


def few_noisy(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Eight times the noise in three small cells of two columns."""
    cell = X["race"] + X["age"]
    return np.where(cell.isin(["dyoung", "dold", "emiddle"]), 8.0, 1.0) * rng.normal(0, 5, len(X))


def quiet_claims(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Rare claims with a quarter of the noise in two small groups, normal noise in the others."""
    rare = X["race"].isin(["d", "e"]).to_numpy()
    return np.where(rare, 0.03 * claims(rng, X, mean), rng.normal(0, 40, len(X)))


def noise_by_cell(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Normal noise of a size of its own in every cell of three columns, from 1 to 16 times."""
    ages = X["age"].map({"young": 0, "middle": 3, "old": 1, "eldest": 2})
    place = X["race"].map({each: k for k, each in enumerate("abcde")}) + 2 * ages
    place = (place + X["job"].map({each: 3 * k for k, each in enumerate("pqrs")})) % 9
    return 5.0 * 2.0 ** (place.to_numpy() / 2.0) * rng.normal(size=len(X))


def zero_inflated(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Outcomes of 0 in three rows of five, else of gamma size."""
    return mean * (np.where(rng.random(len(X)) < 0.4, rng.gamma(2, 1.25, len(X)), 0.0) - 1)


def gamma(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    return mean * (rng.gamma(2, 0.5, len(X)) - 1)


def lognormal(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    return mean * (rng.lognormal(-0.5, 1.0, len(X)) - 1)


def student(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    return 10 * rng.standard_t(2.5, len(X))


def claims(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Insurance-like: 1 row in 20 has a claim, of gamma size."""
    size = rng.gamma(1.5, 1 / 1.5, len(X)) * 20 * mean
    return np.where(rng.random(len(X)) < 0.05, size, 0.0) - mean


def clustered_numbers(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    household = households(X, 4)
    mean = rng.uniform(10, 100, len(X))
    shared = rng.gamma(2, 0.5, household[-1] + 1)[household] - 1
    return Rows(mean, mean, mean + 20 * shared + rng.normal(0, 15, len(X)), {"cluster": household})


# --- kinds that nothing was chosen on ------------------------------------------------------------


def constant(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """One prediction for everybody, where the truth differs between groups and rows."""
    p = sigmoid(margins(rng, X))
    return events(rng, np.full(len(X), 0.4), p)


def stepped(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Four scores with many ties, each right on average over all rows but not by group."""
    margin = margins(rng, X)
    score = np.clip(np.round(margin), -2, 1)
    return events(rng, sigmoid(score), sigmoid(margin))


def rare_noisy(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Outcomes of 1 in 200, and predictions that are off by a factor in every row."""
    p = np.minimum(rng.beta(0.5, 99.5, len(X)), 0.5)
    return events(rng, np.clip(p * rng.lognormal(0, 0.8, len(X)), 0, 0.99), p)


def two_weights(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """A survey: one row in ten counts a thousand times as much, and the model is noisy."""
    margin = margins(rng, X)
    f = sigmoid(margin + rng.normal(0, 1.0, len(X)))
    weight = np.where(rng.random(len(X)) < 0.1, 1000.0, 1.0)
    return events(rng, f, sigmoid(margin), sample_weight=weight)


def unequal_households(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Households of 1 to 12 rows, where the members' outcomes depend on each other."""
    from scipy.special import ndtr

    household = np.sort(rng.choice(len(X) // 4, len(X), p=_sizes(rng, len(X) // 4)))
    p = sigmoid(margins(rng, X))
    shared = rng.normal(size=len(X))[household]
    u = ndtr(np.sqrt(0.5) * shared + np.sqrt(0.5) * rng.normal(size=len(X)))
    return Rows(p, p, (u < p).astype(float), {"cluster": household})


def _sizes(rng: np.random.Generator, count: int) -> np.ndarray:
    size = rng.gamma(1.0, 1.0, count)
    return size / size.sum()


def pareto(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Losses with a tail of index 2.5, the variance just exists."""
    return mean * (rng.pareto(2.5, len(X)) * 1.5 - 1)


def tweedie(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Sums of a Poisson number of gamma claims: 30 % zeros."""
    count = rng.poisson(1.2, len(X))
    return mean * (rng.gamma(np.maximum(2.0 * count, 1e-9), 1 / 2.4) * (count > 0) - 1)


def falls(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Small gains and, in one row of ten, a large fall; twice as often for one race."""
    chance = np.where(X.iloc[:, 1] == "c", 0.2, 0.1)
    fall = rng.random(len(X)) < chance
    return np.where(fall, -8.0 * (1 - chance), 8.0 * chance) * rng.gamma(4, 1.25, len(X))


def one_skewed(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Normal noise, but rare large outcomes in two groups."""
    odd = X.iloc[:, 1].isin(["c", "d"]).to_numpy()
    return np.where(odd, claims(rng, X, mean), rng.normal(0, 10, len(X)))


def counts(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Overdispersed counts, most of them 0."""
    mean = rng.lognormal(-1.5, 0.5, len(X))
    return Rows(mean, mean, rng.poisson(mean * rng.gamma(0.7, 1 / 0.7, len(X))).astype(float))


def weighted_numbers(noise: Noise) -> Draw:
    def draw(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
        mean = rng.uniform(10, 100, len(X))
        weight = rng.lognormal(0, 0.7, len(X))
        return Rows(mean, mean, mean + noise(rng, X, mean), {"sample_weight": weight})

    return draw


def soft_inflated(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Shares that are often exactly 0 or 1."""
    mean = rng.beta(1, 5, len(X))
    sure = rng.random(len(X)) < 0.7
    part = rng.beta(2 * mean, 2 * (1 - mean))
    return Rows(mean, mean, np.where(sure, rng.random(len(X)) < mean, part))


def one_heavy(rng: np.random.Generator, X: pd.DataFrame, mean: np.ndarray) -> np.ndarray:
    """Normal noise, but tails of index 2.5 for one job."""
    odd = (X.iloc[:, -1] == "r").to_numpy()
    return np.where(odd, student(rng, X, mean), rng.normal(0, 10, len(X)))


def frequencies(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Claims over an exposure, rarer in some groups than in others; rates are predicted."""
    often = X.iloc[:, 1].map({"a": 1.0, "b": 0.5, "c": 2.0, "d": 0.2, "e": 1.0}).to_numpy()
    rate, exposure = often * rng.gamma(4.0, 0.05, len(X)), rng.uniform(0.1, 1.0, len(X))
    y = rng.poisson(rate * exposure).astype(float)
    return Rows(rate, rate, y, {"exposure": exposure})


def two_scores(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Predictions of .01 and .99 where the truth is .2 and .8: every group's true gap is 0."""
    high = rng.random(len(X)) < 0.5
    return events(rng, np.where(high, 0.99, 0.01), np.where(high, 0.8, 0.2))


def without_events(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
    """Outcomes of 1 in 20, but twenty times rarer for two races: most of their groups have none."""
    f = np.clip(0.05 * rng.lognormal(-0.32, 0.8, len(X)), 1e-5, 0.9)
    return events(rng, f, np.where(X["race"].isin(["c", "d"]), 0.05 * f, f))


def rates(shortest: float) -> Draw:
    """Claims over exposures of very different length, log-uniform from the shortest to 1."""

    def draw(rng: np.random.Generator, X: pd.DataFrame) -> Rows:
        rate = rng.gamma(4.0, 0.05, len(X))
        exposure = np.exp(rng.uniform(np.log(shortest), 0.0, len(X)))
        return Rows(rate, rate, rng.poisson(rate * exposure).astype(float), {"exposure": exposure})

    return draw


KINDS = {
    "binary": Kind(binary),
    "rare": Kind(rare),
    "near certain": Kind(near_certain),
    "weights": Kind(weighted(1.0)),
    "extreme weights": Kind(weighted(2.0)),
    "clusters": Kind(clustered),
    "slope 1.5": Kind(overconfident(1.5), calibrated=False),
    "slope 3": Kind(overconfident(3.0), calibrated=False),
    "slope 0.5": Kind(overconfident(0.5), calibrated=False),
    "one group": Kind(one_group, calibrated=False),
    "noisy": Kind(noisy, calibrated=False),
    "certain": Kind(certain, calibrated=False),
    "soft": Kind(soft),
    "soft, off": Kind(soft_off, calibrated=False),
    "normal": Kind(regression(normal)),
    "normal, off": Kind(regression(normal, 10.0), calibrated=False),
    "unequal": Kind(regression(unequal)),
    "gamma": Kind(regression(gamma)),
    "lognormal": Kind(regression(lognormal)),
    "student": Kind(regression(student)),
    "claims": Kind(regression(claims)),
    "claims, off": Kind(regression(claims, 10.0), calibrated=False),
    "clustered numbers": Kind(clustered_numbers),
    "small": Kind(binary, rows=200),
    "small noisy": Kind(noisy, calibrated=False, rows=200),
    "small gamma": Kind(regression(gamma), rows=200),
    "1,000 groups": Kind(binary, columns=many, rows=5_000),
    "1,000 groups, slope 2": Kind(overconfident(2.0), False, 5_000, many),
    "1,000 groups, gamma": Kind(regression(gamma), columns=many, rows=5_000),
    "large": Kind(binary, rows=30_000),
    "large noisy": Kind(noisy, calibrated=False, rows=30_000),
    "large student": Kind(regression(student), rows=30_000),
    "large lognormal": Kind(regression(lognormal), rows=30_000),
    "large claims": Kind(regression(claims), rows=30_000),
    "few groups": Kind(binary, columns=few),
    "few groups, noisy": Kind(noisy, False, columns=few),
    "few groups, claims": Kind(regression(claims), columns=few),
    # Nothing was chosen on these, but that "one skewed" showed that the noise of groups differs.
    "constant": Kind(constant, calibrated=False),
    "stepped": Kind(stepped, calibrated=False),
    "rare noisy": Kind(rare_noisy, calibrated=False),
    "two weights": Kind(two_weights, calibrated=False),
    "unequal households": Kind(unequal_households),
    "pareto": Kind(regression(pareto)),
    "tweedie, off": Kind(regression(tweedie, 10.0), calibrated=False),
    "falls": Kind(regression(falls)),
    "one skewed": Kind(regression(one_skewed)),
    "counts": Kind(counts),
    "soft, inflated": Kind(soft_inflated),
    "medium claims": Kind(regression(claims), rows=8_000),
    "one heavy": Kind(regression(one_heavy)),
    "frequencies": Kind(frequencies),
    "without events": Kind(without_events, calibrated=False),
    "rates from 0.1": Kind(rates(0.1)),
    "rates from 0.02": Kind(rates(0.02)),
    "rates from 0.003": Kind(rates(0.003)),
    "few noisy": Kind(regression(few_noisy)),
    "zero-inflated": Kind(regression(zero_inflated)),
    "certain, two scores": Kind(two_scores, calibrated=False),
    "quiet claims": Kind(regression(quiet_claims)),
    "noise by cell": Kind(regression(noise_by_cell)),
    "large few noisy": Kind(regression(few_noisy), rows=30_000),
    "weighted few noisy": Kind(weighted_numbers(few_noisy)),
    "weighted claims": Kind(weighted_numbers(claims)),
}


@dataclass(frozen=True)
class Truth:
    """Gap of a group in the population, and the standard deviation of its residuals there."""

    gap: float
    spread: float


def truths(kind: Kind) -> dict[str, Truth]:
    """Groups of the population, by name."""
    from recalibrate.auditing.measure.segments import read_segments

    rng = np.random.default_rng(20230131)
    X = kind.table(rng, POPULATION)
    rows = kind.draw(rng, X)
    segments, *_ = read_segments(
        True, X, n_rows=len(X), weight=None, depth=2, min_rows=None, bands=4
    )
    exposure = rows.options.get("exposure", np.ones(len(X)))
    weight = rows.options.get("sample_weight", np.ones(len(X))) * exposure
    residual = rows.y / exposure - rows.f
    sums = np.zeros((4, len(segments.names)))
    for start in range(0, len(X), 50_000):
        at = np.arange(start, min(start + 50_000, len(X)))
        codes = segments.codes(at)
        group = (codes + segments.offsets[:-1] - 1).astype(np.int64)
        w, error = weight[at], (rows.mean - rows.f)[at]
        columns = (w * error, w, w**2 * residual[at] ** 2, w**2)
        for t in range(codes.shape[1]):
            inside = codes[:, t] > 0
            for column, values in enumerate(columns):
                sums[column] += np.bincount(
                    group[inside, t], weights=values[inside], minlength=sums.shape[1]
                )
    gaps = np.zeros(len(segments.names)) if kind.calibrated else sums[0] / sums[1]
    spread = np.sqrt(np.maximum(sums[2] / sums[3] - gaps**2, 0.0))
    return {
        name: Truth(float(gap), float(own))
        for name, gap, own in zip(segments.names, gaps, spread, strict=True)
    }
