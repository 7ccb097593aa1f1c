"""The audit by slices of time."""

import json

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc

GROUPS = ["sex", "region"]


@pytest.fixture(scope="module")
def stream():
    """Ten weeks; from the sixth on women are under-predicted."""
    rng = np.random.default_rng(0)
    n = 8000
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "region": rng.choice(["N", "S"], n)})
    time = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 70, n), unit="D")
    p = rng.uniform(0.1, 0.8, n)
    drift = (X["sex"] == "F").to_numpy() & (time >= "2024-02-05")
    return X, time, p, (rng.random(n) < p + 0.2 * drift).astype(float)


@pytest.fixture(scope="module")
def report(stream):
    X, time, p, y = stream
    return rc.audit(p, X, y, groups=GROUPS, by="week", time=time)


def test_every_slice_is_audited_by_itself(stream, report):
    X, time, p, y = stream
    assert report.slices.names[:2] == ("2024-01-01", "2024-01-08")
    assert len(report.slices.names) == 10
    week = (time >= "2024-02-12") & (time < "2024-02-19")
    alone = rc.audit(p[week], X[week], y[week], groups=GROUPS, alpha=0.05 / 10)
    found = report.slices.reports[6]
    assert found.full_table["group"].tolist() == alone.full_table["group"].tolist()
    columns = ["rows", "gap", "low", "high"]
    # Groups as masks instead of expressions, so sums in another order.
    assert found.table[columns].to_numpy() == pytest.approx(
        alone.table[columns].to_numpy(), abs=1e-9
    )


def test_the_table_says_when_it_began(report):
    table = report.slices.table
    assert table["rows"][table["group"] == "all"].sum() == report.n_rows
    women = table[table["group"] == "sex = F"].set_index("slice")["off"]
    assert women[women].index.tolist() == [week for week in women.index if week >= "2024-02-05"]
    assert not table[table["group"] == "sex = M"]["off"].any()


@pytest.mark.slow
def test_views(report):
    found = json.loads(report.to_json())["slices"]
    assert len(found) == len(report.slices.table)
    assert found[0]["slice"] == "2024-01-01"
    html = report.to_html()
    assert "Gaps by group and time" in html
    assert "sex = F, 2024-02-12" in html
    axes = report.slices.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == report.table["group"].tolist()


def test_without_slices_there_is_nothing(stream):
    X, _, p, y = stream
    report = rc.audit(p, X, y)
    assert report.slices is None
    assert json.loads(report.to_json())["slices"] is None
    assert "Over time" not in report.to_html()


@pytest.mark.parametrize(
    ("by", "names"),
    [("month", ["2024-01", "2024-02", "2024-03"]), ("quarter", ["2024Q1"]), ("year", ["2024"])],
)
def test_periods(stream, by, names):
    X, time, p, y = stream
    assert list(rc.audit(p, X, y, by=by, time=time.astype(str)).slices.names) == names


def test_columns_and_values_as_slices(stream):
    X, _, p, y = stream
    by_column = rc.audit(p, X, y, by="region")
    by_value = rc.audit(p, X, y, by=X["region"].to_numpy())
    assert by_column.slices.names == by_value.slices.names == ("N", "S")


def test_weights_clusters_and_a_baseline_go_with_their_rows(stream):
    X, time, p, y = stream
    weight = np.arange(len(y)) % 3
    household = np.arange(len(y)) // 2
    report = rc.audit(
        p, X, y, groups="sex", by="month", time=time, sample_weight=weight, cluster=household,
        baseline=np.full(len(y), 0.5),
    )  # fmt: skip
    january = (time < "2024-02-01") & (weight > 0)
    alone = rc.audit(
        p[january], X[january], y[january], groups="sex", sample_weight=weight[january],
        cluster=household[january], baseline=np.full(january.sum(), 0.5), alpha=0.05 / 3,
    )  # fmt: skip
    columns = ["rows", "gap", "low", "high", "before_gap"]
    found = report.slices.reports[0].full_table[columns]
    # Weights are scaled by another power of two.
    assert found.to_numpy() == pytest.approx(alone.full_table[columns].to_numpy(), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"by": "week"}, "pass time="),
        ({"by": "fortnight"}, "neither 'day', 'week'"),
        ({"time": [1, 2]}, "time= goes with by="),
        ({"by": [1, 2], "time": [1, 2]}, "not by="),
        ({"by": [1, 2, 3]}, r"by has shape \(3,\)"),
        ({"by": "week", "time": ["2024-01-01", "soon"]}, "time must be dates"),
        ({"by": "week", "time": ["2024-01-01", None]}, "row 1 .* is missing"),
    ],
)
def test_bad_slices(options, match):
    X = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(ValueError, match=match):
        rc.audit([0.5, 0.5], X, [0, 1], **options)


def test_too_many_slices(stream):
    X, _, p, y = stream
    with pytest.raises(ValueError, match=r"8,000 slices, more than 400"):
        rc.audit(p, X, y, by=np.arange(len(y)))
