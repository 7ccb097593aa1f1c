"""Families: losses as scikit-learn's, slopes as the losses', names as files have them."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_squared_error, mean_tweedie_deviance

from recalibrate.core.family import family

NAMES = ("identity", "logit", "log-poisson", "log-tweedie-1.3", "log-gamma")


def rows(name, n=200):
    rng = np.random.default_rng(0)
    f = rng.normal(size=n)
    y = {
        "identity": rng.normal(size=n),
        "logit": (rng.random(n) < 0.4).astype(float),
        "log-gamma": rng.gamma(2.0, size=n),
    }.get(name, rng.poisson(0.7, n).astype(float))
    return y, f


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_scikit_learn(name):
    y, f = rows(name)
    own = family(name)
    mean = own.from_margin(f)
    if name == "identity":
        expected = mean_squared_error(y, mean)
    elif name == "logit":
        expected = log_loss(y, mean)
    else:
        expected = mean_tweedie_deviance(y, mean, power=own.power)
    assert own.losses(y, f).mean() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_those_of_the_likelihood(name):
    y, f = rows(name)
    own = family(name)
    g, h = own.slopes(y, f)
    step = 1e-6
    up, down = (own.fit_of(1.0, y, f + d) for d in (step, -step))
    # A difference over 2e-6 keeps about ten digits.
    assert np.allclose(g, (down - up) / (2 * step), rtol=1e-6, atol=1e-7)
    # The expected curvature: that of labels which are what is predicted.
    mean = own.from_margin(f)
    high, low = (own.slopes(mean, f + d)[0] for d in (step, -step))
    assert np.allclose(h, (low - high) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dispersion", [1.0, 3.0])
def test_noise_of_counts_is_their_dispersion(dispersion):
    rng = np.random.default_rng(1)
    n = 200_000
    exposure = rng.uniform(0.1, 2.0, n)
    rate = np.exp(rng.normal(-1.0, 0.5, n))
    mean = rate * exposure
    # A negative binomial count has the variance mean * dispersion.
    spread = 1.0 if dispersion == 1 else rng.gamma(mean / (dispersion - 1), (dispersion - 1) / mean)
    y = rng.poisson(mean * spread)
    found = family("log").noise(y / exposure, np.log(rate), exposure)
    # Four standard errors of a mean of n squares, whose own spread is about 4 at such rates.
    assert found == pytest.approx(dispersion, abs=4 * 8 * dispersion / np.sqrt(n))
    assert family("logit").noise(y, np.log(rate), None) == 1.0


def test_names():
    assert [family(name).name for name in NAMES] == list(NAMES)
    assert family("log") is not None
    assert family("log").name == "log-poisson"
    assert family("log-tweedie").name == "log-tweedie-1.5"
    assert family("log-tweedie-1").name == "log-poisson"
    said = {name: family(name).loss for name in NAMES}
    assert said["log-poisson"] == "Poisson deviance"
    assert said["log-tweedie-1.3"] == "Tweedie deviance of power 1.3"


@pytest.mark.parametrize("name", ["", "probit", "log-normal", "log-tweedie-3", "log-tweedie-x"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=f"link must be .* got '{name}'"):
        family(name)
