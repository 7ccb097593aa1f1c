"""Counts, amounts and rates: the log link, exposure, and bounds that predictions keep."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, TweedieRegressor

import recalibrate as rc

LINKS = ("log-poisson", "log-tweedie-1.5", "log-gamma")


def claims(n=3000, seed=0, *, link="log-poisson"):
    """Rates that a base has wrong for the young and for women, and totals over an exposure."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "town": rng.choice(list("abcd"), n),
        }
    )
    e = rng.integers(1, 4, n).astype(float)
    base = 0.3 * np.exp(0.01 * (X["age"].to_numpy() - 50))
    rate = base * np.exp(0.6 * (X["age"] < 30) - 0.3 * (X["sex"] == "F")).to_numpy()
    if link == "log-gamma":
        return X, e, base, rate, e * rng.gamma(2.0, rate / 2.0)
    return X, e, base, rate, rng.poisson(rate * e).astype(float)


def observed_to_expected(y, p, e):
    return float(np.sum(y) / np.sum(p * e))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("H", [rc.Groups("sex", "age < 30"), rc.Trees(depth=2)], ids=repr)
def test_exposure_is_a_rate_with_a_weight_and_rows_repeated(H, link):
    X, e, base, _, y = claims(link=link)
    run = {"loop": rc.Loop(max_rounds=4, levels=2), "validation": False, "link": link}
    model = rc.fit(base, X, y, H, exposure=e, **run)
    assert model.n_rounds_ > 0
    by_weight = rc.fit(base, X, y / e, H, sample_weight=e, **run)
    assert by_weight.fingerprint_ == model.fingerprint_
    again = np.repeat(np.arange(len(X)), e.astype(int))
    repeated = rc.fit(base[again], X.iloc[again], (y / e)[again], H, **run)
    p = model.predict(X, base=base)
    # Weighted sums are rounded in other places than sums of single rows.
    assert np.allclose(repeated.predict(X, base=base), p, rtol=1e-9)


@pytest.mark.slow
def test_default_fit_by_exposure_and_by_weight_is_the_same():
    X, e, base, _, y = claims()
    model = rc.fit(base, X, y, exposure=e)
    assert (model.link, model.rounds.link, model.bounds_) == ("log", "log-poisson", (0.0, None))
    by_weight = rc.fit(base, X, y / e, sample_weight=e, link="log")
    assert by_weight.fingerprint_ == model.fingerprint_


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_functions_are_the_generalised_linear_model(link, weighted):
    """Newton steps over H=Linear from a constant end at the maximum of the likelihood."""
    X, e, _, _, y = claims(link=link)
    e = e if weighted else np.ones(len(e))
    power = {"log-poisson": 1.0, "log-gamma": 2.0}.get(link, 1.5)
    design = np.column_stack([X["age"] / 100, X["sex"] == "F"]).astype(float)
    truth = TweedieRegressor(power=power, alpha=0.0, link="log", tol=1e-10, max_iter=5000)
    truth.fit(design, y / e, sample_weight=e)
    constant = np.full(len(X), np.average(y / e, weights=e))
    loop = rc.Loop(levels=1, step=1.0, max_rounds=15, l2=0.0)
    H = rc.Linear(features=["age", "sex"])
    model = rc.fit(constant, X, y, H, exposure=e, link=link, loop=loop, validation=False)
    # Columns are rounded to 2^-15 of their range.
    found = model.predict(X, base=constant)
    assert np.allclose(found, truth.predict(design), rtol=1e-3)


@pytest.mark.parametrize("link", ["log-poisson", "log-gamma"])
def test_groups_are_right_on_average(link):
    X, e, base, _, y = claims(link=link)
    loop = rc.Loop(levels=1, step=1.0, max_rounds=30, l2=0.0)
    H = rc.Groups("sex", "town")
    model = rc.fit(base, X, y, H, exposure=e, link=link, loop=loop, validation=False)
    p = model.predict(X, base=base)
    for column in ("sex", "town"):
        for value in X[column].unique():
            rows = (X[column] == value).to_numpy()
            if link == "log-poisson":
                assert observed_to_expected(y[rows], p[rows], e[rows]) == pytest.approx(1, abs=1e-6)
            else:  # a gamma deviance balances ratios
                ratio = np.average(y[rows] / e[rows] / p[rows], weights=e[rows])
                assert ratio == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_default_fit_corrects_what_is_wrong_and_leaves_what_is_right():
    X, e, base, rate, y = claims(8000)
    model = rc.fit(base, X, y, H=rc.Groups("sex", "age < 30"), exposure=e)
    p = model.predict(X, base=base)
    assert np.mean((np.log(p) - np.log(rate)) ** 2) < 0.1 * np.mean(np.log(base / rate) ** 2)
    right = rc.fit(rate, X, y, exposure=e)
    assert not right.rounds.steps
    assert (right.predict(X, base=rate) == rate).all()


