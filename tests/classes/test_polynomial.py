"""Polynomials: which products there are, that they are exact, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from settings import fit_with

import recalibrate as rc
from recalibrate.classes.linear import UNIT, WIDEST
from recalibrate.classes.polynomial import MOST_COLUMNS, ROWS_AT_ONCE
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table

PLAIN = {"levels": 3, "max_rounds": 3, "validation": False}


def people(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(45, 15, n)),
            "hours": rng.exponential(size=n),
            "sex": rng.choice(["F", "M"], n),
            "score": rng.normal(size=n),
        }
    )
    z = (X["age"].fillna(45) - 45) / 15
    mean = 0.5 + 0.15 * (z**2 - 1).clip(-1, 2) + 0.05 * z * (X["hours"] - 1).clip(-1, 2)
    return X, np.full(n, 0.5), mean.clip(0.02, 0.98).to_numpy()


def bound(H, X):
    table = read_table(X)
    return H.bind(Columns.of(table)), table


def nearest(value: Fraction) -> int:
    """The nearest whole number, halves to the even one, cut where columns are."""
    return max(-WIDEST, min(WIDEST, round(value)))


@pytest.mark.parametrize("degree", [2, 3])
def test_products_are_those_of_whole_numbers(degree):
    """Also of rows far outside, where a product has more digits than float64."""
    X, _, _ = people(ROWS_AT_ONCE + 100)
    learner, table = bound(rc.Polynomial(degree=degree), X)
    encoder = learner.encoder
    far = X[:300].copy()
    far["age"] *= np.float32(1e4)
    far["score"] = np.linspace(-1e30, 1e30, 300)
    for rows in (table, table.schema.read(far)):
        block = encoder.encode(rows)
        first = len(encoder.linear.terms)
        assert np.array_equal(block[:, :first], encoder.linear.encode(rows))
        for k, (a, b) in enumerate(encoder.products.tolist(), start=first):
            products = zip(block[:, a].tolist(), block[:, b].tolist(), strict=True)
            # Beyond 2**53 units a product is rounded once more, and then cut at 2**30 anyway.
            assert block[:, k].tolist() == [nearest(Fraction(p * q, UNIT)) for p, q in products]
    inside = encoder.encode(table)
    assert np.abs(inside).max() <= UNIT, "sums are exact because columns are that narrow"


def test_the_design_in_words():
    X, _, _ = people()
    line = ("", "age", "age", "hours", "sex", "sex")
    two = ("age^2", "age * hours", "hours^2")
    three = ("age^3", "age^2 * hours", "age * hours^2", "hours^3")
    for degree, expected in ((2, line + two), (3, line + two + three)):
        H = rc.Polynomial(["age", "hours", "sex"], degree)
        encoder = bound(H, X)[0].encoder
        assert encoder.labels == expected
        assert encoder.names == ("age", "hours", "sex")
        assert encoder.count == len(expected)
    score = bound(rc.Polynomial(["hours"]), X)[0].encoder
    assert score.labels == ("", "hours", "hours^2")


def test_without_a_numeric_column_it_is_linear():
    X, base, mean = people()
    model = fit_with(base, X, mean, rc.Polynomial(features=["sex"]), **PLAIN)
    line = fit_with(base, X, mean, rc.Linear(features=["sex"]), **PLAIN)
    assert np.array_equal(model.predict(X, base=base), line.predict(X, base=base))
    nothing = fit_with(base, X, mean, rc.Polynomial(features=[]), **PLAIN)
    constant = fit_with(base, X, mean, rc.Linear(features=[]), **PLAIN)
    assert np.array_equal(nothing.predict(X, base=base), constant.predict(X, base=base))
    model.to_onnx()


@pytest.mark.parametrize("degree", [2, 3])
def test_a_polynomial_is_found_in_one_round(degree):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 4000))
    X = pd.DataFrame({"a": a, "b": b})
    y = 0.5 + 0.2 * a * b - 0.1 * b**2 + (0.1 * a**2 * b if degree == 3 else 0.0)
    base = np.full(len(y), 0.5)
    one = {"levels": 1, "step": 1.0, "max_rounds": 1, "validation": False, "link": "identity"}
    model = fit_with(base, X, y, rc.Polynomial(degree=degree), **one)
    # Columns reach a little beyond +-1 after centring, so that their steps are 2**-14: each is off
    # by up to 3e-5, each product by that of its factors and its own; coefficients are at most .2.
    np.testing.assert_allclose(model.predict(X, base=base), y, atol=6e-5)
    line = fit_with(base, X, y, rc.Linear(), **one)
    assert np.mean((line.predict(X, base=base) - y) ** 2) > 1e-3


def test_the_certificate_is_exact_without_ridge():
    X, base, mean = people()
    for ridge, exact in ((0.0, True), (1.0, False)):
        model = rc.fit(base, X, mean, rc.Polynomial(ridge=ridge), alpha=0.004)
        assert model.certificate_.exact == exact
        assert ("shrinks the coefficients" in model.certificate_.reason) != exact


def test_features_are_credited_by_their_products():
    X, base, mean = people()
    H = rc.Polynomial(["age", "hours"])
    model = fit_with(base, X, mean, H, **{**PLAIN, "max_rounds": 1})
    told = model.explain(X[:20], base=base[:20])
    assert {step.stage for step in told.steps} == {"1 polynomial"}
    assert {"age^2", "age * hours"} <= set(told.by_feature["feature"])
    assert "by age^2" in str(told)


@pytest.mark.slow
def test_it_can_be_boosted_by_the_default_and_the_estimators():
    X, base, mean = people(3000)
    y = (np.random.default_rng(1).random(len(mean)) < mean).astype(float)
    model = rc.fit(base, X, y, rc.Polynomial(["age", "hours"]), cv=3)
    line = rc.fit(base, X, y, rc.Linear(["age", "hours"]), cv=3)
    losses = [np.mean((m.predict(X, base=base) - mean) ** 2) for m in (model, line)]
    assert losses[0] < losses[1] / 2
    numbers = X[["age", "hours"]].to_numpy()
    fitted = rc.LSBoostRegressor(rc.Polynomial()).fit(numbers, mean)
    assert fitted.score(numbers, mean) > 0.8


@pytest.mark.slow
def test_the_audit_asks_what_polynomials_still_find():
    X, base, mean = people(6000)
    y = (np.random.default_rng(1).random(len(mean)) < mean).astype(float)
    found = rc.audit(base, X, y, H="linear", richer="polynomial").richness
    assert found.richer.beats
    assert found.richer.gain > found.H.gain
    assert "Polynomial" in found.verdict


def test_too_many_columns():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 30)))
    X.columns = [f"c{k}" for k in range(30)]
    X["town"] = [f"t{k % 20}" for k in range(60)]
    y, base = np.linspace(0, 1, 60), np.full(60, 0.5)
    with pytest.raises(
        ValueError, match=r"30 numeric .* 20 indicators has 516 columns.*300.*Linear"
    ):
        fit_with(base, X, y, rc.Polynomial(), **PLAIN)
    with pytest.raises(ValueError, match=r"11 numeric .* 0 indicators has 364 columns.*degree=2"):
        fit_with(base, X, y, rc.Polynomial(list(X.columns[:11]), degree=3), **PLAIN)
    learner, _ = bound(rc.Polynomial(list(X.columns[:22]), degree=2), X)
    assert learner.encoder.count == 276 <= MOST_COLUMNS
