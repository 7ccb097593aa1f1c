"""Rates of decisions and ranking by group: against scikit-learn, exact limits, and a simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from recalibrate import Groups
from recalibrate.auditing import audit
from recalibrate.auditing.measure.limits import critical_value
from recalibrate.auditing.measure.rates import Tally, difference_limits, find_rates, ratio_limits
from recalibrate.auditing.measure.segments import read_segments
from recalibrate.auditing.measure.sweep import sum_groups, take_sample
from recalibrate.auditing.views.columns import rate_tables
from recalibrate.data.labels import read_labels
from recalibrate.simulate import census


@pytest.fixture(scope="module")
def data():
    return census(3_000, seed=3, gap=0.1, categorical=True)


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(0).integers(0, 4, 3_000).astype(float)


def value_of(report, measure, group, threshold=0.5):
    (found,) = (r for r in report.rates.of(measure, threshold) if r.group == group)
    return found.after


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_those_of_scikit_learn(data, weight, weighted):
    f = data.scores.round(2)  # with ties
    w = weight if weighted else np.ones(3_000)
    report = audit(
        f, data.X, data.y, ["SEX"], thresholds=[0.3, 0.5], sample_weight=w if weighted else None
    )
    for group, inside in {
        "all": np.ones(3_000, dtype=bool),
        "SEX = female": (data.X["SEX"] == "female").to_numpy(),
    }.items():
        y, score, own = data.y[inside], f[inside], w[inside]
        for threshold in (0.3, 0.5):
            chosen = score >= threshold
            expected = {
                "selection_rate": np.average(chosen, weights=own),
                "tpr": recall_score(y, chosen, sample_weight=own),
                "fpr": 1 - recall_score(y, chosen, sample_weight=own, pos_label=0),
                "ppv": precision_score(y, chosen, sample_weight=own),
            }
            for measure, number in expected.items():
                found = value_of(report, measure, group, threshold)
                # Sums of weights are exact; the quotients differ in their last bits.
                assert found.value == pytest.approx(number, rel=1e-12)
        area = value_of(report, "auc", group, None).value
        assert area == pytest.approx(roc_auc_score(y, score, sample_weight=own), rel=1e-12)


def test_limits_of_shares_are_exact_and_for_all_groups(data):
    report = audit(data.scores, data.X, data.y, ["SEX"], thresholds=[0.5])
    inside = (data.X["SEX"] == "female").to_numpy()
    n, x = int(inside.sum()), int((data.scores[inside] >= 0.5).sum())
    tail = -np.expm1(np.log1p(-0.05) / 3) / 2  # three groups
    found = value_of(report, "selection_rate", "SEX = female")
    assert found.rows == n
    # Two implementations of the beta quantile.
    assert found.low == pytest.approx(beta.ppf(tail, x, n - x + 1), rel=1e-9)
    assert found.high == pytest.approx(beta.ppf(1 - tail, x + 1, n - x), rel=1e-9)


@pytest.mark.slow
def test_rows_of_weight_two_are_two_rows_in_value_and_clusters_widen(data):
    twice = np.repeat(np.arange(3_000), 2)
    X, y, f = data.X.iloc[twice], data.y[twice], data.scores[twice]
    once = audit(data.scores, data.X, data.y, ["SEX"], thresholds=[0.5])
    copied = audit(f, X, y, ["SEX"], thresholds=[0.5])
    clustered = audit(f, X, y, ["SEX"], thresholds=[0.5], cluster=twice)
    for measure in ("selection_rate", "tpr", "fpr", "ppv", "auc"):
        at = None if measure == "auc" else 0.5
        one, two, three = (
            value_of(r, measure, "SEX = male", at) for r in (once, copied, clustered)
        )
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.value == pytest.approx(three.value, rel=1e-12)
        width = [each.high - each.low for each in (one, two, three)]
        assert width[1] < 0.75 * width[0]
        # Copies tell nothing new; that clusters are rows is only nearly what is computed.
        assert width[2] == pytest.approx(width[0], rel=0.02)


def test_groups_are_compared_with_the_largest_of_their_column_or_all_rows(data):
    report = audit(data.scores, data.X, data.y, ["SEX", "RAC1P", "AGEP < 25"], thresholds=[0.5])
    found = {r.group: r.reference for r in report.rates.of("selection_rate", 0.5)}
    assert found["all"] == "all"
    assert found["SEX = female"] == found["SEX = male"] == "SEX = male"
    assert found["RAC1P = Black"] == "RAC1P = White"
    assert found["AGEP < 25"] == "all"


@pytest.mark.slow
def test_references_can_be_named(data):
    def pairs(reference, groups=("SEX", "RAC1P", "AGEP < 25")):
        report = audit(
            data.scores, data.X, data.y, list(groups), thresholds=[0.5], reference=reference
        )
        return {r.group: (r.reference, r.after) for r in report.rates.of("selection_rate", 0.5)}

    one = pairs("SEX = female")
    assert {name for name, _ in one.values()} == {"SEX = female"}
    two = pairs(["SEX = female", "RAC1P = Black"])
    assert two["RAC1P = White"][0] == "RAC1P = Black"
    assert two["AGEP < 25"][0] == "SEX = female"
    own, other = one["SEX = male"][1], one["SEX = female"][1]
    assert own.ratio == pytest.approx(own.value / other.value)
    assert own.difference == pytest.approx(own.value - other.value)
    assert own.ratio_low < own.ratio < own.ratio_high
    assert (other.ratio, other.difference) == (1.0, 0.0)
    assert np.isnan(other.ratio_low)
    with pytest.raises(ValueError, match="reference must name groups of the report, got 'men'"):
        pairs("men")


def test_limits_of_comparisons_move_with_those_of_both():
    a, b = np.array([0.3, 0.0, 0.3]), np.array([0.5, 0.4, 0.0])
    own = np.array([0.2, 0.0, 0.2]), np.array([0.4, 0.1, 0.4])
    other = np.array([0.45, 0.3, 0.0]), np.array([0.55, 0.5, 0.1])
    low, high = difference_limits(a, own, b, other)
    assert (low[0], high[0]) == (
        pytest.approx(-0.2 - np.hypot(0.1, 0.05)),
        pytest.approx(-0.2 + np.hypot(0.1, 0.05)),
    )
    low, high = ratio_limits(a, own, b, other)
    for r, mine, theirs in ((low[0], 0.2, 0.55), (high[0], 0.4, 0.45)):
        assert (0.3 - r * 0.5) ** 2 == pytest.approx((0.3 - mine) ** 2 + (r * (0.5 - theirs)) ** 2)
    assert low[1] == 0.0 < high[1] < 1.0
    assert np.isnan(low[2])
    assert np.isnan(high[2])


def test_soft_labels_and_numbers_have_selection_rates_only(data):
    report = audit(1000 * data.scores, data.X, 900.0 * data.probability, ["SEX"], thresholds=[500])
    assert {r.measure for r in report.rates.rates} == {"selection_rate"}
    found = value_of(report, "selection_rate", "all", 500.0)
    assert found.value == (1000 * data.scores >= 500).mean()
    assert audit(data.scores, data.X, data.probability).rates is None


def test_groups_without_a_label_have_no_rate_of_it():
    f, y = np.linspace(0.1, 0.9, 40), np.arange(40) % 2
    masks = {"ones": y == 1, "low": f < 0.5}
    report = audit(f, None, y, masks, thresholds=[0.5])
    ones = value_of(report, "fpr", "ones")
    assert np.isnan([ones.value, ones.low, ones.ratio]).all()
    assert ones.rows == 0
    assert np.isnan(value_of(report, "auc", "ones", None).value)
    low = value_of(report, "selection_rate", "low")
    assert (low.value, low.low) == (0.0, 0.0)
    assert low.high > 0
    assert np.isnan(value_of(report, "ppv", "low").value)
    assert "nan" not in report.to_json().lower()
    assert "nan" not in report.to_markdown()


def test_perfect_ranking_has_limits():
    f = np.linspace(0.1, 0.9, 40)
    found = value_of(audit(f, None, (f > 0.5).astype(int)), "auc", "all", None)
    assert found.value == found.high == 1.0
    assert 0.8 < found.low < 1.0


@pytest.mark.slow
def test_rates_have_a_table_and_a_sentence_and_stand_in_every_view(data):
    report = audit(data.scores, data.X, data.y, ["SEX"], thresholds=[0.5], baseline=data.y * 0.9)
    table = report.rates.table
    assert len(table) == 5 * 3
    assert {"measure", "value", "ratio_high", "before_value"} <= set(table)
    assert "times that of SEX = male" in str(report.rates)
    assert "selection rate at 0.5" in str(report)
    for view in (report.to_markdown(), report.to_html()):
        assert "Selection at 0.5" in view
        assert "impact ratio" in view
        assert "Errors of decisions at 0.5" in view
        assert "Ranking" in view
        assert "Rates of decisions" in view  # the note


def test_small_groups_are_not_named_in_headlines():
    """Twelve rows that are ranked backwards, and a group of 400 that is ranked less well."""
    rng = np.random.default_rng(0)
    g = np.repeat(["large", "middle", "tiny"], [600, 400, 12])
    y = np.arange(len(g)) % 2
    f = 0.5 + (2 * y - 1) * np.where(g == "large", 0.15, 0.05) + rng.uniform(-0.2, 0.2, len(g))
    f[g == "tiny"] = np.where(y[g == "tiny"] == 1, 0.2, 0.8)
    X = pd.DataFrame({"g": g})
    report = audit(f, X, y, Groups("g", min_rows=1), thresholds=[0.5])
    tiny, middle = (value_of(report, "auc", f"g = {name}", None) for name in ("tiny", "middle"))
    assert tiny.value < middle.value
    assert 0.0 <= tiny.low < tiny.high <= 1.0
    assert (tiny.precise, middle.precise) == (False, True)
    line = str(report.rates).splitlines()[-1]
    assert f"{middle.value:.3f} ({middle.low:.3f} to {middle.high:.3f}) for g = middle, " in line
    assert f"{middle.difference:+.3f} from that of g = large" in line
    assert "tiny" not in str(report.rates)
    (ranking,) = (each for each in rate_tables(report.rates) if each.title == "Ranking")
    assert [each["auc"].group for each in ranking.farthest(3)] == ["all", "g = middle", "g = large"]
    assert "not for all rates together" in ranking.text


@pytest.mark.slow
def test_limits_cover_the_truth_of_all_groups_at_once():
    """A reduced simulation: 60 draws that each cover with .95 miss 9 times in 1 of 300."""
    sizes = np.array([10, 30, 60, 120, 300, 500])
    place = np.arange(len(sizes))

    def draw(rng, sizes):
        g = np.repeat(place, sizes)
        z = rng.normal(-0.8 + 0.3 * (g % 3), 1.0)
        f = 1 / (1 + np.exp(-z))
        return g, f, (rng.random(len(g)) < 1 / (1 + np.exp(0.3 - 1.4 * z))).astype(float)

    g, f, y = draw(np.random.default_rng(1), np.full(len(sizes), 200_000))
    means = {
        "selection_rate": [(f[g == k] >= 0.5).mean() for k in place],
        "tpr": [(f[(g == k) & (y == 1)] >= 0.5).mean() for k in place],
        "ppv": [y[(g == k) & (f >= 0.5)].mean() for k in place],
        "auc": [roc_auc_score(y[g == k], f[g == k]) for k in place],
    }
    rng = np.random.default_rng(2)
    missed = dict.fromkeys(means, 0)
    for _ in range(60):
        g, f, y = draw(rng, sizes)
        X = pd.DataFrame({"g": g.astype(str)})
        segments, *_ = read_segments(
            ["g"], X, n_rows=len(y), weight=None, depth=1, min_rows=None, bands=4
        )
        sample = take_sample(read_labels(y, n_rows=len(y)), None)
        tally = Tally(segments, sample, f, [0.5])
        sums = sum_groups(segments, sample, f, 10, tally)
        rates = find_rates(
            [tally], [sums], segments, sample, thresholds=[0.5], named=[len(sizes)], alpha=0.05
        )
        for measure, truth in means.items():
            found = rates.of(measure, None if measure == "auc" else 0.5)[1:]
            missed[measure] += any(
                each.after.low > t
                or each.after.high < t
                or each.after.ratio_low > t / truth[-1]
                or each.after.ratio_high < t / truth[-1]
                for each, t in zip(found, truth, strict=True)
            )
    assert max(missed.values()) < 9
    assert critical_value(None, 7, 0.05) > 2.5


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_the_auc_of_ties_is_exact_across_blocks_of_rows(weighted):
    """A block ends after 16,384 rows, in the middle of a prediction that many rows share."""
    rng = np.random.default_rng(5)
    n = 20_000
    f = np.where(rng.random(n) < 0.5, np.round(rng.random(n), 1), rng.random(n))
    f[np.argsort(f)[16_000:17_000]] = 0.8123
    y, mask = (rng.random(n) < f).astype(float), rng.random(n) < 0.3
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    found = audit(f, None, y, {"some": mask}, sample_weight=weight).rates.rates
    for rate, own in zip(
        [r for r in found if r.measure == "auc"], [mask | True, mask], strict=True
    ):
        expected = roc_auc_score(y[own], f[own], sample_weight=weight[own] if weighted else None)
        assert rate.after.value == pytest.approx(expected, rel=1e-12)
