"""Estimators that are not fitted: cross-fitted scores, and a base trained on all rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.bases.problem import InputOptions
from recalibrate.fitting.crossfit import cross_fit, is_unfitted

H = rc.Groups("group > 0")


class Mean(ClassifierMixin, BaseEstimator):
    """Predicts the (weighted) share of ones in its training rows, and remembers these."""

    fits: list

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array([0, 1])
        self.share_ = np.average(y, weights=sample_weight)
        type(self).fits.append((np.asarray(X)[:, 0].copy(), sample_weight))
        return self

    def predict_proba(self, X):
        return np.column_stack([np.full(len(X), 1 - self.share_), np.full(len(X), self.share_)])

    def predict(self, X):
        return np.full(len(X), int(self.share_ > 0.5))


class MeanWithoutWeights(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.fixture(autouse=True)
def adapters(monkeypatch):
    """The door itself is tested here, not scikit-learn's adapter."""
    from recalibrate.bases.protocol import CallableBase

    def wrap(model, link=None, target_class=None, trust=False):
        if not hasattr(model, "predict"):
            return CallableBase(model)
        if hasattr(model, "predict_proba"):
            return CallableBase(lambda X: model.predict_proba(X)[:, 1], name="classifier")
        return CallableBase(model.predict, name="regressor")

    monkeypatch.setattr("recalibrate.bases.problem.as_base", wrap)
    Mean.fits = []


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"id": np.arange(n), "group": rng.integers(0, 2, n), "z": rng.normal(size=n)})
    y = (rng.random(n) < 1 / (1 + np.exp(-X["z"] - 0.5 * X["group"]))).astype(int)
    return X, y


# --- what is not fitted -------------------------------------------------------------------------


@pytest.mark.slow
def test_fitted_and_unfitted_are_told_apart():
    X, y = sample(50)
    for model in (
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
    ):
        assert is_unfitted(model)
        assert not is_unfitted(model.fit(X, y))


def test_other_models_are_left_to_their_adapters():
    class Framework:
        def fit(self): ...
        def get_params(self): ...

    class WithAnswer(Framework):
        def __init__(self, fitted):
            self.fitted = fitted

        def is_fitted(self):
            return self.fitted

    assert not is_unfitted(Framework())
    assert not is_unfitted(LogisticRegression)
    assert not is_unfitted([0.1, 0.2])
    assert is_unfitted(WithAnswer(False))
    assert not is_unfitted(WithAnswer(True))


def test_without_cv_the_error_says_what_cv_would_do():
    X, y = sample(50)
    with pytest.raises(ValueError, match=r"LogisticRegression\(\) is not fitted.*cv=5.*trained on"):
        rc.fit(LogisticRegression(), X, y, H)


# --- scores -------------------------------------------------------------------------------------


def test_no_row_is_scored_by_a_model_that_saw_it():
    X, y = sample(100)
    crossed = cross_fit(Mean(), X, y, KFold(4), InputOptions())
    for fold in range(4):
        rows = slice(25 * fold, 25 * fold + 25)
        others = np.delete(y.to_numpy(), np.arange(rows.start, rows.stop))
        np.testing.assert_allclose(crossed.scores[rows], others.mean())
    assert crossed.scored.all()
    assert [len(seen) for seen, _ in Mean.fits] == [75, 75, 75, 75, 100]
    # A mean that is added up in another order.
    assert crossed.base.scores(X)[0] == pytest.approx(y.mean())


def test_number_of_folds_is_dealt_by_content():
    X, y = sample(100)
    scores = cross_fit(Mean(), X, y, 5, InputOptions()).scores
    order = np.random.default_rng(1).permutation(100)
    shuffled = cross_fit(Mean(), X.iloc[order], y.iloc[order], 5, InputOptions()).scores
    np.testing.assert_allclose(shuffled, scores[order])


@pytest.mark.slow
def test_the_estimator_itself_is_not_fitted():
    X, y = sample(100)
    model = LogisticRegression()
    rc.fit(model, X, y, H, cv=3)
    assert is_unfitted(model)


def test_grouped_folds_keep_groups_together():
    X, y = sample(120)
    groups = np.repeat(np.arange(12), 10)
    crossed = cross_fit(Mean(), X, y, GroupKFold(3).split(X, y, groups), InputOptions())
    for (seen, _), (_, held_out) in zip(Mean.fits, crossed.folds, strict=False):
        assert not set(groups[seen.astype(int)]) & set(groups[held_out])


