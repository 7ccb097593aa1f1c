"""Rows of a default fit: folds, weights, bounds, tables with next to nothing in them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from situations import BOOSTING, SCORE, SHIFTS, Rows, decisions, most, people, sigmoid
from sklearn.model_selection import GroupKFold, KFold
from test_identity import content

import recalibrate as rc
from recalibrate.fitting import run


def off(X, f):
    """A group, a threshold and an interaction."""
    return 0.6 * (X["g"] == "a") - 0.4 * (X["a"] > 0) + 0.7 * np.sign(X["a"] * X["b"])


# --- folds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "cv", "count"), [(20_000, None, 5), (100_000, None, 3), (100_000, 4, 4)]
)
def test_many_rows_need_fewer_folds(monkeypatch, n, cv, count):
    seen = []
    follow = run.follow_recipe

    def record(sample, H, folds, **how):
        seen.extend(fold.held_out.of(0) for fold in folds)
        return follow(sample, H, folds, **how)

    monkeypatch.setattr(run, "follow_recipe", record)
    rng = np.random.default_rng(0)
    f = rng.uniform(0.2, 0.8, n)
    rc.fit(f, pd.DataFrame({"x": rng.normal(size=n)}), rng.random(n) < f, "linear", cv=cv)
    rows = np.concatenate(seen)
    assert len(seen) == count
    assert len(rows) == len(np.unique(rows)) > 0
    assert 1 / len(rows) - 1 / n <= (1 / run.HELD_OUT_SCALE if cv is None else 1e-12)


def households(seed, n=4000, size=20):
    """Rows of one household share a place and a shift that the place says nothing about."""
    rng = np.random.default_rng(seed)
    home = np.arange(n) // size
    place, shift = rng.normal(size=n // size), rng.normal(0, 0.8, n // size)
    f = rng.normal(size=n)
    truth = sigmoid(f + shift[home])
    X = pd.DataFrame({"place": place[home]})
    return Rows(X, sigmoid(f), truth, (rng.random(n) < truth) * 1.0), home


def boosted_by(seed, *, by_home):
    """How much of boosting is taken, with folds of rows or of whole households."""
    rows, home = households(seed)
    cv = list(GroupKFold(5).split(rows.X, rows.y, home)) if by_home else None
    notes = "\n".join(rc.fit(rows.base, rows.X, rows.y, cv=cv).notes)
    if "boosting: applied, " in notes:
        return "all"
    return "part" if "boosting: applied at " in notes else "none"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_folds_by_group_see_through_rows_that_belong_together(seed):
    """Other folds hold relatives of every held-out row, and learning them by heart seems to pay."""
    assert boosted_by(seed, by_home=False) == "all"
    assert boosted_by(seed, by_home=True) != "all"


@pytest.mark.slow
def test_folds_by_group_take_no_part_either():
    """A part has to be two and a half standard errors from zero, the whole two."""
    taken = sum(boosted_by(seed, by_home=True) != "none" for seed in range(40))
    assert taken <= most(40, norm.sf(2.0) + norm.sf(2.5))


@pytest.mark.slow
def test_a_splitter_and_its_pairs_are_the_same():
    rows = people(0, 2000, off=off)
    splitter = KFold(4, shuffle=True, random_state=0)
    one, two = (
        rc.fit(rows.base, rows.X, rows.y, cv=cv)
        for cv in (splitter, list(splitter.split(rows.X, rows.y)))
    )
    assert decisions(one)[BOOSTING]
    assert content(one.rounds) == content(two.rounds)
    assert one.notes == two.notes


def test_held_out_rows_that_contradict_leave_the_base_as_it_is():
    rows = people(0, 4000, off=off)
    k = np.arange(4000)
    contrary = people(1, 2000, off=lambda X, f: -off(X, f))
    X = pd.concat([rows.X[:2000], contrary.X], ignore_index=True)
    base = np.concatenate([rows.base[:2000], contrary.base])
    y = np.concatenate([rows.y[:2000], contrary.y])
    decided = decisions(rc.fit(base, X, y, cv=[(k[:2000], k[2000:])]))
    assert not decided[BOOSTING]
    assert not decided[SCORE]


@pytest.mark.parametrize("H", [None, rc.Groups("g"), rc.Linear()], ids=repr)
def test_the_refit_is_on_all_rows(H):
    """A group that is in no fold: choosing knows nothing of it, the refit moves it."""
    n, k = 8000, np.arange(8000)
    rng = np.random.default_rng(0)
    g = rng.choice(list("abcdefgh"), n)
    g[6000:] = np.where(rng.random(2000) < 0.5, "z", g[6000:])
    shift = pd.Series(dict(zip("abcdefghz", [0.6, -0.6] * 4 + [0.8], strict=True)))
    f = rng.normal(size=n)
    truth = sigmoid(f + shift[g].to_numpy())
    rows = Rows(pd.DataFrame({"g": g}), sigmoid(f), truth, (rng.random(n) < truth) * 1.0)
    model = rc.fit(rows.base, rows.X, rows.y, H, cv=[(k[:4000], k[4000:6000])])
    assert decisions(model)[SHIFTS if isinstance(H, rc.Groups) else BOOSTING]
    own = rows.where("g", "z")
    after = model.predict(rows.X, base=rows.base)
    assert np.mean((rows.truth - rows.base)[own]) > 0.1
    assert abs(np.mean((rows.truth - after)[own])) < 4 * rows.standard_error(own)


def test_a_share_chooses_on_some_rows_and_refits_all():
    rows = people(0, 4000, off=off)
    model = rc.fit(rows.base, rows.X, rows.y, validation=0.3)
    assert decisions(model)[BOOSTING]
    after = model.predict(rows.X, base=rows.base)
    assert np.mean((after - rows.truth) ** 2) < 0.3 * np.mean((rows.base - rows.truth) ** 2)


# --- what never matters ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("H", [None, rc.Groups("g", "h"), rc.Linear()], ids=repr)
def test_threads_blocks_and_order_change_nothing(H):
    rows = people(0, 1500, off=off)
    first = rc.fit(rows.base, rows.X, rows.y, H, engine=rc.Engine(threads=1))
    assert any(decisions(first).values())
    order = np.random.default_rng(1).permutation(1500)
    others = [
        rc.fit(rows.base, rows.X, rows.y, H, engine=rc.Engine(threads=threads, blocks=blocks))
        for threads, blocks in [(2, None), (3, 4)]
    ]
    others.append(rc.fit(rows.base[order], rows.X.iloc[order], rows.y[order], H))
    for other in others:
        assert content(other.rounds) == content(first.rounds)
        assert other.notes == first.notes


@pytest.mark.slow
def test_seeds():
    rows = people(0, 1500, off=off)
    one, same, other = (rc.fit(rows.base, rows.X, rows.y, seed=seed) for seed in (3, 3, 4))
    assert content(one.rounds) == content(same.rounds)
    assert one.notes == same.notes
    assert content(one.rounds) != content(other.rounds)


@pytest.mark.slow
def test_names_and_order_of_columns_change_no_decision():
    rows = people(0, 3000, off=off)
    turned = rows.X[["h", "g", "b", "a"]].rename(columns=str.upper)
    one, two = (rc.fit(rows.base, X, rows.y, rc.Trees(base_score=True)) for X in (rows.X, turned))
    assert decisions(one) == decisions(two)


# --- weights --------------------------------------------------------------------------------------


def test_a_row_of_weight_two_counts_as_the_row_twice():
    """With folds that keep copies together; steps and weights come from the same sums."""
    shift = {"a": 1.0, "b": -1.0, "c": 0.7, "d": -0.7}
    rows = people(0, 2400, off=lambda X, f: X["g"].map(shift) * np.sign(X["a"]))
    times = np.random.default_rng(1).integers(1, 3, 2400)
    again = np.repeat(np.arange(2400), times)
    first = [(np.arange(1600), np.arange(1600, 2400))]  # no more level sets for the copies
    both = [tuple(np.flatnonzero(np.isin(again, part)) for part in first[0])]
    H = rc.Groups("g", "a > 0", "g * (a > 0)")
    weighted = rc.fit(rows.base, rows.X, rows.y, H, sample_weight=times.astype(float), cv=first)
    X = rows.X.iloc[again].reset_index(drop=True)
    repeated = rc.fit(rows.base[again], X, rows.y[again], H, cv=both)
    assert decisions(weighted)[SHIFTS]
    one, two = (model.margins(rows.X, base=rows.base) for model in (weighted, repeated))
    # Evidence knows that copies are no news, and believes weighted rows a little less: by less
    # than what the rows of one of the eight groups know.
    known = 1 / np.sqrt(np.sum(rows.base * (1 - rows.base)) / 8)
    assert np.sqrt(np.mean((one - two) ** 2)) < known


def test_rows_of_weight_zero_count_for_nothing():
    rows = people(0, 3000, off=off)
    lies = people(1, 3000, off=lambda X, f: -3 * off(X, f))
    weight = np.r_[np.ones(3000), np.zeros(3000)]
    X = pd.concat([rows.X, lies.X], ignore_index=True)
    base = np.concatenate([rows.base, lies.base])
    H = rc.Groups("g", "a > 0")
    model = rc.fit(base, X, np.concatenate([rows.y, lies.y]), H, sample_weight=weight)
    after = model.predict(rows.X, base=rows.base)
    own = rows.where("g", "a")
    assert abs(np.mean((rows.truth - after)[own])) < 4 * rows.standard_error(own)


# --- regression -----------------------------------------------------------------------------------


def test_a_bounded_regression_is_repaired_in_its_own_unit():
    def incomes(seed, n):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"g": rng.choice(list("abcd"), n), "a": rng.normal(size=n)})
        base = rng.uniform(1000, 3000, n)
        truth = base + 400 * (X["g"] == "a").to_numpy()
        return Rows(X, base, truth, np.clip(truth + rng.normal(0, 300, n), 0, 4000))

    rows, new = incomes(0, 4000), incomes(1, 20_000)
    model = rc.fit(rows.base, rows.X, rows.y, bounds=(0, 4000))
    after = model.predict(new.X, base=new.base)
    assert after.min() >= 0
    assert after.max() <= 4000
    for group in "abcd":
        own = new.where("g", group)
        known = 300 / np.sqrt(np.sum(rows.where("g", group)))
        assert abs(np.mean((new.truth - after)[own])) < 4 * known


def test_the_unit_of_a_regression_does_not_matter():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("abcd"), 2000)})
    base = rng.uniform(0.25, 0.5, 2000)
    y = np.clip(base + 0.125 * (X["g"] == "a") + rng.normal(0, 0.1, 2000), 0, 1)
    one = rc.fit(base, X, y, bounds=(0, 1))
    cents = rc.fit(128 * base, X, 128 * y, bounds=(0, 128))
    assert one.rounds.steps
    assert content(one.rounds) == content(cents.rounds)  # a power of two is exact


# --- next to nothing ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:all .* of one class only")
@pytest.mark.parametrize("n", [1, 2, 10, 19])
def test_few_rows_leave_a_calibrated_base_as_it_is(n):
    """A change of the score has to be more likely than its prior; nothing else is looked at."""
    changed = 0
    for seed in range(15):
        rows = people(seed, n)
        model = rc.fit(rows.base, rows.X, rows.y)
        after = model.predict(rows.X, base=rows.base)
        assert np.isfinite(after).all()
        changed += not np.array_equal(after, rows.base)
    assert changed <= most(15, 0.1)


@pytest.mark.filterwarnings("ignore:all .* of one class only")
@pytest.mark.parametrize(("n", "label"), [(10, 1.0), (1000, 0.0)])
def test_labels_of_one_class_only(n, label):
    rows = people(0, n)
    base = np.clip(rows.base, 0.05, 0.95)
    model = rc.fit(base, rows.X, np.full(n, label), rc.Groups("h"))
    after = model.predict(rows.X, base=base)
    assert ((after >= 0) & (after <= 1)).all()
    # It may only have gone towards the one label that there is.
    assert (np.abs(after - label) <= np.abs(base - label)).all()


@pytest.mark.filterwarnings("ignore:all .* of one class only")
def test_ten_rows_of_one_class_make_nobody_certain():
    """The upper limit of ten out of ten, with 95 % confidence, is that one in four is not."""
    rows = people(0, 10)
    base = np.clip(rows.base, 0.05, 0.95)
    after = rc.fit(base, rows.X, np.ones(10), rc.Groups("h")).predict(rows.X, base=base)
    assert np.mean(after) < 0.999


@pytest.mark.slow
def test_columns_that_say_nothing_change_nothing():
    rows = people(0, 2000, off=off)
    empty = rows.X.assign(
        constant=1.0,
        same="k",
        missing=np.nan,
        none=pd.Series([None] * 2000, dtype=object),
    )
    # Folds are dealt by all columns, and trees that draw some would draw others.
    H, cv = rc.Trees(base_score=True), KFold(4)
    one, two = (rc.fit(rows.base, X, rows.y, H, cv=cv) for X in (rows.X, empty))
    assert decisions(one)[BOOSTING]
    np.testing.assert_array_equal(
        one.predict(rows.X, base=rows.base), two.predict(empty, base=rows.base)
    )


@pytest.mark.parametrize(
    "column", [np.ones(500), np.full(500, np.nan), np.full(500, "k")], ids=["1", "missing", "text"]
)
@pytest.mark.parametrize("H", [None, rc.Linear()], ids=repr)
def test_a_table_that_says_nothing_leaves_the_line(column, H):
    rows = people(0, 500, score=lambda f: 3 * f)
    model = rc.fit(rows.base, pd.DataFrame({"c": column}), rows.y, H)
    decided = decisions(model)
    assert decided[SCORE]
    assert not decided[BOOSTING]
