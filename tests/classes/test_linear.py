"""Linear: least squares on every level set, up to the rounding of columns."""

import numpy as np
import pandas as pd
import pytest
from onestep import QUANTISED, fitted, least_squares, noise, two_levels, update

import recalibrate as rc


@pytest.mark.parametrize("weighted", [False, True])
def test_linear_is_least_squares_on_every_level_set(weighted):
    X, base, response = two_levels()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    found = fitted(X, response, rc.Linear(), levels=base, weight=weight)
    expected = least_squares(X, response, base, weight)
    # Coefficients here are below 1 on the scaled columns; two columns are rounded to 2**-15.
    np.testing.assert_allclose(found, expected, atol=QUANTISED)
    assert np.std(expected) > 100 * QUANTISED


def test_linear_is_exact_where_columns_need_no_rounding():
    rng = np.random.default_rng(7)
    X = pd.DataFrame({"a": rng.integers(-8, 9, 300), "b": rng.integers(0, 2, 300)})
    response = 0.01 * X["a"].to_numpy() + noise(300)
    base = np.full(300, 0.5)
    found = fitted(X, response, rc.Linear())
    # Coefficients are snapped to 2**-40 per unit of 2**-15, three times that after unscaling.
    np.testing.assert_allclose(found, least_squares(X, response, base), atol=2.0**-22)


def test_linear_with_missing_values_and_categories():
    rng = np.random.default_rng(8)
    n = 300
    X = pd.DataFrame({"a": rng.integers(0, 9, n) * 1.0, "kind": rng.choice(list("uvw"), n)})
    X.loc[::6, "a"] = np.nan
    X.loc[::7, "kind"] = None
    response = noise(n) + 0.05 * (X["kind"] == "u").to_numpy()
    kinds = [(X["kind"] == k) for k in "uvw"]
    design = np.column_stack([X["a"].fillna(0), X["a"].isna(), *kinds, X["kind"].isna()])
    found = fitted(X, response, rc.Linear())
    expected = least_squares(design, response, np.full(n, 0.5))
    np.testing.assert_allclose(found, expected, atol=2.0**-21)


def test_ridge_shrinks_the_scaled_columns_but_not_the_intercept():
    X, _, response = two_levels()
    X = X[["a"]]
    plain, shrunk, flat = (
        fitted(X, response + 0.2, rc.Linear(ridge=ridge)) for ridge in (0.0, 50.0, 1e9)
    )
    assert np.std(flat) < 1e-4 < np.std(shrunk) < np.std(plain)
    np.testing.assert_allclose(flat, np.mean(response + 0.2), atol=1e-4)
    centre = np.sort(X["a"].to_numpy())[(len(X) + 1) // 2 - 1]
    scale = 2.0 ** np.ceil(np.log2(np.abs(X["a"] - centre).max()))
    column = ((X["a"] - centre) / scale).to_numpy()
    design = np.column_stack([np.ones(len(X)), column])
    penalty = np.diag([0.0, 50.0])
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ (response + 0.2))
    np.testing.assert_allclose(shrunk, design @ solved, atol=QUANTISED)


def test_collinear_columns_are_harmless():
    X, base, response = two_levels()
    found = fitted(X, response, rc.Linear(), levels=base)
    more = X.assign(again=X["a"], twice=2 * X["a"], one=1.0)
    np.testing.assert_allclose(
        fitted(more, response, rc.Linear(), levels=base), found, atol=QUANTISED
    )


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(9)
    X = pd.DataFrame(rng.normal(size=(5, 12)), columns=[f"c{j}" for j in range(12)])
    response = noise(5)
    found = fitted(X, response, rc.Linear())
    np.testing.assert_allclose(found, response, atol=QUANTISED)


def test_linear_far_outside_of_the_fitted_range_is_finite():
    X, _, response = two_levels()
    _, step = update(X, response, rc.Linear())
    far = pd.DataFrame({"a": [1e30, -1e30], "b": [1e30, np.nan]})
    assert np.isfinite(step(far, np.full(2, 0.5))).all()
