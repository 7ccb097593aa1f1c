"""Several classes: probabilities that sum to one, for every way to fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.core.levels import softmax, to_class_scores
from recalibrate.core.rounds import State
from recalibrate.scores import as_base

K, N = 3, 4000
NAMES = np.array(["red", "green", "blue"])


def draw(p, rng):
    return (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)


def make(n=N, seed=0):
    """A base that is too sure of itself, and wrong about a group that it does not see."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "g": rng.choice(list("uvw"), n)}
    )
    logits = np.column_stack([X["a"], X["b"] - 0.5 * X["a"], np.zeros(n)])
    shift = np.column_stack([1.2 * (X["g"] == "u"), 1.2 * (X["g"] == "v"), np.zeros(n)])
    truth = softmax(logits + shift)
    return X, softmax(2.0 * logits), truth, draw(truth, rng)


X, BASE, TRUTH, Y = make()


def loss(p, y):
    return -np.mean(np.log(p[np.arange(len(y)), y]))


@pytest.fixture(scope="module")
def fitted():
    return rc.fit(BASE, X, Y)


def test_the_default_comes_close_to_the_truth_on_new_rows(fitted):
    new, base, truth, y = make(seed=1)
    p = fitted.predict_proba(new, base=base)
    assert p.shape == (N, K)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    gap = loss(base, y) - loss(truth, y)
    assert loss(p, y) - loss(truth, y) < 0.12 * gap
    for group in "uvw":
        rows = (new["g"] == group).to_numpy()
        assert np.abs(p[rows].mean(axis=0) - truth[rows].mean(axis=0)).max() < 0.03


def test_classes_have_their_names(tmp_path):
    model = rc.fit(BASE, X, NAMES[Y], classes=NAMES.tolist(), loop=rc.Loop(max_rounds=2))
    assert model.classes_.tolist() == sorted(NAMES)
    assert "3 classes ('blue', 'green', 'red')" in model.summary()
    again = rc.load(model.save(tmp_path / "model.rcal"))
    assert again.classes_.tolist() == sorted(NAMES)
    np.testing.assert_array_equal(again.predict(X, base=BASE), model.predict(X, base=BASE))


@pytest.mark.slow
def test_columns_are_those_of_the_sorted_classes(tmp_path):
    """The order of the base's scores stays inside: red, green, blue."""
    way = {"H": rc.Groups("g"), "loop": rc.Loop(levels=1, max_rounds=4)}
    model = rc.fit(BASE, X, NAMES[Y], classes=NAMES.tolist(), **way)
    plain = rc.fit(BASE, X, Y, **way)  # 0 red, 1 green, 2 blue
    back = [2, 1, 0]
    p = model.predict(X, base=BASE)
    np.testing.assert_array_equal(p, plain.predict(X, base=BASE)[:, back])
    np.testing.assert_array_equal(model.margins(X, base=BASE), plain.margins(X, base=BASE)[:, back])
    *_, last = model.staged_predict(X, base=BASE)
    np.testing.assert_array_equal(last, p)
    model.to_onnx(tmp_path / "model.onnx", X[:100], base=BASE[:100])
    served = rc.load(tmp_path / "model.onnx")
    assert served.classes_.tolist() == sorted(NAMES)
    np.testing.assert_allclose(served.predict_proba(X, base=BASE), p, atol=6e-8)
    np.testing.assert_array_equal(served.run(X, BASE)["label"], np.sort(NAMES)[p.argmax(axis=1)])
    costs = 1.0 - np.eye(3)
    np.testing.assert_array_equal(model.decide(costs).actions(X, base=BASE), p.argmax(axis=1))
    for each in (model, served):
        report = rc.audit(each, X, NAMES[Y], groups=["g"], base=BASE)
        assert report.classes == tuple(sorted(NAMES))
        assert report["red"].groups[0].mean_outcome == pytest.approx(np.mean(Y == 0))
        assert abs(report["red"].groups[0].after.gap) < 0.02
        monitor = rc.Monitor(each, groups="g")
        monitor.update(X, NAMES[Y], base=BASE)
        overall = monitor.table.query("group == 'all'")
        assert overall["gap"].abs().max() < 0.05