def test_a_few_rows_without_a_claim_do_not_abolish_claims():
    """Their residuals scatter little, which is no certainty."""
    X, _, _, _, _ = claims(20)
    base, e = np.full(20, 0.1), np.full(20, 0.65)
    model = rc.fit(base, X, np.zeros(20), exposure=e)
    assert (model.predict(X, base=base) == base).all()
    assert "all labels are 0" in model.summary()
    one = rc.fit(base, X, np.arange(20) == 3, exposure=e, H=rc.Groups("sex"))
    assert one.predict(X, base=base).min() > 0.02


def test_base_on_the_log_scale():
    X, e, base, _, y = claims()
    options = {"H": rc.Groups("sex"), "exposure": e}
    model = rc.fit(np.log(base), X, y, base_link="log", **options)
    expected = rc.fit(base, X, y, **options).predict(X, base=base)
    # The logarithm of a mean is rounded to 2^-24.
    assert np.allclose(model.predict(X, base=np.log(base)), expected, rtol=1e-6)


@pytest.mark.slow
def test_objective_of_the_base_decides():
    X, e, _, _, y = claims(600)
    numbers = X[["age"]]
    base = PoissonRegressor().fit(numbers, y / e, sample_weight=e)
    loop = {"H": rc.Groups("age < 30"), "loop": rc.Loop(max_rounds=1), "validation": False}
    assert rc.fit(base, numbers, y, exposure=e, **loop).rounds.link == "log-poisson"
    assert rc.fit(base, numbers, np.minimum(y, 1), **loop).rounds.link == "log-poisson"
    assert rc.fit(base, numbers, y, exposure=e, link="identity", **loop).link == "identity"
    gamma = rc.fit(base, numbers, y + 1, link="log-gamma", **loop)
    assert gamma.rounds.link == "log-gamma"
    more = gamma.refit(numbers, y + 1, loop=rc.Loop(max_rounds=1), validation=False)
    assert more.rounds.link == "log-gamma"
    power = TweedieRegressor(power=1.7).fit(numbers, y)
    assert rc.fit(power, numbers, y, link="log", **loop).rounds.link == "log-tweedie-1.7"


