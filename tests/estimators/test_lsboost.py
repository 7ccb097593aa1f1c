"""LSBoostRegressor and LSBoostClassifier: scikit-learn citizens that run the paper's loop."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from recalibrate import (
    Estimator,
    Groups,
    Linear,
    Loop,
    LSBoostClassifier,
    LSBoostRegressor,
    Trees,
    fit,
    load,
)
from recalibrate.fitting.arguments import PAPER_LOOP
from recalibrate.simulate import census

PAPER_SETTINGS = {field.name for field in fields(Loop)}


def paper(kind, H=None, **options):
    """An estimator that runs the paper's loop, with settings of the loop given flat."""
    changes = {name: options.pop(name) for name in PAPER_SETTINGS & options.keys()}
    if not changes:
        return kind(H, loop="paper", **options)
    free = {} if {"cv", "validation"} & options.keys() else {"validation": False}
    link = options.pop("link", "identity")
    return kind(H, loop=replace(PAPER_LOOP, **changes), link=link, **free, **options)


def regressor(H=None, **options):
    return paper(LSBoostRegressor, H, **options)


def classifier(H=None, **options):
    return paper(LSBoostClassifier, H, **options)


BOTH = [regressor, classifier]

CHECKED = [
    regressor(),
    classifier(),
    regressor(H=Linear()),
    classifier(H=Groups("x0")),
    regressor(H=Estimator(DecisionTreeRegressor(max_depth=2, random_state=0))),
    classifier(rounded=False, levels=4, link="logit"),
    regressor(level_kind="quantile", keep_unrounded=True),
    classifier(H=Trees(depth=1), alpha=0.002),
    regressor(cv=3),
    LSBoostRegressor(),
    LSBoostClassifier(),
]


def expected_failures(estimator):
    failures = {}
    if estimator.validation is False or estimator.alpha is not None:
        failures["check_sample_weight_equivalence_on_dense_data"] = (
            "the check gives folds as cv=, which does not go with validation=False or alpha"
        )
    elif estimator.loop is None:
        failures["check_sample_weight_equivalence_on_dense_data"] = (
            "rows are evidence: a row of weight 2 is one row that is drawn once and says how much "
            "one label varies, the row twice counts as two"
        )
    if isinstance(estimator, LSBoostRegressor) and (
        estimator.cv or estimator.loop not in ("paper", None)
    ):
        failures["check_regressors_train"] = (
            "the check sets alpha = 0.01, taking it for a ridge penalty; here it asks for "
            "Algorithm 1, which does not go with folds or settings of the loop"
        )
    if isinstance(estimator.H, Groups):
        kind = "regressor" if isinstance(estimator, LSBoostRegressor) else "classifier"
        named = "the check's frame has columns 0, 1, ..., the groups are of the column x0"
        failures["check_sample_weights_pandas_series"] = named
        failures[f"check_{kind}_data_not_an_array"] = named
        failures[f"check_{kind}s_train"] = "groups of one column cannot tell the check's rows apart"
    return failures


