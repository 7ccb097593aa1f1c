"""Recalibrated: predictions in every form, for every kind of base and label."""

from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from settings import fit_with

import recalibrate as rc

H = rc.Groups("sex", "age < 30")
PLAIN = {"validation": False, "max_rounds": 5}


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.integers(18, 80, n), "sex": rng.choice(["F", "M"], n), "x": rng.normal(size=n)}
    )
    base = 1 / (1 + np.exp(-0.5 * X["x"].to_numpy()))
    return base, X, (rng.random(n) < base * (0.7 + 0.3 * (X["sex"] == "F"))) * 1.0


def score_of(X):
    return 1 / (1 + np.exp(-0.5 * X["x"].to_numpy()))


def log_odds_of(X):
    return 0.5 * X["x"].to_numpy()


# --- forms of a prediction ----------------------------------------------------------------------


def test_predict_proba_has_both_columns():
    base, X, y = sample()
    model = fit_with(base, X, y, H, **PLAIN)
    p = model.predict(X, base=base)
    both = model.predict_proba(X, base=base)
    assert both.shape == (400, 2)
    np.testing.assert_array_equal(both[:, 1], p)
    # p and 1 - p are rounded once each.
    np.testing.assert_allclose(both.sum(axis=1), 1.0, rtol=1e-15)


def test_margins_are_on_the_scale_of_the_link():
    base, X, y = sample()
    logit = fit_with(base, X, y, H, **PLAIN)
    margins = logit.margins(X, base=base)
    # Another way to write the sigmoid: a few bits.
    np.testing.assert_allclose(logit.predict(X, base=base), 1 / (1 + np.exp(-margins)), rtol=1e-14)
    identity = fit_with(base, X, y, H, link="identity", **PLAIN)
    np.testing.assert_array_equal(
        identity.predict(X, base=base), np.clip(identity.margins(X, base=base), 0, 1)
    )


@pytest.mark.filterwarnings("ignore:all base scores are exactly 0 or 1")
def test_predictions_of_probabilities_stay_in_range():
    _, X, y = sample()
    base = np.where(np.arange(400) % 2, 0.0, 1.0)
    for link in ("identity", "logit"):
        model = fit_with(base, X, y, rc.Linear(), link=link, step=1.0, **PLAIN)
        for p in [model.predict(X, base=base), *model.staged_predict(X, base=base)]:
            assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("options", [{}, {"rounded": True}, {"tables_per_round": 3}], ids=repr)
def test_staged_predict_ends_at_predict(options):
    base, X, y = sample()
    model = fit_with(base, X, y, H, **options, **PLAIN)
    stages = list(model.staged_predict(X, base=base))
    assert len(stages) == len(model.rounds.steps) + 1
    np.testing.assert_array_equal(stages[-1], model.predict(X, base=base))
    if not options:
        # To the scale of the link and back.
        np.testing.assert_allclose(stages[0], base, atol=1e-12)
    assert any(not np.array_equal(a, b) for a, b in pairwise(stages))


def test_rows_are_predicted_one_by_one_alike():
    base, X, y = sample()
    for some in (rc.Trees(), rc.Linear(), H):
        model = fit_with(base, X, y, some, **PLAIN)
        together = model.predict(X, base=base)
        single = [model.predict(X.iloc[[i]], base=base[[i]])[0] for i in range(20)]
        np.testing.assert_array_equal(single, together[:20])


# --- bases --------------------------------------------------------------------------------------


def test_callable_base_is_asked_at_predict():
    base, X, y = sample()
    by_function = fit_with(score_of, X, y, H, **PLAIN)
    by_array = fit_with(base, X, y, H, **PLAIN)
    expected = by_array.predict(X, base=base)
    np.testing.assert_array_equal(by_function.predict(X), expected)
    np.testing.assert_array_equal(by_function.predict(X, base=base), expected)
    shifted = by_function.predict(X, base=1 - base)
    assert not np.array_equal(shifted, expected), "base= goes before the function"


