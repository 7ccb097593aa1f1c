"""What a fit says of its base model: worse than a constant, backwards, and scores that were cut."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error

import recalibrate as rc
from recalibrate.core.levels import softmax

N = 1500
RNG = np.random.default_rng(3)
X = pd.DataFrame({"g": RNG.choice(["a", "b"], N)})
Z = 1.5 * RNG.normal(size=N)
P = 1 / (1 + np.exp(-Z))
Y = (RNG.random(N) < P).astype(int)
PLAIN = {"H": rc.Groups("g"), "validation": False, "loop": rc.Loop(levels=1, max_rounds=2)}


def said(*args, **options):
    """What is warned of the base, and the summary."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = rc.fit(*args, **PLAIN | options)
    texts = [str(each.message) for each in caught]
    return [each for each in texts if each.startswith("the base model")], str(model.summary())


def cases():
    shares = softmax(np.column_stack([Z, 0 * Z, -Z]))
    k = (np.log(shares) + RNG.gumbel(size=(N, 3))).argmax(axis=1)
    counts = RNG.poisson(np.exp(Z / 2))
    amounts = 2 * Z + RNG.normal(size=N)
    return {
        "binary": (P, 1 - P, Y, {}),
        "classes": (shares, shares[:, [1, 2, 0]], k, {}),
        "regression": (2 * Z, -2 * Z, amounts, {}),
        "counts": (np.exp(Z / 2), np.exp(-Z / 2), counts, {"link": "log"}),
        "soft": (P, 1 - P, np.clip(P + 0.05 * RNG.normal(size=N), 0, 1), {}),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_a_base_the_wrong_way_round_is_named_in_a_warning_and_in_the_summary(name):
    right, wrong, y, options = CASES[name]
    assert said(right, X, y, **options)[0] == []
    assert "base model  " not in said(right, X, y, **options)[1]
    (warning,), summary = said(wrong, X, y, **options)
    assert "is worse than the constant" in warning
    assert "backwards" in warning
    assert summary.count("\n  base model  ") == 2


def test_the_losses_are_those_of_the_base_and_of_the_mean():
    shown = re.compile(r"([\d.]+) against ([\d.]+)")
    found = [float(v) for v in shown.search(said(1 - P, X, Y)[0][0]).groups()]
    assert found == pytest.approx([log_loss(Y, 1 - P), log_loss(Y, np.full(N, Y.mean()))], abs=1e-3)
    _, wrong, y, options = CASES["regression"]
    found = [float(v) for v in shown.search(said(wrong, X, y, **options)[0][0]).groups()]
    assert found == pytest.approx([mean_squared_error(y, wrong), np.var(y)], rel=2e-3)
    _, wrong, y, options = CASES["counts"]
    found = [float(v) for v in shown.search(said(wrong, X, y, **options)[0][0]).groups()]
    expected = [mean_poisson_deviance(y, each) for each in (wrong, np.full(N, y.mean()))]
    assert found == pytest.approx(expected, rel=2e-3)


def test_a_confident_base_can_be_worse_than_a_constant_although_it_ranks_well():
    (warning,), _ = said(1 / (1 + np.exp(-8 * Z)), X, Y)
    assert "worse than the constant base rate" in warning
    assert "backwards" not in warning


@pytest.mark.slow
def test_a_right_base_is_not_accused_because_of_noise():
    """Few rows, rare events and weak signal; of 240 fits none warns."""
    rng = np.random.default_rng(0)
    for n in (12, 40, 60, 150):
        for centre, spread in ((0.0, 0.05), (0.0, 0.5), (-3.0, 0.5)):
            for _ in range(20):
                z = centre + spread * rng.normal(size=n)
                y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
                table = pd.DataFrame({"g": rng.choice(["a", "b"], n)})
                assert said(1 / (1 + np.exp(-z)), table, y)[0] == []


def test_a_constant_start_is_noted_but_no_reason_to_warn():
    warned, summary = said(np.full(N, 0.9), X, Y)
    assert warned == []
    assert "worse than the constant base rate" in summary


def test_weights_count():
    """Rows of weight zero and the same rows left out say the same."""
    bad = np.where(np.arange(N) < N // 2, 1 - P, P)
    weight = (np.arange(N) >= N // 2).astype(float)
    assert said(bad, X, Y, sample_weight=weight)[0] == []
    assert said(bad, X, Y, sample_weight=1 - weight)[0]


def test_a_cross_fitted_base_without_signal_is_not_told_that_its_classes_are_swapped():
    """Held-out folds have few ones where the others, which train, have many."""
    rng = np.random.default_rng(20)  # 2 of 100 seeds do
    rng.choice(3)
    table = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    options = {"H": rc.Groups("a > 0"), "cv": 5}
    (warning,), _ = said(LogisticRegression(), table, rng.integers(0, 2, 500), **options)
    assert "worse than the constant base rate" in warning
    assert "Copies that were trained on the other folds do not predict these rows" in warning
    assert "backwards" not in warning


# ---- scores that are cut


SURE = np.where(P > 0.5, 1 - 1e-12, 1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"validation": None, "loop": None},
        {"validation": None, "loop": None, "H": None},
        {"validation": None},
        {},
    ],
)
def test_the_loss_before_is_that_of_the_scores_as_they_were_given(options):
    _, summary = said(SURE, X, Y, **options)
    lines = re.findall(r"log loss \((?:held out|training)\)\s+([\d.]+) -> ([\d.]+)", summary)
    assert lines
    assert float(lines[0][0]) == pytest.approx(log_loss(Y, SURE), abs=1e-3)
    assert "clipped scores 1,500 of 1,500 base scores" in re.sub(r"\s+", " ", summary)
    report = rc.audit(SURE, X, Y)
    assert report.overall.log_loss == pytest.approx(log_loss(Y, SURE))


def test_a_model_that_changes_nothing_has_one_loss():
    scores = np.where(np.arange(N) % 50 == 0, np.where(Y == 1, 1e-12, 1 - 1e-12), P)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = rc.fit(scores, X, Y, H=rc.Groups("g"), loop=rc.Loop(levels=1, max_rounds=0))
    assert model.n_rounds_ == 0
    before, after = re.search(r"held out\)\s+([\d.]+) -> ([\d.]+)", model.summary()).groups()
    assert before == after
    assert float(after) == pytest.approx(log_loss(Y, model.predict(X, base=scores)), abs=1e-3)


@pytest.mark.slow
def test_several_classes_and_rows_in_pieces_say_the_same_loss():
    right, _, k, _ = CASES["classes"]
    sure = np.eye(3)[right.argmax(axis=1)]
    _, summary = said(sure, X, k, validation=None, loop=None)
    before = float(re.search(r"held out\)\s+([\d.]+) ->", summary)[1])
    assert before == pytest.approx(log_loss(k, sure), rel=1e-3)
    rows = X.assign(y=Y, p=SURE)
    pieces = said("p", iter([rows[:700], rows[700:]]), "y", validation=None, loop=None)[1]
    memory = said(SURE, X, Y, validation=None, loop=None)[1]
    assert pieces.split("\n", 1)[1] == memory.split("\n", 1)[1]


def test_scores_that_are_not_cut_are_not_spoken_of():
    assert "clipped" not in said(P, X, Y)[1]
