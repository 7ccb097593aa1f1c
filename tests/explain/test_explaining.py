"""How a prediction came about: rules, shifts, and that they add up."""

from __future__ import annotations

from math import fsum
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Rounds, Step
from recalibrate.explain.explaining import LEVEL_SET, MOST_CELLS, explain
from recalibrate.simulate import census

SHOWN = 40
FEW = {"levels": 3, "step": 0.5, "max_rounds": 3, "validation": False}
RUNS = {
    "default": {},
    "trees": {"H": rc.Trees(depth=2), **FEW},
    "orders": {"H": rc.Trees(depth=3, score_order=2), **FEW},
    "linear": {"H": rc.Linear(), **FEW},
    "polynomial": {"H": rc.Polynomial(), **FEW},
    "groups": {"H": rc.Groups("SEX", "AGEP < 30"), **FEW},
    "estimator": {"H": rc.Estimator(DecisionTreeRegressor(max_depth=2), ["SCHL", "WKHP"]), **FEW},
    "paper": {"H": rc.Trees(depth=2), "alpha": 0.05},
}


@pytest.fixture(scope="module")
def data():
    data = census(3000, seed=1, gap=0.1, categorical=True)
    X = data.X.copy()
    X["AGEP"] = X["AGEP"].astype(float)
    X.loc[::7, "AGEP"] = np.nan
    return X, data.y, data.scores


@pytest.fixture(scope="module", params=RUNS)
def run(request, data):
    X, y, scores = data
    model = fit_with(scores, X, y, threads=1, **RUNS[request.param])
    return model, X[:SHOWN], scores[:SHOWN], model.explain(X[:SHOWN], base=scores[:SHOWN])


def test_shifts_add_up_to_final_minus_base(run):
    model, X, scores, told = run
    assert np.array_equal(told.final, model.predict(X, base=scores))
    # Scores are float32 inside, and those of exactly 0 have the log-odds -16.
    np.testing.assert_allclose(told.base, scores, rtol=1e-6, atol=2e-7)
    start, _, _ = model._encode(X, scores, None)
    total = model.margins(X, base=scores) - start
    for row in range(SHOWN):
        shifts = [told.rounding[row], *(step.shift[row] for step in told.steps)]
        # One unit in the last place: where rounds replace scores, shifts are differences.
        assert fsum(shifts) == pytest.approx(total[row], abs=2.0**-52)
    by_feature = told.by_feature.groupby("row")["shift"].sum().to_numpy()
    np.testing.assert_allclose(by_feature, total, atol=1e-12)
    by_stage = told.by_stage.groupby("row")["shift"].sum().to_numpy()
    np.testing.assert_allclose(by_stage, total, atol=1e-12)


def test_additive_steps_on_exact_scores_add_up_to_the_last_bit(data):
    X, y, _ = data
    scores = np.full(len(y), 0.5)  # log-odds of zero
    model = fit_with(scores, X, y, threads=1, **RUNS["trees"])
    told = model.explain(X[:SHOWN], base=scores[:SHOWN])
    assert np.array_equal(told.shift, model.margins(X[:SHOWN], base=scores[:SHOWN]))


def test_the_table_follows_the_model_step_by_step(run):
    model, X, scores, told = run
    table = told.table
    stages = list(model.staged_predict(X, base=scores))
    assert len(table) == SHOWN * len(stages)
    for row in (0, 7):
        own = table[table["row"] == row]
        assert own["score"].tolist() == [stage[row] for stage in stages]
        assert own["step"].tolist() == list(range(len(stages)))
        moved = own.iloc[1:]
        before = np.array([stage[row] for stage in stages[:-1]])
        # Borders and scores are rounded on their way to the table.
        assert (moved["level_low"] <= before + 1e-12).all()
        assert (before < moved["level_high"] + 1e-12).all()
        assert moved["rule"].str.len().gt(0).all()


def test_it_can_be_read(run):
    _, _, scores, told = run
    said = str(told)
    assert said.startswith(f"Row 0: base score {scores[0]:.4g}, final score")
    assert said.endswith("... and 35 more rows")


def test_rules_hold_for_their_rows(data):
    X, y, scores = data
    model = fit_with(scores, X, y, threads=1, **RUNS["trees"])
    told = model.explain(X[:SHOWN], base=scores[:SHOWN])
    for row, rule in told.table[told.table["step"] == 1][["row", "rule"]].to_numpy():
        if "..." in rule:
            continue  # a list that was cut short
        ((_, rows),) = rc.Groups(rule).masks(pd.concat([X[:SHOWN], X]))
        assert rows[row]


def test_missing_values_are_called_missing(data):
    X, y, scores = data
    H = rc.Trees(depth=1, features=["AGEP"])
    model = fit_with(scores, X, y, H=H, threads=1, **FEW)
    told = model.explain(X[:SHOWN], base=scores[:SHOWN]).table
    first = told[told["step"] == 1].set_index("row")["rule"]
    assert first[0] == "AGEP is missing"
    assert "missing" not in first[1]