@pytest.mark.parametrize("as_array", [False, True])
def test_base_of_log_odds(as_array):
    base, X, y = sample()
    margin = log_odds_of(X)
    model = fit_with(margin if as_array else log_odds_of, X, y, H, base_link="logit", **PLAIN)
    expected = fit_with(base, X, y, H, **PLAIN).predict(X, base=base)
    # The log-odds of a probability are rounded to 2**-24.
    np.testing.assert_allclose(
        model.predict(X, base=margin if as_array else None), expected, atol=1e-7
    )
    identity = fit_with(log_odds_of, X, y, H, base_link="logit", link="identity", **PLAIN)
    expected = fit_with(score_of, X, y, H, link="identity", **PLAIN).predict(X)
    # Log-odds of the base are snapped on their way.
    np.testing.assert_allclose(identity.predict(X), expected, atol=1e-7)


def test_own_table_for_the_class():
    """X is whatever the base takes; Z is the table that H looks at."""
    _, Z, y = sample()
    images = [np.full((2, 2), value) for value in log_odds_of(Z)]

    def brightness(batch):
        return np.array([image.mean() for image in batch])

    model = fit_with(brightness, images, y, H, Z=Z, base_link="logit", **PLAIN)
    expected = fit_with(log_odds_of, Z, y, H, base_link="logit", **PLAIN).predict(Z)
    np.testing.assert_array_equal(model.predict(images, Z=Z), expected)
    half = model.predict(images[:7], Z=Z[:7])
    np.testing.assert_array_equal(half, expected[:7])


def test_fitted_on_an_array():
    base, X, y = sample()
    array = X[["age", "x"]].to_numpy()
    model = fit_with(base, array, y, rc.Trees(), **PLAIN)
    expected = fit_with(base, X[["age", "x"]], y, rc.Trees(), **PLAIN).predict(X, base=base)
    np.testing.assert_array_equal(model.predict(array, base=base), expected)
    only = fit_with(base, array, y, rc.Trees(features=["x1"]), **PLAIN)
    assert len(only.predict(array, base=base)) == len(y)


def test_only_the_columns_of_the_class_are_needed():
    base, X, y = sample()
    model = fit_with(base, X, y, rc.Trees(features=["sex"]), **PLAIN)
    np.testing.assert_array_equal(model.predict(X[["sex"]], base=base), model.predict(X, base=base))


# --- labels -------------------------------------------------------------------------------------


def income(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "x": rng.normal(size=n)})
    truth = 30_000 + 8_000 * X["x"].to_numpy() + np.where(X["sex"] == "F", 5_000, 0)
    y = np.clip(truth + rng.normal(0, 4_000, n), 0, 80_000)
    return np.clip(30_000 + 8_000 * X["x"].to_numpy(), 0, 80_000), X, y


@pytest.mark.parametrize("bounds", [None, (0, 100_000)])
def test_regression_is_in_units_of_the_labels(bounds):
    base, X, y = income()
    model = rc.fit(base, X, y, rc.Groups("sex"), bounds=bounds)
    f = model.predict(X, base=base)
    assert model.labels.kind == "regression"
    low, high = bounds or (y.min(), y.max())
    assert (model.labels.low, model.labels.high) == (low, high)
    women = (X["sex"] == "F").to_numpy()
    assert np.mean((y - base)[women]) > 4_000
    assert abs(np.mean((y - f)[women])) < 500
    # The same line through two numbers, rounded differently.
    np.testing.assert_allclose(f, low + (high - low) * model.margins(X, base=base), rtol=1e-12)
    *_, last = model.staged_predict(X, base=base)
    np.testing.assert_array_equal(last, f)
    with pytest.raises(AttributeError, match=rf"between {low:g} and {high:g}: use predict"):
        model.predict_proba(X, base=base)


def test_regression_by_algorithm_1_stays_inside_the_bounds():
    base, X, y = income()
    base = base + np.where(np.arange(600) < 5, 200_000, 0)  # beyond the bounds: clipped
    model = rc.fit(base, X, y, rc.Groups("sex"), bounds=(0, 80_000), alpha=0.002)
    f = model.predict(X, base=base)
    steps = f / 80_000 * model.certificate_.m
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)
    assert ((f >= 0) & (f <= 80_000)).all()
    scaled = np.mean(((f - y) / 80_000) ** 2)
    # Losses are summed in steps of 2**-40.
    assert model.certificate_.errors[model.certificate_.rounds] == pytest.approx(scaled, abs=1e-9)


