"""Labels of two classes, whatever they are called: one model for all spellings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc

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
    assert model.classes_.tolist() == ["yes", "no"]
    again = rc.load(model.save(tmp_path / "model.rcal"))
    assert again.classes_.tolist() == ["yes", "no"]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "probability of 'no' (the other class is 'yes')" in model.summary()


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
