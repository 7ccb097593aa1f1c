"""Runs of a stage: the mean of several, side by side, and what Ctrl-C leaves of them."""

import threading
import time

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.classes.trees import TreeLearner
from recalibrate.core.boost import Boosted, History
from recalibrate.core.rounds import Rounds
from recalibrate.fitting.default.stages import Stage, _side_by_side
from recalibrate.support.threads import Flag


def interaction(n=4000, seed=3):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    truth = 1 / (1 + np.exp(-(X["a"] + X["b"] * X["c"]).to_numpy()))
    return np.full(n, truth.mean()), X, (rng.random(n) < truth) * 1.0


def trees_of(model):
    """Steps with trees of the main stage."""
    return [step for step in model.rounds.steps if type(step.table).__name__ == "TreeTable"]


@pytest.mark.slow
def test_the_refit_is_two_runs_that_draw_for_themselves():
    base, X, y = interaction()
    steps = trees_of(rc.fit(base, X, y))
    assert len(steps) % 2 == 0
    first, second = steps[: len(steps) // 2], steps[len(steps) // 2 :]
    features = [[set(step.table.feature.tolist()) for step in run] for run in (first, second)]
    assert features[0] != features[1]


@pytest.mark.slow
def test_trees_that_draw_nothing_run_once():
    base, X, y = interaction()
    H = rc.Trees(depth=3, leaves=6, base_score=True, min_leaf_rows=20)
    steps = trees_of(rc.fit(base, X, y, H=H))
    tables = [step.table.value.tobytes() for step in steps]
    assert len(set(tables)) == len(tables)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 3])
def test_side_by_side_is_one_after_the_other(threads):
    base, X, y = interaction()
    alone, together = (rc.fit(base, X, y, engine=rc.Engine(threads=k)) for k in (1, threads))
    np.testing.assert_array_equal(alone.predict(X, base=base), together.predict(X, base=base))
    assert alone.history_.errors == together.history_.errors


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_refit_keeps_its_rounds_at_full_strength(monkeypatch, threads):
    """Ctrl-C ends both runs, and a run that hardly began does not halve the other."""
    base, X, y = interaction()
    whole = rc.fit(base, X, y, engine=rc.Engine(threads=threads))
    refit, learn, after = [], TreeLearner.learn, 12
    several = Stage.run_several

    def begin(*args, **kwargs):
        refit.append(True)
        return several(*args, **kwargs)

    def interrupted(self, task):
        main = threading.current_thread() is threading.main_thread()
        if refit and main and self.index == 1:
            refit.append(True)
            if len(refit) == after:
                raise KeyboardInterrupt
        return learn(self, task)

    monkeypatch.setattr(Stage, "run_several", begin)
    monkeypatch.setattr(TreeLearner, "learn", interrupted)
    with pytest.warns(UserWarning, match="interrupted: the model has the"):
        model = rc.fit(base, X, y, engine=rc.Engine(threads=threads))
    assert model.history_.stopped == "interrupted"
    assert 0 < len(trees_of(model)) < len(trees_of(whole))
    if threads == 1:
        assert len(trees_of(model)) == after - 2
        size = np.abs(trees_of(model)[0].table.value).max()
        # Halves are snapped to 2**-40.
        assert size == pytest.approx(2 * np.abs(trees_of(whole)[0].table.value).max(), rel=1e-6)


def ended(stopped):
    return Boosted(Rounds("identity"), History(stopped=stopped), None, Rounds("identity"))


def test_an_error_of_one_run_ends_the_others():
    stop = Flag()

    def run(number):
        if number == 0:
            raise ZeroDivisionError
        while not stop.is_set():
            time.sleep(0.001)
        return ended("interrupted")

    with pytest.raises(ZeroDivisionError):
        _side_by_side(run, 2, stop)


def test_an_error_of_a_later_run_is_raised():
    def run(number):
        if number == 1:
            raise ZeroDivisionError
        return ended("max_rounds")

    with pytest.raises(ZeroDivisionError):
        _side_by_side(run, 2, Flag())
