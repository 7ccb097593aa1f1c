"""What all estimators share: parameters, checks of X, the call of ``fit`` and its results."""

from __future__ import annotations

import numbers
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.data.labels import read_labels
from recalibrate.fitting.arguments import PAPER_LOOP, Engine, Loop
from recalibrate.fitting.entry import fit

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
