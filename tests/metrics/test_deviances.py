"""Deviances against scikit-learn, decompositions against model-diagnostics and by hand."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from sklearn.metrics import log_loss, mean_tweedie_deviance

from recalibrate.metrics import decompose, deviance, isotonic_means

ROW = np.arange(40)
F = (1 + (7 * ROW) % 13) / 10.0
COUNT = ((5 * ROW) % 11 % 4).astype(float)
P = (1 + (7 * ROW) % 13) / 15.0
EVENT = ((5 * ROW) % 11 < 4).astype(float)
WEIGHT = 1.0 + ROW % 3

# model_diagnostics.scoring.decompose, version 1.5.0, on exactly these rows: miscalibration,
# discrimination, uncertainty, score.
STORED = {
    "squared": (F, COUNT, 0.6677215189873418, 0.0456657586925171, 1.1469315814773273,
                1.768987341772152),
    "poisson": (F, COUNT, 1.0666324165895429, 0.03556345533325245, 1.1003197804939573,
                2.1313887417502477),
    "gamma": (F, COUNT + 1, 6.5454637838840934, 0.008741629761595482, 0.2374183105702234,
              6.774140464692722),
    "log_loss": (P, EVENT, 0.1581261193011977, 0.288960915797307, 0.6501461619120047,
                 0.5193113654158954),
}  # fmt: skip


@pytest.mark.parametrize("loss", STORED)
def test_the_parts_are_those_of_model_diagnostics(loss):
    f, y, *stored = STORED[loss]
    own = decompose(f, y, loss=loss, sample_weight=WEIGHT)
    parts = [own.miscalibration, own.discrimination, own.uncertainty, own.score]
    # Sums in another order.
    np.testing.assert_allclose(parts, stored, rtol=1e-12)
    assert own.miscalibration - own.discrimination + own.uncertainty == pytest.approx(own.score)


@pytest.mark.parametrize(("loss", "power"), [("poisson", 1), ("gamma", 2), ("tweedie-1.3", 1.3)])
def test_deviances_are_those_of_scikit_learn(loss, power):
    expected = mean_tweedie_deviance(COUNT + 1, F, sample_weight=WEIGHT, power=power)
    assert deviance(F, COUNT + 1, loss=loss, sample_weight=WEIGHT) == pytest.approx(expected)
    assert deviance(F, COUNT + 1, loss=power, sample_weight=WEIGHT) == pytest.approx(expected)
    found = deviance(P, EVENT, loss="log_loss")
    assert found == pytest.approx(log_loss(EVENT, P))


def test_a_row_of_weight_two_is_the_row_twice_and_weight_zero_is_no_row():
    weight = np.append(2.0 + 0.0 * ROW[:20], 0.0 * ROW[20:])
    twice = np.repeat(np.arange(20), 2)
    for loss in ("squared", "poisson"):
        own = decompose(F, COUNT, loss=loss, sample_weight=weight)
        other = decompose(F[twice], COUNT[twice], loss=loss)
        assert own.score == pytest.approx(other.score)
        assert own.miscalibration == pytest.approx(other.miscalibration)


def test_isotonic_means_are_calibrated_and_a_constant_discriminates_nothing():
    best = decompose([0.0, 1.0, 1.0, 4.0], [0, 0, 2, 4], loss="squared")
    assert (best.miscalibration, best.score) == (0.0, 0.5)
    flat = decompose(np.full(40, 1.1), COUNT, loss="poisson")
    assert flat.discrimination == 0.0


@pytest.mark.parametrize("groups", [1, 2, 40, 3000])
@pytest.mark.parametrize("kind", ["events", "shares", "numbers"])
def test_isotonic_means_are_those_of_scipy(groups, kind):
    rng = np.random.default_rng(groups)
    rising = np.linspace(0.2, 0.8, groups)
    mass = np.ones(groups) if kind == "events" else rng.integers(1, 6, groups) + 0.5 * rising
    means = {
        "events": (rng.random(groups) < rising) * 1.0,
        "shares": rng.binomial(5, rising) / 5,
        "numbers": rng.normal(rising),
    }[kind]
    found = isotonic_means(means, mass)
    # The same operations in the same order; compilers of some machines fuse two into one.
    np.testing.assert_allclose(found, isotonic_regression(means, weights=mass).x, rtol=1e-14)


@pytest.mark.parametrize(
    ("f", "y", "loss", "said"),
    [
        ([0.0, 1.0], [0, 1], "poisson", "predictions above 0.*0 in row 0"),
        ([1.0, 1.0], [0, -1], "poisson", "outcomes of at least 0.*-1 in row 1"),
        ([1.0, 1.0], [1, 0], "gamma", "outcomes above 0.*0 in row 1"),
        ([1.5, 0.5], [0, 1], "log_loss", r"in \[0, 1\].*1.5 in row 0"),
        ([1.0, 1.0], [1, 0], "huber", "loss must be .*got 'huber'"),
        ([1.0, 1.0], [1, 0], 0.5, "loss must be .*got 0.5"),
    ],
)
def test_what_a_loss_has_no_value_for_is_refused(f, y, loss, said):
    with pytest.raises(ValueError, match=said):
        deviance(f, y, loss=loss)
