"""Algorithm 1: its invariants, an independent implementation of it, and what it certifies."""

import warnings
from math import ceil, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import fit_with
from sklearn.linear_model import LinearRegression

import recalibrate as rc
from recalibrate.core.levels import Levels
from recalibrate.metrics import k2

# Losses are summed in steps of 2**-40 and fitted numbers are multiples of 2**-40, so errors agree
# with float64 arithmetic up to a few such steps.
LOSS = 2.0**-38
# What the steps of 2**-40 can move a bound that is B times a difference of two errors.
BOUND = 1e-10

STUMPS = rc.Trees(depth=1)
GROUPS = rc.Groups("sex", "age < 2", "sex*age")
LINEAR = rc.Linear(features=["age", "size"])
KEPT = rc.Loop(keep_unrounded=True)
EXACT = [STUMPS, GROUPS, LINEAR]
BY_CLASS = pytest.mark.parametrize("H", EXACT, ids=lambda H: type(H).__name__)


def sample(seed, n=400, labels="binary", missing=False):
    """Rows with few distinct values per column, a base that is wrong by group, and labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(0, 5, n).astype(float),
            "size": rng.integers(-3, 4, n),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    base = np.clip(rng.normal(0.5, 0.2, n), 0, 1)
    truth = 0.7 * base + 0.1 * (X["sex"] == "F") + 0.06 * (X["age"] > 2) + 0.02 * X["size"]
    truth = truth.clip(0, 1).to_numpy()
    y = (rng.random(n) < truth) * 1.0
    if labels == "soft":
        y = np.clip(truth + rng.normal(0, 0.1, n), 0, 1)
    if missing:
        X.loc[rng.random(n) < 0.2, "age"] = np.nan
    return base, X, y


def quietly(*args, **options):
    """Fit without the warnings that small random tables rightly draw."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no round lowered")
        warnings.filterwarnings("ignore", message="group term .* has no rows; dropped")
        warnings.filterwarnings("ignore", message="all .* labels are .*, of one class only")
        return fit_with(*args, **options)


# --- the run ------------------------------------------------------------------------------------


def best_responses(H, X, y, level):
    """Least squares over H on every level set, by enumeration or numpy."""
    if H is GROUPS:
        cells = [(X["sex"] == s) & (X["age"] == a) for s in "FM" for a in range(5)]
        columns = [X["sex"] == "F", X["age"] < 2, *cells]
    else:
        columns = [X["age"], X["size"], X["sex"] == "M"][: 3 if H is STUMPS else 2]
    design = np.column_stack([np.ones(len(X)), *columns]).astype(float)
    out = np.empty(len(y))
    for v in np.unique(level):
        rows = level == v
        if H is STUMPS:
            out[rows] = _best_stump(design[rows], y[rows])
        else:
            out[rows] = design[rows] @ np.linalg.lstsq(design[rows], y[rows], rcond=None)[0]
    return out


def _best_stump(design, target):
    best = np.full(len(target), target.mean())
    least = ((best - target) ** 2).sum()
    for column in design.T:
        for cut in np.unique(column)[:-1]:
            left = column <= cut
            fitted = np.where(left, target[left].mean(), target[~left].mean())
            error = ((fitted - target) ** 2).sum()
            # Equal sums of squares may differ in the last bit; the first wins, as in the product.
            if error < least - 1e-12:
                best, least = fitted, error
    return best


def algorithm_1(H, base, X, y, alpha, B):
    """The paper's pseudocode, line by line."""
    m = ceil(2 * B / alpha)

    def nearest(f):
        return np.clip(np.floor(f * m + 0.5), 0, m) / m

    f, errors, before = nearest(base), [], None
    while True:
        errors.append(np.mean((f - y) ** 2))
        if len(errors) > 1 and not errors[-2] - errors[-1] >= alpha / (2 * B):
            return before, errors
        before, f = f, nearest(best_responses(H, X, y, f))


@BY_CLASS
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("alpha", "B"), [(0.02, 1.0), (0.1, 4.0)])
def test_run_is_the_pseudocode(H, seed, alpha, B):
    # Labels from a continuum: two stumps that tie would be two right answers.
    base, X, y = sample(seed, labels="soft")
    expected, errors = algorithm_1(H, base, X, y, alpha, B)
    model = quietly(base, X, y, H, alpha=alpha, B=B)
    # Scores are on the grid: lstsq and snapped coefficients differ, but not across a threshold.
    assert model.certificate_.errors == pytest.approx(errors, abs=LOSS)
    np.testing.assert_allclose(model.predict(X, base=base), expected, atol=1e-12)