def test_time_ordered_folds_leave_out_rows_without_a_score():
    X, y = sample(120)
    crossed = cross_fit(Mean(), X, y, TimeSeriesSplit(3), InputOptions())
    assert crossed.scored.tolist() == [False] * 30 + [True] * 90
    assert crossed.weight(None).tolist() == [0.0] * 30 + [1.0] * 90
    # The first fold trained on rows that have no score, so it cannot choose rounds.
    assert [len(train) for train, _ in crossed.folds] == [30, 60]
    model = rc.fit(Mean(), X, y, H, cv=TimeSeriesSplit(3))
    assert np.isfinite(model.predict(X)).all()


def test_repeated_scores_are_averaged():
    X, y = sample(60)
    split = ShuffleSplit(20, test_size=0.5, random_state=0)
    crossed = cross_fit(Mean(), X, y, split, InputOptions())
    assert crossed.scored.all()
    assert abs(crossed.scores - y.mean()).max() < 0.1


# --- weights and labels -------------------------------------------------------------------------


def test_weights_reach_the_estimator():
    X, y = sample(60)
    weight = np.linspace(0.5, 2, 60)
    cross_fit(Mean(), X, y, KFold(2), InputOptions(weight))
    for seen, given in Mean.fits:
        np.testing.assert_array_equal(given, weight[seen.astype(int)])


@pytest.mark.parametrize(
    "model",
    [make_pipeline(StandardScaler(), Mean()), GridSearchCV(Mean(), {}, cv=2, refit=True)],
    ids=["pipeline", "search"],
)
def test_weights_pass_through_pipelines_and_searches(model):
    X, y = sample(60)
    cross_fit(model, X, y, KFold(2), InputOptions(np.arange(1.0, 61.0)))
    assert all(given is not None for _, given in Mean.fits)


def test_estimator_without_weights_is_named():
    X, y = sample(60)
    with pytest.warns(UserWarning, match="MeanWithoutWeights takes no sample_weight"):
        cross_fit(MeanWithoutWeights(), X, y, KFold(2), InputOptions(np.arange(1.0, 61.0)))


def test_classifier_needs_both_classes_in_every_fold():
    X, y = sample(40)
    y = np.r_[np.zeros(20), np.ones(20)]
    with pytest.raises(ValueError, match="all have the label 1"):
        cross_fit(Mean(), X, y, KFold(2), InputOptions())
    with pytest.raises(ValueError, match="classifier, but the labels are not 0 and 1"):
        cross_fit(Mean(), X, np.linspace(0, 1, 40), KFold(2), InputOptions())


# --- fit ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_overfitting_base_is_calibrated_on_honest_scores():
    X, y = sample(1500)
    forest = RandomForestClassifier(20, min_samples_leaf=2, random_state=0, n_jobs=1)
    new, new_y = sample(4000, seed=1)
    columns = ["group", "z"]
    model = rc.fit(forest, X[columns], y, H, cv=5)
    trained = forest.fit(X[columns], y)
    own = trained.predict_proba(new[columns])[:, 1]
    loss = np.mean((model.predict(new[columns]) - new_y) ** 2)
    assert loss < np.mean((own - new_y) ** 2)
    assert model.base.columns() == ("group", "z")


def test_regression():
    X, _ = sample(600)
    y = 10 * X["z"] + 5 * X["group"] ** 2 + np.random.default_rng(1).normal(size=600)
    model = rc.fit(LinearRegression(), X[["group", "z"]], y, H, cv=3)
    assert np.mean((model.predict(X[["group", "z"]]) - y) ** 2) < 1.3


def test_held_out_rows_and_the_papers_run_go_with_cv():
    X, y = sample(300)
    new, new_y = sample(200, seed=1)
    model = rc.fit(Mean(), X, y, H, cv=3, validation=(new, new_y), loop=rc.Loop(max_rounds=3))
    assert len(model.history_.held_out) > 0
    paper = rc.fit(Mean(), X, y, H, cv=3, alpha=0.004)
    assert paper.certificate_ is not None


def test_fitted_estimator_with_cv_is_not_trained_again(monkeypatch):
    X, y = sample(200)
    fitted = Mean().fit(X, y)
    Mean.fits.clear()
    rc.fit(lambda X: fitted.predict_proba(X)[:, 1], X, y, H, cv=3)
    assert Mean.fits == []


@pytest.mark.parametrize("cv", [1, 0, "five"])
def test_bad_cv(cv):
    X, y = sample(30)
    with pytest.raises((TypeError, ValueError), match="cv"):
        rc.fit(Mean(), X, y, H, cv=cv)
