"""Figures of a fitted model."""

from __future__ import annotations

import numpy as np
import pytest
from settings import fit_with

import recalibrate as rc
from recalibrate.core.boost import History
from recalibrate.explain.notes import NamedLoss
from recalibrate.explain.summary import plot_errors


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    return X, rng.random(1500) < np.where(X[:, 0] > 0, 0.6, 0.3)


def lines(figure):
    (axes,) = figure.axes
    return {line.get_label(): line.get_ydata() for line in axes.get_lines()}


def test_training_and_held_out_errors_are_drawn_as_recorded(data):
    X, y = data
    options = {"levels": 2, "step": 0.3, "max_rounds": 5, "threads": 1}
    model = fit_with(np.full(1500, 0.45), X, y, H=rc.Trees(depth=1), cv=2, **options)
    drawn = lines(model.plot_errors())
    assert drawn["held out"].tolist() == list(model.history_.held_out)
    assert drawn["training"].tolist() == list(model.history_.errors)


def test_the_plot_has_its_error_and_the_best_step_in_words():
    figure = plot_errors(History(held_out=(0.7, 0.5, 0.6)), NamedLoss("log loss"))
    (axes,) = figure.axes
    assert axes.get_ylabel() == "log loss"
    assert "lowest held out (1)" in lines(figure)


def test_without_errors_there_is_nothing_to_plot():
    with pytest.raises(ValueError, match="no losses to plot"):
        plot_errors(History(), NamedLoss("MSE"))
