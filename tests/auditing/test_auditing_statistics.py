"""The statistics of the audit against exact probabilities and simulations."""

import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from recalibrate.auditing import audit
from recalibrate.auditing.measure.limits import critical_value, holm
from recalibrate.auditing.measure.shift import Shifts

RUNS = 100
SETS = 40
"""Data sets of a kind here; `benchmarks/audit.py coverage` takes a thousand."""


def load_kinds():
    path = Path(__file__).parents[2] / "benchmarks" / "audit_kinds.py"
    spec = importlib.util.spec_from_file_location("audit_kinds", path)
    module = sys.modules["audit_kinds"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KINDS, truths = load_kinds().KINDS, load_kinds().truths


def people(rng, n):
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(list("abcd"), n, p=[0.6, 0.25, 0.12, 0.03]),
            "age": rng.uniform(18, 90, n),
        }
    )


def covered(report):
    table = report.full_table
    return not ((table["low"] > 0) | (table["high"] < 0)).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("rare", "near certain", "weights", "clusters", "noisy", "certain", "rare noisy"),
        *("without events", "certain, two scores", "few noisy", "zero-inflated"),
        *("soft, off", "unequal", "lognormal", "claims", "clustered numbers", "tweedie, off"),
    ],
)
def test_limits_cover_the_true_gaps_of_all_groups_at_once(name):
    """Calibrated or not, whatever the noise: limits of 95 % miss nothing in 95 % of samples."""
    kind = KINDS[name]
    count = alarms = cumulative = 0
    for seed in range(SETS):
        rng = np.random.default_rng([seed, 10_000])
        X = kind.table(rng, kind.rows)
        rows = kind.draw(rng, X)
        table = audit(rows.f, X, rows.y, True, depth=2, **rows.options).full_table
        outside = (table["low"] > 0) | (table["high"] < 0)
        assert (outside == table["off"]).all()
        assert ((table["p_holm"] < 0.05) == table["off"]).all()
        truth = known_gaps(name, tuple(table["group"]))
        count += not ((table["low"] > truth) | (table["high"] < truth)).any()
        alarms += bool(table["off"].any())
        cumulative += table["ecce_p_holm"].min() < 0.05
    # Misses, and false alarms of each test, are at most binomial with 5 %: a bound that one kind
    # in a thousand would break by chance. Where a group's own few rows and all others say
    # different things the wider limits count, so that no miss at all is no surprise.
    most = int(binom.isf(0.001, SETS, 0.05))
    assert SETS - count <= most
    if kind.calibrated:
        assert alarms <= most
        assert cumulative <= most


@functools.cache
def population_gaps(name):
    """True gaps by group; those of calibrated kinds are zero."""
    kind = KINDS[name]
    return {} if kind.calibrated else {g: own.gap for g, own in truths(kind).items()}


def known_gaps(name, groups):
    known = population_gaps(name)
    return np.array([known.get(group, 0.0) for group in groups])