def test_shifting_and_scaling_regression_labels_changes_nothing_else():
    base, X, y = income()
    one = fit_with(base, X, y, rc.Groups("sex"), bounds=(0, 80_000), **PLAIN)
    two = fit_with(base / 1000 - 7, X, y / 1000 - 7, rc.Groups("sex"), bounds=(-7, 73), **PLAIN)
    np.testing.assert_allclose(
        two.predict(X, base=base / 1000 - 7), one.predict(X, base=base) / 1000 - 7, atol=1e-6
    )


def test_soft_labels():
    base, X, y = sample()
    soft = np.clip(0.8 * y + 0.1, 0, 1)
    model = fit_with(base, X, soft, H, **PLAIN)
    assert model.labels.kind == "soft"
    f = model.predict(X, base=base)
    assert ((f >= 0) & (f <= 1)).all()
    assert model.predict_proba(X, base=base).shape == (400, 2)
    logit = rc.fit(
        base, X, soft, H, link="logit", validation=False, loop=rc.Loop(max_rounds=60, levels=1)
    )
    # Newton's method on the log loss of soft labels ends where group means agree.
    women = X["sex"] == "F"
    gap = np.mean((soft - logit.predict(X, base=base))[women])
    assert abs(gap) < 0.01


def test_weights_decide_what_is_right():
    """Weights of 9 to 1 on two contradicting halves: the model follows the heavy one."""
    n = 400
    X = pd.DataFrame({"sex": ["F", "M"] * (n // 2)})
    y = np.repeat([1.0, 0.0], n // 2)
    weight = np.where(y == 1, 9.0, 1.0)
    model = fit_with(
        np.full(n, 0.5),
        X,
        y,
        rc.Groups("sex"),
        sample_weight=weight,
        step=1.0,
        link="identity",
        **PLAIN,
    )
    # Weights have 20 bits.
    np.testing.assert_allclose(model.predict(X, base=np.full(n, 0.5)), 0.9, atol=1e-5)


# --- as an object -------------------------------------------------------------------------------


def test_summary_says_what_was_fitted():
    base, X, y = sample()
    model = rc.fit(base, X, y, H)
    text = model.summary()
    for words in (
        "array of scores",
        "probability of 1",
        repr(H),
        f"{model.n_rounds_} (",
        "held out",
    ):
        assert words in text
    assert model.notes
    assert {tuple(note.split(": ", 1)) for note in model.notes} <= set(text.facts)
    assert (
        "possible range 0 to 90000"
        in fit_with(*income(), rc.Groups("sex"), bounds=(0, 90_000), **PLAIN).summary()
    )
    paper = rc.fit(base, X, y, H, alpha=0.05)
    assert ("Algorithm 1", "alpha = 0.05, B = 1") in [
        (name, said[:19]) for name, said in paper.summary().facts
    ]


def test_summary_shows_the_error_of_the_model_not_of_the_rejected_round():
    base, X, y = sample()
    model = rc.fit(
        base, X, y, H, link="identity", validation=False, loop=rc.Loop(tolerance=1e-3, step=0.5)
    )
    assert model.history_.stopped == "tolerance"
    # As in the loop, before predictions are cut at 0 and 1.
    error = np.mean((model.margins(X, base=base) - y) ** 2)
    assert f"-> {error:.4f}" in model.summary()
    assert model.history_.errors[-1] != pytest.approx(error, abs=1e-6)


def test_repr():
    base, X, y = sample()
    model = fit_with(base, X, y, H, **PLAIN)
    assert repr(model) == (
        f"<Recalibrated: array of scores, H={H!r}, 5 rounds, {model.n_learners_} learners>"
    )
    assert "callable score_of" in repr(fit_with(score_of, X, y, H, **PLAIN))


def test_counts():
    base, X, y = sample()
    model = fit_with(base, X, y, H, levels=4, **PLAIN)
    assert model.n_rounds_ == 5
    assert model.n_learners_ == sum(step.table.n_learners for step in model.rounds.steps) == 20


def test_frozen():
    base, X, y = sample()
    model = fit_with(base, X, y, H, **PLAIN)
    with pytest.raises(FrozenInstanceError):
        model.clip = True
    with pytest.raises(FrozenInstanceError):
        model.rounds.steps = ()
    with pytest.raises(ValueError, match="read-only"):
        model.rounds.steps[0].partition.thresholds[0] = 0.0


def test_model_does_not_hold_the_labels():
    base, X, y = sample()
    model = fit_with(base, X, y, H, **PLAIN)
    assert len(model.labels.values) == 0
    assert model.labels.weight is None


@pytest.mark.slow
def test_refit_is_a_fit_on_top_with_the_same_class():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], 3000)})
    model = rc.fit(lambda X: np.full(len(X), 0.4), X, rng.random(3000) < 0.4, rc.Groups("sex"))
    recent = rng.random(3000) < np.where(X["sex"] == "F", 0.3, 0.5)
    better = model.refit(X, recent)
    assert better.H == model.H
    assert np.array_equal(better.predict(X), rc.fit(model, X, recent, model.H).predict(X))
    assert isinstance(model.refit(X, recent, "trees").H, rc.Trees)
    scored = rc.fit(np.full(3000, 0.4), X, recent, rc.Groups("sex"))
    with pytest.raises(ValueError, match="Pass its predictions"):
        scored.refit(X, recent)


