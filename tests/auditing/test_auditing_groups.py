"""Groups of an audit: expressions, bands, crossings, masks."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.auditing import audit
from recalibrate.auditing.measure.segments import MOST_TERMS
from recalibrate.simulate import census


@pytest.fixture(scope="module")
def data():
    return census(6_000, seed=11, gap=0.1, categorical=True)


@pytest.mark.slow
def test_all_forms_of_groups_agree(data):
    women, young = (data.X["SEX"] == "female").to_numpy(), (data.X["AGEP"] < 25).to_numpy()
    frame = pd.DataFrame({"w": women, "y": young}, index=range(100, 6_100))
    forms = [
        ["SEX == 'female'", "AGEP < 25"],
        ("SEX == 'female'", "AGEP < 25"),
        SimpleNamespace(terms=("SEX == 'female'", "AGEP < 25")),
        {"w": women, "y": list(young)},
        {"w": pd.Series(women, dtype="boolean"), "y": young},
        frame,
    ]
    tables = [audit(data.scores, data.X, data.y, g).full_table.drop(columns="group") for g in forms]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_a_single_expression(data):
    report = audit(data.scores, data.X, data.y, "SEX")
    assert len(report.full_table) == 3


def test_no_groups_means_all_rows_only(data):
    assert audit(data.scores, data.X, data.y).full_table["group"].tolist() == ["all"]


@pytest.mark.parametrize("groups", [[], {}, (), SimpleNamespace(terms=()), pd.DataFrame()])
def test_empty_groups(data, groups):
    with pytest.raises(ValueError, match="groups is empty"):
        audit(data.scores, data.X, data.y, groups)


def test_unknown_column(data):
    with pytest.raises(ValueError, match="SEX") as caught:
        audit(data.scores, data.X, data.y, ["SEKS"])
    assert "SEKS" in str(caught.value)


def test_groups_of_another_kind(data):
    with pytest.raises(TypeError, match="masks by name; got int"):
        audit(data.scores, data.X, data.y, 3)


def test_mask_of_numbers(data):
    with pytest.raises(TypeError, match=r"'ones' has dtype int\d+, not bool"):
        audit(data.scores, data.X, data.y, {"ones": np.ones(6_000, dtype=int)})


def test_mask_with_missing_values(data):
    mask = pd.Series([True, None] * 3_000, dtype="boolean")
    with pytest.raises(TypeError, match="'holes' has dtype object, not bool"):
        audit(data.scores, data.X, data.y, {"holes": mask})


def test_mask_of_another_length(data):
    with pytest.raises(ValueError, match=r"'short' has shape \(2,\), but there are 6000 rows"):
        audit(data.scores, data.X, data.y, {"short": [True, False]})


def test_names_twice(data):
    frame = pd.DataFrame(np.ones((6_000, 2), dtype=bool), columns=["a", "a"])
    with pytest.raises(ValueError, match="more than once"):
        audit(data.scores, data.X, data.y, frame)


def test_group_without_rows_is_left_out_with_a_warning():
    masks = {"none": np.zeros(4, dtype=bool), "some": np.array([True, False, False, True])}
    with pytest.warns(UserWarning, match="'none' has no rows with weight"):
        report = audit([0.1, 0.2, 0.3, 0.4], None, [0, 1, 0, 1], masks)
    assert report.full_table["group"].tolist() == ["all", "some"]


def test_group_without_weight_is_left_out_with_a_warning():
    masks = {"light": np.array([True, False]), "heavy": np.array([False, True])}
    with pytest.warns(UserWarning, match="'light' has no rows with weight"):
        report = audit([0.1, 0.2], None, [0, 1], masks, sample_weight=[0.0, 1.0])
    assert report.full_table["group"].tolist() == ["all", "heavy"]


def test_only_empty_groups_are_an_error():
    with (
        pytest.warns(UserWarning, match="no rows with weight"),
        pytest.raises(ValueError, match="No group has enough rows"),
    ):
        audit([0.1, 0.2], None, [0, 1], {"none": np.zeros(2, dtype=bool)})


# --- bands, crossings, sizes --------------------------------------------------------------------


def names(report):
    return report.full_table["group"].tolist()


@pytest.mark.slow
def test_numeric_columns_are_cut_into_bands(data):
    two = names(audit(data.scores, data.X, data.y, ["AGEP"], bands=2))
    assert len(two) == 3
    assert two[1].startswith("AGEP < ")
    assert len(names(audit(data.scores, data.X, data.y, ["AGEP"]))) == 5


def test_true_means_every_column(data):
    X = data.X[["SEX", "AGEP"]].rename(columns={"AGEP": "age in years"})
    report = audit(data.scores, X, data.y, True)
    assert names(report)[:3] == ["all", "SEX = female", "SEX = male"]
    assert len(names(report)) == 7


def test_depth_crosses_groups_that_share_no_column(data):
    terms = ["SEX", "AGEP < 25", "AGEP >= 60", "SEX * MAR"]
    found = names(audit(data.scores, data.X, data.y, terms, depth=3))
    assert "SEX = female * AGEP < 25" in found
    assert "AGEP < 25 * SEX = female * MAR = married" in found
    assert not any("AGEP < 25" in name and "AGEP >= 60" in name for name in found)
    assert len(set(found)) == len(found)


def test_a_crossing_that_was_named_is_not_crossed_again(data):
    found = names(audit(data.scores, data.X, data.y, ["SEX", "MAR", "MAR * SEX"], depth=2))
    assert len(found) == 1 + 2 + 5 + 10


def test_depth_of_masks(data):
    rows = np.arange(6_000)
    masks = {"a": rows < 3_000, "b": rows % 2 == 0, "c": rows >= 3_000}
    report = audit(data.scores, None, data.y, masks, depth=3)
    # a and c do not meet: nobody misses that intersection, so nobody is warned.
    assert names(report) == ["all", "a", "b", "c", "a * b", "b * c"]
    assert report.full_table["rows"].tolist() == [6_000, 3_000, 3_000, 3_000, 1_500, 1_500]
    assert report.left_out == ()


@pytest.mark.slow
def test_min_rows_of_expressions(data):
    rare = audit(data.scores, data.X, data.y, ["RAC1P"]).full_table
    common = audit(data.scores, data.X, data.y, ["RAC1P"], min_rows=300).full_table
    assert rare["rows"].min() < 300 <= common["rows"].min()
    by_class = audit(data.scores, data.X, data.y, rc.Groups("RAC1P", min_rows=300)).full_table
    pd.testing.assert_frame_equal(by_class, common)
    given = audit(
        data.scores, data.X, data.y, rc.Groups("RAC1P", min_rows=300), min_rows=1
    ).full_table
    pd.testing.assert_frame_equal(given, rare)


def test_min_rows_of_masks(data):
    rows = np.arange(6_000)
    with pytest.warns(UserWarning, match="'few' has 20 rows, fewer than min_rows=100"):
        report = audit(
            data.scores, None, data.y, {"few": rows < 20, "many": rows < 200}, min_rows=100
        )
    assert names(report) == ["all", "many"]
    assert [(group.name, group.why) for group in report.left_out] == [
        ("few", "20 rows, fewer than min_rows=100")
    ]


def test_a_column_without_values_is_one_group(data):
    X = data.X[["SEX"]].assign(gone=np.nan)
    report = audit(data.scores, X, data.y, ["gone", "SEX"], depth=2)
    assert names(report)[1] == "gone is missing"
    assert report.full_table["rows"][1] == 6_000


def test_crossings_beyond_reason_are_refused(data):
    masks = {str(k): np.ones(6_000, dtype=bool) for k in range(210)}
    with pytest.raises(ValueError, match=f"more than {MOST_TERMS:,} crossings"):
        audit(data.scores, None, data.y, masks, depth=2)


@pytest.mark.slow
def test_masks_and_expressions_agree_in_every_number(data):
    X = data.X[["SEX", "MAR"]]
    by_expression = audit(data.scores, X, data.y, ["SEX", "MAR"], depth=2).full_table
    groups = rc.Groups("SEX", "MAR", "SEX*MAR").masks(X)
    by_mask = audit(data.scores, None, data.y, dict(groups)).full_table
    assert by_mask["group"].tolist() == by_expression["group"].tolist()
    # Sums of float64 in another order, here and below.
    pd.testing.assert_frame_equal(by_mask, by_expression, rtol=1e-9)


def test_many_groups_are_audited_in_blocks(data, monkeypatch):
    """The cut into blocks changes nothing, also where a cluster or a tie is cut in two."""
    from recalibrate.auditing.measure import sweep

    household = np.arange(6_000) // 4
    scores = data.scores.round(2)
    options = {"cluster": household, "baseline": data.probability}
    whole = audit(scores, data.X, data.y, ["SEX", "AGEP"], depth=2, **options).full_table
    monkeypatch.setattr(sweep, "BLOCK", 101)
    cut = audit(scores, data.X, data.y, ["SEX", "AGEP"], depth=2, **options).full_table
    pd.testing.assert_frame_equal(whole, cut, rtol=1e-9)


@pytest.mark.slow
def test_a_sample_of_rows_gives_about_the_same_critical_value(data, monkeypatch):
    from recalibrate.auditing.measure import sweep

    for options in ({}, {"cluster": np.arange(6_000) // 4}):
        groups = ["SEX", "MAR", "AGEP"]
        exact = audit(data.scores, data.X, data.y, groups, depth=2, **options).critical
        monkeypatch.setattr(sweep, "PAIR_BUDGET", 40_000)
        # Correlations from some of the rows move the simulated value by a few hundredths.
        assert audit(
            data.scores, data.X, data.y, groups, depth=2, **options
        ).critical == pytest.approx(exact, abs=0.05)
        monkeypatch.undo()


def test_more_groups_than_can_be_correlated(data, monkeypatch):
    from recalibrate.auditing.measure import shift, sweep
    from recalibrate.auditing.measure.limits import critical_value

    monkeypatch.setattr(shift, "MOST_MEMBERSHIPS", 0)
    monkeypatch.setattr(sweep, "MOST_CORRELATED", 3)
    report = audit(data.scores, data.X, data.y, ["SEX", "MAR"])
    assert report.critical == critical_value(None, 8, 0.05)


def test_groups_below_min_rows_are_listed_with_their_rows_in_every_view():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"race": ["a"] * 500 + ["b"] * 458 + ["c"] * 42})
    f = rng.uniform(0.2, 0.8, 1000)
    y = (rng.random(1000) < f).astype(float)
    y[958:] = 1.0
    for report in (
        audit(f, X, y, ["race"], min_rows=50),
        audit(f, X, y, rc.Groups("race", min_rows=50)),
    ):
        assert [each.name for each in report.left_out] == ["race = c"]
        assert report.left_out[0].why == "42 rows, fewer than min_rows=50"
        assert report.verdict.endswith("Left out for their size: 1 more.")
        for view in (str(report), report.to_markdown(), report.to_html(), report.to_json()):
            assert "race = c" in view
    with pytest.raises(ValueError, match="no group has at least 5000 rows"):
        audit(f, X, y, ["race"], min_rows=5000)


def test_a_mask_cannot_have_the_name_of_all_rows():
    with pytest.raises(ValueError, match="'all' is the name of all rows"):
        audit([0.5] * 4, None, [0, 1, 0, 1], {"all": np.ones(4, dtype=bool)})


def test_bands_of_long_numbers_are_cut_at_round_ones():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": 0.05 * rng.random(4_000), "z": rng.normal(size=4_000)})
    report = audit(np.full(4_000, 0.5), X, rng.integers(0, 2, 4_000), ["x", "z"])
    names = [group.name for group in report.groups]
    assert names[1:5] == ["x < 0.012", "x in [0.012, 0.025)", "x in [0.025, 0.038)", "x >= 0.038"]
    assert names[5:] == ["z < -0.7", "z in [-0.7, 0)", "z in [0, 0.7)", "z >= 0.7"]
    for group in report.groups[1:]:
        assert 0.2 < group.share < 0.3


def test_intersections_know_their_parts_and_rows_that_are_in_no_group_are_counted(data):
    X = data.X.copy()
    X.loc[:99, "SEX"] = None
    report = audit(data.scores, X, data.y, ["SEX", "SEX*MAR", "AGEP < 25"], min_rows=50)
    group = next(g for g in report.groups if g.name == "SEX = male * MAR = married")
    assert (group.term, group.parts) == ("SEX * MAR", ("SEX = male", "MAR = married"))
    assert [g.parts for g in report.groups[:2]] == [(), ("SEX = female",)]
    sex, crossed, young = report.coverage
    n_rows = len(data.y)
    assert (sex.term, sex.rows, sex.missing, sex.outside) == ("SEX", n_rows, 100, 0)
    assert crossed.rows + crossed.left_out == n_rows
    assert crossed.left_out == sum(each.rows for each in report.left_out) > 0
    assert young.rows == (data.X["AGEP"] < 25).sum() == n_rows - young.outside
    for view in (report.to_html(), report.to_markdown()):
        assert "value missing" in view


def test_intersections_of_masks_know_theirs():
    masks = {"a": np.arange(100) < 60, "b": np.arange(100) > 30}
    report = audit(np.full(100, 0.5), None, np.arange(100) % 2, masks, depth=2)
    assert [g.parts for g in report.groups] == [(), ("a",), ("b",), ("a", "b")]
    assert report.groups[3].term == "pairs of groups"


def test_names_are_text_in_markdown():
    masks = {"<img src=x onerror=alert(1)> [a](javascript:alert(1))": np.arange(40) < 20}
    text = audit([0.5] * 40, None, [0, 1] * 20, masks).to_markdown()
    assert "<img" not in text
    assert "[a](javascript" not in text
    assert "\\[a\\](javascript" in text
