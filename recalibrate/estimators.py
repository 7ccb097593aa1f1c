"""LSBoost from a constant: a regressor and a binary classifier for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.classes import Estimator, Trees
from recalibrate.fitting import fit
from recalibrate.labels import read_labels
from recalibrate.levels import Link
from recalibrate.options import LevelKind
from recalibrate.scores import Link as BaseLink

__all__ = ["LSBoostClassifier", "LSBoostRegressor"]

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Constant:
    """A base model that gives every row the same score."""

    value: float
    link: BaseLink = "identity"
    why_no_graph: str = "the base model is a constant; the graph takes it as an input of scores"

    @property
    def name(self) -> str:
        return f"the constant {self.value:g}"

    def columns(self) -> tuple[str, ...] | None:
        """Nothing is needed from X."""
        return ()

    def scores(self, X: Any) -> Float64:
        """The constant, once per row."""
        return np.full(len(X), self.value)

    def graph(self) -> object | None:
        """There is none: a constant has no inputs to make a graph of."""
        return None


class _LSBoost(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What the regressor and the classifier share: parameters, checks, the call of ``fit``."""

    def __init__(
        self,
        H: Any = None,
        *,
        levels: int = 50,
        level_kind: LevelKind | None = None,
        rounded: bool = True,
        keep_unrounded: bool = False,
        step: float | None = None,
        l2: float | None = None,
        min_level_rows: int = 1,
        tolerance: float | Literal["authors"] | None = "authors",
        max_rounds: int = 100,
        link: Link = "identity",
        alpha: float | None = None,
        B: float | None = None,
        validation: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.H = H
        self.levels = levels
        self.level_kind = level_kind
        self.rounded = rounded
        self.keep_unrounded = keep_unrounded
        self.step = step
        self.l2 = l2
        self.min_level_rows = min_level_rows
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.link = link
        self.alpha = alpha
        self.B = B
        self.validation = validation
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        regressor = self.H.regressor if isinstance(self.H, Estimator) else None
        # A foreign regressor sees missing values as they are; ours have a place for them.
        tags.input_tags.allow_nan = (
            not hasattr(regressor, "__sklearn_tags__") or get_tags(regressor).input_tags.allow_nan
        )
        return tags

    def _read_features(self, X: Any, *, reset: bool) -> Any:
        """X checked the way of scikit-learn; its cells are read, and refused, by the table."""
        if hasattr(X, "columns") or hasattr(X, "to_pandas"):
            # Columns of a frame have types of their own, which one common array would lose.
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(
            self,
            X,
            reset=reset,
            # A list of rows [1, "a"] would otherwise become all text.
            dtype=object if isinstance(X, list | tuple) else None,
            ensure_all_finite=not get_tags(self).input_tags.allow_nan,
        )

    def _boost(
        self,
        X: Any,
        y: Float64,
        weight: Float64 | None,
        bounds: tuple[float, float] | None,
    ) -> Self:
        """Boost from the weighted mean label; everything is in place but the loop."""
        start = float(np.average(y, weights=weight))
        self.model_ = fit(
            # The mean of equal numbers may differ from them in the last bit.
            Constant(float(np.clip(start, *(bounds or (0.0, 1.0))))),
            X,
            y,
            Trees(depth=2) if self.H is None else self.H,
            sample_weight=weight,
            bounds=bounds,
            link=self.link,
            alpha=self.alpha,
            B=self.B,
            levels=self.levels,
            level_kind=self.level_kind,
            rounded=self.rounded,
            keep_unrounded=self.keep_unrounded,
            step=self.step,
            l2=self.l2,
            min_level_rows=self.min_level_rows,
            tolerance=self.tolerance,
            max_rounds=self.max_rounds,
            threads=effective_n_jobs(self.n_jobs),
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
            progress=False,
            **self._validation(len(y)),
        )
        self.rounds_ = self.model_.rounds
        self.n_rounds_ = self.model_.n_rounds_
        self.n_learners_ = self.model_.n_learners_
        self.history_ = self.model_.history_
        self.certificate_ = self.model_.certificate_
        return self

    def _validation(self, n_rows: int) -> dict[str, Any]:
        """How ``fit`` is to choose the number of rounds."""
        validation = self.validation
        if validation is None:
            return {"validation": False}
        if self.alpha is not None or self.B is not None:
            raise ValueError(
                f"validation={validation!r} was given together with alpha={self.alpha!r}, "
                f"B={self.B!r}, but Algorithm 1 has a stop rule of its own: set validation=None, "
                "or alpha=None and B=None"
            )
        if isinstance(validation, bool):
            raise ValueError(
                f"validation must be None, a share such as 0.2, a number of folds or a splitter, "
                f"got {validation!r}; None turns it off"
            )
        if n_rows < 2:
            raise ValueError(
                f"validation={validation!r} needs rows to hold out, but there is only 1 sample"
            )
        return {"validation" if isinstance(validation, float) else "cv": validation}


class LSBoostRegressor(RegressorMixin, _LSBoost):  # type: ignore[misc]  # untyped scikit-learn
    r"""Level-set boosting of a constant, a regressor that ends up multicalibrated.

    Starting from the mean label, every round fits the class H to the labels on every level set
    of the current predictor and rounds the result to a grid [1]_:

    .. math::
        f_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = f_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : f_t(x_i) = v} w_i (y_i - h(x_i))^2.

    It stops when a round lowers the mean squared error by less than the tolerance. If it stops
    because no h does, no h in H can be correlated with the residuals on any level set: the
    predictor is multicalibrated for H.

    Parameters
    ----------
    H
        The class: ``Trees(...)``, ``Linear(...)``, ``Groups(...)``, ``Estimator(...)``, "trees"
        or "linear". None means ``Trees(depth=2)``.
    levels
        Steps of the grid; without ``rounded`` the number of level sets drawn every round.
    level_kind
        Levels of equal width ("uniform") or equal weight ("quantile"). None means "uniform"
        for rounded scores, otherwise "quantile".
    rounded
        Round to the grid after every round, as in the formula; predictions are then values of
        the grid. False takes small steps on level sets drawn anew, without rounding.
    keep_unrounded
        Of a rounded run stopped by the tolerance: keep the rejected last round, un-rounded.
    step
        Share of every fitted correction that is taken. None means 1 if rounded, otherwise 0.1.
    l2
        Ridge on every fitted number, in units of row weight (of hessian under the logit link).
        None means 0, and 10 under the logit link.
    min_level_rows
        Level sets with fewer rows are left alone.
    tolerance
        Stop when a round lowers the error (of labels scaled to [0, 1]) by less. "authors" is
        the rule of the paper's own code, .1 / levels; None stops only at ``max_rounds``.
    max_rounds
        Most rounds.
    link
        "identity" fits the labels by squared error, as the paper does; "logit" takes Newton
        steps of the log loss of the scaled labels, which keeps predictions inside their range.
    alpha, B
        Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
        alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1). Grid,
        step and stop rule then follow from alpha and B, and the parameters above for them are
        not used.
    validation
        How to choose the number of rounds on held-out rows: a share of the rows such as 0.2, a
        number of folds, or a scikit-learn splitter; the model is then refitted on all rows.
        None fits without.
    random_state
        For the folds and for ``Trees(feature_share=...)``; nothing else is random.
    n_jobs
        Number of threads, -1 for all cores. The model is the same for all values.

    Attributes
    ----------
    rounds_ : Rounds
        The fitted rounds.
    n_rounds_, n_learners_ : int
        Number of rounds, and of weak learners over all rounds and level sets.
    history_ : History
        Errors by round (labels scaled to [0, 1]), and what ended the run.
    certificate_ : Certificate or None
        What a run with ``alpha`` proves.
    model_ : Recalibrated
        The constant with its rounds, as :func:`recalibrate.fit` returns it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names that are all text.

    Notes
    -----
    The defaults are the paper's method, which fits its rows closely and predicts values of the
    grid. On few or noisy rows ``validation=5`` predicts new rows better, and so does
    ``rounded=False, levels=10, tolerance=None`` with some hundred rounds.

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate import LSBoostRegressor, Trees
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(5000, 2))
    >>> y = np.sum((np.abs(X) - 1) ** 2, axis=1)
    >>> model = LSBoostRegressor(H=Trees(depth=1), levels=100).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost the weighted mean of y.

        Parameters
        ----------
        X
            DataFrame (categories, text and missing values are fine) or array.
        y
            Numbers.
        sample_weight
            Weights; a row of weight 2 counts as the row twice.
        """
        values = validate_data(self, y=y, y_numeric=True).astype(np.float64)
        X = self._read_features(X, reset=True)
        weight = read_labels(values, n_rows=len(X), sample_weight=sample_weight).weight
        counted = values if weight is None else values[weight > 0]
        low, high = float(counted.min()), float(counted.max())
        # Any width will do for a single value, but adding 1 does nothing to a large one.
        bounds = (low, high if high > low else low + max(1.0, abs(low)))
        # Rows of weight zero do not count, but must lie inside the bounds as well.
        return self._boost(X, np.clip(values, *bounds), weight, bounds)

    def predict(self, X: Any) -> Float64:
        """Predicted mean of every row."""
        check_is_fitted(self)
        return self.model_.predict(self._read_features(X, reset=False))

    def staged_predict(self, X: Any) -> Iterator[Float64]:
        """Predictions before the first round (the constant, on the grid) and after every one."""
        check_is_fitted(self)
        yield from self.model_.staged_predict(self._read_features(X, reset=False))


class LSBoostClassifier(ClassifierMixin, _LSBoost):  # type: ignore[misc]  # untyped scikit-learn
    r"""Level-set boosting of a constant, a binary classifier with multicalibrated probabilities.

    Labels are 1 for the second of ``classes_`` and 0 for the first, and the probability is
    boosted as by :class:`LSBoostRegressor` [1]_:

    .. math::
        p_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = p_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : p_t(x_i) = v} w_i (y_i - h(x_i))^2.

    Parameters
    ----------
    H
        The class: ``Trees(...)``, ``Linear(...)``, ``Groups(...)``, ``Estimator(...)``, "trees"
        or "linear". None means ``Trees(depth=2)``.
    levels
        Steps of the grid; without ``rounded`` the number of level sets drawn every round.
    level_kind
        Levels of equal width ("uniform") or equal weight ("quantile"). None means "uniform"
        for rounded scores (the only choice there: a constant has no quantiles to make a grid
        of), otherwise "quantile".
    rounded
        Round to the grid after every round, as in the formula. False takes small steps on level
        sets drawn anew, without rounding.
    keep_unrounded
        Of a rounded run stopped by the tolerance: keep the rejected last round, un-rounded.
    step
        Share of every fitted correction that is taken. None means 1 if rounded, otherwise 0.1.
    l2
        Ridge on every fitted number, in units of row weight (of hessian under the logit link).
        None means 0, and 10 under the logit link.
    min_level_rows
        Level sets with fewer rows are left alone.
    tolerance
        Stop when a round lowers the mean loss by less. "authors" is the rule of the paper's own
        code, .1 / levels; None stops only at ``max_rounds``.
    max_rounds
        Most rounds.
    link
        "identity" fits probabilities by squared error, as the paper does; "logit" takes Newton
        steps of the log loss on the log-odds.
    alpha, B
        Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
        alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1). Grid,
        link, step and stop rule then follow from alpha and B, and the parameters above for them
        are not used.
    validation
        How to choose the number of rounds on held-out rows: a share of the rows such as 0.2, a
        number of folds, or a scikit-learn splitter; the model is then refitted on all rows.
        None fits without.
    random_state
        For the folds and for ``Trees(feature_share=...)``; nothing else is random.
    n_jobs
        Number of threads, -1 for all cores. The model is the same for all values.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels, sorted.
    rounds_ : Rounds
        The fitted rounds.
    n_rounds_, n_learners_ : int
        Number of rounds, and of weak learners over all rounds and level sets.
    history_ : History
        Losses by round, and what ended the run.
    certificate_ : Certificate or None
        What a run with ``alpha`` proves.
    model_ : Recalibrated
        The constant with its rounds, as :func:`recalibrate.fit` returns it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names that are all text.

    Notes
    -----
    The defaults are the paper's method, made for many rows: a few hundred rows of noisy 0/1
    labels are fitted to the last one. There, let ``validation=5`` choose the number of rounds.

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from recalibrate import Groups, LSBoostClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 5000), "age": rng.integers(18, 80, 5000)})
    >>> y = np.where(rng.random(5000) < np.where(X["sex"] == "F", 0.3, 0.6), "yes", "no")
    >>> model = LSBoostClassifier(H=Groups("sex", "age < 25")).fit(X, y)
    >>> new = pd.DataFrame({"sex": ["F", "M"], "age": [40, 40]})
    >>> model.predict_proba(new)[:, 1].round(1)
    array([0.3, 0.6])
    >>> model.predict(new)
    array(['no', 'yes'], dtype='<U3')
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost the weighted share of the second class.

        Parameters
        ----------
        X
            DataFrame (categories, text and missing values are fine) or array.
        y
            Labels of two classes: numbers, text or bool.
        sample_weight
            Weights; a row of weight 2 counts as the row twice.
        """
        if self.rounded and self.level_kind == "quantile" and self.alpha is None:
            raise ValueError(
                "level_kind='quantile' with rounded=True would make a grid of one value, because "
                "the scores start as a constant: use level_kind='uniform' or rounded=False"
            )
        y = validate_data(self, y=y)
        check_classification_targets(y)
        X = self._read_features(X, reset=True)
        n_rows = len(X)
        weight = read_labels(np.zeros(len(y)), n_rows=n_rows, sample_weight=sample_weight).weight
        self.classes_ = _two_classes(y if weight is None else y[weight > 0])
        positive = (y == self.classes_[1]).astype(np.float64)
        return self._boost(X, positive, weight, None)

    def predict_proba(self, X: Any) -> Float64:
        """Probabilities of the two ``classes_``, shape (n, 2)."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._read_features(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class; the first at one half."""
        return self._decide(self.predict_proba(X)[:, 1])

    def staged_predict_proba(self, X: Any) -> Iterator[Float64]:
        """Probabilities before the first round (the constant) and after every one."""
        check_is_fitted(self)
        for stage in self.model_.staged_predict(self._read_features(X, reset=False)):
            p = np.clip(stage, 0.0, 1.0)
            yield np.column_stack([1.0 - p, p])

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The more probable class before the first round and after every one."""
        for proba in self.staged_predict_proba(X):
            yield self._decide(proba[:, 1])

    def _decide(self, p: Float64) -> NDArray[Any]:
        decided: NDArray[Any] = self.classes_[(p > 0.5).astype(np.intp)]
        return decided


def _two_classes(y: NDArray[Any]) -> NDArray[Any]:
    classes: NDArray[Any] = np.unique(y)
    if len(classes) == 2:
        return classes
    shown = ", ".join(repr(value) for value in classes[:10].tolist())
    if len(classes) < 2:
        raise ValueError(
            f"y needs two classes, but all rows that count are of one class, {shown}; "
            "pass rows of both classes"
        )
    more = f" and {len(classes) - 10} more" if len(classes) > 10 else ""
    # The first sentence is the one that scikit-learn's checks look for.
    raise ValueError(
        f"Only binary classification is supported. y has {len(classes)} classes: {shown}{more}. "
        "Wrap this classifier in sklearn.multiclass.OneVsRestClassifier, or join classes."
    )
