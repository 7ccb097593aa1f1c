"""statsmodels results, against their own predict."""

import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from recalibrate_adapters.statsmodels import StatsmodelsBase

import recalibrate as rc
from recalibrate.scores import Base

pytestmark = pytest.mark.external
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def sm():
    return pytest.importorskip("statsmodels.api")


@pytest.fixture
def smf():
    return pytest.importorskip("statsmodels.formula.api")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(-1, 1, 2000), "sex": rng.choice(["F", "M"], 2000)})
    margin = X["age"] + np.where(X["sex"] == "F", -0.5, 0.5)
    return X.assign(
        y=(rng.random(2000) < 1 / (1 + np.exp(-margin))).astype(int),
        income=5.0 + margin + rng.normal(size=2000),
        visits=rng.poisson(np.exp(0.3 * margin)),
        level=rng.integers(0, 3, 2000),
    )


def test_it_is_registered():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entry = project["entry-points"]["recalibrate.adapters"]["statsmodels"]
    module, name = entry.split(":")
    assert getattr(import_module(module), name) is StatsmodelsBase


FORMULAS = {
    "logit": ("y ~ age", "binary"),
    "probit": ("y ~ age + C(sex)", "binary"),
    "ols": ("income ~ age", "number"),
    "poisson": ("visits ~ age", "count"),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(smf, people, name):
    formula, kind = FORMULAS[name]
    quiet = {} if name == "ols" else {"disp": 0}
    results = getattr(smf, name)(formula, data=people[:1000]).fit(**quiet)
    base = StatsmodelsBase(results)
    assert isinstance(base, Base)
    rows = people[1000:]
    np.testing.assert_array_equal(base.scores(rows), results.predict(rows))
    label = formula.split()[0]
    model = rc.fit(base, rows[["age", "sex"]], rows[label], ["sex"])
    expected = {"binary": "logit", "number": "identity", "count": "log"}[kind]
    assert model.link == expected
    gap = rows[label] - model.predict(rows[["age", "sex"]])
    # 500 rows of a sex: the standard error of a mean is at most 0.06.
    assert gap.groupby(rows["sex"]).mean().abs().max() < 0.15
    assert base.graph() is None
    assert base.why_no_graph


@pytest.mark.parametrize("family", ["Binomial", "Poisson", "Gamma", "Gaussian"])
def test_generalised_linear_models_of_columns(sm, people, family):
    label = {"Binomial": "y", "Poisson": "visits"}.get(family, "income")
    y = people[label].abs() + (0.1 if family == "Gamma" else 0.0)
    exog = sm.add_constant(people[["age"]])
    link = {"link": sm.families.links.Log()} if family == "Gamma" else {}
    results = sm.GLM(y[:1000], exog[:1000], family=getattr(sm.families, family)(**link)).fit()
    base = StatsmodelsBase(results)
    expected = results.predict(exog[1000:])
    assert base.columns() == ("age",)
    assert base.deviance == {"Poisson": "poisson", "Gamma": "gamma"}.get(family, "")
    # Columns are found by name, and the constant is one whether X has it or not.
    np.testing.assert_array_equal(base.scores(people[1000:]), expected)
    np.testing.assert_array_equal(base.scores(exog[1000:][["const", "age"]]), expected)
    model = rc.fit(base, people[1000:], y[1000:], ["sex"])
    assert model.predict(people[1000:]).shape == (1000,)


def test_arrays_are_taken_as_they_are(sm, people):
    exog = sm.add_constant(people[["age"]].to_numpy())
    results = sm.Logit(people["y"].to_numpy(), exog).fit(disp=0)
    base = StatsmodelsBase(results)
    assert base.columns() is None
    np.testing.assert_array_equal(base.scores(exog), results.predict(exog))


def test_positive_chooses_the_first_of_two_classes(sm, people):
    results = sm.Logit(people["y"], sm.add_constant(people[["age"]])).fit(disp=0)
    model = rc.fit(results, people, people["y"], ["sex"], positive=0, validation=False)
    expected = 1 - results.predict(sm.add_constant(people[["age"]]))
    np.testing.assert_allclose(model.base.scores(people), expected)
    with pytest.raises(ValueError, match="target_class=7 is not a class of statsmodels Logit"):
        StatsmodelsBase(results, target_class=7)


def test_an_array_without_the_constant_is_told_of_it(sm, people):
    exog = sm.add_constant(people[["age", "level"]].to_numpy())
    base = StatsmodelsBase(sm.Logit(people["y"].to_numpy(), exog).fit(disp=0))
    with pytest.raises(ValueError, match=r"fitted to 3, the constant among them.*add_constant"):
        base.scores(exog[:, 1:])


def test_parameters_without_a_column_are_not_columns(sm, people):
    """Inflation and thresholds are among the model's exog_names."""
    exog = sm.add_constant(people[["age"]])
    results = sm.ZeroInflatedPoisson(people["visits"], exog).fit(disp=0)
    base = StatsmodelsBase(results)
    assert base.columns() == ("age",)
    np.testing.assert_array_equal(base.scores(people), results.predict(exog))


def test_columns_of_inflation_are_refused(sm, people):
    """Those of the training rows would be taken for new ones."""
    exog = sm.add_constant(people[["age"]])
    model = sm.ZeroInflatedPoisson(people["visits"], exog, exog_infl=exog)
    with pytest.raises(ValueError, match=r"fitted with exog_infl=.*lambda X: results\.predict"):
        StatsmodelsBase(model.fit(disp=0))


def test_made_up_names_are_no_names(sm, people):
    """Of a Series of labels beside an array of columns."""
    exog = sm.add_constant(people[["age"]].to_numpy())
    results = sm.Logit(people["y"], exog).fit(disp=0)
    base = StatsmodelsBase(results)
    assert base.columns() is None
    named = pd.DataFrame(exog, columns=["const", "age"])
    np.testing.assert_array_equal(base.scores(named), results.predict(exog))


@pytest.mark.parametrize("labels", [[0, 1, 2], ["low", "mid", "high"]])
def test_ordered_classes(people, labels):
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    y = pd.Series(np.array(labels)[people["level"]])
    if labels[0] == "low":
        y = y.astype(pd.CategoricalDtype(labels, ordered=True))
    results = ordinal.OrderedModel(y, people[["age"]], distr="logit").fit(disp=0, method="bfgs")
    base = StatsmodelsBase(results)
    assert base.columns() == ("age",)
    assert list(base.classes) == labels
    assert base.outputs == 3
    np.testing.assert_array_equal(base.scores(people), results.predict(people[["age"]]))
    one = StatsmodelsBase(results, target_class=labels[1])
    np.testing.assert_array_equal(one.scores(people), base.scores(people)[:, 1])


@pytest.mark.slow
def test_several_classes(sm, people):
    exog = sm.add_constant(people[["age"]])
    results = sm.MNLogit(people["level"][:1000], exog[:1000]).fit(disp=0)
    rows = people[1000:]
    model = rc.fit(StatsmodelsBase(results), rows[["age", "sex"]], rows["level"], ["sex"])
    assert model.predict_proba(rows).shape == (1000, 3)
    one = StatsmodelsBase(results, target_class=2)
    np.testing.assert_array_equal(one.scores(rows), np.asarray(results.predict(exog[1000:]))[:, 2])
    with pytest.raises(ValueError, match="target_class=7 is not a class of statsmodels MNLogit"):
        StatsmodelsBase(results, target_class=7)


def test_what_is_wrong_is_said(sm, smf, people):
    exog = sm.add_constant(people[["age"]])
    with pytest.raises(TypeError, match=r"pass what its fit\(\) returns"):
        StatsmodelsBase(sm.OLS(people["income"], exog))
    results = sm.OLS(people["income"], exog).fit()
    with pytest.raises(ValueError, match="gives means"):
        StatsmodelsBase(results, link="logit")
    with pytest.warns(UserWarning, match="a quantile"):
        StatsmodelsBase(sm.QuantReg(people["income"], exog).fit())
    with pytest.raises(ValueError, match="age"):
        StatsmodelsBase(results).scores(people[["sex"]])
    gaps = people.assign(age=people["age"].where(people.index > 2))
    with pytest.raises(ValueError, match=r"must be finite|missing values"):
        StatsmodelsBase(smf.ols("income ~ age", data=people).fit()).scores(gaps)