@pytest.mark.slow
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    """Features, a real label and a binary one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 3))
    mean = X[:, 0] * X[:, 1] + 0.5 * (X[:, 2] > 0.2)
    y = 10 + 5 * mean + rng.normal(scale=0.5, size=600)
    return X, y, (rng.random(600) < 1 / (1 + np.exp(-3 * mean))).astype(int)


@pytest.fixture(scope="module")
def frame(rows):
    X, y, _ = rows
    rng = np.random.default_rng(1)
    city = rng.choice(["Bern", "Oslo", "Rome"], len(y))
    table = pd.DataFrame(
        {
            "age": np.where(rng.random(len(y)) < 0.1, np.nan, 50 + 30 * X[:, 0]),
            "city": city,
            "kind": pd.Categorical(np.where(X[:, 1] > 0, "a", "b")),
        }
    )
    return table, y + 6 * (city == "Oslo")


class TestTheLoop:
    @pytest.mark.parametrize("levels", [7, 100])
    def test_first_round_is_a_rounded_regression_tree(self, rows, levels):
        X, y, _ = rows
        X = X.round(2)  # few distinct values, so that binning loses nothing
        model = regressor(levels=levels, max_rounds=1, tolerance=None).fit(X, y)
        tree = DecisionTreeRegressor(max_depth=2, random_state=0).fit(X.astype(np.float32), y)
        scaled = (tree.predict(X.astype(np.float32)) - y.min()) / np.ptp(y)
        on_grid = y.min() + np.ptp(y) * np.floor(scaled * levels + 0.5) / levels
        # Not equal to the last bit: labels are scaled to [0, 1] and back.
        assert_allclose(model.predict(X), on_grid, rtol=1e-12)
        assert (model.n_rounds_, model.n_learners_) == (1, 1)

    def test_is_fit_from_a_constant_array_of_scores(self, rows):
        X, _, y = rows
        start = np.full(len(y), y.mean())
        twin = fit(
            start,
            X,
            y,
            H=Trees(depth=2),
            validation=False,
            link="identity",
            loop=Loop(levels=50, rounded=True, tolerance="authors", max_rounds=100),
        )
        model = classifier().fit(X, y)
        assert model.n_rounds_ == twin.n_rounds_ > 1
        assert model.history_.errors == twin.history_.errors
        assert_array_equal(model.predict_proba(X)[:, 1], twin.predict(X, base=start))
        assert_array_equal(model.model_.predict(X), twin.predict(X, base=start))

    @pytest.mark.parametrize("weighted", [False, True])
    def test_starts_at_the_weighted_mean(self, rows, weighted):
        X, y, label = rows
        weight = np.random.default_rng(2).random(len(y)) if weighted else None
        options = {"rounded": False, "max_rounds": 0}
        model = regressor(**options).fit(X, y, sample_weight=weight)
        # A mean that is added up in another order.
        assert_allclose(model.predict(X), np.average(y, weights=weight), rtol=1e-12)
        model = classifier(**options).fit(X, label, sample_weight=weight)
        p = np.average(label, weights=weight)
        assert_allclose(model.predict_proba(X), [[1 - p, p]] * len(y), rtol=1e-12)

    def test_stages_are_the_paper_s_curve(self, rows):
        X, y, _ = rows
        model = regressor(keep_unrounded=False).fit(X, y)
        stages = list(model.staged_predict(X))
        assert len(stages) == model.n_rounds_ + 1
        assert len(np.unique(stages[0])) == 1
        assert_array_equal(stages[-1], model.predict(X))
        errors = [np.mean((stage - y) ** 2) / np.ptp(y) ** 2 for stage in stages]
        # History sums losses in fixed point of 2**-40.
        assert_allclose(errors, model.history_.errors[: len(stages)], rtol=1e-8)
        assert errors[-1] < errors[0] / 3

    def test_stages_of_a_classifier(self, rows):
        X, _, y = rows
        model = classifier(H=Linear(), rounded=False, max_rounds=20, tolerance=None).fit(X, y)
        assert_array_equal(list(model.staged_predict_proba(X))[-1], model.predict_proba(X))
        labels = list(model.staged_predict(X))
        assert len(labels) == model.n_rounds_ + 1 == 21
        assert_array_equal(labels[-1], model.predict(X))

    @pytest.mark.slow
    def test_alpha_runs_algorithm_1_with_its_certificate(self, rows):
        X, _, y = rows
        model = classifier(H=Trees(depth=1, bins="exact"), alpha=0.01, B=1.0).fit(X, y)
        assert model.certificate_.holds
        assert model.certificate_.m == 200
        assert model.n_rounds_ == model.certificate_.rounds > 0
        values = model.predict_proba(X)[:, 1] * 200
        # k / 200 times 200 is rounded twice.
        assert_allclose(values, np.rint(values), atol=1e-9)
        assert classifier().fit(X, y).certificate_ is None

    def test_keep_unrounded_leaves_the_grid(self, rows):
        X, y, _ = rows
        rounded = regressor(levels=20, keep_unrounded=False).fit(X, y)
        kept = regressor(levels=20).fit(X, y)
        assert kept.n_rounds_ == rounded.n_rounds_ + 1

        def steps(model):
            return 20 * (model.predict(X) - y.min()) / np.ptp(y)

        # Not exactly whole: predictions are scaled to the labels and back.
        assert_allclose(steps(rounded), np.rint(steps(rounded)), atol=1e-9)
        assert np.abs(steps(kept) - np.rint(steps(kept))).max() > 0.1
        assert kept.score(X, y) > rounded.score(X, y)

    def test_logit_stays_inside_where_identity_does_not(self):
        x = np.linspace(-1, 1, 400)[:, None]
        y = x[:, 0] > 0
        one_step = {"rounded": False, "step": 1.0, "levels": 1, "max_rounds": 1, "tolerance": None}
        options = {"H": Linear(), **one_step}
        flat = classifier(**options).fit(x, y).predict_proba(5 * x)
        curved = classifier(**options, link="logit").fit(x, y).predict_proba(5 * x)
        assert flat.min() == 0.0
        assert 0.0 < curved.min() < curved.max() < 1.0


class TestLabels:
    def test_regression_follows_shift_and_scale(self, rows):
        X, y, _ = rows
        y = np.rint(y * 16) / 16  # y, 4 * y and 4 * y - 512 are then exact
        plain = regressor().fit(X, y).predict(X)
        moved = regressor().fit(X, 4 * y - 512).predict(X)
        # Not equal to the last bit: predictions are scaled back from [0, 1].
        assert_allclose(moved, 4 * plain - 512, rtol=1e-12)

    def test_labels_0_and_1_stay_numbers(self, rows):
        X, _, y = rows
        one_step = {"rounded": False, "step": 1.0, "levels": 1, "max_rounds": 1, "tolerance": None}
        model = regressor(H=Linear(), **one_step)
        line = LinearRegression().fit(X, y)
        # A linear regression leaves [0, 1] far outside. Features are quantised to 2**-15.
        assert_allclose(model.fit(X, y).predict(9 * X), line.predict(9 * X), atol=1e-3)
        assert model.predict(9 * X).max() > 1.5

    @pytest.mark.parametrize("label", [0.0, 1.0, 7.25, -3e20])
    def test_constant_label(self, label):
        X = np.arange(10.0)[:, None]
        model = regressor().fit(X, np.full(10, label))
        assert_array_equal(model.predict(X), np.full(10, label))

    def test_rows_of_weight_zero_do_not_count(self, rows):
        X, y, label = rows
        weight = np.r_[np.ones(500), np.zeros(100)]
        wild = np.r_[y[:500], np.full(100, 1e6)]
        model = regressor().fit(X, wild, sample_weight=weight)
        assert_array_equal(model.predict(X), regressor().fit(X[:500], y[:500]).predict(X))
        third = np.r_[label[:500], np.full(100, 2)]
        model = classifier().fit(X, third, sample_weight=weight)
        assert_array_equal(model.classes_, [0, 1])
        twin = classifier().fit(X[:500], label[:500])
        assert_array_equal(model.predict_proba(X), twin.predict_proba(X))

    @pytest.mark.parametrize("classes", [("no", "yes"), (False, True), (-1, 1), (3.0, 7.0)])
    def test_classes_of_any_type(self, rows, classes):
        X, _, y = rows
        labels = np.array(classes)[y]
        model = classifier().fit(X, labels)
        assert_array_equal(model.classes_, classes)
        assert model.predict(X).dtype == labels.dtype
        assert_array_equal(model.predict_proba(X), classifier().fit(X, y).predict_proba(X))
        assert model.score(X, labels) > 0.7

    def test_the_tie_goes_to_the_first_class(self):
        model = classifier().fit(np.zeros((4, 1)), ["a", "b", "a", "b"])
        assert_array_equal(model.predict_proba([[0.0]]), [[0.5, 0.5]])
        assert_array_equal(model.predict([[0.0]]), ["a"])

    def test_more_classes_are_named(self):
        X = np.arange(6.0)[:, None]
        y = ["red", "green", "blue"] * 2
        with pytest.raises(ValueError, match=r"3 classes: 'blue', 'green', 'red'.*OneVsRest"):
            classifier().fit(X, y)
        with pytest.raises(ValueError, match=r"12 classes: 0, .*, 9 and 2 more"):
            classifier().fit(np.zeros((12, 1)), np.arange(12))
        wrapped = OneVsRestClassifier(classifier()).fit(X, y)
        assert wrapped.predict_proba(X).shape == (6, 3)

    @pytest.mark.slow
    def test_several_classes(self, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(900, 2))
        margin = np.column_stack([2 * X[:, 0], 2 * X[:, 1], np.zeros(900)])
        y = np.array(["c", "a", "b"])[np.argmax(margin + rng.gumbel(size=(900, 3)), axis=1)]
        weight = np.where(y == "a", 2.0, 1.0)
        model = LSBoostClassifier().fit(X[:600], y[:600], weight[:600])
        assert_array_equal(model.classes_, ["a", "b", "c"])
        proba = model.predict_proba(X[600:])
        assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
        share = [np.average(y[:600] == label, weights=weight[:600]) for label in "abc"]
        stages = list(model.staged_predict_proba(X[600:]))
        assert_allclose(stages[0], np.tile(share, (300, 1)), atol=1e-6)
        assert_array_equal(stages[-1], proba)
        assert log_loss(y[600:], proba, sample_weight=weight[600:]) < 0.8 * log_loss(
            y[600:], stages[0], sample_weight=weight[600:]
        )
        model.model_.save(tmp_path / "model.rcal")
        again = load(tmp_path / "model.rcal")
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        model.to_onnx(tmp_path / "model.onnx", X)
        served = load(tmp_path / "model.onnx")
        # Probabilities of a graph are float32.
        assert_allclose(served.predict_proba(X), model.predict_proba(X), atol=1e-6)

    def test_one_class_is_refused(self, rows):
        X, _, y = rows
        with pytest.raises(ValueError, match="one class, 1"):
            classifier().fit(X, np.ones(len(X)).astype(int))
        with pytest.raises(ValueError, match="one class, 0"):
            classifier().fit(X, y, sample_weight=1 - y)

    @pytest.mark.parametrize("kind", BOTH)
    def test_bad_weights_are_refused(self, rows, kind):
        X, _, y = rows
        with pytest.raises(ValueError, match="negative"):
            kind().fit(X, y, sample_weight=-np.ones(len(y)))
        with pytest.raises(ValueError, match="zero for every row"):
            kind().fit(X, y, sample_weight=np.zeros(len(y)))


class TestTables:
    def test_categories_text_and_missing_values(self, frame):
        X, y = frame
        model = regressor().fit(X, y)
        assert_array_equal(model.feature_names_in_, ["age", "city", "kind"])
        assert model.n_features_in_ == 3
        assert model.score(X, y) > 0.7
        groups = regressor(H=Groups("city*kind"), keep_unrounded=True, max_rounds=5)
        means = pd.Series(y).groupby([X["city"], X["kind"]], observed=True).transform("mean")
        # The last, un-rounded round gives every cell its mean, to the step of fitted numbers.
        assert_allclose(groups.fit(X, y).predict(X), means, atol=1e-4 * np.ptp(y))

    def test_unseen_categories_and_order_of_categories(self, frame):
        X, y = frame
        model = regressor().fit(X, y)
        other = X.astype({"kind": pd.CategoricalDtype(["b", "unused", "a"])})
        assert_array_equal(model.predict(other), model.predict(X))
        unseen = pd.DataFrame({"age": [np.nan], "city": ["Paris"], "kind": ["c"]})
        assert np.isfinite(model.predict(unseen)).all()

    def test_columns_must_be_those_of_fit(self, frame):
        X, y = frame
        model = regressor().fit(X, y)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(X.rename(columns={"city": "town"}))
        with pytest.raises(ValueError, match=r"feature names|features"):
            model.predict(X[["age", "city"]])

    def test_list_of_mixed_rows(self):
        X = [[1, "a"], [2, "b"], [3, "a"], [4, "b"]] * 5
        model = classifier(H=Groups("x0 > 2")).fit(X, [0, 0, 1, 1] * 5)
        assert_array_equal(model.predict([[9, "zebra"], [0, "a"]]), [1, 0])

    def test_missing_values_in_arrays_are_informative(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 1))
        X[rng.random(300) < 0.5] = np.nan
        y = np.isnan(X[:, 0]).astype(int)
        assert classifier().fit(X, y).score(X, y) == 1.0

    def test_missing_values_follow_the_estimator(self):
        assert get_tags(regressor()).input_tags.allow_nan
        for inner, allowed in [(LinearRegression(), False), (DecisionTreeRegressor(), True)]:
            model = regressor(H=Estimator(inner))
            assert get_tags(model).input_tags.allow_nan is allowed
        with pytest.raises(ValueError, match="NaN"):
            regressor(H=Estimator(LinearRegression())).fit([[np.nan], [1.0]], [0.0, 1.0])

    @pytest.mark.parametrize("kind", BOTH)
    def test_lengths_must_agree(self, rows, frame, kind):
        _, _, y = rows
        with pytest.raises(ValueError, match="599 entries, but X has 600 rows"):
            kind().fit(frame[0], y[1:])


class TestParameters:
    @pytest.mark.parametrize("kind", [LSBoostRegressor, LSBoostClassifier])
    def test_every_parameter_is_documented(self, kind):
        documented = inspect.getdoc(kind).split("Attributes\n")[0].split("Parameters\n")[1]
        names = {
            name.strip()
            for line in documented.splitlines()
            if not line.startswith((" ", "-"))
            for name in line.split(",")
            if name.strip()
        }
        assert names == set(kind().get_params(deep=False))

    def test_validation_keeps_noise_at_the_constant(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
        assert classifier().fit(X, y).score(X, y) > 0.9  # without, noise is fitted
        for held_out in ({"validation": 0.2}, {"cv": 4}, {"cv": KFold(4)}):
            model = classifier(**held_out, random_state=0).fit(X, y)
            assert model.n_rounds_ == 0
            assert len(np.unique(model.predict_proba(X)[:, 1])) == 1
            assert len(model.history_.held_out) > 1

    def test_validation_finds_signal(self, rows):
        X, y, _ = rows
        model = regressor(cv=KFold(3)).fit(X, y)
        assert model.n_rounds_ > 0
        assert model.score(X, y) > 0.5

    def test_validation_that_makes_no_sense(self, rows):
        X, y, _ = rows
        with pytest.raises(ValueError, match="cv=3 cannot be set"):
            regressor(cv=3, alpha=0.01).fit(X, y)
        with pytest.raises(ValueError, match="between 0 and 1"):
            regressor(validation=1.5).fit(X, y)

    def test_wrong_values_are_refused_by_fit_alone(self, rows):
        X, y, _ = rows
        for wrong in ({"levels": 0}, {"step": 2.0}, {"l2": -1.0}, {"tolerance": "none"}):
            model = regressor(**wrong)
            with pytest.raises(ValueError, match=next(iter(wrong))):
                model.fit(X, y)
        with pytest.raises(TypeError, match="H=Estimator"):
            regressor(H=LinearRegression()).fit(X, y)

    def test_threads_change_nothing(self, rows):
        X, y, _ = rows
        one = regressor(n_jobs=1).fit(X, y).predict(X)
        assert_array_equal(regressor(n_jobs=-1).fit(X, y).predict(X), one)
        assert_array_equal(regressor(n_jobs=3).fit(X, y).predict(X), one)

    def test_random_state(self, rows):
        X, y, _ = rows
        H = Trees(depth=1, feature_share=0.4)

        def predict(state):
            return regressor(H=H, random_state=state).fit(X, y).predict(X)

        assert_array_equal(predict(0), predict(0))
        assert_array_equal(predict(None), predict(0))
        assert_array_equal(predict(np.random.RandomState(7)), predict(np.random.RandomState(7)))
        assert any((predict(0) != predict(seed)).any() for seed in (1, 2, 3))


class TestComposition:
    @pytest.mark.parametrize("kind", BOTH)
    def test_unfitted(self, rows, kind):
        X = rows[0]
        with pytest.raises(NotFittedError):
            kind().predict(X)
        with pytest.raises(NotFittedError):
            next(kind().staged_predict(X))

    def test_clone_keeps_the_class(self):
        H = Groups("sex", "age < 25", min_rows=5)
        model = clone(classifier(H=H, levels=20))
        assert model.H == H
        assert repr(model).startswith("LSBoostClassifier(H=Groups('sex', 'age < 25', min_rows=5)")

    def test_pipeline(self, rows, frame):
        X, y, _ = rows
        scaled = make_pipeline(StandardScaler(), regressor()).fit(X, y)
        assert scaled.score(X, y) > 0.7
        table, label = frame
        passed = make_column_transformer((StandardScaler(), ["age"]), remainder="passthrough")
        passed.set_output(transform="pandas")
        model = make_pipeline(passed, regressor()).fit(table, label)
        assert "remainder__city" in model[-1].feature_names_in_
        assert model.score(table, label) > 0.7

    def test_cross_val_predict(self, rows, frame):
        X, _, y = rows
        model = classifier(H=Trees(depth=1), levels=5, max_rounds=1, tolerance=None)
        p = cross_val_predict(model, X, y, cv=3, method="predict_proba")[:, 1]
        assert p.shape == y.shape
        # Better than the constant on rows that were not fitted.
        assert np.mean((p - y) ** 2) < np.var(y)
        table, label = frame
        f = cross_val_predict(regressor(cv=3), table, label, cv=3)
        assert np.mean((f - label) ** 2) < 0.6 * np.var(label)

    def test_grid_search_over_classes(self, rows):
        X, y, _ = rows
        grid = {"H": [Linear(), Trees(depth=1), Trees(depth=2)], "loop__levels": [10, 30]}
        search = GridSearchCV(regressor(levels=50), grid, cv=3).fit(X, y)
        # The label is a product of features: no linear function sees it.
        assert search.best_params_["H"] != Linear()
        assert search.best_estimator_.n_rounds_ > 0

    def test_fields_of_the_class_and_the_loop_are_parameters(self):
        model = LSBoostRegressor(H=Trees(depth=2), loop=Loop(levels=10))
        assert model.get_params()["H__depth"] == 2
        model.set_params(H__depth=3, loop__step=0.5)
        assert (model.H, model.loop) == (Trees(depth=3), Loop(levels=10, step=0.5))
        model.set_params(H=Linear(), H__ridge=2.0)
        assert Linear(ridge=2.0) == model.H
        assert LSBoostRegressor().set_params(loop__levels=3).loop == Loop(levels=3)
        with pytest.raises(ValueError, match=r"H__deep .*base_score.*depth"):
            LSBoostRegressor(H=Trees()).set_params(H__deep=3)
        with pytest.raises(ValueError, match="Invalid parameter H__depth"):
            LSBoostRegressor().set_params(H__depth=3)


class TestTheDefault:
    """Validated, not rounded, on the log-odds: what a user can trust as it comes."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["breast_cancer", "wine", "digits", "census", "noise"])
    def test_probabilities_of_new_rows(self, name):
        X, y = DATA[name]()

        def predict(model):
            found = cross_val_predict(model, X, y, cv=3, method="predict_proba")[:, 1]
            return np.clip(found, 1e-15, 1 - 1e-15)

        # Whether boosting is significant on 119 rows of wine depends on the folds: of 26 seeds, one
        # (which is 0) does not find it in one of the three fits.
        seeds = (0, 1, 2) if name == "wine" else (0,)
        own = [predict(LSBoostClassifier(random_state=seed)) for seed in seeds]
        other = predict(HistGradientBoostingClassifier(random_state=0))
        constant = np.full(len(y), y.mean())
        for loss in (log_loss, brier_score_loss):
            ours, theirs = np.median([loss(y, each) for each in own]), loss(y, other)
            # Noise has nothing to learn; a constant of all rows knows the held-out ones.
            assert ours < loss(y, constant) * (1.01 if name == "noise" else 1.0)
            assert ours < 1.05 * theirs


def census_rows():
    data = census(6000, seed=1, categorical=False)
    return data.X, data.y


def noise():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2000, 5)), rng.integers(0, 2, 2000)


def of_class(load, positive):
    X, y = load(return_X_y=True)
    return X, (y == positive).astype(int)


DATA = {
    "breast_cancer": lambda: of_class(load_breast_cancer, 1),
    "wine": lambda: of_class(load_wine, 1),
    "digits": lambda: of_class(load_digits, 8),
    "census": census_rows,
    "noise": noise,
}
