"""Estimators for scikit-learn: recalibration around another estimator, LSBoost from a constant."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import update_wrapper
from inspect import cleandoc
from types import FunctionType
from typing import Any, Literal, Self, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut, LeavePOut
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.bases.wrappers import Constant
from recalibrate.classes.trees import Trees
from recalibrate.core.levels import Link
from recalibrate.data.labels import NO_BOUNDS, read_labels
from recalibrate.fitting.arguments import PAPER_LOOP, Engine, Loop
from recalibrate.fitting.entry import fit
from recalibrate.support.notices import listed

__all__ = [
    "LSBoostClassifier",
    "LSBoostRegressor",
    "RecalibratedClassifier",
    "RecalibratedRegressor",
]


# --- What all estimators share by name: texts of their docstrings, and their constructor --------


T = TypeVar("T", bound=type)

SHARED = {
    "<parameters>": """
H
    The groups or function class (H) to be right for: ``Groups(...)``, ``Trees(...)``,
    ``Linear(...)``, ``Polynomial(...)``, ``Estimator(...)``, a list of group expressions or a
    short text such as "trees". None: all columns. Fields can be searched: ``H__depth``.
loop
    None is the default fit: small steps, validated on held-out rows, not rounded. "paper" is the
    loop of the paper's own experiments [1]_: 50 levels, every update rounded to the grid but the
    last, no validation; it fits its rows closely. A :class:`recalibrate.Loop` has settings of
    your own.
validation
    Instead of folds: a share of the rows such as 0.2, or False for none.
link
    Scale of the updates, and the loss. None means "logit" (log loss) for classes, the deviance
    that the estimator was trained by ("log-poisson", "log-gamma", "log-tweedie-1.5") if it is one,
    and otherwise, and for ``loop="paper"``, "identity" (squared error).
alpha, B
    Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
    alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1).
random_state
    The ``seed`` of :func:`recalibrate.fit`, for the folds and for learners that draw rows or
    columns; nothing else is random. None means 0, so that equal fits give equal models; a
    ``RandomState`` is drawn from.
n_jobs
    Number of threads, -1 for all cores. The model is the same for all values.
""",
    "<attributes>": """
model_ : Recalibrated
    The fitted model as :func:`recalibrate.fit` returns it: ``model_.summary()``,
    ``model_.save(...)``, ``model_.decide(...)``.
rounds_ : Rounds
    The fitted rounds.
n_rounds_, n_learners_ : int
    Number of rounds, and of weak learners over all rounds and level sets.
history_ : History
    Losses by round, and what ended the run.
certificate_ : Certificate or None
    What a run with ``alpha`` proves.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of str
    Their names, where X has names that are all text.
""",
    "<references>": """
References
----------
.. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
   "Multicalibration as Boosting for Regression", ICML 2023.
