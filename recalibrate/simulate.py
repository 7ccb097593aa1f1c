"""Simulated census data with a known truth, for tests, examples and benchmarks.

Nothing in here is real: the columns carry the names and roughly the cardinalities, skew and
correlations of the American Community Survey's income task, the numbers are invented. What real
data cannot offer is the exact expected outcome of every row, against which a calibration can be
judged without noise.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import sigmoid

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["binary", "income"]
Floats = NDArray[np.float64]
Codes = NDArray[np.int16]

_N_OCCP = 530
_N_POBP = 220
_N_DOMESTIC = 56  # places of birth inside the country
# Codes with gaps, as in the survey, so that nobody mistakes them for positions 0..K-1.
_OCCP_CODES = (10 + 18 * np.arange(_N_OCCP)).astype(np.int16)
_POBP_CODES = (1 + np.arange(_N_POBP) + 40 * (np.arange(_N_POBP) >= _N_DOMESTIC)).astype(np.int16)

_NAMES: dict[str, tuple[str, ...]] = {
    "COW": (
        "private for-profit",
        "private non-profit",
        "local government",
        "state government",
        "federal government",
        "self-employed",
        "self-employed incorporated",
        "family business unpaid",
    ),
    "MAR": ("married", "widowed", "divorced", "separated", "never married"),
    "SEX": ("male", "female"),
    "RAC1P": (
        "White",
        "Black",
        "American Indian",
        "Alaska Native",
        "American Indian or Alaska Native",
        "Asian",
        "Pacific Islander",
        "other",
        "two or more",
    ),
}
_RACE_SHARES = (0.66, 0.11, 0.008, 0.0005, 0.0015, 0.09, 0.002, 0.07, 0.057)
_COW_SHARES = (0.67, 0.08, 0.07, 0.05, 0.025, 0.06, 0.035, 0.01)


@dataclass(frozen=True, eq=False)
class Census:
    """A simulated census sample.

    Attributes
    ----------
    X : DataFrame
        Ten columns: AGEP, COW, SCHL, MAR, OCCP, POBP, RELP, WKHP, SEX, RAC1P.
    y : ndarray of float64
        Outcomes in [0, 1].
    probability : ndarray of float64
        The exact expectation of ``y`` given the row of ``X``; for a binary outcome its
        probability.
    scores : ndarray of float64
        Predictions of an imperfect base model, see `base_scores`.
    """

    X: "pd.DataFrame"
    y: Floats
    probability: Floats
    scores: Floats


def census(
    n_rows: int,
    seed: int = 0,
    *,
    gap: float = 0.0,
    task: Task = "binary",
    categorical: bool = False,
) -> Census:
    """Simulate a census-like table, its outcomes and a base model's scores.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 1. Time and memory are linear; ten million rows are fine.
    seed : int
        Equal seeds give equal data. Different seeds are independent samples of one population,
        so that two seeds serve as calibration and test rows.
    gap : float
        Planted miscalibration: the base's scores of women (``SEX`` 2) are lowered by it.
    task : {"binary", "income"}
        "binary": high income, 0 or 1. "income": an income, capped and scaled to [0, 1], with
        many rows at the cap.
    categorical : bool
        Give COW, MAR, OCCP, POBP, RELP, SEX and RAC1P as text instead of integer codes.

    Returns
    -------
    Census

    Examples
    --------
    >>> from recalibrate.simulate import census
    >>> data = census(1000, seed=1, gap=0.1)
    >>> data.X.shape, sorted(set(data.y.tolist()))
    ((1000, 10), [0.0, 1.0])
    """
    if isinstance(n_rows, bool) or not isinstance(n_rows, (int, np.integer)) or n_rows < 1:
        raise ValueError(f"n_rows must be a whole number of at least 1, got {n_rows!r}.")
    _check_options(gap, task)
    rng = np.random.default_rng(seed)
    codes = _people(rng, int(n_rows))
    eta = _visible(codes) + _hidden(codes)  # the log-odds
    probability = _expectation(eta, task)
    if task == "binary":
        y = (rng.random(n_rows) < probability).astype(np.float64)
    else:
        # Gamma noise of shape 2: skewed like incomes, and its capped mean has a closed form.
        y = np.minimum(rng.gamma(2.0, _income_scale(eta)), 1.0)
    scores = _weak_prediction(codes, task, gap)
    return Census(_frame(codes, categorical), y, probability, scores)


def base_scores(X: Any, *, gap: float = 0.0, task: Task = "binary") -> Floats:
    """Predict like an imperfect base model would: a fixed function of the table.

    It knows age, schooling, hours and sex, and ignores occupation, class of worker, marital
    status, race, place of birth and every interaction. With ``gap=0`` it is roughly calibrated
    overall and for each sex, and miscalibrated for the groups it cannot see.

    Parameters
    ----------
    X : DataFrame
        A table made by `census`, with codes or with text.
    gap : float
        The scores of women are lowered by this amount (and cut at 0 and 1).
    task : {"binary", "income"}
        Which outcome to predict.

    Returns
    -------
    ndarray of float64
        Scores in [0, 1].

    Examples
    --------
    >>> from recalibrate.simulate import base_scores, census
    >>> data = census(100, gap=0.05)
    >>> bool((base_scores(data.X, gap=0.05) == data.scores).all())
    True
    """
    _check_options(gap, task)
    sex = np.asarray(X["SEX"])
    if sex.dtype.kind not in "iuf":
        sex = np.where(sex == "female", 2, 1)
    codes = {name: np.asarray(X[name], dtype=np.int16) for name in ("AGEP", "SCHL", "WKHP")}
    return _weak_prediction({**codes, "SEX": sex.astype(np.int16)}, task, gap)


def _check_options(gap: float, task: str) -> None:
    if not -1.0 <= gap <= 1.0:
        raise ValueError(f"gap must lie between -1 and 1, got {gap!r}.")
    if task not in ("binary", "income"):
        raise ValueError(f'task must be "binary" or "income", got {task!r}.')


# --- the population -----------------------------------------------------------------------------


def _people(rng: np.random.Generator, n: int) -> dict[str, Codes]:
    """Draw the features one after the other, each from what it depends on."""
    age = np.floor(17.0 + 78.0 * rng.beta(1.6, 2.7, n))  # workers: most of them 25 to 60
    female = rng.random(n) < 0.48
    race = _draw(rng.random(n), np.asarray(_RACE_SHARES))
    school = _schooling(rng, age, race)
    marital = _marital_status(rng, age)
    hours = 40.0 - 4.0 * female - 9.0 * (age < 23) - 8.0 * (age > 66) + 9.0 * rng.standard_t(4, n)
    hours = np.where(rng.random(n) < 0.45, 40.0, hours)  # the heap at the standard week
    # Occupation follows schooling and sex through a rank; the shares of ranks are skewed.
    rank = sigmoid(0.45 * (school - 18.0) + 0.9 * female - 0.45 + rng.logistic(0.0, 1.2, n))
    relation = np.where(marital == 1, rng.random(n) * 0.55, 0.15 + rng.random(n) * 0.85)
    relation = np.where(age < 24, 0.3 + 0.7 * relation, relation)
    columns = {
        "AGEP": np.minimum(age, 94),
        "COW": 1 + _draw(rng.random(n), np.asarray(_COW_SHARES)),
        "SCHL": np.rint(school),
        "MAR": marital,
        "OCCP": _OCCP_CODES[_draw(rank, 1.0 / (20.0 + np.arange(_N_OCCP)))],
        "POBP": _POBP_CODES[_birthplace(rng, race)],
        "RELP": _draw(relation, 1.0 / (1.0 + np.arange(18.0)) ** 1.3),
        "WKHP": np.rint(np.clip(hours, 1, 99)),
        "SEX": 1 + female,
        "RAC1P": 1 + race,
    }
    return {name: values.astype(np.int16) for name, values in columns.items()}


def _schooling(rng: np.random.Generator, age: Floats, race: NDArray[np.intp]) -> Floats:
    n = len(age)
    school = 18.0 + 2.0 * (race == 5) - 1.2 * (race == 7) + rng.normal(0.0, 3.4, n)
    school = np.where(rng.random(n) < 0.03, rng.uniform(1.0, 16.0, n), school)  # left early
    return np.clip(np.minimum(school, np.maximum(age - 1.0, 16.0)), 1.0, 24.0)


def _marital_status(rng: np.random.Generator, age: Floats) -> NDArray[np.intp]:
    """1 married, 2 widowed, 3 divorced, 4 separated, 5 never married."""
    n = len(age)
    ever = rng.random(n) < 0.85 * sigmoid((age - 30.0) / 6.0)
    ended = rng.random(n) < 0.22
    widowed = rng.random(n) < sigmoid((age - 72.0) / 6.0)
    apart = np.where(rng.random(n) < 0.15, 4, 3)
    return np.where(ever, np.where(ended, np.where(widowed, 2, apart), 1), 5).astype(np.intp)


def _birthplace(rng: np.random.Generator, race: NDArray[np.intp]) -> NDArray[np.intp]:
    """Position of the place; the first 56 are domestic."""
    n = len(race)
    abroad = rng.random(n) < np.where(race == 0, 0.06, np.where(race == 5, 0.7, 0.25))
    home = _draw(rng.random(n), 1.0 / (3.0 + np.arange(_N_DOMESTIC)))
    away = _draw(rng.random(n), 1.0 / (4.0 + np.arange(_N_POBP - _N_DOMESTIC)))
    return np.where(abroad, _N_DOMESTIC + away, home)


def _draw(u: Floats, shares: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Turn numbers in [0, 1) into positions of the given shares."""
    edges = np.cumsum(shares)
    positions = np.searchsorted(edges[:-1] / edges[-1], u, side="right")
    return np.asarray(positions, dtype=np.intp)