def household_labels(rng, f, size):
    """Labels with the given probabilities that depend on each other within a household."""
    shared = np.repeat(rng.normal(size=len(f) // size), size)
    return (ndtr(np.sqrt(0.5) * shared + np.sqrt(0.5) * rng.normal(size=len(f))) < f).astype(float)


@pytest.mark.slow
def test_clusters_make_limits_honest():
    ignored = respected = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        household = np.repeat(np.arange(150), 4)
        X = people(rng, 150).iloc[household].reset_index(drop=True)
        f = rng.beta(2, 4, 600)
        y = household_labels(rng, f, 4)
        ignored += covered(audit(f, X, y, ["sex", "race"]))
        respected += covered(audit(f, X, y, ["sex", "race"], cluster=household))
    assert respected >= 88
    assert ignored <= respected - 15


def test_repeating_every_row_changes_nothing_if_clusters_say_so():
    rng = np.random.default_rng(3)
    n = 2000
    X, f = people(rng, n), rng.beta(2, 4, n)
    y = (rng.random(n) < f).astype(float)
    once = audit(f, X, y, ["sex"], cluster=np.arange(n)).full_table
    twice = np.repeat(np.arange(n), 2)
    again = audit(f[twice], X.iloc[twice], y[twice], ["sex"], cluster=twice).full_table
    for name in ("gap", "gap_se", "ecce"):
        # Sums of float64 in another order.
        np.testing.assert_allclose(again[name], once[name], rtol=1e-9)
    # The design effect is estimated, 2 in truth; it was 1 before.
    for name in ("low", "high", "ecce_sigma"):
        np.testing.assert_allclose(again[name], once[name], rtol=0.02, atol=1e-3)
    assert again["clusters"].tolist() == once["clusters"].tolist()


@pytest.mark.parametrize(("n", "p"), [(8, 0.5), (30, 0.02), (30, 0.1), (300, 0.01), (40, 0.97)])
def test_scores_of_binary_labels_have_the_exact_tail_probabilities(n, p):
    """Half of P(S = s) counts: the mid-p value of the binomial distribution."""
    s = np.arange(n + 1)
    exact = binom.sf(s, n, p) + binom.pmf(s, n, p) / 2
    s, exact = s[(exact > 1e-7) & (exact < 1 - 1e-7)], exact[(exact > 1e-7) & (exact < 1 - 1e-7)]
    size = len(s)
    shifts = Shifts(np.full((size, 1), float(n)), np.full((size, 1), p), s * 1.0, np.ones(size))
    tail = ndtr(-shifts.score(np.zeros(size)))
    side = np.minimum(exact, 1 - exact), np.minimum(tail, 1 - tail)
    # A normal approximation is off by factors up to 10,000 here.
    np.testing.assert_allclose(side[1], side[0], rtol=0.4)


def test_limits_of_binary_labels_invert_the_score():
    shifts = Shifts(
        np.array([[10.0, 20.0], [3.0, 4.0], [5.0, 0.0]]),
        np.array([[0.1, 0.4], [0.2, 0.9], [0.3, 0.0]]),
        np.array([14.0, 5.0, 0.0]),
        np.ones(3),
    )
    low, high = shifts.limits(np.full(3, 2.0))
    observed = np.array([14 / 30 - 9 / 30, 5 / 7 - 4.2 / 7, -0.3])
    # Nothing happened in the third group: its lower limit is what was observed, rounded.
    assert (low < observed + 1e-9).all()
    assert (high > observed).all()
    # Nothing happened in the last group: everything down to "never" is possible.
    assert low[2] == pytest.approx(-0.3)
    assert 0 < high[2] < 0.5


def test_critical_value_of_nested_and_of_independent_groups():
    # Simulated critical values have a standard error below .02.
    assert critical_value(np.eye(30), 30, 0.05) == pytest.approx(
        critical_value(None, 30, 0.05), abs=0.05
    )
    near = np.full((30, 30), 0.98) + 0.02 * np.eye(30)
    assert critical_value(near, 30, 0.05) < 2.4


def test_correlations_of_overlapping_groups_are_used():
    rng = np.random.default_rng(0)
    f = rng.random(1000)
    y = (rng.random(1000) < f).astype(float)
    nested = {f"first {k}": np.arange(1000) < k for k in range(900, 1000, 5)}
    apart = {f"piece {k}": np.arange(1000) // 50 == k for k in range(20)}
    assert audit(f, None, y, nested).critical < 2.4
    # Simulated, and the groups' scores are a little correlated.
    assert audit(f, None, y, apart).critical == pytest.approx(
        critical_value(None, 21, 0.05), abs=0.1
    )


def test_holm_against_a_slow_one():
    p = np.array([0.2, 0.01, np.nan, 0.011, 0.9, 0.01])
    told = sorted(x for x in p if not np.isnan(x))
    slow = {}
    reached = 0.0
    for rank, value in enumerate(told):
        reached = max(reached, min(1.0, value * (len(told) - rank)))
        slow[value] = max(slow.get(value, 0.0), reached) if value in slow else reached
    found = holm(p)
    assert np.isnan(found[2])
    # The same products in another order.
    assert found[0] == pytest.approx(slow[0.2])
    assert sorted(found[[1, 5]]) == pytest.approx([0.05, 0.05])


@pytest.mark.slow
@pytest.mark.parametrize(("base", "rows"), [(0.3, 1500), (0.02, 1500), (0.9, 300)])
def test_detectable_gaps_are_detected_80_times_in_100(base, rows):
    rng = np.random.default_rng(0)
    f = np.full(rows, base)
    table = audit(f, None, (rng.random(rows) < f).astype(float)).full_table
    for gap in (table["detectable_low"][0], table["detectable_high"][0]):
        found = 0
        for _ in range(60):
            y = (rng.random(rows) < f + gap).astype(float)
            one = audit(f, None, y).full_table
            found += bool(one["off"][0]) and np.sign(one["gap"][0]) == np.sign(gap)
        # 48 expected, standard deviation 3.
        assert found == pytest.approx(48, abs=10)


def test_gaps_that_cannot_be_or_cannot_be_found_are_not_called_detectable():
    f = np.full(40, 0.02)
    table = audit(f, None, (np.arange(40) < 1).astype(float)).full_table
    assert np.isnan(table["detectable_low"][0])  # not even no event at all would be surprising
    assert 0 < table["detectable_high"][0] < 0.98
    assert table["detectable"][0] == table["detectable_high"][0]


def test_extreme_weights_are_said_to_tell_little():
    rng = np.random.default_rng(0)
    weight = np.where(np.arange(500) < 3, 1000.0, 1.0)
    f = rng.uniform(0.2, 0.8, 500)
    report = audit(f, None, rng.random(500) < f, sample_weight=weight)
    assert report.groups[0].effective_rows == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert report.groups[0].effective_rows < 5
    assert np.isnan(report.table["low"][0])
    assert "effective rows" in report.to_markdown()


@pytest.mark.parametrize(("low", "width"), [(0.0, 1e-6), (1e6, 3.0), (-5.0, 1e5)])
def test_bin_edges_of_a_regression_reproduce_its_bins(low, width):
    rng = np.random.default_rng(0)
    f = low + width * np.round(rng.normal(size=600), 2)
    report = audit(f, None, f + width * rng.normal(size=600))
    place = np.searchsorted(report.bin_edges, f, side="right")
    assert tuple(np.bincount(place)) == report.groups[0].after.curve.rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "mapped",
    [
        lambda x: (0.6 * x + 0.05, 0.9 * x + 0.02),
        lambda x: (0.8 * x + 0.1, x),
        lambda x: (0.8 * x + 0.1, 0.81 * x + 0.1),  # nearly the same
    ],
)
def test_standard_errors_of_differences_are_those_of_repeated_samples(mapped):
    rng = np.random.default_rng(0)
    columns = ["mse", "log_loss", "gap"]
    values, errors = [], []
    for _ in range(100):
        x = rng.uniform(0.1, 0.9, 800)
        before, after = mapped(x)
        y = (rng.random(800) < x).astype(float)
        row = audit(after, None, y, baseline=before).full_table.iloc[0]
        values.append([row[f"change_{name}"] for name in columns])
        errors.append([row[f"change_{name}_se"] for name in columns])
    # A standard deviation of 100 values is known to 7 %.
    assert np.median(errors, axis=0) / np.std(values, axis=0) == pytest.approx(1.0, rel=0.22)


def test_predictions_that_are_the_same_differ_by_nothing():
    rng = np.random.default_rng(0)
    f = rng.uniform(0.1, 0.9, 600)
    y = (rng.random(600) < f).astype(float)
    row = audit(f, None, y, baseline=f).full_table.iloc[0]
    for name in ("gap", "mse", "log_loss"):
        assert row[f"change_{name}"] == row[f"change_{name}_se"] == 0


def test_standard_errors_of_differences_respect_clusters():
    rng = np.random.default_rng(1)
    x = rng.uniform(0.1, 0.9, 500)
    y = (rng.random(500) < x).astype(float)
    before, after = 0.6 * x, 0.9 * x
    four = np.repeat(np.arange(500), 4)
    once = audit(after, None, y, baseline=before).full_table
    again = audit(after[four], None, y[four], baseline=before[four], cluster=four).full_table
    for name in ("gap", "mse", "log_loss"):
        # Sums of float64 in another order.
        np.testing.assert_allclose(again[f"change_{name}"], once[f"change_{name}"], atol=1e-12)
        np.testing.assert_allclose(again[f"change_{name}_se"], once[f"change_{name}_se"], rtol=1e-9)


@pytest.mark.slow
def test_bands_of_the_reliability_curve_cover_all_bins():
    inside = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        f = rng.beta(1, 6, 400)
        curve = audit(f, None, (rng.random(400) < f).astype(float)).groups[0].after.curve
        # The truth of a bin is its mean prediction.
        truth = np.array(curve.prediction)
        inside += bool(
            (np.array(curve.low) <= truth).all() and (truth <= np.array(curve.high)).all()
        )
    assert inside >= 88


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_group_whose_outcomes_are_all_equal_has_useful_limits(outcome):
    """Close to those of Clopper and Pearson for as many groups, instead of all there can be."""
    rng = np.random.default_rng(1)
    f = np.clip(0.05 * np.exp(0.8 * rng.normal(size=6000) - 0.32), 1e-5, 0.9)
    y = (rng.random(6000) < f).astype(float)
    y[:200] = 0.0
    if outcome:
        f, y = 1.0 - f, 1.0 - y
    X = pd.DataFrame({"g": np.where(np.arange(6000) < 200, "s", "rest")})
    own = audit(f, X, y, groups=["g"]).full_table.set_index("group").loc["g = s"]
    exact = 1.0 - (0.05 / 3 / 2) ** (1 / 200)  # the most events that none of 200 may mean
    near = own["gap"] - own["low"] if outcome else own["high"] - own["gap"]
    assert 0.5 * exact < near < 1.1 * exact
    assert abs(own["low"] if not outcome else own["high"]) < 0.1