@pytest.mark.parametrize("kind", ["binary", "classes", "regression", "counts", "callable"])
def test_no_rows_give_no_predictions(kind, tmp_path):
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    k = rng.integers(0, 3, 300)
    base, y = {
        "binary": (LogisticRegression().fit(X, k > 0), k > 0),
        "classes": (LogisticRegression().fit(X, k), k),
        "regression": (LinearRegression().fit(X, k), k + 0.5),
        "counts": (PoissonRegressor().fit(X, k), k),
        "callable": (lambda X: np.full(len(X), 0.6), k > 0),
    }[kind]
    model = rc.fit(base, X, y, H=rc.Groups("a < 0"), loop=rc.Loop(levels=1, max_rounds=2))
    shape = (0, 3) if kind == "classes" else (0,)
    for rows in (X[:0], X[:0].to_numpy(), iter([X[:0]])):
        found = model.predict(rows)
        assert (found.shape, found.dtype) == (shape, np.float64)
    assert model.margins(X[:0]).shape == shape
    assert model.predict(X[:0], base=[]).shape == shape
    stages = list(model.staged_predict(X[:0]))
    assert [each.shape for each in stages] == [shape] * len(list(model.staged_predict(X[:2])))
    label = 1 if kind == "classes" else None
    told, usual = (model.explain(X[:n], label=label) for n in (0, 2))
    for name in ("table", "by_stage", "by_feature"):
        assert len(getattr(told, name)) == 0
        assert list(getattr(told, name)) == list(getattr(usual, name))
    assert (str(told), len(told.shift), told.unit) == ("no rows", 0, usual.unit)
    if kind in ("binary", "classes", "callable"):
        columns = len(model.classes_)
        assert model.predict_proba(X[:0]).shape == (0, columns)
        costs = 1.0 - np.eye(columns)
        assert model.decide(costs).actions(X[:0]).shape == (0,)
    if kind != "callable":
        model.to_onnx(tmp_path / "model.onnx", X[:50])
        served = rc.load(tmp_path / "model.onnx")
        assert served.predict(X[:0]).shape == shape
        assert {name: len(v) for name, v in served.run(X[:0]).items()} == dict.fromkeys(
            served.outputs, 0
        )
    with pytest.raises(ValueError, match=r"2 base scores for 0 rows|X is empty"):
        model.predict(X[:0], base=np.full((2, *shape[1:]), 1 / 3))