@pytest.mark.slow
def test_a_baseline_is_compared_class_by_class():
    way = {"H": rc.Groups("g"), "loop": rc.Loop(levels=1, max_rounds=4)}
    model = rc.fit(BASE, X, NAMES[Y], classes=NAMES.tolist(), **way)
    given = {"groups": ["g"], "base": BASE}
    own = rc.audit(model, X, NAMES[Y], baseline=True, **given)
    told = rc.audit(model, X, NAMES[Y], baseline=BASE, classes=NAMES.tolist(), **given)
    for label in NAMES:
        before = own[label].groups[0].before
        assert before.mean_prediction == pytest.approx(BASE[:, list(NAMES).index(label)].mean())
        assert repr(told[label].groups[0].before) == repr(before)
    with pytest.raises(ValueError, match=r"columns of baseline have no names.*with classes="):
        rc.audit(model, X, NAMES[Y], baseline=BASE, **given)


def test_a_monitor_matches_columns_by_name():
    """States of version 0.2 have classes in the order of the base's scores."""
    model = rc.fit(BASE, X, NAMES[Y], classes=NAMES.tolist(), loop=rc.Loop(max_rounds=2))
    gaps = []
    for told in ({}, {"classes": NAMES.tolist()}):
        monitor = rc.Monitor(model, groups="g", **told)
        monitor.update(X, NAMES[Y], base=BASE)
        gaps.append(monitor.table.set_index(["label", "group"])["gap"].sort_index())
    pd.testing.assert_series_equal(*gaps)


def test_the_file_of_a_default_model_says_all(fitted, tmp_path):
    again = rc.load(fitted.save(tmp_path / "model.rcal"))
    np.testing.assert_array_equal(again.predict(X, base=BASE), fitted.predict(X, base=BASE))
    assert (
        again.save(tmp_path / "again.rcal").read_bytes() == (tmp_path / "model.rcal").read_bytes()
    )


