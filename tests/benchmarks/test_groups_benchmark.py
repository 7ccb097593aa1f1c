"""benchmarks/groups.py compares H=Groups with indicators by hand, and others on the same groups."""

from dataclasses import replace

import numpy as np
import pytest
from scripts import load

pytest.importorskip("lightgbm")


@pytest.mark.slow
def test_named_groups_of_a_simulated_case(capsys):
    groups = load("groups")
    found = groups.main(["--rows", "6000", "--sizes", "500,all", "--threads", "1", "--crossed"])
    assert list(found) == ["500", "all"]
    for methods in found["all"].values():
        assert set(methods) == {groups.BASE, groups.DUMMIES, groups.OURS}
        loss = groups.FIGURES.index("loss")
        assert methods[groups.OURS][loss] < methods[groups.BASE][loss]
    assert "against dummies (2 pairs)" in capsys.readouterr().out


def test_others_get_the_groups_as_they_are_named():
    groups, cases = load("groups"), load("quality_cases")
    case = cases.simulate_case(3000)
    banded = groups.banded(case)
    for part in (0, 1):
        assert list(banded.X[part]) == list(case.groups)
        for column in case.groups:
            own, names = cases.group_codes(case.X[0][column], case.X[part][column])
            assert banded.X[part][column].nunique() <= len(names) + 1
            # The same rows are together as in the groups.
            first = dict(zip(own.tolist(), banded.X[part][column], strict=True))
            assert [first[k] for k in own.tolist()] == banded.X[part][column].tolist()


@pytest.mark.slow
def test_figures_of_predictions_that_are_right_and_of_a_gap_that_is_known():
    groups, cases = load("groups"), load("quality_cases")
    case = cases.simulate_case(6000)
    X, rng = case.X[1], np.random.default_rng(0)
    truth = rng.uniform(0.2, 0.6, len(X))
    y = (rng.random(len(X)) < truth) * 1.0
    own = (X["SEX"] == X["SEX"].iloc[0]).to_numpy()
    wrong = np.clip(truth + 0.2 * own, 0, 1)
    case = replace(case, y=(case.y[0], y), bases={"lr": (case.bases["lr"][0], wrong)})
    found = dict(
        zip(groups.FIGURES, groups.measure(case, "lr", False, 1, None)["base"], strict=True)
    )
    assert found["worst gap"] > 0.15
    assert found["off"] >= 1
    assert found["newly off"] == 0  # the base itself
    # Every group but those of sex has half of its rows moved by .2, one of sex all.
    assert 0.08**2 < found["rms gap"] < 0.2**2
