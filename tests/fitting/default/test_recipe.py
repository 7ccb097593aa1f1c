"""The default: stages that held-out rows have to approve of, and what they make of them."""

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc


def weak_signal(seed, n):
    """A base that misses a small, smooth effect."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    base = rng.uniform(0.3, 0.7, n)
    truth = (base + 0.04 * np.sin(3 * X["a"]) * np.cos(2 * X["b"])).to_numpy()
    return X, base, truth, np.clip(truth + 0.1 * rng.normal(size=n), 0, 1)


def test_boosting_that_goes_too_far_is_taken_in_part_and_helps():
    new, new_base, truth, _ = weak_signal(104, 20_000)
    before, after = np.mean((new_base - truth) ** 2), []
    for seed in (7, 8, 12):
        X, base, _, y = weak_signal(seed, 3000)
        model = rc.fit(base, X, y)
        assert any("taken in part" in note for note in model.notes)
        after.append(np.mean((model.predict(new, base=new_base) - truth) ** 2))
    assert np.mean(after) < 0.95 * before


def test_small_tables_take_all_or_nothing():
    X, base, _, y = weak_signal(4, 900)
    assert not any("taken in part" in note for note in rc.fit(base, X, y).notes)


def over_confident(seed, n):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "g": rng.choice(list("abcdefgh"), n)})
    margin = 1.2 * X["a"].to_numpy()
    base = 1 / (1 + np.exp(-2 * (margin + rng.normal(size=n))))
    margin = margin + 0.8 * np.isin(X["g"], ["a", "b", "c"])
    return X, base, (rng.random(n) < 1 / (1 + np.exp(-margin))) * 1.0


@pytest.mark.parametrize(
    "H", [None, rc.Groups("g"), rc.Linear()], ids=["default", "Groups", "Linear"]
)
def test_new_rows_have_the_slope_that_they_should(H):
    X, base, y = over_confident(0, 6000)
    model = rc.fit(base, X, y, H=H)
    if not isinstance(H, rc.Groups):  # for which moving certain gaps is enough here
        assert any("held-out rows want" in note for note in model.notes)
    new, new_base, new_y = over_confident(1, 40_000)
    margin = model.margins(new, base=new_base)
    design = np.column_stack([np.ones(len(margin)), margin])
    line = np.array([0.0, 1.0])
    for _ in range(10):
        p = 1 / (1 + np.exp(-design @ line))
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        line += np.linalg.solve(hessian, design.T @ (new_y - p))
    assert line[1] == pytest.approx(1.0, abs=0.08)
    assert line[0] == pytest.approx(0.0, abs=0.08)