WAYS = {
    "sweeps": {"H": rc.Trees(depth=2, base_score=True), "loop": rc.Loop(levels=1, max_rounds=5)},
    "level sets": {"H": rc.Trees(depth=2), "loop": rc.Loop(levels=4, max_rounds=6)},
    "groups": {"H": rc.Groups("g"), "loop": rc.Loop(levels=2, max_rounds=6)},
    "linear": {"H": rc.Linear(base_score=True), "loop": rc.Loop(levels=1, max_rounds=4)},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_lowers_the_loss_and_is_the_same_however_rows_are_cut(way):
    options = {**WAYS[way], "validation": False}
    model = rc.fit(BASE, X, Y, **options)
    p = model.predict(X, base=BASE)
    assert loss(p, Y) < loss(BASE, Y)
    blocks = rc.fit(BASE, X, Y, **options, engine=rc.Engine(threads=2, blocks=3))
    np.testing.assert_array_equal(blocks.predict(X, base=BASE), p)
    order = np.random.default_rng(0).permutation(N)
    mixed = rc.fit(BASE[order], X.iloc[order], Y[order], **options)
    np.testing.assert_array_equal(mixed.predict(X, base=BASE), p)


def test_a_step_of_a_class_changes_the_loss_as_the_binary_one():
    """The chain rule of the log loss, which everything rests on."""
    rng = np.random.default_rng(3)
    z, d = rng.normal(size=(50, 4)), rng.normal(size=50)
    y = rng.integers(0, 4, 50)
    after = z.copy()
    after[:, 2] += d
    m = State.of(z).margin(2)
    change = np.logaddexp.reduce(after, axis=1) - np.logaddexp.reduce(z, axis=1) - d * (y == 2)
    binary = np.logaddexp(0, m + d) - np.logaddexp(0, m) - d * (y == 2)
    # Log-odds are rounded to 2**-24.
    np.testing.assert_allclose(change, binary, atol=1e-6)


def test_log_odds_against_the_rest_at_the_ends():
    z = np.array([[0.0, -900.0, -900.0], [0.0, 0.0, 0.0], [-16.0, 0.0, -16.0]])
    m = np.stack([State.of(z).margin(k) for k in range(3)])
    assert np.isfinite(m).all()
    assert m[0, 0] == 16.0
    np.testing.assert_allclose(m[:, 1], -np.log(2.0), atol=1e-7)


def test_two_columns_are_two_classes():
    p = np.column_stack([1 - BASE[:, 0], BASE[:, 0]])
    y = (Y == 0).astype(int)
    options = {"H": rc.Groups("g"), "loop": rc.Loop(levels=1, max_rounds=3), "validation": False}
    one, two = rc.fit(BASE[:, 0], X, y, **options), rc.fit(p, X, y, **options)
    np.testing.assert_array_equal(one.predict(X, base=BASE[:, 0]), two.predict(X, base=p))


def test_soft_labels_of_classes():
    model = rc.fit(
        BASE, X, TRUTH, H=rc.Groups("g"), validation=False, loop=rc.Loop(levels=1, max_rounds=40)
    )
    p = model.predict(X, base=BASE)
    for group in "uvw":
        rows = (X["g"] == group).to_numpy()
        assert np.abs(p[rows].mean(axis=0) - TRUTH[rows].mean(axis=0)).max() < 0.01
    with pytest.raises(ValueError, match="shares of classes must not be negative and sum to 1"):
        rc.fit(BASE, X, 2 * TRUTH)


@pytest.mark.slow
def test_a_class_that_does_not_occur_and_one_that_is_rare():
    wide = np.column_stack([0.98 * BASE, np.full(N, 0.02)])
    model = rc.fit(wide, X, Y, loop=rc.Loop(levels=1, max_rounds=3))
    assert model.classes_.tolist() == [0, 1, 2, 3]
    p = model.predict(X, base=wide)
    assert np.isfinite(p).all()
    assert p[:, 3].mean() < 0.02
    rare = Y.copy()
    rare[:5] = 3
    p = rc.fit(wide, X, rare).predict(X, base=wide)
    assert np.isfinite(p).all()
    assert p[:, 3].mean() < 0.02


@pytest.mark.slow
def test_a_base_that_is_right_is_left_alone():
    harm = []
    for seed in range(3):
        new, _, truth, y = make(1500, seed=seed)
        model = rc.fit(truth, new, y)
        fresh, _, right, outcome = make(4000, seed=seed + 50)
        harm.append(loss(model.predict(fresh, base=right), outcome) - loss(right, outcome))
    assert np.mean(harm) < 0.002


def test_logits_and_probabilities_are_the_same_base():
    logits = np.log(BASE) + 3.0
    options = {"H": rc.Groups("g"), "loop": rc.Loop(levels=1, max_rounds=3), "validation": False}
    p = rc.fit(BASE, X, Y, **options).predict(X, base=BASE)
    q = rc.fit(logits, X, Y, base_link="logit", **options).predict(X, base=logits)
    np.testing.assert_allclose(q, p, atol=1e-7)


def test_what_several_classes_cannot_have_is_refused():
    with pytest.raises(ValueError, match="have shape"):
        rc.fit(BASE, X, Y, loop=rc.Loop(max_rounds=1)).predict(X, base=BASE[:, 0])
    with pytest.raises(ValueError, match="must be probabilities that sum to 1"):
        rc.fit(3 * BASE, X, Y)
    with pytest.raises(ValueError, match="3 outputs, but y holds 4 different labels"):
        rc.fit(BASE, X, np.arange(N) % 4)
    with pytest.raises(ValueError, match="one of them against the rest, target_class="):
        rc.fit(BASE, X, Y, alpha=0.1)


def test_an_unchanged_model_gives_the_base_itself():
    model = rc.fit(BASE[:2], X[:2], Y[:2], classes=[0, 1, 2], cv=2, loop=rc.Loop(max_rounds=0))
    np.testing.assert_array_equal(model.predict(X, base=BASE), BASE)


def test_scores_of_classes_are_log_probabilities():
    z = to_class_scores(np.array([[0.5, 0.5, 0.0]]), "identity")
    assert z.tolist()[0][2] == -16.0
    np.testing.assert_allclose(softmax(z), [[0.5, 0.5, 0.0]], atol=2e-7)


def test_a_class_is_explained_by_its_log_odds_against_the_rest(fitted):
    found = fitted.explain(X[:5], base=BASE[:5], label=1)
    p = fitted.predict(X[:5], base=BASE[:5])[:, 1]
    np.testing.assert_allclose(found.final, p)
    start = softmax(to_class_scores(BASE[:5], "identity"))[:, 1]
    change = np.log(p / (1 - p)) - np.log(start / (1 - start))
    np.testing.assert_allclose(found.shift, change, atol=1e-9)
    with pytest.raises(ValueError, match="label=None chooses the class to explain, one of 0, 1, 2"):
        fitted.explain(X[:5], base=BASE[:5])


@pytest.mark.parity
def test_a_graph_decides_by_the_costs_of_all_classes(fitted, tmp_path):
    costs = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    decision = fitted.decide(costs, actions=[10, 20, 30])
    fitted.to_onnx(tmp_path / "m.onnx", X[:500], base=BASE[:500], decide=decision)
    served = rc.load(tmp_path / "m.onnx")
    np.testing.assert_array_equal(served.actions(X, base=BASE), decision.actions(X, base=BASE))
    assert len(set(decision.actions(X, base=BASE).tolist())) == 3
    with pytest.raises(ValueError, match="are not all numbers"):
        fitted.to_onnx(decide=fitted.decide(costs, actions=["a", "b", "c"]))


def test_actions_minimise_the_expected_cost_over_all_classes(fitted):
    costs = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    p = fitted.predict(X, base=BASE)
    decision = fitted.decide(costs, actions=["a", "b", "c"])
    best = (p[:, :, None] * costs[None]).sum(axis=1)
    assert decision.actions(X, base=BASE).tolist() == [["a", "b", "c"][k] for k in best.argmin(1)]
    np.testing.assert_allclose(decision.expected_loss(p), best.min(axis=1))
    same = fitted.decide(lambda label, action: costs[label, action], actions=[0, 1, 2])
    np.testing.assert_array_equal(same.best(p), best.argmin(axis=1))
    with pytest.raises(ValueError, match="is about two classes, and this model has 3"):
        fitted.decide("hinge")
    with pytest.raises(ValueError, match="needs a row of finite numbers for each of 3 classes"):
        fitted.decide([[0, 1], [1, 0]])


@pytest.mark.slow
def test_a_class_without_rows_is_told():
    rows = np.flatnonzero(Y != 2)
    how = {"H": rc.Groups("g"), "classes": [0, 1, 2], "cv": 2}
    model = rc.fit(BASE[rows], X.iloc[rows], Y[rows], **how)
    assert "no calibration row is of class 2" in model.summary()
    assert model.predict(X, base=BASE)[:, 2].mean() < BASE[:, 2].mean()


SCORES = ["p red", "p green", "p blue"]
PIECES = X.assign(y=NAMES[Y], **dict(zip(SCORES, BASE.T, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("chosen_on", [10**6, 1500], ids=["all", "a sample"])
def test_rows_in_pieces_give_the_same_model(chosen_on, monkeypatch, tmp_path):
    """K columns of scores; predicted and audited in pieces, too, and more rows than a sample."""
    monkeypatch.setattr("recalibrate.fitting.default.stages.CHOOSING_ROWS", chosen_on)
    small = {"classes": NAMES.tolist(), "cv": 2}
    p = rc.fit(BASE, X, NAMES[Y], **small).predict(X, base=BASE)
    assert np.abs(p - BASE).max() > 0.1
    PIECES.to_parquet(tmp_path / "rows.parquet")
    cut = [PIECES[:700], PIECES[700:710], PIECES[710:]]
    for rows in (iter(cut), tmp_path / "rows.parquet"):
        model = rc.fit(SCORES, rows, "y", engine=rc.Engine(threads=2), **small)
        np.testing.assert_array_equal(model.predict(X, base=BASE), p)
    streamed = model.predict(tmp_path / "rows.parquet", base=SCORES)
    np.testing.assert_array_equal(streamed, p)
    whole = rc.audit(model, X, NAMES[Y], groups=["g"], base=BASE)
    pieces = rc.audit(model, tmp_path / "rows.parquet", "y", groups=["g"], base=SCORES)
    assert pieces.to_dict() == whole.to_dict()


def test_a_function_of_several_scores_is_fitted_on_pieces():
    def base(rows):
        logits = np.column_stack([rows["a"], rows["b"] - 0.5 * rows["a"], 0 * rows["a"]])
        return softmax(2.0 * logits)

    how = {"H": rc.Groups("g"), "loop": rc.Loop(levels=2, max_rounds=3), "validation": False}
    rows = X.assign(y=Y)
    model = rc.fit(base, iter([rows[:50], rows[50:]]), "y", **how)
    np.testing.assert_array_equal(model.predict(X), rc.fit(base, X, Y, **how).predict(X))


def test_columns_of_scores_are_one_for_each_class():
    with pytest.raises(ValueError, match="a different one for each of at least three classes"):
        rc.fit(["p red", "p red", "p blue"], iter([PIECES]), "y", classes=NAMES.tolist())
    with pytest.raises(ValueError, match="no column 'p pink'"):
        rc.fit(["p red", "p green", "p pink"], iter([PIECES]), "y", classes=NAMES.tolist())


@pytest.mark.slow
def test_a_classifier_is_cross_fitted_and_chained(tmp_path):
    """An estimator of several classes that is trained here, and rounds on top of a model."""
    features = X[["a", "b"]]
    model = rc.fit(
        LogisticRegression(), features, NAMES[Y], rc.Groups("a < 0"), cv=3, loop=rc.Loop(levels=2)
    )
    assert model.classes_.tolist() == sorted(NAMES)
    assert model.predict(features).shape == (N, K)
    more = rc.fit(model, features, NAMES[Y], rc.Groups("b < 0"), loop=rc.Loop(max_rounds=2))
    p = more.predict(features)
    more.to_onnx(tmp_path / "more.onnx")
    np.testing.assert_allclose(rc.load(tmp_path / "more.onnx").predict(features), p, atol=1e-7)
    base = as_base(tmp_path / "more.onnx")
    assert (base.link, base.classes) == ("logit", tuple(sorted(NAMES)))
    np.testing.assert_allclose(softmax(base.scores(features)), p, atol=1e-9)


@pytest.mark.slow
def test_boosting_starts_from_the_base_where_a_matrix_does_not_help():
    """A near-certain base that is right but for a column it does not see: before, left alone."""
    rng = np.random.default_rng(20_000)
    count, nodes, mass = 10, *np.polynomial.hermite_e.hermegauss(15)
    weights = np.random.default_rng(12345).normal(size=(6, count))
    shift = 1.6 * np.random.default_rng(777).normal(size=count)

    def cases(rng, n):
        X = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("abcdef"))
        scores = 150 * X.to_numpy() @ weights / np.sqrt(6)
        X["group"], X["unseen"] = rng.choice(list("uvwx"), n), rng.normal(size=n)
        both = zip(nodes, mass / mass.sum(), strict=True)
        base = sum(w * softmax(scores + z * shift) for z, w in both)
        return X, base, softmax(scores + X[["unseen"]].to_numpy() * shift)

    better = []
    for _ in range(3):
        (X, base, truth), (new, new_base, new_truth) = cases(rng, 3000), cases(rng, 20_000)
        y = draw(truth, rng)
        model = rc.fit(base, X, y, classes=list(range(count)))
        after = model.predict(new, base=new_base)
        losses = [
            -np.mean(np.sum(new_truth * np.log(np.maximum(p, 1e-12)), axis=1))
            for p in (new_base, after)
        ]
        better.append(losses[1] / losses[0] - 1)
    assert np.mean(better) < -0.03
    assert np.max(better) <= 0
