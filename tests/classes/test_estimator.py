"""Estimator: any regressor of scikit-learn, on every level set."""

import numpy as np
import pytest
from onestep import fitted, two_levels
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc
from recalibrate.classes.estimator import Affine


@pytest.mark.parametrize(
    "regressor", [DecisionTreeRegressor(max_depth=3, random_state=0), Ridge(2.0)], ids=repr
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_estimator_is_scikit_learn_on_every_level_set(regressor, weighted, n_jobs):
    X, base, response = two_levels()
    X = X.astype(np.float32)
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0 if weighted else None
    H = rc.Estimator(regressor, n_jobs=n_jobs, affine=False)
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

    fitted(X, response, rc.Estimator(Watching(), affine=False), levels=base, weight=weight)
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


def test_a_class_that_is_not_closed_under_affine_maps_is_closed():
    """Ridge shrinks; the best multiple of its prediction is as good as h can be."""
    X, base, response = two_levels()
    X = X.astype(np.float32)
    weight = np.random.default_rng(0).integers(1, 5, len(X)) * 1.0
    shrunk = rc.Estimator(Ridge(1e4))
    found = fitted(X, response, shrunk, levels=base, weight=weight)
    for v in (0.25, 0.75):
        rows = base == v
        inner = X[rows].to_numpy()
        h = Ridge(1e4).fit(inner, response[rows], sample_weight=weight[rows]).predict(inner)
        design = np.column_stack([np.ones(rows.sum()), h]) * np.sqrt(weight[rows])[:, None]
        best = np.linalg.lstsq(design, response[rows] * np.sqrt(weight[rows]), rcond=None)[0]
        # Labels are scaled before they reach the regressor; features are float32.
        np.testing.assert_allclose(found[rows], best[0] + best[1] * h, atol=1e-6)
    plain = fitted(X, response, rc.Estimator(Ridge(1e4), affine=False), levels=base, weight=weight)
    assert np.average((found - response) ** 2, weights=weight) < np.average(
        (plain - response) ** 2, weights=weight
    )


def test_a_least_squares_regressor_stays_as_it_is():
    X, base, response = two_levels()
    np.testing.assert_array_equal(
        fitted(X, response, rc.Estimator(LinearRegression()), levels=base),
        fitted(X, response, rc.Estimator(LinearRegression(), affine=False), levels=base),
    )


@pytest.mark.slow
def test_exact_is_the_word_of_the_user():
    X, base, response = two_levels()
    y = np.clip(base + response, 0, 1)
    options = {"alpha": 0.002}
    claimed = rc.fit(base, X, y, rc.Estimator(LinearRegression(), exact=True), **options)
    assert claimed.certificate_.exact
    same = rc.fit(base, X, y, rc.Linear(), **options).certificate_
    # Linear rounds its columns.
    assert claimed.certificate_.errors == pytest.approx(same.errors, abs=1e-4)
    modest = rc.fit(base, X, y, rc.Estimator(LinearRegression()), **options).certificate_
    assert "exact=True" in modest.reason


RANDOM = [
    make_pipeline(SimpleImputer(), ExtraTreesRegressor(5, max_depth=3)),
    BaggingRegressor(DecisionTreeRegressor(max_depth=2, splitter="random"), 3),
]


@pytest.mark.parametrize("regressor", RANDOM, ids=["pipeline", "nested"])
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_random_regressors_and_pipelines_get_seeds_and_weights(regressor, link):
    X, base, response = two_levels(200)
    y = (response > 0) * 1.0
    loop = rc.Loop(max_rounds=2, levels=2)

    def fit(seed):
        model = rc.fit(
            base, X, y, rc.Estimator(regressor), validation=False, loop=loop, link=link, seed=seed
        )
        return model.predict(X, base=base)

    np.testing.assert_array_equal(fit(0), fit(0))
    assert (fit(0) != fit(1)).any()


@pytest.mark.slow
def test_affine_regressors_survive_a_file_and_a_graph(tmp_path):
    X, base, response = two_levels(300)
    y = np.clip(base + response, 0, 1)
    model = rc.fit(
        base, X, y, rc.Estimator(Ridge(1e3)), validation=False, loop=rc.Loop(max_rounds=2)
    )
    assert any(isinstance(each, Affine) for each in model.rounds.steps[0].table.models)
    loaded = rc.load(model.save(tmp_path / "model.rcal"))
    # Graphs of regressors work in float32.
    np.testing.assert_allclose(loaded.predict(X, base=base), model.predict(X, base=base), atol=1e-5)
    assert model.to_onnx(X_sample=X, base=base) is not None
