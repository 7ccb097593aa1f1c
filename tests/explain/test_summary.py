"""The summary as text, and as notebooks show it."""

import re
from copy import copy

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.explain.notes import NamedLoss
from recalibrate.explain.summary import WIDTH


def constant(n=999, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return np.full(n, share), rng.normal(size=(n, 1)), rng.random(n) < share


def test_summary_shows_itself_as_lines_and_as_a_table():
    model = rc.fit(*constant(), H=rc.Linear())
    summary = model.summary()
    assert isinstance(summary, str)
    assert repr(summary) == str(summary)
    assert "\n" in repr(summary)
    page = summary._repr_html_()
    assert model._repr_html_() == page
    assert "<strong>Recalibrated array of scores, 999 calibration rows</strong>" in page
    assert page.count("<tr>") == len(summary.facts)
    assert ">rounds</th>" in page
    assert copy(summary).facts == summary.facts


def test_names_of_users_are_text_in_notebooks():
    rng = np.random.default_rng(0)

    def scores(X):
        return np.full(len(X), 0.3)

    scores.__name__ = "<script>"
    model = rc.fit(scores, rng.normal(size=(400, 1)), rng.random(400) < 0.3)
    assert "<script>" not in model._repr_html_()


def test_all_values_begin_in_the_same_column_and_lines_fit():
    summary = rc.fit(*constant()).summary()
    _, *lines = summary.splitlines()
    starts = {line.index(value[:9]) for line, (_, value) in zip(lines, summary.facts, strict=False)}
    assert len(starts) == 1
    assert max(map(len, lines)) <= WIDTH


def test_the_default_says_that_no_class_was_given():
    model = rc.fit(*constant())
    assert dict(model.summary().facts)["H"] == "not given: boosted trees on all columns"
    assert "H=None" in repr(model)


def test_a_model_without_a_limit_of_rounds_never_names_one():
    for options in ({}, {"H": rc.Groups("x0 > 0")}, {"H": rc.Trees()}, {"cv": 3}):
        assert "limit" not in rc.fit(*constant(), **options).summary()
    limited = rc.fit(*constant(), rc.Trees(), loop=rc.Loop(max_rounds=2), validation=False)
    assert "stopped at the limit of 2 rounds" in dict(limited.summary().facts)["rounds"]


def test_losses_of_a_regression_are_in_the_unit_of_its_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = 50 + 10 * X[:, 0] + rng.normal(size=2000)
    base = np.full(2000, 50.0)
    facts = dict(rc.fit(base, X, y, rc.Trees(base_score=True)).summary().facts)
    assert facts["predicts"].startswith("mean of y (observed range ")
    before = np.mean((y - base) ** 2)
    assert facts["MSE (held out)"].startswith(f"{before:.4g} -> ")
    assert f"(RMSE {np.sqrt(before):.4g} -> " in facts["MSE (held out)"]


def test_held_out_loss_is_that_of_the_model_and_not_the_lowest_of_the_run():
    """Algorithm 1 does not choose its rounds on held-out rows, and may get worse there."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 5)), rng.random(900) < 0.5
    base = np.full(900, 0.5)
    aside = {"X": X[600:], "y": y[600:], "base": base[600:]}
    model = rc.fit(base[:600], X[:600], y[:600], rc.Trees(depth=3), alpha=0.01, validation=aside)
    after = np.mean((model.predict(X[600:], base=base[600:]) - y[600:]) ** 2)
    assert after > 0.26
    assert dict(model.summary().facts)["MSE (held out)"] == f"0.2500 -> {after:.4f}"


@pytest.mark.parametrize(
    ("gain", "error", "said"),
    [
        (0.0087, 0.0012, "held-out log loss -0.0087 +- 0.0012"),
        (-0.2, 0.04, "held-out log loss +0.200 +- 0.040"),
        (0.0, 0.0, "held-out log loss +0 +- 0"),
    ],
)
def test_changes_have_as_many_digits_as_their_error(gain, error, said):
    assert NamedLoss("log loss").change(gain, error) == said


def test_labels_without_a_square_have_a_summary():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)), 1e158 * rng.random(200)
    model = rc.fit(np.full(200, 5e157), X, y)
    assert "scaled to [0, 1]" in model.summary()


BOUNDED = {
    "groups": {"H": ["g"]},
    "trees": {"H": rc.Trees(depth=2)},
    "folds": {"H": ["g"], "loop": rc.Loop(max_rounds=8)},
    "rows": {"H": ["g"], "loop": rc.Loop(max_rounds=8), "validation": True},
    "training": {"H": ["g"], "loop": rc.Loop(max_rounds=8), "validation": False},
    "unchanged": {"H": ["g"], "loop": rc.Loop(levels=1, max_rounds=0)},
}


@pytest.mark.parametrize("name", BOUNDED)
def test_losses_are_those_of_predictions_inside_the_bounds(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    X = pd.DataFrame({"x": x, "g": rng.choice(["a", "b"], 2000)})
    y, base = np.clip(3 * x + rng.normal(size=2000) + 10, 8, 12), 2 * x + 10
    options = dict(BOUNDED[name])
    if options.get("validation"):
        options["validation"] = {"X": X, "y": y, "base": base}
    model = rc.fit(base, X, y, bounds=(8, 12), **options)
    shown = re.findall(r"MSE \((?:held out|training)\)\s+([\d.]+) -> ([\d.]+)", model.summary())
    real = np.mean((base - y) ** 2), np.mean((model.predict(X, base=base) - y) ** 2)
    assert shown
    for line in shown:
        # Held-out rows lose a little more than those that were fitted; without bounds, 0.9 here.
        np.testing.assert_allclose([float(value) for value in line], real, rtol=0.1)


def test_a_default_fit_says_no_training_loss():
    """Its stages start after each other, and what is shrunken in the end is not one of them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=1500), "z": rng.normal(size=1500)})
    y = rng.random(1500) < 1 / (1 + np.exp(-2 * X["x"] - X["z"]))
    model = rc.fit(1 / (1 + np.exp(-X["x"])), X, y)
    assert model.history_.errors
    assert "(held out)" in model.summary()
    assert "(training)" not in model.summary()