@pytest.mark.parametrize("bounds", [(0, None), (None, 2.0), (0, 2.0), None])
def test_predictions_keep_the_bounds(bounds):
    """A line through scores that leave the range, on the identity link."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=2000)})
    y = np.clip(X["x"].to_numpy() + rng.normal(size=2000), 0, 2)
    base = 1.0 + 2.0 * X["x"].to_numpy()
    for loop in (None, rc.Loop(max_rounds=0)):
        model = rc.fit(
            base, X, y, bounds=bounds, link="identity", loop=loop, validation=loop and False
        )
        p = model.predict(X, base=base)
        low, high = bounds or (None, None)
        assert (p.min() >= 0) == (low is not None)
        assert (p.max() <= 2) == (high is not None)
        assert model.bounds_ == tuple(
            None if b is None else float(b) for b in bounds or (None,) * 2
        )


def test_scores_of_zero_are_warned_of():
    X, e, base, _, y = claims(200)
    with pytest.warns(UserWarning, match="1 of 200 base scores are 0 or less"):
        rc.fit(np.where(np.arange(200) == 7, 0.0, base), X, y, rc.Groups("sex"), exposure=e)


@pytest.mark.slow
def test_regressor_by_exposure():
    X, e, _, _, y = claims(1500)
    numbers = X[["age"]]
    model = rc.RecalibratedRegressor(PoissonRegressor(), H=rc.Groups("age < 30"), random_state=0)
    model.fit(numbers, y, exposure=e)
    assert model.model_.rounds.link == "log-poisson"
    assert observed_to_expected(y, model.predict(numbers), e) == pytest.approx(1, abs=0.1)
    by_weight = rc.RecalibratedRegressor(
        PoissonRegressor(), H=rc.Groups("age < 30"), random_state=0
    )
    by_weight.fit(numbers, y / e, sample_weight=e)
    assert (by_weight.predict(numbers) == model.predict(numbers)).all()


def test_what_is_refused():
    X, e, base, _, y = claims(50)
    with pytest.raises(ValueError, match=r"exposure must be above zero.*0.0 in row 3"):
        rc.fit(base, X, y, exposure=np.where(np.arange(50) == 3, 0.0, e))
    with pytest.raises(ValueError, match=r"y must be above zero.*gamma.*log-tweedie"):
        rc.fit(base, X, y, exposure=e, link="log-gamma")
    with pytest.raises(ValueError, match=r"y must lie inside bounds=\(0, None\)"):
        rc.fit(base, X, y - 5, link="log")
    with pytest.raises(ValueError, match="allow negative labels"):
        rc.fit(base, X, y, link="log", bounds=(-1, None))
    with pytest.raises(ValueError, match=r"link must be .*log-tweedie-1.5.*got 'log-normal'"):
        rc.fit(base, X, y, link="log-normal")
    with pytest.raises(ValueError, match="the lower bound must be a finite number"):
        rc.fit(base, X, y, bounds=("a", None))
    classifier = LogisticRegression().fit(X[["age"]], y > 0)
    with pytest.raises(ValueError, match=r"'log-poisson' is for counts.*classifier"):
        rc.fit(classifier, X[["age"]], y, link="log")
    with pytest.raises(ValueError, match="exposure= needs totals"):
        rc.fit(base, X, X["town"], exposure=e)


class TestRatesNeedTheirExposure:
    """Predictions per unit of exposure are never compared with totals as they are."""

    NEEDED = r"fitted with exposure=.*Pass exposure= here.*--exposure"

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls):
        X, e, _, _, y = claims(1500)
        tariff = PoissonRegressor().fit(X[["age"]], y / e, sample_weight=e)
        return rc.fit(tariff, X, y, rc.Groups("sex"), exposure=e), X, y, e

    def test_an_audit(self, fitted, tmp_path):
        model, X, y, e = fitted
        assert model.predicts_rates
        loaded = rc.load(model.save(tmp_path / "m.rcal"))
        model.to_onnx(tmp_path / "m.onnx", X)
        served = rc.load(tmp_path / "m.onnx")
        for each in (model, loaded, served):
            with pytest.raises(ValueError, match=self.NEEDED):
                rc.audit(each, X, y)
            with pytest.raises(ValueError, match=self.NEEDED):
                rc.audit({"one": each, "two": model}, X, y)
            with pytest.raises(ValueError, match=self.NEEDED):
                rc.audit(np.full(len(y), 0.3), X, y, baseline=each)
        same = rc.audit(model, X, y, exposure=e)
        assert rc.audit(loaded, X, y, exposure=e).table.equals(same.table)
        # Exposures of one say that y is a rate already; only the noise is then not known to fall.
        ones = rc.audit(model, X, y / e, sample_weight=e, exposure=np.ones(len(y)))
        gaps = ["group", "rows", "mean_prediction", "mean_outcome", "gap"]
        pd.testing.assert_frame_equal(ones.table[gaps], same.table[gaps])

    @pytest.mark.slow
    def test_an_estimator(self):
        X, e, _, _, y = claims(600)
        numbers = X[["age"]]
        model = rc.RecalibratedRegressor(PoissonRegressor(), H=rc.Groups("age < 30"), cv=2)
        model.fit(numbers, y, exposure=e)
        with pytest.raises(ValueError, match=self.NEEDED):
            rc.audit(model, numbers, y)

    def test_a_refit_and_validation_rows(self, fitted, tmp_path):
        model, X, y, e = fitted
        with pytest.raises(ValueError, match=self.NEEDED):
            model.refit(X, y)
        model.to_onnx(tmp_path / "m.onnx", X)
        with pytest.raises(ValueError, match=self.NEEDED):
            rc.fit(tmp_path / "m.onnx", X, y, rc.Groups("sex"))
        assert model.refit(X, y, exposure=e).predicts_rates
        with pytest.raises(ValueError, match=self.NEEDED):
            rc.fit(model, X, y, rc.Groups("sex"), exposure=e, validation=(X, y))

    def test_rows_in_pieces(self, fitted, tmp_path):
        _, X, y, e = fitted
        rows = X.assign(y=y, years=e, p=0.3)
        pieces = [rows[:800], rows[800:]]
        model = rc.fit("p", lambda: pieces, "y", rc.Groups("sex"), exposure="years")
        assert model.predicts_rates
        with pytest.raises(ValueError, match=self.NEEDED):
            rc.audit(model, lambda: pieces, "y", base="p")

    def test_the_summary_says_what_is_predicted(self, fitted, tmp_path):
        model, *_ = fitted
        for each in (model, rc.load(model.save(tmp_path / "m.rcal"))):
            assert "mean of y per unit of exposure (0 or more)" in each.summary()

    def test_a_monitor(self, fitted, tmp_path):
        model, X, y, e = fitted
        monitor = rc.Monitor(model, groups="sex", tolerance=0.05).start(X)
        with pytest.raises(ValueError, match=self.NEEDED):
            monitor.update(X, y)
        monitor.update(X, None)  # scores alone are compared with scores
        monitor.update(X, y, exposure=e)
        again = rc.Monitor.load(monitor.save(tmp_path / "state.json"))
        with pytest.raises(ValueError, match=self.NEEDED):
            again.update(X, y, scores=model.predict(X), force=True)
        with pytest.raises(ValueError, match=self.NEEDED):
            monitor.report(X, y)
        assert monitor.report(X, y, exposure=e).advice is not None
        gap = monitor.table.set_index("group")["gap"]
        everyone = np.average(y / e - model.predict(X), weights=e)
        assert gap["all"] == pytest.approx(everyone, abs=1e-9)
        rates = rc.Monitor(model.predict, groups="sex", tolerance=0.05, bounds=(0, 8)).start(X)
        rates.update(X, None)
        rates.update(X, y / e, sample_weight=e)
        assert rates.table["gap"].to_numpy() == pytest.approx(gap.to_numpy(), abs=1e-9)