""",
}


def documented(kind: T) -> T:
    """A class whose docstring has the shared texts where it names them.

    It gets the inherited constructor under its own name, too: that is the name which Python's
    errors about wrong arguments say.
    """
    if kind.__doc__ is not None:  # python -OO leaves them out
        kind.__doc__ = fill(kind.__doc__)
    shared: Any = kind.__init__  # type: ignore[misc]
    code = (shared.__code__, shared.__globals__, shared.__name__, shared.__defaults__)
    own: Any = update_wrapper(FunctionType(*code, shared.__closure__), shared)
    own.__kwdefaults__ = shared.__kwdefaults__
    own.__qualname__ = f"{kind.__qualname__}.__init__"
    kind.__init__ = own  # type: ignore[misc]  # the class decides, as it does above
    return kind


def fill(text: str) -> str:
    """A docstring with the shared texts in the places that it names."""
    text = cleandoc(text)
    for name, shared in SHARED.items():
        text = text.replace(name, shared.strip("\n"))
    return text


# --- What all estimators share: parameters, checks of X, the call of ``fit`` and its results ----


Float64 = NDArray[np.float64]
OBJECTS = ("H", "loop")
"""Parameters that are objects with fields, which searches may set: ``H__depth``."""


class FitsModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator whose ``fit`` is a call of :func:`recalibrate.fit`."""

    def __init__(
        self,
        H: Any = None,
        *,
        loop: Loop | Literal["paper"] | None = None,
        cv: Any = None,
        validation: Any = None,
        link: str | None = None,
        alpha: float | None = None,
        B: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.H = H
        self.loop = loop
        self.cv = cv
        self.validation = validation
        self.link = link
        self.alpha = alpha
        self.B = B
        self.random_state = random_state
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; if deep, also the fields of H and loop, such as ``H__depth``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name in OBJECTS if deep else ():
            held = getattr(self, name)
            if is_dataclass(held) and not isinstance(held, type):
                params |= {f"{name}__{f.name}": getattr(held, f.name) for f in fields(held)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, also fields of H and loop."""
        own = {name: params.pop(name) for name in OBJECTS if name in params}
        super().set_params(**own)
        for name in OBJECTS:
            prefix = f"{name}__"
            found = [key for key in params if key.startswith(prefix)]
            if found:
                changes = {key.removeprefix(prefix): params.pop(key) for key in found}
                setattr(self, name, self._changed(name, changes))
        super().set_params(**params)
        return self

    def _changed(self, name: str, changes: dict[str, Any]) -> Any:
        held = getattr(self, name)
        held = Loop() if held is None and name == "loop" else held
        known = {f.name for f in fields(held)} if is_dataclass(held) else set()
        wrong = sorted(changes.keys() - known)
        if wrong:
            raise ValueError(
                f"Invalid parameter {name}__{wrong[0]} for {name}={held!r} of "
                f"{type(self).__name__}; it has {', '.join(sorted(known)) or 'none'}"
            )
        return replace(held, **changes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = getattr(self.H, "takes_missing", True)
        return tags

    def _read_features(self, X: Any, *, reset: bool, any_rows: bool = False) -> Any:
        """X checked the way of scikit-learn; its cells are read, and refused, by the table.

        ``any_rows``: H has a table of its own, and X may be whatever an estimator takes: a sparse
        matrix, texts, dicts, images.
        """
        if hasattr(X, "columns") or hasattr(X, "to_pandas"):
            # Columns of a frame have types of their own, which one common array would lose.
            return validate_data(self, X, reset=reset, skip_check_array=True)
        if any_rows and not _is_matrix(X):
            return X
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=any_rows,
            # A list of rows [1, "a"] would otherwise become all text.
            dtype=object if isinstance(X, list | tuple) else None,
            ensure_all_finite=self._refuses_missing,
        )

    @property
    def _refuses_missing(self) -> bool:
        """Whether missing and infinite values in X are refused before anybody reads them."""
        return not get_tags(self).input_tags.allow_nan

    @staticmethod
    def _read_weight(y: Float64, X: Any, sample_weight: Any) -> Float64 | None:
        """The weights of the rows, checked, and that there are as many rows as labels."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return read_labels(y, n_rows=n_rows, sample_weight=sample_weight).weight

    def _fit(self, base: Any, X: Any, y: Any, weight: Any, **options: Any) -> Self:
        """Call ``fit`` with all parameters, and keep the model and its facts."""
        paper = self.loop == "paper"
        # Algorithm 1 is the paper's, too, and has no settings but alpha and B.
        loop = None if self.alpha is not None or self.B is not None else PAPER_LOOP
        arguments = {
            "H": self.H,
            "loop": loop if paper else self.loop,
            "cv": self.cv,
            "validation": self.validation,
            "link": self.link,
            "alpha": self.alpha,
            "B": self.B,
        }
        if paper and self.link is None:
            arguments["link"] = "identity"
        if paper and self.cv is None and self.validation is None:
            arguments["validation"] = False
        self.model_ = fit(
            base,
            X,
            y,
            sample_weight=weight,
            engine=Engine(threads=effective_n_jobs(self.n_jobs)),
            seed=self._seed(),
            progress=False,
            **arguments | options,
        )
        self.rounds_ = self.model_.rounds
        self.n_rounds_ = self.model_.n_rounds_
        self.n_learners_ = self.model_.n_learners_
        self.history_ = self.model_.history_
        self.certificate_ = self.model_.certificate_
        return self

    def _seed(self) -> int:
        """The seed of ``fit``: a number as it is, 0 without one, a draw of a generator."""
        state = self.random_state
        if state is None:  # as in `fit`: what is left to the default is the same every time
            return 0
        if isinstance(state, numbers.Integral):
            return int(state)
        return int(check_random_state(state).randint(np.iinfo(np.int32).max))

    def to_onnx(self, path: Any = None, X_sample: Any = None, **options: Any) -> Any:
        """The fitted model as an ONNX graph, see :meth:`recalibrate.Recalibrated.to_onnx`."""
        check_is_fitted(self)
        return self.model_.to_onnx(path, X_sample, **options)


def _is_matrix(X: Any) -> bool:
    """Whether X is rows of columns: an array, a sparse matrix, or a list of lists."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return len(shape) == 2
    return isinstance(X, list | tuple) and bool(X) and isinstance(X[0], list | tuple)


# --- What both classifiers share: their classes, and predictions as labels ----------------------


class _Classifies(ClassifierMixin, FitsModel):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier of two or more classes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._is_binary
        return tags

    @property
    def _is_binary(self) -> bool:
        """Whether what was asked for exists for two classes only."""
        rounded = self.loop == "paper" or bool(getattr(self.loop, "rounded", None))
        return rounded or self.link == "identity" or self.alpha is not None or self.B is not None

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, known: Any = None, *, any_rows: bool = False
    ) -> tuple[Any, NDArray[Any], Float64 | None]:
        """X, labels and weights, checked; sets ``classes_``.

        ``known`` are the classes of a model that is fitted already; ``any_rows`` see
        `_read_features`.
        """
        y = validate_data(self, y=y)
        check_classification_targets(y)
        X = self._read_features(X, reset=True, any_rows=any_rows)
        weight = self._read_weight(np.zeros(len(y)), X, sample_weight)
        counts = np.ones(len(y), np.bool_) if weight is None else weight > 0
        classes = self._check_classes(np.unique(y[counts]))
        if not counts.all():  # labels of rows that do not count may be anything
            y = np.where(counts, y, classes[0])
        self.classes_ = classes if known is None else np.unique(known)
        # Numbers of classes: scikit-learn refuses others, and to `fit` a float is no class.
        return X, y.astype(np.int64) if y.dtype.kind == "f" else y, weight

    def _check_classes(self, classes: NDArray[Any]) -> NDArray[Any]:
        shown = listed(classes.tolist(), 10)
        if len(classes) < 2:
            raise ValueError(
                f"y needs two classes, but all rows that count are of one class, {shown}; "
                "pass rows of both classes"
            )
        if len(classes) > 2 and self._is_binary:
            # The first sentence is the one that scikit-learn's checks look for.
            raise ValueError(
                f"Only binary classification is supported. y has {len(classes)} classes: {shown}, "
                'but alpha, loop="paper", rounded levels and link="identity" are for two. Leave '
                "them out, or wrap this classifier in sklearn.multiclass.OneVsRestClassifier."
            )
        return classes

    def _decide(self, proba: Float64) -> NDArray[Any]:
        """The most probable class; the first of several that are equally so."""
        decided: NDArray[Any] = self.classes_[np.argmax(proba, axis=1)]
        return decided


# --- LSBoost as an estimator of its own: what the regressor and the classifier share ------------


SMALL_TREES = Trees(depth=2)
"""H of a loop of the user's own and of Algorithm 1, where none is given: the trees of the default
fit are made for many small steps."""


class LSBoost(FitsModel):
    """Boosting from a constant."""

    def _boost(self, base: Constant, X: Any, y: Any, weight: Any, **options: Any) -> Self:
        """Boost; everything is in place but the loop."""
        default = self.loop is None and self.alpha is None and self.B is None
        H = SMALL_TREES if self.H is None and not default else self.H
        return self._fit(base, X, y, weight, H=H, **options)


# --- LSBoostClassifier: level-set boosting of the shares of classes -----------------------------


@documented
class LSBoostClassifier(_Classifies, LSBoost):
    r"""Level-set boosting of a constant, a classifier with multicalibrated probabilities.

    Starting from the shares of the classes, every round fits the class H on every level set of the
    current prediction and adds a part of what it finds to the log-odds, for as long as held-out
    rows support it. Of two classes, the label is 1 for the second of ``classes_``; with
    ``loop="paper"`` it is then the paper's rounded run [1]_:

    .. math::
        p_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = p_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : p_t(x_i) = v} w_i (y_i - h(x_i))^2.

    Parameters
    ----------
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for choosing how many rounds to take; the
        model is then refitted on all rows. None means 5.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    <attributes>

    <references>

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost the weighted shares of the classes.

        Parameters
        ----------
        X
            DataFrame (categories, text and missing values are fine) or array.
        y
            Labels of two or more classes: numbers, text or bool.
        sample_weight
            Weights; a row of weight 2 counts as the row twice.
        """
        X, y, weight = self._read_rows(X, y, sample_weight)
        share = [float(np.average(y == label, weights=weight)) for label in self.classes_]
        base = Constant(share[1]) if len(share) == 2 else Constant(share[0], others=(*share[1:],))
        return self._boost(base, X, y, weight, classes=np.unique(y).tolist())

    def predict_proba(self, X: Any) -> Float64:
        """Probabilities of the ``classes_``, a column for each."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._read_features(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class; the first of several that are equally so."""
        return self._decide(self.predict_proba(X))

    def staged_predict_proba(self, X: Any) -> Iterator[Float64]:
        """Probabilities before the first step (the shares) and after every one."""
        check_is_fitted(self)
        for stage in self.model_.staged_predict(self._read_features(X, reset=False)):
            p = np.clip(stage, 0.0, 1.0)
            yield p if p.ndim == 2 else np.column_stack([1.0 - p, p])

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The most probable class before the first step and after every one."""
        for proba in self.staged_predict_proba(X):
            yield self._decide(proba)


# --- LSBoostRegressor: level-set boosting of the mean label -------------------------------------


@documented
class LSBoostRegressor(RegressorMixin, LSBoost):  # type: ignore[misc]  # untyped scikit-learn
    r"""Level-set boosting of a constant, a regressor that ends up multicalibrated.

    Starting from the mean label, every round fits the class H to the residuals on every level
    set of the current prediction and adds a part of what it finds, for as long as held-out rows
    support it. With ``loop="paper"`` every round replaces and rounds [1]_:

    .. math::
        f_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = f_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : f_t(x_i) = v} w_i (y_i - h(x_i))^2,

    and stops when a round lowers the mean squared error by less than a tolerance. If it stops
    because no h does, no h in H can be correlated with the residuals on any level set: the
    predictor is multicalibrated for H.

    Parameters
    ----------
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for choosing how many rounds to take; the
        model is then refitted on all rows. None means 5.

    Attributes
    ----------
    <attributes>

    <references>

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate import LSBoostRegressor, Trees
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(5000, 2))
    >>> y = np.sum((np.abs(X) - 1) ** 2, axis=1)
    >>> model = LSBoostRegressor(H=Trees(depth=1), loop="paper").fit(X, y)
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
        weight = self._read_weight(values, X, sample_weight)
        bounds = _bounds_of(values, weight)
        # Rows of weight zero do not count, but must lie inside the bounds as well.
        values = np.clip(values, *bounds)
        # The mean of equal numbers may differ from them in the last bit.
        start = float(np.clip(np.average(values, weights=weight), *bounds))
        return self._boost(Constant(start), X, values, weight, bounds=NO_BOUNDS)

    def predict(self, X: Any) -> Float64:
        """Predicted mean of every row."""
        check_is_fitted(self)
        return self.model_.predict(self._read_features(X, reset=False))

    def staged_predict(self, X: Any) -> Iterator[Float64]:
        """Predictions before the first round (the constant, on the grid) and after every one."""
        check_is_fitted(self)
        yield from self.model_.staged_predict(self._read_features(X, reset=False))


