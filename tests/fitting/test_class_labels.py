"""Labels of two classes, whatever they are called: one model for all spellings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.bases.protocol import as_base

RNG = np.random.default_rng(5)
N = 600
X = pd.DataFrame({"a": RNG.normal(size=N), "sex": RNG.choice(["F", "M"], N)})
Y = (RNG.random(N) < np.where(X["sex"] == "F", 0.3, 0.6)).astype(int)
PLAIN = {
    "H": rc.Groups("sex"),
    "validation": False,
    "loop": rc.Loop(levels=1, max_rounds=3),
}

SPELLINGS = {
    "0/1": (0, 1),
    "-1/1": (-1, 1),
    "1/2": (1, 2),
    "no/yes": ("no", "yes"),
    "False/True": (False, True),
}


def spelled(pair):
    return np.array(pair)[Y]


@pytest.fixture(scope="module")
def reference():
    base = LogisticRegression().fit(X[["a"]], Y)
    return rc.fit(base, X, Y, **PLAIN).predict(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_classifier_is_recalibrated_the_same_whatever_its_classes_are_called(name, reference):
    y = spelled(SPELLINGS[name])
    base = LogisticRegression().fit(X[["a"]], y)
    for given in (y, pd.Series(y), pd.DataFrame({"y": y}), pd.Series(y).astype("category")):
        model = rc.fit(base, X, given, **PLAIN)
        assert model.labels.kind == "binary"
        np.testing.assert_array_equal(model.predict(X), reference)
        assert model.classes_.tolist() == list(SPELLINGS[name])
        assert rc.audit(model, X, given).n_rows == N


def test_labels_say_whether_it_is_the_second_class(reference):
    base = LogisticRegression().fit(X[["a"]], spelled(("no", "yes")))
    np.testing.assert_array_equal(rc.fit(base, X, Y, **PLAIN).predict(X), reference)


def test_positive_names_the_class_that_counts(tmp_path):
    base = LogisticRegression().fit(X[["a"]], spelled(("no", "yes")))
    model = rc.fit(base, X, spelled(("no", "yes")), positive="no", **PLAIN)
    other = rc.fit(base, X, spelled(("no", "yes")), **PLAIN)
    np.testing.assert_allclose(model.predict(X), 1 - other.predict(X), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-6)
    again = rc.load(model.save(tmp_path / "model.rcal"))
    for each in (model, again):
        assert each.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(each.predict(X), each.predict_proba(X)[:, 0])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "probability of 'no' (the other class is 'yes')" in model.summary()


def test_scorers_of_scikit_learn_read_the_right_column():
    from sklearn.metrics import get_scorer

    y = spelled(("no", "yes"))
    base = LogisticRegression().fit(X.assign(g=X["sex"] == "F")[["g"]], y)
    rows = X.assign(g=X["sex"] == "F")
    models = [rc.fit(base, rows, y, positive=each, **PLAIN) for each in ("no", "yes")]
    for name in ("roc_auc", "neg_log_loss"):
        found = [get_scorer(name)(model, rows, y) for model in models]
        assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert get_scorer("roc_auc")(models[0], rows, y) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("pair", [("no", "yes"), (0, 1), (1, 2)])
def test_everything_speaks_of_the_positive_class_and_columns_stay_sorted(pair, tmp_path):
    y, event = spelled(pair), pair[0]
    base = LogisticRegression().fit(X[["a"]], y)
    model = rc.fit(base, X, y, positive=event, **PLAIN)
    graph = model.to_onnx(tmp_path / "model.onnx", X[:50])
    assert graph.graph.output[1].name == "probabilities"
    served = rc.load(tmp_path / "model.onnx")
    assert served.classes_.tolist() == list(pair)
    np.testing.assert_allclose(served.predict(X), model.predict(X), atol=6e-8)
    np.testing.assert_allclose(served.predict_proba(X), model.predict_proba(X), atol=6e-8)
    outputs = served.run(X)
    np.testing.assert_array_equal(
        outputs["label"], model.classes_[model.predict_proba(X).argmax(axis=1)]
    )
    rate = np.mean(y == event)
    for each in (model, served):
        row = rc.audit(each, X, y, groups=["sex"]).groups[0]
        assert row.mean_outcome == pytest.approx(rate)
        assert abs(row.after.gap) < 1e-3
        monitor = rc.Monitor(each, groups="sex")
        monitor.update(X, y)
        assert abs(monitor.table["gap"][0]) < 0.01
    # A graph as a base keeps what its score is about.
    chained = rc.fit(str(tmp_path / "model.onnx"), X, y, **PLAIN)
    assert f"probability of {event!r}" in chained.summary()
    np.testing.assert_allclose(chained.predict(X), model.predict(X), atol=0.05)
    assert model.decide([[0, 1], [1, 0]]).actions(X).mean() == np.mean(model.predict(X) > 0.5)


@pytest.mark.slow
def test_an_audit_can_speak_of_the_other_class():
    y = spelled(("no", "yes"))
    base = LogisticRegression().fit(X[["a"]], y)
    model = rc.fit(base, X, y, **PLAIN)
    for each in (model, base):
        yes = rc.audit(each, X, y, groups=["sex"], baseline=base).full_table
        no = rc.audit(each, X, y, groups=["sex"], baseline=base, positive="no").full_table
        np.testing.assert_allclose(no["gap"], -yes["gap"], atol=1e-12)
        np.testing.assert_allclose(no["before_gap"], -yes["before_gap"], atol=1e-12)
    with pytest.raises(ValueError, match="positive='maybe', but the predictions are about"):
        rc.audit(model, X, y, positive="maybe")


def test_a_graph_of_an_earlier_version_may_have_its_columns_in_another_order(tmp_path):
    """Version 0.2 wrote the positive class last, whatever the order of the labels."""
    import json

    scores = np.full(N, 0.4)
    model = rc.fit(scores, X, spelled(("a", "b")), **PLAIN)
    graph = model.to_onnx(X_sample=X[:50], base=scores[:50])
    for entry in graph.metadata_props:
        if entry.key == "labels":
            entry.value = json.dumps(json.loads(entry.value) | {"classes": ["z", "b"]})
    path = tmp_path / "old.onnx"
    path.write_bytes(graph.SerializeToString())
    served = rc.load(path)
    assert served.classes_.tolist() == ["b", "z"]
    p = served.predict(X, base=scores)
    np.testing.assert_allclose(served.predict_proba(X, base=scores)[:, 0], p, atol=6e-8)
    audited = rc.audit(served, X, spelled(("z", "b")), base=scores).groups[0]
    assert audited.mean_outcome == pytest.approx(Y.mean())


def test_a_model_keeps_the_class_that_it_predicts():
    y = spelled(("no", "yes"))
    model = rc.fit(LogisticRegression().fit(X[["a"]], y), X, y, positive="no", **PLAIN)
    again = model.refit(X, y, **{key: PLAIN[key] for key in ("validation", "loop")})
    assert "probability of 'no'" in again.summary()
    assert rc.fit(model, X, y, positive="no", **PLAIN).classes_.tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match="predicts the probability of 'no' and keeps doing so"):
        rc.fit(model, X, y, positive="yes", **PLAIN)


@pytest.mark.parametrize("pair", [(-1, 1), (1, 2), ("a", "b")])
def test_probabilities_in_an_array_are_about_the_larger_label(pair):
    scores = np.full(N, 0.4)
    model = rc.fit(scores, X, spelled(pair), **PLAIN)
    plain = rc.fit(scores, X, Y, **PLAIN)
    np.testing.assert_array_equal(model.predict(X, base=scores), plain.predict(X, base=scores))
    flipped = rc.fit(scores, X, spelled(pair), positive=pair[0], **PLAIN)
    turned = rc.fit(scores, X, 1 - Y, **PLAIN)
    np.testing.assert_array_equal(flipped.predict(X, base=scores), turned.predict(X, base=scores))


def test_two_numbers_with_scores_on_their_scale_are_a_regression():
    y = spelled((1, 2))
    model = rc.fit(np.full(N, 1.4), X, y, **PLAIN)
    assert model.labels.kind == "regression"
    assert 1.0 < model.predict(X, base=np.full(N, 1.4)).mean() < 2.0


def test_one_class_against_the_rest_is_a_question_about_that_class():
    y = np.where(X["a"] > 0.5, 2, Y)
    base = LogisticRegression().fit(X[["a"]], y)
    model = rc.fit(base, X, y, target_class=1, **PLAIN)
    assert model.labels.kind == "binary"
    assert model.labels.chosen == 1
    p = model.predict(X)
    assert ((p > 0) & (p < 1)).all()
    assert p.mean() == pytest.approx(np.mean(y == 1), abs=0.02)
    flags = rc.fit(base, X, y == 1, target_class=1, **PLAIN)
    np.testing.assert_array_equal(flags.predict(X), p)
    assert "class 1 against the rest" in model.summary()
    with pytest.raises(ValueError, match="No row has the label 2, which target_class= asks for"):
        rc.fit(base, X, Y, target_class=2, **PLAIN)


def test_a_classifier_never_becomes_a_regression():
    base = LogisticRegression().fit(X[["a"]], Y)
    with pytest.raises(ValueError, match="labels that are not classes of the base model: 2, 3"):
        rc.fit(base, X, Y + 2, **PLAIN)
    with pytest.raises(ValueError, match=r"is a classifier \(0, 1\), but the labels are not class"):
        rc.fit(base, X, 3.5 * Y, **PLAIN)
    with pytest.raises(ValueError, match="is a classifier, but the labels are not classes"):
        rc.fit(np.zeros(N), X, np.linspace(0, 50, N), base_link="logit", **PLAIN)


def test_rows_go_by_position_and_a_shuffled_index_is_refused():
    y = pd.Series(Y, index=X.index)
    mixed = y.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match="index of y holds the same rows as that of X in another"):
        rc.fit(np.full(N, 0.4), X, mixed, **PLAIN)
    with pytest.raises(ValueError, match="index of y holds the same rows"):
        rc.audit(np.full(N, 0.4), X, mixed)
    rc.fit(np.full(N, 0.4), X, y.set_axis(np.arange(N) + N), **PLAIN)


def test_labels_of_one_class_and_scores_that_look_like_labels_are_pointed_out():
    with pytest.warns(UserWarning, match="all 600 labels are 0, of one class only"):
        rc.fit(np.full(N, 0.4), X, np.zeros(N), **PLAIN)
    with pytest.warns(UserWarning, match="all base scores are exactly 0 or 1"):
        rc.fit(1 - Y.astype(float), X, np.roll(Y, 1), **PLAIN)


def test_an_estimator_that_is_cross_fitted_learns_the_classes_themselves():
    y = spelled(("no", "yes"))
    model = rc.fit(LogisticRegression(), X[["a"]], y, cv=3)
    assert model.classes_.tolist() == ["no", "yes"]


def test_text_labels_in_pieces_need_their_classes():
    rows = X.assign(y=spelled(("no", "yes")), p=0.4)
    pieces = [rows[:300], rows[300:]]
    plain = rc.fit(np.full(N, 0.4), X, Y, **PLAIN)
    model = rc.fit("p", iter(pieces), "y", classes=["no", "yes"], **PLAIN)
    assert model.classes_.tolist() == ["no", "yes"]
    scores = np.full(N, 0.4)
    np.testing.assert_array_equal(model.predict(X, base=scores), plain.predict(X, base=scores))
    with pytest.raises(ValueError, match=r"y holds 'no', 'yes'.* Name them with classes="):
        rc.fit("p", iter(pieces), "y", **PLAIN)


def three_classes():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.normal(size=N)})
    k = np.clip((rows["a"] + rng.logistic(size=N) + 1.5) // 1.5, 0, 2).astype(int).to_numpy()
    return rows, k, LogisticRegression().fit(rows, k)


def test_indicators_beside_a_target_class_of_several_are_ambiguous():
    rows, k, base = three_classes()
    way = {"target_class": 0, "H": rc.Groups("a < 0"), "loop": rc.Loop(levels=1, max_rounds=3)}
    y = (k == 0).astype(int)
    for labels in (y, y.astype(float), pd.Series(y)):
        with pytest.raises(ValueError, match=r"of class 0, or that it is of class 1.*booleans"):
            rc.fit(base, rows, labels, **way)
    model = rc.fit(base, rows, y == 1, **way)  # the indicator
    score = base.predict_proba(rows)[:, 0]
    assert np.corrcoef(score, model.predict(rows))[0, 1] > 0.9
    np.testing.assert_array_equal(model.predict(rows), rc.fit(base, rows, k, **way).predict(rows))
    some = k < 2  # rows of two of the classes: the other reading
    assert rc.fit(base, rows[some], k[some] == 0, **way).labels.chosen == 0
    with pytest.raises(ValueError, match="booleans"):
        rc.audit(model, rows, y)
    assert abs(rc.audit(model, rows, y == 1).groups[0].after.gap) < 0.05
    # Both readings of 1 are the same where class 1 is the target.
    rc.fit(base, rows[some], k[some], **way | {"target_class": 1})


@pytest.mark.parametrize("large", [10**30, 2**63 + 1, 7, 2.5])
def test_two_numbers_beside_probabilities_are_refused(large):
    p = np.clip(0.4 + 0.1 * X["a"].to_numpy(), 0.01, 0.99)
    y = np.array([0, large], dtype=object)[Y]
    with pytest.raises(ValueError, match=r"y holds two numbers, 0\.0 and .*in \[0, 1\].*bounds="):
        rc.fit(p, X, y, **PLAIN)
    rows = X.assign(p=p, y=y.astype(float))
    with pytest.raises(ValueError, match="y holds two numbers"):
        rc.fit("p", iter([rows[:300], rows[300:]]), "y", **PLAIN)
    classes = rc.fit(p, X, y > 0.0, **PLAIN)
    np.testing.assert_array_equal(
        classes.predict(X, base=p), rc.fit(p, X, Y, **PLAIN).predict(X, base=p)
    )
    assert rc.fit(p, X, y, bounds=(0.0, float(large)), **PLAIN).labels.kind == "regression"
    rc.fit(p * float(large), X, y, **PLAIN)  # scores on the scale of the labels


def trained_on_shares(name, rows, p):
    """A base for shares; but for scikit-learn's it was trained on them, by cross-entropy."""
    if name == "sklearn":
        return LogisticRegression().fit(rows, p > 0.5)
    if name == "lightgbm":
        model = pytest.importorskip("lightgbm").LGBMRegressor(
            objective="cross_entropy", n_estimators=5, verbose=-1, n_jobs=1
        )
    elif name == "xgboost":
        model = pytest.importorskip("xgboost").XGBRegressor(
            objective="reg:logistic", n_estimators=5, n_jobs=1
        )
    else:
        settings = {"loss_function": "CrossEntropy", "iterations": 5, "verbose": False}
        kind = getattr(pytest.importorskip("catboost"), name)
        model = kind(**settings | {"allow_writing_files": False})
    return model.fit(rows, p)


