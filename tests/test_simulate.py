import numpy as np
import pytest

from recalibrate.simulate import base_scores, census

COLUMNS = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]
TEXT = ["COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"]


@pytest.fixture(scope="module")
def big():
    return census(200_000, seed=5)


def test_columns_ranges_and_cardinalities(big):
    assert list(big.X.columns) == COLUMNS
    assert (big.X.dtypes == np.int16).all()
    assert big.X["AGEP"].min() >= 17
    assert big.X["AGEP"].max() <= 94
    assert big.X["WKHP"].min() >= 1
    assert big.X["WKHP"].max() <= 99
    distinct = big.X.nunique()
    expected = {
        "COW": 8, "SCHL": 24, "MAR": 5, "OCCP": 530, "POBP": 220, "RELP": 18, "SEX": 2, "RAC1P": 9,
    }  # fmt: skip
    assert distinct[list(expected)].to_dict() == expected


def test_features_are_skewed_and_correlated(big):
    assert big.X["RAC1P"].value_counts(normalize=True).iloc[0] > 0.5
    assert big.X["WKHP"].mode().item() == 40
    assert big.X.groupby("MAR")["AGEP"].mean().loc[5] < big.X["AGEP"].mean() - 5
    abroad = big.X["POBP"] > 56
    assert abroad[big.X["RAC1P"] == 6].mean() > 5 * abroad[big.X["RAC1P"] == 1].mean()


@pytest.mark.parametrize("task", ["binary", "income"])
def test_equal_seeds_give_equal_data(task):
    one, two, other = (census(500, seed=s, gap=0.1, task=task) for s in (3, 3, 4))
    assert one.X.equals(two.X)
    for name in ("y", "probability", "scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert not one.X.equals(other.X)


@pytest.mark.parametrize("task", ["binary", "income"])
def test_probability_is_the_mean_of_the_outcome(task):
    data = census(200_000, seed=6, task=task)
    residual = data.y - data.probability
    groups = [np.full(len(residual), True)]
    groups += [data.X["SEX"].to_numpy() == 2, data.X["AGEP"].to_numpy() < 25]
    tenth = np.quantile(data.probability, np.arange(0.1, 1.0, 0.1))
    decile = np.searchsorted(tenth, data.probability)
    groups += [decile == k for k in range(10)]
    for mask in groups:
        # Five standard errors: 13 groups of a fixed seed, exceeded by chance in 1 of 10^5 cases.
        noise = residual[mask].std() / np.sqrt(mask.sum())
        assert abs(residual[mask].mean()) < 5 * noise


def test_binary_outcomes_are_zero_or_one(big):
    assert set(np.unique(big.y)) == {0.0, 1.0}
    assert 0.3 < big.y.mean() < 0.45


def test_incomes_are_capped_at_one():
    data = census(50_000, seed=1, task="income")
    assert data.y.min() >= 0.0
    assert data.y.max() == 1.0
    assert 0.02 < (data.y == 1.0).mean() < 0.2
    assert len(np.unique(data.y)) > 1000


@pytest.mark.parametrize("task", ["binary", "income"])
def test_base_is_roughly_calibrated_overall_and_by_sex(task):
    data = census(200_000, seed=7, task=task)
    error = data.probability - data.scores
    women = data.X["SEX"].to_numpy() == 2
    # The base leaves effects out, so it is only roughly calibrated: no bound would be exact.
    for mask in (women, ~women):
        assert abs(error[mask].mean()) < 0.01
    # It must leave something to find: the unseen occupations.
    by_job = data.X.assign(error=error).groupby("OCCP")["error"].mean()
    assert by_job.abs().mean() > 0.03


@pytest.mark.parametrize("gap", [0.05, -0.05])
def test_gap_lowers_the_scores_of_women_only(big, gap):
    moved = census(200_000, seed=5, gap=gap)
    assert moved.X.equals(big.X)
    np.testing.assert_array_equal(moved.y, big.y)
    women = big.X["SEX"].to_numpy() == 2
    np.testing.assert_array_equal(moved.scores[~women], big.scores[~women])
    # Scores nearer to 0 or 1 than the gap are cut, so the mean moves a little less.
    shift = (big.scores - moved.scores)[women].mean()
    assert 0.8 * abs(gap) < np.sign(gap) * shift <= abs(gap) + 1e-12
    assert moved.scores.min() >= 0.0
    assert moved.scores.max() <= 1.0


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("task", ["binary", "income"])
def test_base_scores_is_a_function_of_the_table(task, categorical):
    data = census(2_000, seed=2, gap=0.07, task=task, categorical=categorical)
    np.testing.assert_array_equal(base_scores(data.X, gap=0.07, task=task), data.scores)
    half = base_scores(data.X.iloc[::2], gap=0.07, task=task)
    np.testing.assert_array_equal(half, data.scores[::2])


def test_text_says_the_same_as_codes():
    codes, texts = census(20_000, seed=2), census(20_000, seed=2, categorical=True)
    np.testing.assert_array_equal(codes.y, texts.y)
    for name in TEXT:
        assert isinstance(texts.X[name].iloc[0], str)
        pairs = set(zip(codes.X[name], texts.X[name], strict=True))
        assert len(pairs) == codes.X[name].nunique() == texts.X[name].nunique()
    for name in set(COLUMNS) - set(TEXT):
        assert texts.X[name].equals(codes.X[name])
    assert set(texts.X["SEX"]) == {"male", "female"}


def test_a_single_row():
    data = census(1)
    assert data.X.shape == (1, 10)
    assert data.y.shape == data.probability.shape == data.scores.shape == (1,)


@pytest.mark.parametrize("n_rows", [0, -3, 2.5, True, "10"])
def test_bad_number_of_rows(n_rows):
    with pytest.raises(ValueError, match="n_rows must be a whole number"):
        census(n_rows)


def test_bad_options():
    with pytest.raises(ValueError, match=r"gap must lie between -1 and 1, got 2"):
        census(10, gap=2)
    with pytest.raises(ValueError, match=r"gap must lie between -1 and 1, got nan"):
        census(10, gap=float("nan"))
    with pytest.raises(ValueError, match=r"task must be .* got 'count'"):
        census(10, task="count")