# --- the truth ----------------------------------------------------------------------------------


def _effects(size: int, scale: float, seed: int) -> Floats:
    """Fixed effects of categories: part of the population, so independent of the sample's seed."""
    return np.random.default_rng(seed).normal(0.0, scale, size)


def _visible(codes: dict[str, Codes]) -> Floats:
    """The part of the log-odds that the base model knows."""
    age = codes["AGEP"].astype(np.float64)
    visible: Floats = (
        -0.4
        + 2.2 * np.sin(np.clip((age - 18.0) / 80.0, 0.0, 1.0) * np.pi)
        - 1.4
        + 0.24 * (codes["SCHL"] - 18.0)
        + 0.055 * (np.minimum(codes["WKHP"], 65) - 40.0)
        - 0.5 * (codes["SEX"] == 2)
    )
    return visible


def _hidden(codes: dict[str, Codes]) -> Floats:
    """The rest: categories the base model ignores, and interactions."""
    occupation = (codes["OCCP"] - 10) // 18
    place = np.searchsorted(_POBP_CODES, codes["POBP"])
    female, married = codes["SEX"] == 2, codes["MAR"] == 1
    race = np.array([0.08, -0.45, -0.5, -0.5, -0.5, 0.1, -0.3, -0.35, -0.1])
    worker = np.array([0.0, -0.15, 0.05, 0.0, 0.45, -0.35, 0.5, -1.5])
    hidden: Floats = (
        _effects(_N_OCCP, 0.8, seed=530)[occupation]
        + _effects(_N_POBP, 0.25, seed=220)[place]
        + race[codes["RAC1P"] - 1]
        + worker[codes["COW"] - 1]
        + 0.55 * married
        - 0.22
        - 0.45 * (female & married)  # the family gap: paid work pays husbands more
        - 0.5 * (female & (codes["AGEP"] >= 45))
        + 0.45 * female
    )
    return hidden


