"""The last stage of a default fit: the curve, then terms on everyone, then on level sets."""

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.bases.problem import InputOptions, read_problem
from recalibrate.classes.groups import CellSums, GroupEncoder
from recalibrate.core import part
from recalibrate.core.boost import EVERYTHING
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.part import PendingStep
from recalibrate.core.rounds import Rounds
from recalibrate.fitting.default.level_sets import HeldOutScores, add_level_sets
from recalibrate.groups.groupset import bind
from recalibrate.rows.memory import rows_in_memory
from recalibrate.scores import as_base, sigmoid


def people(seed, n):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"g": rng.choice(list("abcd"), n), "h": rng.choice(list("xyz"), n)})
    return rng, X, rng.normal(size=n)


def last_stage(X, margin, y, *, moved, H=None):
    """Steps of the stage where the held-out scores are ``margin``."""
    problem = read_problem(as_base(sigmoid(margin)), X, y, InputOptions())
    held_out = HeldOutScores(np.arange(len(y)), problem.base)
    scale = make_scale(len(y), None, newton=True)
    begun = Rounds(problem.link)
    if moved:  # any step will do: the stage asks whether there is one, not what it does
        _, X2, m2 = people(99, 2000)
        other = rc.fit(
            sigmoid(m2), X2, np.arange(2000) % 2, loop=rc.Loop(max_rounds=1), validation=False
        )
        begun = other.rounds
    H = rc.Groups("g", "h") if H is None else H
    model, note = add_level_sets(begun, problem, H, held_out, scale, threads=1)
    return model.steps[len(begun.steps) :], note


@pytest.mark.slow
@pytest.mark.parametrize(
    "H", [rc.Groups("g"), rc.Linear(features=("g",))], ids=["Groups", "Linear"]
)
def test_a_bent_curve_is_straightened(H):
    """Neither a line nor groups can: only the levels of all rows together."""

    def bent(seed, n):
        rng, X, margin = people(seed, n)
        truth = sigmoid(margin + 0.5 * np.sin(2.5 * margin))
        return X, sigmoid(margin), truth, (rng.random(n) < truth) * 1.0

    X, base, _, y = bent(0, 12_000)
    model = rc.fit(base, X, y, H=H)
    new, new_base, truth, _ = bent(1, 40_000)
    decile = np.digitize(new_base, np.quantile(new_base, np.arange(1, 10) / 10))

    def curve_error(p):
        return np.sqrt(np.mean([np.mean((truth - p)[decile == k]) ** 2 for k in range(10)]))

    assert curve_error(model.predict(new, base=new_base)) < 0.4 * curve_error(new_base)


def test_a_group_that_is_off_as_a_whole_is_moved_on_everyone():
    rng, X, margin = people(2, 8000)
    y = (rng.random(8000) < sigmoid(margin + 0.2 * (X["g"] == "a"))) * 1.0
    steps, note = last_stage(X, margin, y, moved=False)
    assert "g" in note
    assert steps[0].partition.count == 1


def test_a_group_that_is_off_on_some_levels_is_moved_there():
    rng, X, margin = people(3, 20_000)
    tilt = 0.5 * np.sign(margin) * (X["g"] == "a").to_numpy()  # no gap as a whole
    y = (rng.random(20_000) < sigmoid(margin + tilt)) * 1.0
    steps, note = last_stage(X, margin, y, moved=False)
    assert any(step.partition.count == 10 for step in steps)
    assert "g" in note


@pytest.mark.slow
def test_what_nothing_moved_is_rarely_moved_by_noise():
    changed = {False: 0, True: 0}
    for seed in range(30):
        rng, X, margin = people(seed, 3000)
        y = (rng.random(3000) < sigmoid(margin)) * 1.0
        for moved in changed:
            changed[moved] += bool(last_stage(X, margin, y, moved=moved)[0])
    # Three families of tests (everyone on three partitions, columns on two) at 5 % each.
    assert changed[False] <= 9
    assert changed[False] < changed[True]


def test_the_variance_of_a_cell_is_what_its_own_rows_scatter():
    """Against sums over rows; a group that scatters less than the others keeps the common noise."""
    rng, X, _ = people(0, 1000)
    spread = X["g"].map({"a": 4.0, "b": 1.0, "c": 1.0, "d": 0.2}).to_numpy(float)
    y, f = rng.normal(size=1000) * spread, np.zeros(1000)
    problem = read_problem(as_base(f), X, y, InputOptions(link="identity"))
    scale = make_scale(1000, None, newton=False)
    groups = GroupEncoder(bind(["g"], problem.table, min_rows=1))
    labels = problem.labels.values
    rows = part.Rows((groups.encode(problem.table),), labels, problem.base, np.empty(0))
    offsets = np.array([0, len(groups.groups.labels) + 1])
    model = Rounds("identity", None, (groups,))
    with rows_in_memory(rows, scale, threads=1) as source:
        statistic = CellSums(PendingStep(model, EVERYTHING), 0, 1, offsets)
        _, _, _, variance, noise = statistic.real(source, 0.0)
    residual = labels - problem.base
    common = np.mean(residual**2)
    assert noise[0, 0] == pytest.approx(common, rel=1e-5)
    for k, name in enumerate(groups.groups.labels, start=1):
        own = residual[(X["g"] == name.split(" = ")[-1].strip("'")).to_numpy()]
        n = len(own)
        pooled, around = n * common, np.sum((own - own.mean()) ** 2)
        expected = max(pooled, (25 * pooled + n * around) / (25 + n))
        assert variance[0, k] == pytest.approx(expected, rel=1e-4)
