"""Simulated rows whose truth is known, and what a default fit says about them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit as sigmoid
from scipy.stats import binom


@dataclass(frozen=True)
class Rows:
    """Rows with a base, their true mean outcome and labels that were drawn from it."""

    X: pd.DataFrame
    base: np.ndarray
    truth: np.ndarray
    y: np.ndarray

    @property
    def margin(self):
        """Log-odds of the base."""
        return np.log(self.base) - np.log1p(-self.base)

    def where(self, column, value):
        return (self.X[column] == value).to_numpy()

    def standard_error(self, rows):
        """Of the mean label of some rows, whose labels are 0 or 1."""
        return np.sqrt(np.mean((self.truth * (1 - self.truth))[rows]) / np.sum(rows))


def people(seed, n, *, off=None, score=None):
    """Two numbers and two categories that the base, a normal score, knows nothing of.

    ``off(X, f)`` is what the true log-odds have beyond f, ``score(f)`` what the base makes of it.
    """
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.normal(size=n),
            "g": rng.choice(list("abcd"), n),
            "h": rng.choice(["x", "y"], n),
        }
    )
    f = rng.normal(size=n)
    base = sigmoid(f if score is None else score(f))
    truth = sigmoid(f + (0.0 if off is None else np.asarray(off(X, f))))
    return Rows(X, base, truth, (rng.random(n) < truth) * 1.0)


def decisions(model):
    """Stage -> whether it was taken, in the order of the notes."""
    taken = {}
    for note in model.notes:
        name, said = note.replace("linear scaling", SCORE).split(": ", 1)
        if name in (SCORE, CERTAIN, LARGE, BOOSTING, LEVEL_SETS, SHIFTS, ON_LEVELS):
            taken[name] = said.startswith("applied") or " correct" in said
    return taken


SCORE = "Platt scaling"
CERTAIN = "large group errors"
LARGE = "column shifts"
BOOSTING = "boosting"
LEVEL_SETS = "level sets"
SHIFTS = "group shifts"
ON_LEVELS = "group shifts by level"


def most(trials, chance):
    """So many hits of ``chance`` happen by accident; more in one of a thousand test suites."""
    return int(binom.ppf(0.999, trials, chance))