@pytest.mark.adapter
@pytest.mark.parametrize("name", ["sklearn", "lightgbm", "xgboost", "CatBoostClassifier"])
@pytest.mark.parametrize("n", [900, 1500])
def test_soft_labels_may_have_any_number_of_values(name, n):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    p = 1 / (1 + np.exp(-rows["a"].to_numpy() - 0.5))
    base = trained_on_shares(name, rows, p)
    model = rc.fit(base, rows, p, H=rc.Groups("b < 0"), loop=rc.Loop(levels=1, max_rounds=40))
    assert model.labels.kind == "soft"
    assert model.predict(rows).mean() == pytest.approx(p.mean(), abs=0.02)
    with pytest.raises(ValueError, match="labels are not classes"):
        rc.fit(base, rows, 2.0 * p, H=rc.Groups("b < 0"))


def test_a_base_that_was_told_its_class_says_which_label_counts():
    base = LogisticRegression().fit(X[["a"]], spelled(("no", "yes")))
    model = rc.fit(as_base(base, target_class="no"), X, spelled(("no", "yes")), **PLAIN)
    assert model.labels.classes == ("yes", "no")
    assert model.predict(X).mean() == pytest.approx(1 - Y.mean(), abs=0.05)


def test_one_of_several_classes_is_cross_fitted():
    k = np.clip((X["a"] + RNG.logistic(size=N) + 1.5) // 1.5, 0, 2).astype(int).to_numpy()
    for y, wanted in ((k, 0), (np.array(["x", "y", "z"])[k], "x")):
        model = rc.fit(LogisticRegression(), X[["a"]], y, cv=3, target_class=wanted)
        assert (model.labels.chosen, model.labels.classes) == (wanted, tuple(np.unique(y)))
        assert np.corrcoef(model.predict(X[["a"]]), y == wanted)[0, 1] > 0.3
    with pytest.raises(ValueError, match="trained on it has no class 0"):
        rc.fit(LogisticRegression(), X[["a"]], k == 0, cv=3, target_class=0)


def test_booleans_stay_booleans_when_cross_fitted():
    base = LogisticRegression()
    assert rc.fit(base, X[["a"]], Y == 1, cv=3).classes_.tolist() == [False, True]
    numbers = LogisticRegression().fit(X[["a"]], Y)
    for model in (base, numbers):
        options = {"cv": 3} if model is base else {}
        for label in (False, 0):
            other = rc.fit(model, X[["a"]], Y == 1, positive=label, **options)
            assert other.predict(X[["a"]]).mean() == pytest.approx(1 - Y.mean(), abs=0.05)
            assert abs(rc.audit(other, X[["a"]], Y == 1).table["gap"][0]) < 0.05


@pytest.mark.parametrize("names", [(1, 2, 3), ("a", "b", "c")])
def test_refused_indicators_are_told_of_booleans(names):
    k = np.arange(N) % 3
    base = LogisticRegression().fit(X[["a"]], np.array(names)[k])
    with pytest.raises(ValueError, match="pass them as booleans, y == the class"):
        rc.fit(base, X, (k == 0).astype(int), target_class=names[0], **PLAIN)


@pytest.mark.parametrize("argument", ["positive", "target_class"])
@pytest.mark.parametrize("digits", [1, 6])
def test_soft_labels_are_told_to_leave_the_chosen_class_out(argument, digits):
    base = LogisticRegression().fit(X[["a"]], Y)
    y = np.round(RNG.random(N), digits)
    with pytest.raises(ValueError, match=r"holds shares .*Leave positive=/target_class= out"):
        rc.fit(base, X, y, **PLAIN, **{argument: 1})