small_tables = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    seed=small_tables,
    n=st.integers(1, 80),
    alpha=st.floats(0.01, 1.0),
    B=st.floats(0.5, 3.0),
    labels=st.sampled_from(["binary", "soft"]),
    H=st.sampled_from(EXACT),
)
def test_invariants(seed, n, alpha, B, labels, H):
    base, X, y = sample(seed, n, labels, missing=True)
    model = quietly(base, X, y, H, alpha=alpha, B=B)
    c = model.certificate_
    assert c.m == ceil(2 * B / alpha)
    assert c.rounds <= 2 * B / alpha
    assert model.n_rounds_ == c.rounds
    assert len(c.errors) == c.rounds + 2, "the rejected round is the last"
    falls = -np.diff(c.errors)
    assert (falls[:-1] >= alpha / (2 * B)).all()
    assert falls[-1] < alpha / (2 * B)
    f = model.predict(X, base=base)
    assert np.isin(f, np.arange(c.m + 1) / c.m).all()
    assert c.errors[c.rounds] == pytest.approx(np.mean((f - y) ** 2), abs=LOSS)
    assert -BOUND <= c.bound <= alpha + BOUND
    assert c.exact
    assert c.holds


@BY_CLASS
def test_errors_are_those_of_the_predictions(H):
    base, X, y = sample(1)
    model = rc.fit(base, X, y, H, alpha=0.02)
    c = model.certificate_
    stages = [np.mean((f - y) ** 2) for f in model.staged_predict(X, base=base)]
    assert c.rounds >= 1
    assert c.errors[:-1] == pytest.approx(stages, abs=LOSS)
    witness = rc.fit(base, X, y, H, alpha=0.02, loop=KEPT)
    unrounded = witness.predict(X, base=base)
    rejected = Levels.uniform(c.m).round(witness.margins(X, base=base))
    assert c.errors[-1] == pytest.approx(np.mean((rejected - y) ** 2), abs=LOSS)
    assert witness.n_rounds_ == c.rounds + 1
    assert not np.isin(unrounded, np.arange(c.m + 1) / c.m).all()
    gain = c.errors[-2] - np.mean((witness.margins(X, base=base) - y) ** 2)
    assert c.bound == pytest.approx(gain, abs=BOUND)


@BY_CLASS
def test_rejected_round_is_free(H):
    base, X, y = sample(2)
    paper = rc.fit(base, X, y, H, alpha=0.04)
    without = rc.fit(
        base,
        X,
        y,
        H,
        link="identity",
        loop=rc.Loop(rounded=True, levels=50, max_rounds=paper.certificate_.rounds),
        validation=False,
    )
    assert without.history_.errors == paper.certificate_.errors[:-1]
    np.testing.assert_array_equal(
        without.predict(X, base=base), paper.predict(X, base=base), strict=True
    )


def test_a_run_that_changes_nothing_says_so():
    base, X, y = sample(3, n=100)
    with pytest.warns(UserWarning, match=r"just the rounded base.*smaller alpha") as caught:
        model = rc.fit(base, X, y, GROUPS, alpha=1.0)
    assert caught[0].filename == __file__
    assert model.n_rounds_ == 0
    np.testing.assert_array_equal(model.predict(X, base=base), np.floor(base * 2 + 0.5) / 2)


# --- the certificate ----------------------------------------------------------------------------


def bounded_functions(H, X, rng, B):
    """Many h of the class with h^2 <= B on every row; for stumps and cells all extreme ones."""
    root = sqrt(B)
    if H is STUMPS:
        age, size = X["age"].to_numpy(), X["size"].to_numpy()
        sides = [np.where(np.isnan(age), m, age <= c) for c in range(-1, 5) for m in (0, 1)]
        sides += [size <= c for c in range(-3, 4)] + [X["sex"] == "F"]
        signs = [(1, 1), (1, -1), (1, 0), (0, 1)]
        return [root * np.where(side, u, v) for side in sides for u, v in signs]
    if H is GROUPS:
        cells = [(X["sex"] == s) & (X["age"] == a) for s in "FM" for a in range(5)]
        design = np.column_stack([np.ones(len(X)), X["sex"] == "F", X["age"] < 2, *cells])
    else:
        design = np.column_stack([np.ones(len(X)), X["age"].fillna(0), X["size"]])
    out = []
    for _ in range(300):
        h = design @ rng.normal(size=design.shape[1])
        out.append(root * h / np.abs(h).max())
    if H is GROUPS:
        # The crossing has every cell, so signs per cell are the extreme points: K2 is convex.
        for _ in range(300):
            h = np.column_stack(cells) @ rng.choice([-1.0, 1.0], len(cells))
            out.append(root * h)
    return out