def test_features_are_credited_for_what_their_splits_change():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 2, 4000), "b": rng.integers(0, 2, 4000)})
    y = 0.2 + 0.4 * X["a"] + 0.1 * X["b"]
    model = rc.fit(
        np.full(4000, 0.45),
        X,
        y,
        H=rc.Trees(depth=2),
        loop=rc.Loop(levels=1, step=1.0, max_rounds=1),
        validation=False,
        link="identity",
    )
    told = model.explain(pd.DataFrame({"a": [1], "b": [0]}), base=[0.45])
    shift = told.by_feature.set_index("feature")["shift"]
    # Shares of a and b in 4,000 rows are within .02 of a half, and shift by .4 of that at most.
    assert shift["a"] == pytest.approx(0.2, abs=0.02)
    assert shift["b"] == pytest.approx(-0.05, abs=0.02)
    assert shift[LEVEL_SET] == pytest.approx(0.0, abs=0.02)
    assert "in the unit of y" in str(told)


def test_an_unchanged_model_says_so():
    rng = np.random.default_rng(0)
    model = rc.fit(np.full(300, 0.5), rng.normal(size=(300, 2)), rng.random(300) < 0.5)
    told = model.explain(np.zeros((2, 2)), base=[0.5, 0.5])
    assert told.steps == ()
    assert len(told.table) == 2
    assert len(told.by_stage) == len(told.by_feature) == 0
    assert "nothing was corrected" in str(told)


def test_too_many_rows_are_refused():
    class Nothing:
        n_learners = 0

    rounds = Rounds("identity", None, (), (Step(Levels.single(), Nothing(), 0, False, None),))
    model = SimpleNamespace(rounds=rounds, labels=None)
    margin = np.broadcast_to(0.0, MOST_CELLS + 1)
    with pytest.raises(ValueError, match="pass at most 20000000 rows"):
        explain(model, margin, [])


def three_classes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("abc"), 3000)})
    scores = rng.dirichlet([2, 2, 2], 3000)
    weight = np.exp(np.column_stack([0.8 * (X["g"] == "a"), 1.2 * (X["g"] == "b"), X["g"] != "a"]))
    p = scores * weight
    draws = rng.random(3000)[:, None] > (p / p.sum(axis=1, keepdims=True)).cumsum(axis=1)
    y = np.array(["low", "mid", "high"])[draws.sum(axis=1)]
    return scores, X, y, {"H": ["g"], "classes": ["low", "mid", "high"]}


def incomes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("abc"), 3000)})
    scores = rng.gamma(4.0, 500.0, 3000)
    return scores, X, scores + 400.0 * (X["g"] == "a") + rng.normal(0, 300, 3000), {"H": ["g"]}


def bounded():
    """Labels in [0, 10] and a group that needs more than the bounds allow."""
    scores, X, y, options = incomes()
    rng = np.random.default_rng(1)
    scores = rng.uniform(5, 9.5, len(X))
    y = np.clip(scores + 3.0 * (X["g"] == "a"), 0, 10)
    return scores, X, y, options | {"bounds": (0, 10), "link": "identity"}


def claims():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("abc"), 3000)})
    scores, years = rng.gamma(2.0, 0.5, 3000), rng.uniform(0.2, 1.0, 3000)
    y = rng.poisson(scores * years * np.where(X["g"] == "a", 1.6, 1.0))
    return scores, X, y, {"H": ["g"], "exposure": years}


def yes_or_no():
    data = census(3000, seed=1, gap=0.1)
    return np.clip(data.scores, 0.01, 0.99), data.X, data.y, {"H": ["SEX"]}


def log_odds(p):
    return np.log(p) - np.log1p(-p)


