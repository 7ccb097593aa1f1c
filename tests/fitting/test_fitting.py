"""fit: how the pieces are put together, validation in all its forms, and what never matters."""

import re

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

import recalibrate as rc
from recalibrate.simulate import census

H = rc.Groups("sex", "age < 30")


def sample(seed=0, n=1500, gap=0.2):
    """A base that is ``gap`` too low for women."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 80, n)})
    base = rng.uniform(0.2, 0.6, n)
    truth = base + gap * (X["sex"] == "F")
    return base, X, (rng.random(n) < truth) * 1.0


def gap_of(model, X, base, y, mask):
    return abs(np.mean((y - model.predict(X, base=base))[mask]))


# --- the default --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("H", [None, "trees", "linear", H], ids=str)
def test_repairs_a_group_on_new_rows(H):
    base, X, y = sample(0)
    new_base, new_X, new_y = sample(1, n=20_000)
    model = rc.fit(base, X, y, H)
    women = new_X["sex"] == "F"
    before = abs(np.mean((new_y - new_base)[women]))
    # 750 women of 1,500 rows: their mean is known to a standard error of .018.
    assert before > 0.18
    assert gap_of(model, new_X, new_base, new_y, women) < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"max_rounds": 50}], ids=["recipe", "loop"])
def test_noise_leaves_the_base_as_it_is(options):
    unchanged = 0
    for seed in range(12):
        base, X, y = sample(seed, n=300, gap=0.0)
        model = fit_with(base, X, y, rc.Trees(), **options)
        if model.n_rounds_ == 0:
            unchanged += 1
            np.testing.assert_array_equal(model.predict(X, base=base), base)
            said = "returned unchanged"
            assert any(re.search(said, note) for note in model.notes)
    # A gain of more than one standard error by chance happens in about one of six samples.
    assert unchanged >= 8


def test_link_follows_the_labels():
    base, X, y = sample()
    assert rc.fit(base, X, y, H).rounds.link == "logit"
    assert rc.fit(base, X, np.clip(y, 0.1, 0.9), H).rounds.link == "identity"
    assert rc.fit(base, X, y, H, bounds=(0, 2)).rounds.link == "identity"
    assert rc.fit(base, X, y, H, link="identity").rounds.link == "identity"


def test_default_class_is_trees():
    base, X, y = sample()
    assert isinstance(rc.fit(base, X, y).H, rc.Trees)


# --- cross-validation ---------------------------------------------------------------------------


def owner(n, groups=30):
    return np.arange(n) % groups


@pytest.mark.parametrize(
    "cv",
    [
        3,
        np.int64(4),
        KFold(4, shuffle=True, random_state=0),
        TimeSeriesSplit(3),
        list(GroupKFold(5).split(np.zeros(1500), groups=owner(1500))),
        GroupKFold(5).split(np.zeros(1500), groups=owner(1500)),
    ],
    ids=["3", "numpy 4", "KFold", "TimeSeriesSplit", "pairs", "generator"],
)
def test_every_kind_of_folds(cv):
    base, X, y = sample()
    model = rc.fit(base, X, y, H, cv=cv)
    assert model.n_rounds_ > 0
    assert gap_of(model, X, base, y, X["sex"] == "F") < 0.06
    held_out = model.history_.held_out
    assert held_out[0] > min(held_out)


def test_folds_by_hand_choose_the_number_of_rounds():
    """One fold whose held-out rows contradict the others: no round may be taken."""
    base, X, y = sample(n=400)
    lower = X["sex"] == "F"
    y = np.where(lower & (np.arange(400) >= 200), 0.0, y)
    y[:200] = np.where(lower[:200], 1.0, y[:200])
    model = rc.fit(
        base, X, y, H, cv=[(np.arange(200), np.arange(200, 400))], loop=rc.Loop(levels=3)
    )
    assert model.n_rounds_ == 0
    assert any("unchanged" in note for note in model.notes)
    np.testing.assert_array_equal(model.predict(X, base=base), base)


def test_rounds_of_the_refit_are_those_that_the_folds_chose():
    """With several tables a round, the folds count tables, and the refit must as well."""
    base, X, y = sample()
    options = {"tables_per_round": 5, "levels": 3, "step": 0.2}
    one = fit_with(base, X, y, H, cv=[(np.arange(750), np.arange(750, 1500))], **options)
    curve = one.history_.held_out
    best = int(np.argmin(curve))
    assert best > 5
    assert abs(len(one.rounds.steps) - best) < 5


def test_refit_keeps_the_last_update_unrounded():
    base, X, y = sample()
    options = {"rounded": True, "levels": 20, "link": "identity", "cv": 3, "patience": 3}
    rounded, kept = (fit_with(base, X, y, H, keep_unrounded=k, **options) for k in (False, True))
    assert kept.n_rounds_ == rounded.n_rounds_ + 1 > 1
    assert kept.history_.held_out == rounded.history_.held_out
    assert [step.grid is None for step in kept.rounds.steps][-2:] == [False, True]
    assert kept.history_.final < rounded.history_.final


def test_a_rounded_run_that_folds_refuse_is_not_rounded_either():
    base, X, y = sample(n=300, gap=0.0)
    pair = (np.arange(150), np.arange(150, 300))
    y[150:] = 1 - y[:150]
    model = rc.fit(
        base, X, y, H, cv=[pair], loop=rc.Loop(rounded=True, levels=5, keep_unrounded=True)
    )
    assert model.n_rounds_ == 0
    np.testing.assert_array_equal(model.predict(X, base=base), base)


def test_time_series_rows_before_the_first_fold_are_refitted_too():
    base, X, y = sample()
    three, all_rows = (
        rc.fit(base, X, y, H, cv=TimeSeriesSplit(3), loop=rc.Loop(max_rounds=5)),
        rc.fit(base, X, y, H, validation=False, loop=rc.Loop(max_rounds=5)),
    )
    np.testing.assert_array_equal(three.predict(X, base=base), all_rows.predict(X, base=base))


@pytest.mark.parametrize(
    ("cv", "error", "words"),
    [
        (1, ValueError, "at least 2 folds or a splitter, got 1"),
        (-3, ValueError, "at least 2 folds or a splitter, got -3"),
        ([], ValueError, "cv= gave no folds"),
        ([([0, 1], [])], ValueError, "fold without rows"),
        ([([], [0, 1])], ValueError, "fold without rows"),
        ([([0, 1, 2], [2, 3])], ValueError, "overlap"),
        ([([0, 1], [10_000])], ValueError, "cv=.*10000|10,000"),
        ([([0, 1], [-1])], ValueError, "cv=.*-1"),
        (True, (TypeError, ValueError), "cv"),
        (2.5, (TypeError, ValueError), "cv.*2.5"),
        ("five", (TypeError, ValueError), "cv.*five"),
    ],
    ids=repr,
)
def test_bad_folds(cv, error, words):
    base, X, y = sample(n=50)
    with pytest.raises(error, match=words):
        rc.fit(base, X, y, H, cv=cv)


# --- validation ---------------------------------------------------------------------------------


def test_no_validation_takes_every_round():
    base, X, y = sample()
    model = rc.fit(base, X, y, H, validation=False, loop=rc.Loop(max_rounds=17))
    assert model.n_rounds_ == 17
    assert model.history_.held_out == ()
    assert len(model.history_.errors) == 18


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_share_of_the_rows(share):
    base, X, y = sample()
    model = rc.fit(base, X, y, H, validation=share, seed=1)
    assert model.n_rounds_ > 0
    assert gap_of(model, X, base, y, X["sex"] == "F") < 0.06


@pytest.mark.parametrize("share", [0.3, 0.7, 0.9])
def test_any_share_between_zero_and_one(share):
    base, X, y = sample()
    assert rc.fit(base, X, y, H, validation=share).history_.held_out


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, 1.5, 3, True])
def test_bad_shares(share):
    base, X, y = sample(n=50)
    with pytest.raises(ValueError, match=rf"share must lie between 0 and 1, got {share}"):
        rc.fit(base, X, y, H, validation=share)


def test_given_rows_are_not_fitted():
    base, X, y = sample()
    new_base, new_X, new_y = sample(1)
    given = {"X": new_X, "y": new_y, "base": new_base}
    model = rc.fit(base, X, y, H, validation=given, loop=rc.Loop(patience=5))
    free = rc.fit(base, X, y, H, validation=False, loop=rc.Loop(max_rounds=model.n_rounds_))
    np.testing.assert_array_equal(model.predict(X, base=base), free.predict(X, base=base))
    p = model.predict(new_X, base=new_base)
    log_loss = -np.mean(np.where(new_y == 1, np.log(p), np.log(1 - p)))
    # Losses are summed in fixed point; p is rounded on its way from the log-odds.
    assert min(model.history_.held_out) == pytest.approx(log_loss, abs=1e-6)


@pytest.mark.parametrize("unit", [0.25, 1.0, 64.0])
def test_weights_of_given_rows(unit):
    """Those of validation rows count by their ratio, whatever their size."""
    base, X, y = sample(n=400)
    new_base, new_X, new_y = sample(1, n=300)
    heavy = np.where(new_y == 1, 2.0, 1.0)
    again = np.concatenate([np.arange(300), np.flatnonzero(new_y)])
    weighted, repeated = (
        rc.fit(
            base,
            X,
            y,
            H,
            sample_weight=1.0 + y,
            validation=validation,
            loop=rc.Loop(max_rounds=20, levels=4),
        )
        for validation in (
            {"X": new_X, "y": new_y, "base": new_base, "sample_weight": unit * heavy},
            {"X": new_X.iloc[again], "y": new_y[again], "base": new_base[again]},
        )
    )
    # 20 bits of weight leave 2**-27 for each row's loss.
    assert weighted.history_.held_out == pytest.approx(repeated.history_.held_out, abs=1e-6)


@pytest.mark.parametrize(
    ("validation", "error", "words"),
    [
        ({"X": 1}, ValueError, r"needs the entries 'X' and 'y'.*got \['X'\]"),
        ({"X": 1, "y": 2, "w": 3}, ValueError, r"got \['X', 'w', 'y'\]"),
        ((1, 2, 3), TypeError, r"pair \(X, y\).*got tuple"),
        ("half", TypeError, r"pair \(X, y\).*got str"),
    ],
    ids=repr,
)
def test_bad_validation(validation, error, words):
    base, X, y = sample(n=50)
    with pytest.raises(error, match=words):
        rc.fit(base, X, y, H, validation=validation)


def test_given_rows_of_an_array_base_need_their_scores():
    base, X, y = sample(n=50)
    with pytest.raises(TypeError, match=r"one score per row, got float 0\.5"):
        rc.fit(base, X, y, H, validation={"X": X, "y": y, "base": 0.5})
    with pytest.raises(ValueError, match="pass them as base="):
        rc.fit(base, X, y, H, validation=(X, y))


@pytest.mark.parametrize("bad", [2.0, np.nan])
def test_labels_of_given_rows_are_checked(bad):
    base, X, y = sample(n=50)
    given = {"X": X, "y": np.where(np.arange(50) == 7, bad, y), "base": base}
    with pytest.raises(ValueError, match=rf"{bad:g}.*row 7"):
        rc.fit(base, X, y, H, validation=given)


def test_labels_of_given_rows_keep_the_bounds_only_if_these_were_given():
    base, X, y = sample(n=50)
    income = 10 + 5 * y
    options = {"max_rounds": 2, "levels": 2}
    given = {"X": X, "y": np.where(np.arange(50) == 7, 17.0, income), "base": 10 + 5 * base}
    model = fit_with(10 + 5 * base, X, income, H, validation=given, **options)
    scaled = (given["y"] - 10) / 5
    # Losses are summed in steps of 2**-40.
    assert model.history_.held_out[0] == pytest.approx(np.mean((scaled - base) ** 2), abs=1e-9)
    with pytest.raises(ValueError, match=r"y of validation= must lie inside .*9, 16.*17.*row 7"):
        fit_with(10 + 5 * base, X, income, H, bounds=(9, 16), validation=given, **options)


@pytest.mark.parametrize("accepting", [{"cv": 3}, {"validation": 0.3}, {"validation": False}, {}])
def test_accept_needs_held_out_rows(accepting):
    base, X, y = sample(n=50)
    with pytest.raises(ValueError, match=r"accept=0.0 .*validation=\(X, y\)"):
        fit_with(base, X, y, H, accept=0.0, **accepting)


@pytest.mark.parametrize("validation", [0.2, False, "rows"])
def test_folds_and_validation_exclude_each_other(validation):
    base, X, y = sample(n=50)
    if validation == "rows":
        validation = {"X": X, "y": y, "base": base}
    with pytest.raises(ValueError, match="either cv= or validation="):
        rc.fit(base, X, y, H, cv=3, validation=validation)


# --- what never matters -------------------------------------------------------------------------


CLASSES = [
    rc.Trees(depth=2, feature_share=0.5),
    rc.Linear(),
    rc.Groups("SEX", "RAC1P", "AGEP < 30"),
]


@pytest.mark.parametrize("H", CLASSES, ids=repr)
@pytest.mark.parametrize("options", [{"max_rounds": 8}, {"alpha": 0.02}], ids=repr)
def test_threads_blocks_and_order_change_nothing(H, options):
    data = census(700, seed=3, gap=0.2, categorical=True)
    scores, X, y = data.scores.clip(0.02, 0.98), data.X[["SEX", "RAC1P", "AGEP"]], data.y
    first = fit_with(scores, X, y, H, threads=1, blocks=1, **options)
    expected = first.margins(X, base=scores)
    assert first.n_rounds_ > 0
    for threads, blocks in [(1, 7), (2, 2), (3, None)]:
        other = fit_with(scores, X, y, H, threads=threads, blocks=blocks, **options)
        np.testing.assert_array_equal(other.margins(X, base=scores), expected)
        assert other.history_.errors == first.history_.errors
        assert other.history_.held_out == first.history_.held_out
    order = np.random.default_rng(0).permutation(len(y))
    other = fit_with(scores[order], X.iloc[order], y[order], H, **options)
    np.testing.assert_array_equal(other.margins(X, base=scores), expected)


@pytest.mark.parametrize("options", [{}, {"levels": 4}], ids=repr)
def test_equal_weights_are_no_weights(options):
    base, X, y = sample(n=300)
    without, *others = (
        fit_with(base, X, y, H, sample_weight=weight, **options)
        for weight in (None, np.ones(300), np.full(300, 2.5))
    )
    for other in others:
        np.testing.assert_array_equal(other.margins(X, base=base), without.margins(X, base=base))


def test_equal_weights_of_fitted_and_given_rows():
    base, X, y = sample(n=300)
    given = {"X": X, "y": y, "base": base, "sample_weight": np.full(300, 3.0)}
    fixed = {"max_rounds": 3, "levels": 2}
    model = fit_with(base, X, y, H, sample_weight=np.ones(300), validation=given, **fixed)
    del given["sample_weight"]
    without = fit_with(base, X, y, H, validation=given, **fixed)
    assert model.history_.held_out == without.history_.held_out
    np.testing.assert_array_equal(model.predict(X, base=base), without.predict(X, base=base))
    given["sample_weight"] = np.arange(1.0, 301.0)
    with pytest.raises(ValueError, match="all calibration rows weigh the same"):
        fit_with(base, X, y, H, sample_weight=np.ones(300), validation=given, **fixed)


@pytest.mark.slow
def test_seed_deals_the_folds():
    base, X, y = sample(n=300)
    one, same, other = (
        rc.fit(base, X, y, rc.Trees(), seed=seed).history_.held_out for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_input_is_not_changed():
    base, X, y = sample(n=200)
    X["age"] = X["age"].astype(float)
    X.loc[3, "age"] = np.nan
    weight = np.ones(200)
    copies = base.copy(), X.copy(), y.copy(), weight.copy()
    rc.fit(base, X, y, rc.Trees(), sample_weight=weight)
    np.testing.assert_array_equal(base, copies[0])
    pd.testing.assert_frame_equal(X, copies[1])
    np.testing.assert_array_equal(y, copies[2])
    np.testing.assert_array_equal(weight, copies[3])


def test_suspiciously_good_scores_draw_a_warning():
    base, X, y = sample()
    with pytest.warns(UserWarning, match="rows that it has not seen") as caught:
        rc.fit(0.1 + 0.8 * y, X, y, H, loop=rc.Loop(max_rounds=1), validation=False)
    assert caught[0].filename == __file__
    income = 1000 * base + 50
    with pytest.warns(UserWarning, match="almost perfectly"):
        rc.fit(income + 0.01, X, income, H, loop=rc.Loop(max_rounds=1), validation=False)


def test_settings_of_loop_and_engine_are_sent_to_their_objects():
    base, X, y = sample(n=50)
    with pytest.raises(TypeError, match=r"takes levels= inside loop=.*Loop\(levels=3\)"):
        rc.fit(base, X, y, levels=3)
    with pytest.raises(TypeError, match=r"takes threads= inside engine=.*Engine\(threads=1\)"):
        rc.fit(base, X, y, threads=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'level'"):
        rc.fit(base, X, y, level=3)
    with pytest.raises(
        TypeError, match=r"loop must be a recalibrate.Loop\(levels=, .*got \{'levels'"
    ):
        rc.fit(base, X, y, loop={"levels": 3})


# ---- weights of extreme ratio


def retail_and_corporate(n=20_000, ratio=1e3):
    rng = np.random.default_rng(0)
    corporate = rng.random(n) < 0.02
    X = pd.DataFrame({"segment": np.where(corporate, "corporate", "retail")})
    y = (rng.random(n) < np.where(corporate, 0.3, 0.35)).astype(float)
    return X, y, np.where(corporate, ratio, 1.0)


def test_light_rows_are_corrected_by_default_and_the_weights_are_commented_on():
    """98 % of the rows weigh a thousandth of the others and are off by .05, 15 standard errors."""
    X, y, weight = retail_and_corporate()
    base = np.full(len(y), 0.3)
    with pytest.warns(UserWarning, match="effective sample size is 4.. of 20000 rows"):
        model = rc.fit(base, X, y, sample_weight=weight)
    retail = (X["segment"] == "retail").to_numpy()
    gap = (y - model.predict(X, base=base))[retail].mean()
    assert abs(gap) < 0.01


@pytest.mark.filterwarnings("ignore:the base scores predict the labels almost perfectly")
@pytest.mark.parametrize("n", [60, 2000])
def test_a_base_without_any_error_stays_as_it_is(n):
    """There is no noise to divide by."""
    rng = np.random.default_rng(0)
    X, truth = pd.DataFrame({"g": rng.choice(list("ab"), n)}), rng.uniform(0.1, 0.9, n)
    for y in (truth, 100 * truth):
        np.testing.assert_allclose(rc.fit(y, X, y).predict(X, base=y), y, rtol=1e-6)