def _income_scale(eta: Floats) -> Floats:
    """Half the mean of the uncapped income."""
    return 0.21 * np.exp(0.45 * eta)


def _expectation(eta: Floats, task: Task) -> Floats:
    """Exact mean of the outcome given its log-odds parameter."""
    if task == "binary":
        return sigmoid(eta)
    # E min(G, 1) for G of gamma shape 2 and scale s: the integral of P(G > t) over [0, 1].
    scale = _income_scale(eta)
    mean: Floats = scale * (2.0 - (2.0 + 1.0 / scale) * np.exp(-1.0 / scale))
    return mean


def _weak_prediction(codes: dict[str, Codes], task: Task, gap: float) -> Floats:
    # Leaving out effects flattens the best prediction: slope and shift undo most of that bias.
    slope, shift = (0.91, -0.01) if task == "binary" else (0.96, 0.04)
    score = _expectation(slope * _visible(codes) + shift, task)
    clipped: Floats = np.clip(score - gap * (codes["SEX"] == 2), 0.0, 1.0)
    return clipped


# --- the table ----------------------------------------------------------------------------------


def _frame(codes: dict[str, Codes], categorical: bool) -> "pd.DataFrame":
    import pandas as pd

    columns: dict[str, Any] = dict(codes)
    if categorical:
        for name, labels in _NAMES.items():
            columns[name] = np.array(labels, dtype=object)[codes[name] - 1]
        for name, width in (("OCCP", 4), ("POBP", 3), ("RELP", 2)):
            # Format every distinct code once, not every row.
            values, where = np.unique(codes[name], return_inverse=True)
            texts = [f"{name.lower()} {value:0{width}d}" for value in values]
            columns[name] = np.array(texts, dtype=object)[where]
    return pd.DataFrame(columns)