@pytest.mark.slow
@BY_CLASS
@pytest.mark.parametrize("B", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(2))
def test_bound_holds_for_every_bounded_function(H, B, seed):
    base, X, y = sample(seed, missing=H is STUMPS)
    alpha = 0.03 * B
    model = quietly(base, X, y, H, alpha=alpha, B=B)
    c = model.certificate_
    f = model.predict(X, base=base)
    worst = max(k2(f, y, h) for h in bounded_functions(H, X, np.random.default_rng(9), B))
    assert 0 < worst <= c.bound + BOUND
    assert c.bound <= alpha
    # The base itself is not multicalibrated to this degree, or the test would say nothing.
    start = Levels.uniform(c.m).round(base)
    assert worst < max(
        k2(start, y, h) for h in bounded_functions(H, X, np.random.default_rng(9), B)
    )


@BY_CLASS
def test_bound_holds_with_weights(H):
    base, X, y = sample(5)
    weight = np.random.default_rng(5).integers(1, 5, len(y))  # quantised without loss
    model = rc.fit(base, X, y, H, alpha=0.02, sample_weight=weight)
    f = model.predict(X, base=base)
    c = model.certificate_
    # A sum of 400 weighted losses has 27 bits after the point, and 20 for the weights.
    error = np.average((f - y) ** 2, weights=weight)
    assert c.errors[c.rounds] == pytest.approx(error, abs=2.0**-27)
    functions = bounded_functions(H, X, np.random.default_rng(9), 1.0)
    worst = max(k2(f, y, h, sample_weight=weight) for h in functions)
    assert 0 < worst <= c.bound + 2.0**-26


def test_skipped_level_sets_enter_the_bound():
    base, X, y = sample(6)
    model = rc.fit(base, X, y, GROUPS, alpha=0.05, loop=rc.Loop(min_level_rows=8))
    c = model.certificate_
    f = model.predict(X, base=base)
    _, level, count = np.unique(f, return_inverse=True, return_counts=True)
    small = count[level] < 8
    # Shares and roots: approx only spares the last bits, here and below.
    assert 0 < c.skipped == pytest.approx(small.mean())
    witness = rc.fit(
        base, X, y, GROUPS, alpha=0.05, loop=rc.Loop(min_level_rows=8, keep_unrounded=True)
    )
    update = witness.margins(X, base=base)
    np.testing.assert_array_equal(update[small], f[small])
    gain = np.mean((f - y) ** 2) - np.mean((update - y) ** 2)
    assert c.bound == pytest.approx(gain + small.mean(), abs=BOUND)
    functions = bounded_functions(GROUPS, X, np.random.default_rng(9), 1.0)
    assert max(k2(f, y, h) for h in functions) <= c.bound


def test_everything_skipped_proves_only_the_trivial_bound():
    base, X, y = sample(6)
    model = quietly(base, X, y, GROUPS, alpha=0.05, B=2.0, min_level_rows=10**6)
    assert model.certificate_.skipped == 1.0
    assert model.certificate_.bound == 2.0
    assert not model.certificate_.holds


@pytest.mark.parametrize(
    ("H", "words"),
    [
        (rc.Trees(depth=2), "depth 2 are grown greedily"),
        (rc.Trees(depth=1, features=["region"]), "one learned order"),
        (rc.Trees(depth=1, features=["size"], bins=4), "more distinct values than bins"),
        (rc.Trees(depth=1, features=["size"], min_leaf_rows=5), "fewer than 5 rows"),
        (rc.Trees(depth=1, features=["size", "age"], feature_share=0.5), "50% of the features"),
        (rc.Linear(features=["age"], ridge=2.0), "ridge 2 shrinks"),
        (rc.Estimator(LinearRegression(), features=["age"]), "LinearRegression is not known"),
        (rc.Trees(depth=1, features=["size", "sex"]), ""),
        (rc.Trees(depth=1, features=["size"], bins=7), ""),
        (rc.Linear(features=["region", "age"]), ""),
        (rc.Groups("region"), ""),
    ],
    ids=repr,
)
def test_exactness_and_its_reason(H, words):
    base, X, y = sample(7)
    X["region"] = np.random.default_rng(7).choice(list("abcd"), len(X))
    model = quietly(base, X, y, H, alpha=0.1)
    c = model.certificate_
    assert c.exact is (words == "")
    assert words in c.reason
    assert bool(c.reason) is not c.exact
    assert c.holds is c.exact
    assert ("no guarantee, because" in str(c)) is not c.exact