def _bounds_of(y: Float64, weight: Float64 | None) -> tuple[float, float]:
    """Smallest and largest label among rows that count."""
    counted = y if weight is None else y[weight > 0]
    low, high = float(counted.min()), float(counted.max())
    # Any width will do for a single value, but adding 1 does nothing to a large one.
    return low, high if high > low else low + max(1.0, abs(low))


# --- RecalibratedClassifier and RecalibratedRegressor: ``fit`` around an estimator of scikit ----
# learn


DEFAULT_FOLDS = 5


class _Recalibrates(MetaEstimatorMixin, FitsModel):  # type: ignore[misc]  # untyped scikit-learn
    """What both share: the estimator inside, frozen or cross-fitted."""

    def __init__(
        self,
        estimator: Any,
        H: Any = None,
        *,
        cv: Any = None,
        loop: Loop | Literal["paper"] | None = None,
        validation: Any = None,
        base_link: Link | None = None,
        link: str | None = None,
        alpha: float | None = None,
        B: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.base_link = base_link
        super().__init__(
            H,
            loop=loop,
            cv=cv,
            validation=validation,
            link=link,
            alpha=alpha,
            B=B,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        for name in ("allow_nan", "categorical", "string"):
            both = getattr(tags.input_tags, name) and getattr(inner, name)
            setattr(tags.input_tags, name, both)
        return tags

    @property
    def _refuses_missing(self) -> bool:
        # What an estimator makes of missing values is its own affair: a pipeline may impute them.
        return False

    def _read_features(self, X: Any, *, reset: bool, any_rows: bool = False) -> Any:
        if not any_rows and _holds_documents(X):
            raise ValueError(
                "X holds texts or dicts, which H cannot read: give H a table of its own, with a "
                "row for each of them, as Z=."
            )
        return super()._read_features(X, reset=reset, any_rows=any_rows)

    def _fitted_model(self) -> Any:
        """The model inside, where it is fitted already and stays as it is; None: cross-fit it."""
        if isinstance(self.estimator, FrozenEstimator):
            return self.estimator.estimator
        if not isinstance(self.cv, str):
            return None
        if self.cv != "prefit":
            raise ValueError(
                f"cv must be a number of folds, a splitter or 'prefit', got {self.cv!r}"
            )
        check_is_fitted(self.estimator)
        return self.estimator

    def _recalibrate(
        self, X: Any, y: Any, weight: Any, Z: Any, fit_params: dict[str, Any], **options: Any
    ) -> Self:
        """Around a model that is fitted, or around one that is cross-fitted on these rows."""
        options |= {"Z": Z, "base_link": self.base_link, "fit_params": fit_params or None}
        fitted = self._fitted_model()
        if fitted is not None:
            folds = None if isinstance(self.cv, str) else self.cv
            return self._fit(fitted, X, y, weight, cv=folds, **options)
        folds = min(DEFAULT_FOLDS, max(len(y), 2)) if self.cv is None else self.cv
        return self._fit(clone(self.estimator), X, y, weight, cv=folds, **options)


def _holds_documents(X: Any) -> bool:
    """Whether X is a list, array or Series of texts or dicts."""
    vector = len(X.shape) == 1 if hasattr(X, "shape") else isinstance(X, list | tuple)
    return vector and any(isinstance(value, str | dict) for value in X[:1])


@documented
class RecalibratedClassifier(_Classifies, _Recalibrates):
    """A classifier whose probabilities are right on average inside every group.

    Used where :class:`sklearn.calibration.CalibratedClassifierCV` is: around an estimator that is
    not fitted, which is then cross-fitted (every row is scored by a copy that was trained on the
    other folds, and the estimator is trained on all rows in the end), or around a fitted one.

    Parameters
    ----------
    estimator
        A classifier. In a :class:`sklearn.frozen.FrozenEstimator`, or with ``cv="prefit"``, it is
        fitted already, on other rows, and stays as it is.
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for cross-fitting and for choosing how many
        rounds to take; "prefit" for an estimator that is fitted. None means 5.
    base_link
        "logit" reads the estimator's ``decision_function`` as log-odds, for one that has no
        probabilities, such as :class:`sklearn.svm.LinearSVC`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted; those of the estimator, where it is fitted.
    <attributes>

    <references>

    Examples
    --------
    >>> from recalibrate import Groups, RecalibratedClassifier
    >>> from recalibrate.simulate import census
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = census(3000, seed=1)
    >>> seen = data.X[["AGEP", "SCHL", "WKHP"]]
    >>> model = RecalibratedClassifier(LogisticRegression(max_iter=1000), H=Groups("SEX"))
    >>> model.fit(seen, data.y, Z=data.X).predict_proba(seen, Z=data.X).shape
    (3000, 2)
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, Z: Any = None, **fit_params: Any
    ) -> Self:
        """Cross-fit the estimator, or take it as it is, and recalibrate it.

        Parameters
        ----------
        X
            Rows as the estimator takes them: a table or array. With ``Z`` anything that it takes:
            sparse matrices, texts, dicts, images.
        y
            Labels of two or more classes: numbers, text or bool.
        sample_weight
            Weights; the estimator gets them too, if it takes any.
        Z
            Columns that only H sees, where the estimator must not: a table with as many rows.
        **fit_params
            Further arguments of the estimator's ``fit``; those with an entry per row are cut to
            the rows of every fold.
        """
        fitted = self._fitted_model()
        known = None if fitted is None else getattr(fitted, "classes_", None)
        X, y, weight = self._read_rows(X, y, sample_weight, known, any_rows=Z is not None)
        if fitted is None:
            self._check_folds(y)
        return self._recalibrate(X, y, weight, Z, fit_params)

    def _check_folds(self, y: NDArray[Any]) -> None:
        """Refuse more folds than a class has rows, in the words of scikit-learn."""
        folds = self.cv
        if isinstance(folds, LeaveOneOut | LeavePOut):  # they ask the rows how many folds there are
            folds = folds.get_n_splits(y)
        elif not isinstance(folds, int | np.integer):
            folds = getattr(folds, "n_splits", None)
        values, counts = np.unique(y, return_counts=True)
        if isinstance(folds, int | np.integer) and counts.min() < folds:
            raise ValueError(
                f"Requesting {folds}-fold cross-validation but provided less than {folds} examples "
                f"for at least one class: {values.tolist()[counts.argmin()]!r} has {counts.min()}. "
                "Use a smaller cv, or merge rare classes."
            )

    def predict_proba(self, X: Any, Z: Any = None) -> Float64:
        """Probabilities of the ``classes_``, a column for each."""
        check_is_fitted(self)
        return self.model_.predict_proba(
            self._read_features(X, reset=False, any_rows=Z is not None), Z=Z
        )

    def predict(self, X: Any, Z: Any = None) -> NDArray[Any]:
        """The most probable class; the first of several that are equally so."""
        return self._decide(self.predict_proba(X, Z))


@documented
class RecalibratedRegressor(RegressorMixin, _Recalibrates):  # type: ignore[misc]  # untyped
    """A regressor whose predicted means are right on average inside every group.

    Around an estimator that is not fitted, which is then cross-fitted (every row is scored by a
    copy that was trained on the other folds, and the estimator is trained on all rows in the end),
    or around a fitted one.

    Parameters
    ----------
    estimator
        A regressor. In a :class:`sklearn.frozen.FrozenEstimator`, or with ``cv="prefit"``, it is
        fitted already, on other rows, and stays as it is.
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for cross-fitting and for choosing how many
        rounds to take; "prefit" for an estimator that is fitted. None means 5.
    base_link
        "log" if the estimator predicts logarithms of means.

    Attributes
    ----------
    <attributes>

    <references>

    Examples
    --------
    >>> from recalibrate import Groups, RecalibratedRegressor
    >>> from recalibrate.simulate import census
    >>> from sklearn.linear_model import Ridge
    >>> data = census(3000, seed=1)
    >>> model = RecalibratedRegressor(Ridge(), H=Groups("SEX")).fit(data.X, data.probability)
    >>> model.predict(data.X).shape
    (3000,)
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        Z: Any = None,
        exposure: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Cross-fit the estimator, or take it as it is, and recalibrate it.

        Parameters
        ----------
        X
            Rows as the estimator takes them: a table or array. With ``Z`` anything that it takes:
            sparse matrices, texts, dicts, images.
        y
            Numbers; with ``exposure`` totals (counts, amounts) over it.
        sample_weight
            Weights; the estimator gets them too, if it takes any.
        Z
            Columns that only H sees, where the estimator must not: a table with as many rows.
        exposure
            What y is a total over. Predictions are rates; the estimator is trained on rates too,
            with exposures as weights.
        **fit_params
            Further arguments of the estimator's ``fit``; those with an entry per row are cut to
            the rows of every fold.
        """
        y = validate_data(self, y=y, y_numeric=True).astype(np.float64)
        X = self._read_features(X, reset=True, any_rows=Z is not None)
        weight = self._read_weight(y, X, sample_weight)
        if exposure is None:  # rows of weight zero do not count
            y = np.clip(y, *_bounds_of(y, weight))
        return self._recalibrate(X, y, weight, Z, fit_params, bounds=NO_BOUNDS, exposure=exposure)

    def predict(self, X: Any, Z: Any = None) -> Float64:
        """Predicted mean of every row."""
        check_is_fitted(self)
        rows = self._read_features(X, reset=False, any_rows=Z is not None)
        return self.model_.predict(rows, Z=Z)
