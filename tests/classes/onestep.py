"""One full step of a class, beside what it must be: the least-squares answer on every level set."""

import numpy as np
import pandas as pd
from settings import fit_with

# Fitted numbers are multiples of 2**-40, residuals are summed in steps of 2**-30.
VALUE = 2.0**-29
# A numeric column of Linear is rounded to 2**-15 of its range.
QUANTISED = 2.0**-13


def update(X, response, H, *, levels=None, weight=None, **options):
    """What one full step adds to a base of one half; ``levels`` gives scores instead.

    Of the twelve level sets, scores of .25 and .75 are in two, and .4 to .6 in one.
    """
    base = np.full(len(response), 0.5) if levels is None else levels
    model = fit_with(
        base,
        X,
        base + response,
        H,
        sample_weight=weight,
        bounds=(-1, 2),
        link="identity",
        level_kind="uniform",
        levels=12,
        step=1.0,
        validation=False,
        max_rounds=1,
        **options,
    )
    return model, lambda new, f=base: model.predict(new, base=f) - f


def fitted(X, response, H, **options):
    _, step = update(X, response, H, **options)
    return step(X)


def noise(n, seed=0, size=0.05):
    return np.random.default_rng(seed).normal(0, size, n)


# bounds=(-1, 2) scale labels by 3, so steps of 2**-40 and 2**-30 are three times as large.
close = {"atol": 3 * VALUE, "rtol": 0}


def two_levels(n=400, seed=6):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n) * 1000})
    base = np.where(rng.random(n) < 0.4, 0.25, 0.75)
    response = 0.02 * X["a"] - 0.00005 * X["b"] * (base > 0.5) + noise(n, seed)
    return X, base, response.to_numpy()


def least_squares(design, response, base, weight=None):
    """numpy's fitted values on every level set."""
    design = np.column_stack([np.ones(len(response)), design]).astype(float)
    root = np.ones(len(response)) if weight is None else np.sqrt(weight)
    out = np.empty(len(response))
    for v in np.unique(base):
        rows = base == v
        scaled = root[rows, None] * design[rows]
        solution = np.linalg.lstsq(scaled, root[rows] * response[rows], rcond=None)[0]
        out[rows] = design[rows] @ solution
    return out
