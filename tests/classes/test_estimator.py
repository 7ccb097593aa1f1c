"""Estimator: any regressor of scikit-learn, on every level set."""

import numpy as np
import pytest
from onestep import fitted, two_levels
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc


@pytest.mark.parametrize(
    "regressor", [DecisionTreeRegressor(max_depth=3, random_state=0), Ridge(2.0)], ids=repr
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_estimator_is_scikit_learn_on_every_level_set(regressor, weighted, n_jobs):
    X, base, response = two_levels()
    X = X.astype(np.float32)
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0 if weighted else None
    H = rc.Estimator(regressor, n_jobs=n_jobs)
    found = fitted(X, response, H, levels=base, weight=weight)
    expected = np.empty(len(X))
    for v in (0.25, 0.75):
        rows = base == v
        # Labels reach the regressor scaled by 1/3, which neither of the two minds.
        own = None if weight is None else weight[rows]
        model = regressor.fit(X[rows].to_numpy(), response[rows], sample_weight=own)
        expected[rows] = model.predict(X[rows].to_numpy())
    # Features are float32.
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_estimator_without_sample_weight():
    X, base, response = two_levels(100)
    H = rc.Estimator(KNeighborsRegressor(3))
    assert np.isfinite(fitted(X, response, H, levels=base)).all()
    np.testing.assert_array_equal(
        fitted(X, response, H, levels=base, weight=np.full(100, 2.5)),
        fitted(X, response, H, levels=base),
        err_msg="equal weights are no weights",
    )
    with pytest.raises(ValueError, match=r"KNeighborsRegressor.*no sample_weight.*link='identity'"):
        fitted(X, response, H, levels=base, weight=np.arange(1, 101))
    scores, y = np.linspace(0.1, 0.9, 100), (response > 0) * 1.0
    with pytest.raises(ValueError, match="no sample_weight"):
        rc.fit(scores, X, y, H, validation=False, loop=rc.Loop(max_rounds=1), link="logit")


def test_estimator_gets_the_weights_as_given():
    """A penalty of the regressor's own is in units of these weights."""
    X, base, response = two_levels()
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0
    seen = []

    class Watching(Ridge):
        def fit(self, X, y, sample_weight=None):
            seen.append(sample_weight)
            return super().fit(X, y, sample_weight=sample_weight)

    fitted(X, response, rc.Estimator(Watching()), levels=base, weight=weight)
    for given, v in zip(seen, (0.25, 0.75), strict=True):
        np.testing.assert_array_equal(given, weight[base == v])


def test_estimator_does_not_touch_the_regressor_given():
    X, base, response = two_levels(100)
    regressor = LinearRegression()
    fitted(X, response, rc.Estimator(regressor), levels=base)
    assert not hasattr(regressor, "coef_")


def test_estimator_takes_a_share_of_the_step():
    X, base, response = two_levels()
    y = np.clip(base + response, 0, 1)
    H = rc.Estimator(LinearRegression())
    full, half = (
        rc.fit(
            base, X, y, H, loop=rc.Loop(step=step, levels=2, max_rounds=1), validation=False
        ).margins(X, base=base)
        for step in (1.0, 0.5)
    )
    # Half a step and half of a step: sums of float64, rounded differently.
    np.testing.assert_allclose(half - base, (full - base) / 2, atol=1e-9)