KINDS = {
    "binary": (yes_or_no, "log-odds", log_odds),
    "classes": (three_classes, "log-odds", log_odds),
    "regression": (incomes, "in the unit of y", np.asarray),
    "bounds": (bounded, "in the unit of y", np.asarray),
    "counts": (claims, "on the log scale", np.log),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_contributions_add_up_to_the_change_in_the_quantity_they_are_labelled_with(kind):
    make, unit, scale = KINDS[kind]
    scores, X, y, options = make()
    model = rc.fit(scores, X, y, **options)
    rows, base = X[:SHOWN], scores[:SHOWN]
    after = model.predict(rows, base=base)
    labels = model.classes_.tolist() if after.ndim == 2 else [None]
    for k, label in enumerate(labels):
        told = model.explain(rows, base=base, label=label)
        before, now = base, after
        if label is not None:  # scores come in the order of classes=, predictions sorted
            before, now = base[:, options["classes"].index(label)], after[:, k]
        assert told.unit == unit
        assert f" {unit}" in str(told).splitlines()[0]
        # The model keeps the scores of its base to 2**-24 on the scale of its link.
        change = scale(now) - scale(before)
        size = max(1.0, np.abs(change).max())
        assert np.abs(change).max() > 0.01 * size
        for shift in (
            told.shift,
            told.table.groupby("row")["shift"].sum().to_numpy(),
            told.by_stage.groupby("row")["shift"].sum().to_numpy(),
            told.by_feature.groupby("row")["shift"].sum().to_numpy(),
        ):
            np.testing.assert_allclose(shift, change, atol=1e-5 * size)
        # Every step, too, says what it does to the prediction.
        path = np.array([told.begun, *(step.after for step in told.steps)])
        if kind != "bounds":
            steps = np.diff(scale(path), axis=0)
            shown = np.array([step.shift for step in told.steps])
            np.testing.assert_allclose(shown, steps, atol=1e-9 * size)


def test_what_the_bounds_take_back_is_a_line_of_its_own():
    scores, X, y, options = bounded()
    model = rc.fit(scores, X, y, **options)
    told = model.explain(X[:SHOWN], base=scores[:SHOWN])
    last = told.table.groupby("row").tail(1)
    cut = (last["rule"] == "kept within the bounds").to_numpy()
    assert np.array_equal(cut, told.final == 10.0)
    assert 0 < cut.sum() < SHOWN
    assert (last["shift"][cut] < 0).all()


def test_steps_of_other_classes_are_told_apart():
    scores, X, y, options = three_classes()
    model = fit_with(scores, X, y, threads=1, **options | FEW)
    told = model.explain(X[:SHOWN], base=scores[:SHOWN], label="mid")
    assert {step.label for step in told.steps} == {"low", "mid", "high"}
    own = told.table[told.table["class"] == "mid"]
    assert len(own) < len(told.table) - SHOWN
    said = str(told)
    assert "class 'mid', base score" in said
    assert "class 'low', " in said
    before = scores[:SHOWN][:, [options["classes"].index(label) for label in model.classes_]]
    for step, after in zip(
        told.steps, [*model.staged_predict(X[:SHOWN], base=scores[:SHOWN])][1:], strict=True
    ):
        k = model.classes_.tolist().index(step.label)
        bounds = told._bounds(step.partition)
        # Borders are rounded on their way from log-odds to probabilities.
        assert (bounds[step.level] <= before[:, k] + 1e-6).all()
        assert (before[:, k] < bounds[step.level + 1] + 1e-6).all()
        before = after


@pytest.mark.parametrize("kind", ["bounds", "classes"])
def test_terms_of_a_linear_step_are_in_the_unit_of_its_shift(kind):
    scores, X, y, options = KINDS[kind][0]()
    model = fit_with(scores, X, y, threads=1, **options | {**FEW, "H": rc.Linear(), "levels": 1})
    label = None if kind == "bounds" else "mid"
    table = model.explain(X[:SHOWN], base=scores[:SHOWN], label=label).table
    steps = table[(table["step"] > 0) & (table["stage"] != "bounds") & (table["shift"] != 0)]
    assert len(steps) > SHOWN
    for rule, shift in zip(steps["rule"], steps["shift"], strict=True):
        terms = [float(term.split(" by ")[0]) for term in rule.split(", ")]
        # Three digits are printed of each.
        assert sum(terms) == pytest.approx(shift, abs=0.01 * max(map(abs, terms)))


def test_the_group_of_all_rows_is_called_everyone():
    """Of several classes, too, where the last stage moves level sets of all rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("ab"), 4000)})
    scores = rng.dirichlet([2, 2, 2], 4000)
    low = scores[:, 0]
    moved = np.where((low > 0.4) & (low < 0.6), 0.1, low)
    p = np.column_stack([moved, scores[:, 1:] * ((1 - moved) / (1 - low))[:, None]])
    draws = rng.random(4000)[:, None] > p.cumsum(axis=1)
    model = rc.fit(scores, X, draws.sum(axis=1), H=["g"], classes=[0, 1, 2])
    told = model.explain(X[:SHOWN], base=scores[:SHOWN], label=0)
    assert (told.table["rule"] == "everyone").any()
    assert "everyone" in set(told.by_feature["feature"])
    assert "not missing" not in str(told)


def test_bases_outside_of_the_bounds_are_shown_as_they_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(0.0, 2.0, 2000), "g": rng.choice(["a", "b"], 2000)})
    y = np.clip(3.0 * X["x"] + rng.normal(size=2000) + 10.0 + 2.0 * (X["g"] == "a"), 6.0, 14.0)
    model = rc.fit(lambda rows: 4.0 * rows["x"] + 10.0, X, y, H=["g"], bounds=(6.0, 14.0))
    rows = X[X["x"].abs() > 2.5].head(20)
    found = model.explain(rows)
    np.testing.assert_allclose(found.base, 4.0 * rows["x"] + 10.0)
    np.testing.assert_allclose(found.base + found.shift, model.predict(rows))
    np.testing.assert_allclose(found.final, model.predict(rows))
    assert (found.limiting * np.sign(rows["x"]) <= 0).all()
