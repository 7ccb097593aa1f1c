"""A saved model comes back as it was: predictions to the last bit, and everything it says."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forging import Forgery
from settings import fit_with
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc
from recalibrate.bases.wrappers import NamedBase
from recalibrate.core.levels import Levels
from recalibrate.files import from_bytes, to_bytes
from recalibrate.files.codec import SPEC, Writer
from recalibrate.support import strictjson

PLAIN = {"validation": False, "max_rounds": 4}


def people(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(["A", "B", None], n),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        }
    )
    score = 1 / (1 + np.exp(-0.5 * X["x"].fillna(0).to_numpy()))
    y = (rng.random(n) < score * (0.6 + 0.4 * (X["sex"] == "F"))) * 1.0
    return X, score, y


def new_rows():
    X, score, _ = people(300, seed=1)
    X.loc[:3, "sex"] = ["unknown", None, "F", "M"]
    X.loc[:2, "x"] = [np.inf, -np.inf, 1e30]
    return X, score


CLASSES = {
    "trees": rc.Trees(depth=3, base_score=True, leaves=5),
    "orders": rc.Trees(depth=3, score_order=0, one_vs_rest=2),
    "stumps": rc.Trees(depth=1, bins="exact", features=["age", "race"]),
    "linear": rc.Linear(ridge=0.5, base_score=True),
    "polynomial": rc.Polynomial(degree=3, ridge=0.5, base_score=True),
    "groups": rc.Groups("sex*race", "age < 30", "x", min_rows=2),
}
WAYS = {
    "default": {},
    "identity": {"link": "identity", **PLAIN},
    "logit": {"levels": 4, "tables_per_round": 2, **PLAIN},
    "rounded": {"rounded": True, "levels": 12, **PLAIN},
    "quantile grid": {"rounded": True, "level_kind": "quantile", "levels": 7, **PLAIN},
    "logit grid": {"rounded": True, "link": "logit", "levels": 9, **PLAIN},
    "unrounded end": {"rounded": True, "levels": 12, "keep_unrounded": True, **PLAIN},
    "paper": {"alpha": 0.02, "B": 1.5, "validation": 0.3},
}


def assert_same(again, model, X, **given):
    np.testing.assert_array_equal(again.predict(X, **given), model.predict(X, **given))
    np.testing.assert_array_equal(again.margins(X, **given), model.margins(X, **given))
    for a, b in zip(
        again.staged_predict(X, **given), model.staged_predict(X, **given), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert again.summary() == model.summary()
    assert repr(again) == repr(model)
    assert again.H == model.H
    assert again.schema == model.schema
    assert again.notes == model.notes
    assert again.clip == model.clip
    assert (again.own_table, again.n_rows) == (model.own_table, model.n_rows)
    assert again.certificate_ == model.certificate_
    # NaN is not equal to itself, but reads the same
    assert repr(again.history_) == repr(model.history_)
    for field in fields(model.settings):
        if field.name != "grid":
            assert getattr(again.settings, field.name) == getattr(model.settings, field.name)
    assert (again.settings.grid is None) == (model.settings.grid is None)
    for name in ("low", "high", "kind", "observed"):
        assert getattr(again.labels, name) == getattr(model.labels, name)


def save_and_load(model, tmp_path, **options):
    path = model.save(tmp_path / "model.rcal", **options)
    again = rc.load(path)
    before = path.read_bytes()
    assert to_bytes(again)[0] == before, "the same model has the same bytes"
    return again


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no round lowered")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_and_way(name, way, tmp_path):
    X, score, y = people()
    model = fit_with(score, X, y, CLASSES[name], **WAYS[way])
    again = save_and_load(model, tmp_path)
    new, given = new_rows()
    assert_same(again, model, new, base=given)
    assert again.n_rounds_ == model.n_rounds_
    assert again.n_learners_ == model.n_learners_


@pytest.mark.parametrize("bounds", [None, (0, 9), (0, None)])
@pytest.mark.parametrize("link", ["log-tweedie-1.3", "identity"])
def test_links_and_bounds(link, bounds):
    X, score, y = people()
    model = rc.fit(score, X, 5 * np.asarray(y), rc.Groups("sex"), link=link, bounds=bounds)
    again = from_bytes(to_bytes(model)[0], Path(), rc.Recalibrated)
    assert again.rounds.link == link
    assert again.bounds_ == model.bounds_
    assert (again.predict(X, base=score) == model.predict(X, base=score)).all()


def test_nothing_of_a_model_is_forgotten():
    """A new field of any of these has to find its way into files, and into a new version."""
    X, score, y = people()
    model = rc.fit(score, X, y, rc.Groups("sex"), alpha=0.02, validation=0.3)
    encoded = strictjson.parse(strictjson.dump(Forgery(to_bytes(model)[0]).model))
    parts = {"base", "H", "schema", "labels", "settings", "clip", "notes", "own_table", "n_rows"}
    parts |= {"provenance"}
    rounds = {f.name for f in fields(model.rounds)} - {"outputs"}  # there is one
    assert {f.name for f in fields(model)} == parts | {"rounds", "history_", "certificate_"}
    assert set(encoded) == parts | rounds | {"history", "certificate", "levels"}
    settings = {f.name for f in fields(model.settings)} - {
        "least_rounds",
        "least_gradient",
    }  # as usual
    assert set(encoded["settings"]) == settings
    assert set(encoded["settings"]["penalty"]) == {f.name for f in fields(model.settings.penalty)}
    assert set(encoded["provenance"]) == {f.name for f in fields(model.provenance)}
    assert set(encoded["history"]) == {f.name for f in fields(model.history_)}
    names = {f.name for f in fields(model.certificate_)} - {"group_shares", "lost", "unit"}
    assert set(encoded["certificate"]) == names | {"groups", "shares"}
    held_out = {f.name for f in fields(model.certificate_.held_out)}
    assert set(encoded["certificate"]["held_out"]) == held_out
    # No classes, usual bounds, no exposure.
    left_out = {"values", "weight", "classes", "chosen", "bounds", "exposed"}
    assert set(encoded["labels"]) == {f.name for f in fields(model.labels)} - left_out | {
        "observed"
    }
    of_step = {f.name for f in fields(model.rounds.steps[0])} - {"output"}
    assert set(encoded["steps"][0]) == of_step
    table = model.rounds.steps[0].table
    assert set(encoded["steps"][0]["table"]) == {"kind"} | {f.name for f in fields(table)}
    assert set(encoded["levels"][0]) == {f.name for f in fields(Levels)}
    for H in CLASSES.values():
        assert set(SPEC.encode(H, Writer())) == {"kind"} | {f.name for f in fields(H)}


def test_level_sets_that_steps_share_are_shared_again(tmp_path):
    X, score, y = people()
    model = fit_with(score, X, y, CLASSES["trees"], rounded=True, levels=12, **PLAIN)
    again = save_and_load(model, tmp_path)
    grids = {id(step.grid) for step in again.rounds.steps}
    assert len(grids) == 1
    assert {id(step.partition) for step in again.rounds.steps} == grids
    assert again.rounds.start is again.rounds.steps[0].grid


def test_default_class_with_levels_and_notes(tmp_path):
    X, score, y = people(4000)
    model = rc.fit(0.5 * score, X, y)
    assert model.rounds.steps
    assert model.notes
    new, given = new_rows()
    assert_same(save_and_load(model, tmp_path), model, new, base=0.5 * given)


def test_a_model_that_changes_nothing(tmp_path):
    X, score, y = people(60)
    model = rc.fit(score, X, y, CLASSES["groups"])
    again = save_and_load(model, tmp_path)
    assert_same(again, model, X, base=score)


@pytest.mark.parametrize("options", [{}, {"rounded": True, "levels": 20}, {"link": "logit"}])
def test_regression(options, tmp_path):
    X, _, _ = people()
    rng = np.random.default_rng(5)
    y = 1000.0 * X["age"].to_numpy() + 9000 * rng.normal(size=len(X))
    base = 900.0 * X["age"].to_numpy()
    model = fit_with(base, X, y, CLASSES["groups"], bounds=(-1e5, 2e5), **PLAIN, **options)
    again = save_and_load(model, tmp_path)
    assert_same(again, model, X, base=base)
    with pytest.raises(AttributeError, match="use predict"):
        again.predict_proba(X, base=base)


def test_soft_labels_and_an_array_without_names(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 3))
    model = fit_with(np.full(500, 0.4), X, rng.random(500), rc.Trees(features=["x1"]), **PLAIN)
    again = save_and_load(model, tmp_path)
    assert_same(again, model, X, base=np.full(500, 0.4))
    assert again.labels.kind == "soft"


def test_categories_keep_their_types(tmp_path):
    rng = np.random.default_rng(3)
    values = np.array(["1", 1, True, 2.5, float("inf"), "ü"], dtype=object)
    X = pd.DataFrame({"c": rng.choice(values, 700)})
    y = rng.random(700) < np.where(X["c"].map(lambda v: v is True), 0.9, 0.3)
    model = fit_with(np.full(700, 0.5), X, y, rc.Groups("c"), **PLAIN)
    again = save_and_load(model, tmp_path)
    assert again.schema == model.schema
    assert_same(again, model, X, base=np.full(700, 0.5))


def test_numpy_numbers_in_a_class_and_large_seeds(tmp_path):
    X, score, y = people()
    model = fit_with(score, X, y, CLASSES["trees"], seed=2**62, levels=2, **PLAIN)
    H = rc.Trees(depth=np.int64(2), min_leaf_rows=np.int32(5), feature_share=np.float64(0.5))
    again = save_and_load(replace(model, H=H), tmp_path)
    assert again.H == H
    assert again.settings.seed == 2**62


def test_validated_updates_leave_trees_that_nothing_reaches(tmp_path):
    X, score, y = people()
    model = fit_with(score, X, y, CLASSES["trees"], levels=4, **PLAIN)
    first = model.rounds.steps[0]
    kept = first.table.keep(np.array([True, False, True, False]))
    assert (kept.roots < 0).sum() == 2
    rounds = replace(model.rounds, steps=(replace(first, table=kept), *model.rounds.steps[1:]))
    model = replace(model, rounds=rounds)
    assert_same(save_and_load(model, tmp_path), model, X, base=score)


def test_boosting_from_a_constant_needs_no_base(tmp_path):
    X, _, y = people()
    model = rc.LSBoostClassifier(rc.Trees(depth=2), loop="paper").fit(X, y).model_
    again = save_and_load(model, tmp_path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.summary() == model.summary()


# --- bases --------------------------------------------------------------------------------------


def score_of(X):
    return 1 / (1 + np.exp(-0.5 * X.iloc[:, -1].fillna(0).to_numpy()))


def test_a_callable_base_is_left_behind_and_says_so(tmp_path):
    X, score, y = people()
    model = fit_with(score_of, X, y, CLASSES["groups"], **PLAIN)
    path = tmp_path / "model.rcal"
    with pytest.warns(UserWarning, match=r"score_of.* cannot be saved inside .* score-only"):
        model.save(path)
    again = rc.load(path)
    assert again.summary() == model.summary()
    np.testing.assert_array_equal(again.predict(X, base=score), model.predict(X))
    with pytest.raises(ValueError, match=r"score_of\) is not in the file.*base="):
        again.predict(X)
    given = rc.load(path, base=score_of)
    assert isinstance(given.base, NamedBase)
    shuffled = X[["x", "sex", "age", "race"]].assign(more=0)
    np.testing.assert_array_equal(given.predict(shuffled), model.predict(X))


def test_the_link_of_a_callable_is_remembered(tmp_path):
    X, _, y = people()

    def margin_of(X):
        return 0.5 * X["x"].fillna(0).to_numpy()

    model = fit_with(margin_of, X, y, CLASSES["groups"], base_link="logit", **PLAIN)
    with pytest.warns(UserWarning, match="score-only"):
        path = model.save(tmp_path / "model.rcal")
    again = rc.load(path, base=margin_of)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_base_on_another_scale_is_refused(tmp_path):
    X, score, y = people()
    path = fit_with(score, X, y, CLASSES["groups"], **PLAIN).save(tmp_path / "model.rcal")

    class Margins:
        link, name, why_no_graph, exact = "logit", "other", "none", False

        def columns(self):
            return None

        def scores(self, X):
            return np.zeros(len(X))

        def graph(self):
            return None

    with pytest.raises(ValueError, match=r"logit scale, but this model was fitted on .* identity"):
        rc.load(path, base=Margins())


def test_rounds_on_rounds(tmp_path):
    X, _, y = people()
    first = rc.LSBoostClassifier(rc.Trees(depth=1), loop="paper").fit(X, y).model_
    second = fit_with(first, X, y, CLASSES["groups"], **PLAIN)
    again = save_and_load(second, tmp_path)
    new, _ = new_rows()
    np.testing.assert_array_equal(again.predict(new), second.predict(new))
    np.testing.assert_array_equal(again.base.model.predict(new), first.predict(new))
    assert again.summary() == second.summary()


def test_rounds_on_rounds_on_a_callable(tmp_path):
    X, _, y = people()
    first = fit_with(score_of, X, y, CLASSES["stumps"], **PLAIN)
    second = fit_with(first, X, y, CLASSES["groups"], **PLAIN)
    with pytest.warns(UserWarning, match="score-only"):
        path = second.save(tmp_path / "model.rcal")
    new, _ = new_rows()
    again = rc.load(path)
    assert again.summary() == second.summary()
    np.testing.assert_array_equal(again.predict(new, base=first.margins(new)), second.predict(new))
    np.testing.assert_array_equal(rc.load(path, base=first).predict(new), second.predict(new))


# --- Estimator ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize(
    "regressor", [DecisionTreeRegressor(max_depth=3, random_state=0), Ridge()], ids=repr
)
def test_regressors_are_saved_as_graphs(regressor, step, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))) * 1.0
    base = np.full(500, 0.4)
    model = fit_with(base, X, y, rc.Estimator(regressor), levels=3, step=step, **PLAIN)
    again = save_and_load(model, tmp_path)
    # The graphs work in float32, the regressors in float64.
    np.testing.assert_allclose(again.predict(X, base=base), model.predict(X, base=base), atol=2e-5)
    assert again.summary() == model.summary()


def test_regressors_without_a_graph_are_refused(tmp_path):
    class Mine(LinearRegression):
        pass

    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1))
    model = fit_with(np.full(100, 0.4), X, rng.random(100), rc.Estimator(Mine()), **PLAIN)
    with pytest.raises(TypeError, match=r"(?s)Estimator\(Mine\) cannot be saved.*Pickled"):
        model.save(tmp_path / "model.rcal")
    assert not list(tmp_path.iterdir())


def test_a_class_of_the_users_own_is_refused(tmp_path):
    X, score, y = people()

    class Mine(rc.Trees):
        pass

    model = fit_with(score, X, y, Mine(), **PLAIN)
    with pytest.raises(TypeError, match="not one of the library's own classes"):
        model.save(tmp_path / "model.rcal")
    assert not list(tmp_path.iterdir())
