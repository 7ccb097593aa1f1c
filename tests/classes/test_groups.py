"""Groups: least squares over indicators, which may overlap."""

import numpy as np
import pandas as pd
import pytest
from onestep import VALUE, close, fitted, least_squares, noise

import recalibrate as rc


def people(n=500, seed=10):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(list("xyz"), n),
            "age": rng.integers(18, 80, n),
        }
    )
    base = np.where(rng.random(n) < 0.4, 0.25, 0.75)
    return X, base, noise(n, seed) + 0.1 * ((X["sex"] == "F") & (X["age"] < 25)).to_numpy()


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_least_squares_over_indicators(weighted):
    X, base, response = people()
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0 if weighted else None
    H = rc.Groups("sex", "age < 25", "sex*race", "sex == 'F' and age < 40")
    crossed = [(X["sex"] == s) & (X["race"] == r) for s in "FM" for r in "xyz"]
    masks = [X["sex"] == "F", X["sex"] == "M", X["age"] < 25, *crossed]
    masks.append((X["sex"] == "F") & (X["age"] < 40))
    expected = least_squares(np.column_stack(masks), response, base, weight)
    found = fitted(X, response, H, levels=base, weight=weight)
    # Sums of up to 12 snapped numbers; weights leave fewer bits for residuals.
    np.testing.assert_allclose(found, expected, atol=1e-6 if weighted else 12 * 3 * VALUE)


def test_disjoint_groups_get_their_means():
    X, _, response = people()
    means = pd.Series(response).groupby(X["race"]).transform("mean")
    np.testing.assert_allclose(fitted(X, response, rc.Groups("race")), means, **close)


def test_rows_in_no_group_get_the_intercept():
    X, _, response = people()
    young = (X["age"] < 25).to_numpy()
    found = fitted(X, response, rc.Groups("age < 25"))
    expected = np.where(young, response[young].mean(), response[~young].mean())
    np.testing.assert_allclose(found, expected, **close)


def test_small_crossed_groups_are_left_out():
    X, _, response = people()
    X.loc[0, "race"] = "rare"
    found = fitted(X, response, rc.Groups("sex*race", min_rows=5))
    # A row in no group has only the intercept, so it alone decides what that is.
    np.testing.assert_allclose(found[0], response[0], atol=12 * VALUE)
