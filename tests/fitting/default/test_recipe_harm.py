"""Do no harm: what a default fit does where there is nothing to repair, or little.

All distances are from the known truth, so none of them has the noise of new labels.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from situations import decisions, most, people

import recalibrate as rc


def chance_of_change(families):
    """Most that noise alone can move a calibrated base, by the promises of the stages.

    The line and boosting have to lower the held-out loss by two standard errors, boosting in part
    needs two and a half, and level sets test each family of terms (everyone, columns, pairs) at
    5 %. A table of a few categories has no gaps of four standard errors to speak of: 6e-5 each.
    """
    return 2 * norm.sf(2.0) + norm.sf(2.5) + 0.05 * families


@pytest.mark.slow
@pytest.mark.parametrize(
    ("H", "families"),
    [(None, 3), (rc.Groups("g", "h", "g * h"), 2), (rc.Linear(features=["g"]), 2)],
    ids=["default", "Groups", "Linear"],
)
def test_a_calibrated_base_on_noise_comes_back_bit_for_bit(H, families):
    changed, seeds = 0, 30
    for seed in range(seeds):
        rows = people(seed, 1000)
        X = rows.X[["g", "h"]]
        model = rc.fit(rows.truth, X, rows.y, H)
        after = model.predict(X, base=rows.truth)
        unchanged = not any(decisions(model).values())
        assert unchanged == any("returned unchanged" in note for note in model.notes)
        assert unchanged == np.array_equal(after, rows.truth)
        changed += not unchanged
    assert changed <= most(seeds, chance_of_change(families))


@pytest.mark.slow
def test_a_regression_on_noise_comes_back_bit_for_bit():
    changed, seeds = 0, 20
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"g": rng.choice(list("abcd"), 1000)})
        base = rng.uniform(20.0, 80.0, 1000)
        y = np.clip(base + rng.normal(0, 10, 1000), 0, 100)
        model = rc.fit(base, X, y, bounds=(0, 100))
        unchanged = not any(decisions(model).values())
        assert unchanged == np.array_equal(model.predict(X, base=base), base)
        changed += not unchanged
    assert changed <= most(seeds, chance_of_change(families=2))


@pytest.mark.slow
def test_scores_that_are_certain_come_back_bit_for_bit():
    """0 and 1 have no log-odds, and would not survive the way there and back."""
    rows = people(0, 1000)
    base = np.where(rows.truth < 0.02, 0.0, rows.truth)
    y = np.where(base == 0.0, 0.0, rows.y)
    model = rc.fit(base, rows.X, y)
    assert any("returned unchanged" in note for note in model.notes)
    np.testing.assert_array_equal(model.predict(rows.X, base=base), base)
    np.testing.assert_array_equal(model.predict(rows.X, base=np.round(base)), np.round(base))


SITUATIONS = {
    "calibrated": (None, None),
    "weak signal": (lambda X, f: 0.15 * np.sin(2 * X["a"]), None),
    "a group": (lambda X, f: 0.3 * (X["g"] == "a"), None),
    "over-confident": (None, lambda f: 1.25 * f),
}


def expected_loss(truth, p):
    return -(truth * np.log(p) + (1 - truth) * np.log1p(-p))


def harm(model, new, n):
    """Rise of the expected log loss, in standard errors of a comparison on n new rows."""
    after = model.predict(new.X, base=new.base)
    rise = expected_loss(new.truth, after) - expected_loss(new.truth, new.base)
    moved = np.log(after / (1 - after)) - new.margin
    # The spread between rows, and that of their labels.
    variance = np.var(rise) + np.mean(new.truth * (1 - new.truth) * moved**2)
    return np.mean(rise) / np.sqrt(variance / n) if variance > 0 else 0.0


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
def test_as_many_new_rows_could_not_tell_that_it_is_worse(situation):
    """Never worse by three standard errors of the difference on as many rows as were fitted.

    On average not by one half of one: a base that is off gains, one that is not is seldom moved.
    """
    off, score = SITUATIONS[situation]
    risen = []
    for n in (300, 2000):
        for seed in range(8):
            rows = people(seed, n, off=off, score=score)
            new = people(1000 + seed, 5000, off=off, score=score)
            risen.append(harm(rc.fit(rows.base, rows.X, rows.y), new, n))
    assert max(risen) < 3.0
    assert np.mean(risen) < 0.5


@pytest.mark.slow
def test_a_base_that_is_off_gains():
    """The other side: doing nothing at all would pass every other test of this file."""
    for off, score in list(SITUATIONS.values())[2:]:
        rows = people(0, 8000, off=off, score=score)
        new = people(1, 5000, off=off, score=score)
        assert harm(rc.fit(rows.base, rows.X, rows.y), new, 8000) < -2.0


@pytest.mark.slow
def test_the_mean_of_all_rows_is_that_of_the_labels():
    """An intercept is the first thing that labels know."""
    rows = people(0, 4000, score=lambda f: f - 1.0)
    new = people(1, 20_000, score=lambda f: f - 1.0)
    after = rc.fit(rows.base, rows.X, rows.y).predict(new.X, base=new.base)
    known = rows.standard_error(np.ones(4000, bool))
    assert abs(np.mean(new.truth - new.base)) > 10 * known
    assert abs(np.mean(new.truth - after)) < 4 * known


def test_a_base_that_knows_nothing_is_not_made_to_know():
    """A constant base and columns of noise: the mean is all there is to learn."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=3000), "g": rng.choice(list("abc"), 3000)})
    y = (rng.random(3000) < 0.3) * 1.0
    after = rc.fit(np.full(3000, 0.5), X, y).predict(X, base=np.full(3000, 0.5))
    error = np.sqrt(0.3 * 0.7 / 3000)
    assert abs(np.mean(after) - 0.3) < 4 * error
    # Cells of a term that comes after the line may follow their noise: that of a tenth of the rows.
    assert np.std(after) < np.sqrt(10) * error
