"""What both estimators share: the constant they start from, parameters, the call of ``fit``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.bases.constant import Constant
from recalibrate.classes.trees.spec import Trees
from recalibrate.core.levels import Link
from recalibrate.fitting.arguments import Engine, LevelKind, Loop
from recalibrate.fitting.entry import fit

Float64 = NDArray[np.float64]


class LSBoost(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What the regressor and the classifier share: parameters, checks, the call of ``fit``."""

    def __init__(
        self,
        H: Any = None,
        *,
        levels: int = 50,
        level_kind: LevelKind | None = None,
        rounded: bool = True,
        keep_unrounded: bool | None = None,
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
        tags.input_tags.allow_nan = getattr(self.H, "takes_missing", True)
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
        paper = self.alpha is not None or self.B is not None
        self.model_ = fit(
            # The mean of equal numbers may differ from them in the last bit.
            Constant(float(np.clip(start, *(bounds or (0.0, 1.0))))),
            X,
            y,
            Trees(depth=2) if self.H is None else self.H,
            sample_weight=weight,
            bounds=bounds,
            alpha=self.alpha,
            B=self.B,
            link=None if paper else self.link,
            loop=self._loop(paper),
            engine=Engine(threads=effective_n_jobs(self.n_jobs)),
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

    def to_onnx(self, path: Any = None, X_sample: Any = None, **options: Any) -> Any:
        """The fitted model as an ONNX graph, see :meth:`recalibrate.Recalibrated.to_onnx`.

        A classifier's ``label`` is 1 for the second of ``classes_``.
        """
        check_is_fitted(self)
        return self.model_.to_onnx(path, X_sample, **options)

    def _loop(self, paper: bool) -> Loop:
        """Settings of the loop; Algorithm 1 leaves room for two of them."""
        both = Loop(keep_unrounded=self.keep_unrounded, min_level_rows=self.min_level_rows)
        names = "levels", "level_kind", "rounded", "step", "l2", "tolerance", "max_rounds"
        return both if paper else replace(both, **{name: getattr(self, name) for name in names})

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