def test_gap_limits_of_the_groups():
    base, X, y = sample(8)
    model = rc.fit(base, X, y, rc.Groups("sex", "age < 2"), alpha=0.02, B=2.0)
    c = model.certificate_
    f = model.predict(X, base=base)
    groups = [X["sex"] == "F", X["sex"] == "M", X["age"] < 2]
    for (name, (asked, proven)), mask in zip(c.gap_limits.items(), groups, strict=True):
        share = mask.mean()
        assert c.group_shares[name] == pytest.approx(share)
        assert asked == pytest.approx(sqrt(0.02 / 2.0) / share)
        assert proven == pytest.approx(sqrt(c.bound / 2.0) / share)
        # The bound is known to BOUND, its root to less than this.
        assert abs(np.mean((y - f)[mask])) <= proven + 1e-6
    assert rc.fit(base, X, y, STUMPS, alpha=0.02).certificate_.gap_limits == {}


def test_group_shares_are_weighted():
    base, X, y = sample(8)
    weight = np.where(X["sex"] == "F", 3.0, 1.0)
    c = quietly(base, X, y, rc.Groups("sex"), alpha=0.1, sample_weight=weight).certificate_
    women = (X["sex"] == "F").mean()
    assert list(c.group_shares.values()) == pytest.approx(
        [3 * women / (1 + 2 * women), (1 - women) / (1 + 2 * women)]
    )


# --- held-out rows ------------------------------------------------------------------------------


def drawn(seed, n):
    """A population whose means are known: scores in [0, 1], groups, labels and means."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(0, 4, n)})
    score = rng.random(n)
    mean = np.clip(score + np.where(X["sex"] == "F", 0.15, -0.1) * (X["age"] > 1), 0, 1)
    return X.assign(score=score), (rng.random(n) < mean) * 1.0, mean


def score_of(X):
    return X["score"].to_numpy()


def true_gain(model, cell, X, mean):
    """Largest fall of the squared error by a number for every level set and cell."""
    f = model.predict(X)
    table = pd.DataFrame({"f": f, "cell": cell, "gap": mean - f})
    cells = table.groupby(["f", "cell"])["gap"].agg(["sum", "size"])
    return float((cells["sum"] ** 2 / cells["size"]).sum() / len(table))


@pytest.mark.slow
def test_held_out_limits_cover_the_truth():
    """The class has a function for every cell, so that the largest gain is known."""
    H = rc.Groups("sex*age")
    far_X, _, far_mean = drawn(1000, 100_000)
    far_cell = far_X["sex"] + far_X["age"].astype(str)
    above = below = 0
    estimates, truths = [], []
    for seed in range(20):
        X, y, _ = drawn(seed, 500)
        new_X, new_y, _ = drawn(500 + seed, 400)
        model = quietly(score_of, X, y, H, alpha=0.1, B=2.0, validation=(new_X, new_y))
        held_out = model.certificate_.held_out
        assert held_out.rows == 400
        truth = 2.0 * true_gain(model, far_cell, far_X, far_mean)
        above += held_out.high >= truth
        below += held_out.low <= truth
        estimates.append(held_out.estimate)
        truths.append(truth)
        assert held_out.low < held_out.ceiling < held_out.high
    # 97.5 % each way: 3 misses or more of 20 happen once in 70 such tests at worst; the seeds are
    # fixed, so this test does not flicker. The upper limit is wide, because it covers always.
    assert above == 20
    assert below >= 18
    assert np.mean(estimates) == pytest.approx(np.mean(truths), rel=0.25)


def test_held_out_limits_of_fitted_noise():
    """Fitted to noise, a model is far off on new rows, and the held-out line must say so."""
    rng = np.random.default_rng(3)
    X, new_X = (pd.DataFrame({"g": rng.choice(list("abcd"), 2000)}) for _ in range(2))
    y, new_y = ((rng.random(2000) < 0.5) * 1.0 for _ in range(2))
    base, new_base = rng.random(2000), rng.random(2000)
    held_out = {"X": new_X, "y": new_y, "base": new_base}
    certificate = (
        model := quietly(base, X, y, rc.Groups("g"), alpha=0.01, validation=held_out)
    ).certificate_
    assert certificate.holds
    # All means are 1/2: K2 of h = 1 is what predictions vary around it.
    truth = float(np.mean((model.predict(new_X, base=new_base) - 0.5) ** 2))
    assert truth > 10 * certificate.alpha
    found = certificate.held_out
    assert certificate.alpha < found.low < truth < found.high
    assert found.estimate == pytest.approx(truth, rel=0.3)
    assert "2,000 held-out rows" in str(certificate)


def test_held_out_numbers_do_not_depend_on_the_order_of_rows():
    X, y, _ = drawn(1, 300)
    new_X, new_y, _ = drawn(2, 300)
    order = np.random.default_rng(0).permutation(300)
    one, other = (
        quietly(
            score_of, X, y, STUMPS, alpha=0.05, validation=(new_X.iloc[rows], new_y[rows])
        ).certificate_.held_out
        for rows in (np.arange(300), order)
    )
    assert one == other


def test_few_held_out_rows_limit_nothing():
    X, y, _ = drawn(1, 300)
    for n in (1, 3, 29):
        new_X, new_y, _ = drawn(2, n)
        model = quietly(score_of, X, y, STUMPS, alpha=0.05, B=2.0, validation=(new_X, new_y))
        held_out = model.certificate_.held_out
        assert (held_out.low, held_out.high) == (0.0, 2.0)


# --- rounded columns ------------------------------------------------------------------------------


def nearly_equal(difference, n=3000):
    """Two columns that differ by next to nothing, which is what the labels depend on."""
    rng = np.random.default_rng(1)
    a, side = rng.random(n), rng.choice([-1.0, 1.0], n)
    X = pd.DataFrame({"a": a, "b": a + difference * side})
    return X, (rng.random(n) < 0.5 + 0.4 * side) * 1.0


def test_columns_that_rounding_cannot_tell_apart_prove_nothing():
    X, y = nearly_equal(difference=2e-6)
    base = np.full(len(y), 0.5)
    model = quietly(base, X, y, rc.Linear(), alpha=0.1)
    h = (X["b"] - X["a"]).to_numpy() / 2e-6
    assert k2(model.predict(X, base=base), y, h) > 0.1, "far from multicalibrated for H"
    c = model.certificate_
    assert not c.exact
    assert "'b'" in c.reason
    assert "2^-15" in c.reason


def test_the_bound_covers_functions_of_columns_that_are_not_rounded():
    X, y = nearly_equal(difference=0.01)
    base = np.full(len(y), 0.5)
    model = quietly(base, X, y, rc.Linear(), alpha=0.1)
    c = model.certificate_
    assert c.exact
    assert 0 < c.lost < 1
    assert "rounded columns" in str(c)
    f = model.predict(X, base=base)
    h = (X["b"] - X["a"]).to_numpy()
    assert k2(f, y, h / np.abs(h).max()) <= c.bound
    assert c.bound > c.errors[c.rounds] - model.history_.unrounded


def test_columns_of_whole_numbers_lose_nothing():
    base, X, y = sample(1)
    assert rc.fit(base, X, y, LINEAR, alpha=0.05).certificate_.lost == 0.0


def test_products_of_columns_lose_a_little():
    base, X, y = sample(1)
    c = quietly(base, X[["age", "size"]], y, rc.Polynomial(), alpha=0.05).certificate_
    assert c.exact
    assert 0 < c.lost < 1e-3


@pytest.mark.parametrize("H", [rc.Linear(), rc.Polynomial(degree=3)], ids=["linear", "polynomial"])
def test_held_out_rows_far_outside_of_the_fitted_range(H):
    """Their squares have 60 bits; no sum may overflow: least squares cannot make things worse."""
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame({"a": rng.random(200)}), rng.random(200)
    far = pd.DataFrame({"a": rng.random(4000) * 1e4})
    held_out = {"X": far, "y": rng.random(4000), "base": np.full(4000, 0.5)}
    model = quietly(np.full(200, 0.5), X, y, H, alpha=0.05, validation=held_out)
    assert -1e-9 <= model.certificate_.held_out.ceiling < 0.05


# --- units, un-rounded ends, weak learners --------------------------------------------------------


def test_gap_limits_are_in_the_unit_of_the_labels():
    base, X, y = sample(1, labels="soft")
    plain = rc.fit(base, X, y, rc.Groups("sex"), alpha=0.02).certificate_
    scaled = rc.fit(
        1000 * base, X, 1000 * y, rc.Groups("sex"), alpha=0.02, bounds=(0, 1000)
    ).certificate_
    assert scaled.bound == pytest.approx(plain.bound, abs=BOUND)
    for one, other in zip(plain.gap_limits.values(), scaled.gap_limits.values(), strict=True):
        assert other == pytest.approx([1000 * value for value in one], abs=1e-3)


def test_a_model_whose_last_update_is_not_rounded_has_no_certificate_of_its_own():
    base, X, y = sample(1)
    certificate = rc.fit(base, X, y, LINEAR, alpha=0.02, loop=KEPT).certificate_
    assert not certificate.holds
    assert "last update is not rounded" in certificate.reason
    with pytest.raises(ValueError, match="no guarantee"):
        certificate.consequences()


def test_predictions_that_are_not_rounded_stay_inside_the_bounds():
    rng = np.random.default_rng(0)
    X, base = rng.normal(size=(60, 4)), np.full(60, 0.5)
    y = 1 / (1 + np.exp(-X[:, 0]))
    model = quietly(base, X, y, rc.Linear(), alpha=0.5, loop=KEPT, bounds=(0, 1))
    far, base = 50 * rng.normal(size=(200, 4)), np.full(200, 0.5)
    assert np.abs(model.margins(far, base=base)).max() > 1
    found = model.predict(far, base=base)
    assert found.min() >= 0.0
    assert found.max() <= 1.0
    # The graph is compared with the model before it is handed out.
    assert model.to_onnx(X_sample=far, base=base) is not None


def test_gamma_is_alpha_and_its_inverse_b():
    base, X, y = sample(1)
    boosted = quietly(base, X, y, GROUPS, gamma=0.2)
    assert (boosted.certificate_.alpha, boosted.certificate_.B) == (0.2, 5.0)
    assert boosted.certificate_.m == 50
    with pytest.raises(ValueError, match=r"gamma=0.2 stands for alpha"):
        rc.fit(base, X, y, GROUPS, gamma=0.2, alpha=0.1)
    with pytest.raises(ValueError, match="gamma"):
        rc.fit(base, X, y, GROUPS, gamma=1.5)


def test_validation_rows_only_estimate():
    X, y, _ = drawn(1, 600)
    new_X, new_y, _ = drawn(2, 300)
    plain = rc.fit(score_of, X, y, STUMPS, alpha=0.05)
    tested = rc.fit(score_of, X, y, STUMPS, alpha=0.05, validation=(new_X, 1 - new_y))
    assert plain.certificate_.held_out is None
    assert tested.certificate_.errors == plain.certificate_.errors
    np.testing.assert_array_equal(tested.predict(X), plain.predict(X))


def test_validation_as_a_dict():
    X, y, _ = drawn(1, 600)
    new_X, new_y, _ = drawn(2, 300)
    pair = rc.fit(score_of, X, y, STUMPS, alpha=0.05, validation=(new_X, new_y))
    given = {"X": new_X, "y": new_y, "base": score_of(new_X)}
    named = rc.fit(score_of(X), X, y, STUMPS, alpha=0.05, validation=given)
    assert named.certificate_.held_out == pair.certificate_.held_out


@pytest.mark.parametrize("unit", [1.0, 0.25, 1000.0])
def test_validation_weights_repeat_rows(unit):
    X, y, _ = drawn(1, 600)
    new_X, new_y, _ = drawn(2, 300)
    heavy = np.where(new_y == 1, 2.0, 1.0)
    repeated = np.concatenate([np.arange(300), np.flatnonzero(new_y)])
    weight = np.where(y == 1, 1.0, 1.5)
    weighted, repetition = (
        rc.fit(
            score_of, X, y, STUMPS, sample_weight=weight, alpha=0.05, validation=v
        ).certificate_.held_out
        for v in (
            {"X": new_X, "y": new_y, "sample_weight": unit * heavy},
            {"X": new_X.iloc[repeated], "y": new_y[repeated]},
        )
    )
    # Folds differ, but not what is fitted on all of these rows; in another unit of fixed point.
    assert weighted.ceiling == pytest.approx(repetition.ceiling, abs=1e-9)


def test_validation_weights_need_weights_of_the_fit():
    X, y, _ = drawn(1, 100)
    given = {"X": X, "y": y, "sample_weight": np.full(100, 2.0)}
    with pytest.raises(ValueError, match="give both or neither"):
        rc.fit(score_of, X, y, STUMPS, alpha=0.05, validation=given)


@pytest.mark.parametrize("weighted", [False, True])
def test_validation_share_sets_rows_aside(weighted):
    X, y, _ = drawn(1, 600)
    weight = np.random.default_rng(3).integers(1, 5, 600) if weighted else None
    model = rc.fit(score_of, X, y, STUMPS, alpha=0.05, validation=0.25, sample_weight=weight)
    held_out = model.certificate_.held_out
    assert held_out.rows == 150
    assert held_out.ceiling >= held_out.estimate
    everything = rc.fit(score_of, X, y, STUMPS, alpha=0.05, sample_weight=weight)
    assert model.certificate_.errors != everything.certificate_.errors, "150 rows are not fitted"


@pytest.mark.parametrize("share", [0.0, 1.0, True])
def test_bad_shares(share):
    X, y, _ = drawn(1, 50)
    with pytest.raises(ValueError, match=rf"share must lie between 0 and 1, got {share}"):
        rc.fit(score_of, X, y, STUMPS, alpha=0.05, validation=share)


def test_many_more_held_out_rows_than_fitted_ones():
    """Sums over them need more bits than sums over the fitted rows."""
    X, y, _ = drawn(1, 100)
    new_X, new_y, _ = drawn(2, 20_000)
    given = {"alpha": 0.05, "validation": (new_X, new_y)}
    H = rc.Trees(depth=1, features=["age", "sex"])
    model = quietly(score_of, X, y, H, **given)
    held_out = model.certificate_.held_out
    f = model.margins(new_X)
    gain = np.mean((f - new_y) ** 2) - np.mean((best_stumps(new_X, new_y, f) - new_y) ** 2)
    assert held_out.ceiling == pytest.approx(gain, abs=1e-6)


def best_stumps(X, y, f):
    """The best stump on every level set, found by trying all."""
    design = np.column_stack([X["age"], X["sex"] == "M"]).astype(float)
    out = np.empty(len(y))
    for v in np.unique(f):
        out[f == v] = _best_stump(design[f == v], y[f == v])
    return out


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"B": 1.0}, "B = 1.0 was given without alpha"),
        ({"alpha": 0.0}, r"alpha must be above 0, got 0\.0"),
        ({"alpha": -1}, "alpha must be above 0, got -1"),
        ({"alpha": float("nan")}, "alpha must be a finite number, got nan"),
        ({"alpha": "small"}, "alpha must be a finite number, got 'small'"),
        ({"alpha": True}, "alpha must be a finite number, got True"),
        ({"alpha": 0.1, "B": 0}, "B must be above 0, got 0"),
        ({"alpha": 0.1, "B": float("inf")}, "B must be a finite number, got inf"),
        ({"alpha": 2.5}, "alpha = 2.5 is above 2B = 2.*smaller alpha"),
        ({"alpha": 1e-6}, "m = 2000000 levels.*larger alpha"),
        ({"alpha": 0.1, "min_level_rows": 0}, "min_level_rows must be .* at least 1, got 0"),
    ],
    ids=repr,
)
def test_alpha_and_b_out_of_range(options, words):
    base, X, y = sample(0, n=20)
    with pytest.raises(ValueError, match=words):
        fit_with(base, X, y, STUMPS, **options)


@pytest.mark.parametrize("option", ["levels", "step", "tolerance", "max_rounds", "cv", "l2"])
def test_options_of_the_loop_do_not_go_with_alpha(option):
    base, X, y = sample(0, n=20)
    with pytest.raises(ValueError, match=rf"{option}.*alpha|alpha.*{option}"):
        fit_with(base, X, y, STUMPS, alpha=0.1, **{option: 1})


def test_only_the_options_that_were_given_are_named():
    base, X, y = sample(0, n=20)
    options = {"l2": 2.0, "link": "logit", "min_level_rows": 2}
    with pytest.raises(
        ValueError, match=r"l2=2\.0, link='logit' cannot be set; only min_level_rows"
    ):
        fit_with(base, X, y, STUMPS, alpha=0.1, **options)
