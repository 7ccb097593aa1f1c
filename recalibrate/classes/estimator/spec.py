"""Estimator: any scikit-learn regressor, fitted once per level set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import MARGIN_STEP_LIMIT, FunctionClass, Lesson, Task, choose_columns
from recalibrate.core.levels import from_margin
from recalibrate.core.part import Draft, Part, Sums
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Table


@dataclass(frozen=True)
class Estimator(FunctionClass):
    """Any scikit-learn regressor as the class H.

    The general and slow way: one ``fit`` per level set and round, where :class:`Trees`,
    :class:`Linear` and :class:`Groups` need one pass for all. Categories arrive as numbers
    (their position in sorted order), missing values as NaN: regressors that cannot take them
    need a pipeline. The result is deterministic if the regressor is, but not promised to be the
    same for another number of threads inside of it.

    Parameters
    ----------
    regressor
        An unfitted scikit-learn regressor; cloned for every level set.
    features
        Columns to use; None means all.
    base_score
        Whether the base model's score is a feature too.
    n_jobs
        Level sets fitted side by side (joblib threads).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from recalibrate import Estimator
    >>> Estimator(DecisionTreeRegressor(max_depth=1)).n_jobs
    1
    """

    kind = "estimator"
    in_pieces = False
    regressor: Any
    features: Sequence[str] | None = None
    base_score: bool = False
    n_jobs: int = 1

    @property
    def takes_missing(self) -> bool:
        """Whether the regressor, which sees them as they are, does."""
        from sklearn.utils import get_tags

        regressor = self.regressor
        known = hasattr(regressor, "__sklearn_tags__")
        return not known or bool(get_tags(regressor).input_tags.allow_nan)

    @classmethod
    def read(cls, arguments: Sequence[str], text: str) -> Estimator:
        """A regressor cannot be written as a text."""
        raise ValueError("estimator(...) needs Python: the command line cannot make the regressor")

    def bind(self, columns: Columns, *, index: int = 0) -> EstimatorLearner:
        """The regressor on some columns."""
        for method in ("fit", "predict", "get_params"):
            if not hasattr(self.regressor, method):
                raise TypeError(
                    f"Estimator() needs a scikit-learn regressor, got {self.regressor!r}, "
                    f"which has no {method}()"
                )
        names = choose_columns(columns.schema, self.features, self.base_score)
        if not names:
            raise ValueError(
                "Estimator(features=[]) leaves the regressor no column; name one, or set "
                "base_score=True"
            )
        return EstimatorLearner(self, Matrix(tuple(names)), index)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Turns a table into a plain float32 matrix."""

    kind = "estimator"
    names: tuple[str, ...]

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.float32]:
        return table.select(self.names).matrix()


@dataclass(frozen=True, eq=False)
class RowsOf:
    """Statistic: the rows themselves (not a sum: an Estimator sees them all)."""

    draft: Draft
    encoder: int

    def of(self, part: Part) -> Sums:
        f = part.margin(self.draft.log, self.draft.output)
        weight = part.weight if len(part.weight) else np.ones(part.n_rows, np.int64)
        return (  # type: ignore[return-value]  # rows are floats, and are not summed
            part.blocks[self.encoder],
            part.levels(self.draft),
            part.labels(self.draft.output),
            f,
            weight,
        )


@dataclass(frozen=True, eq=False)
class EstimatorTable:
    """Fitted regressors, None where a level set has none.

    What is added to a score is cut at +-``limit``.
    """

    kind, exact = "estimator", False
    models: tuple[Any, ...]
    limit: float = inf

    @property
    def n_learners(self) -> int:
        return sum(model is not None for model in self.models)

    def keep(self, levels: NDArray[np.bool_]) -> EstimatorTable:
        """The same regressors on some level sets only."""
        kept = zip(self.models, levels, strict=True)
        return replace(self, models=tuple(model if keep else None for model, keep in kept))

    def scaled(self, factor: float) -> EstimatorTable:
        """The same regressors, multiplied."""
        models = tuple(None if model is None else scale(model, factor) for model in self.models)
        return replace(self, models=models, limit=factor * self.limit)

    def update(self, block: Block, level: NDArray[np.int32], f: Scores, replaces: bool) -> Scores:
        out = f.copy()
        for v in np.unique(level):
            model = self.models[v]
            if model is None:
                continue
            rows = level == v
            with np.errstate(invalid="ignore"):  # scikit-learn sums rows to see if all are finite
                value = snap(np.asarray(model.predict(block[rows]), dtype=np.float64).ravel())
            out[rows] = value if replaces else f[rows] + value.clip(-self.limit, self.limit)
        return out


@dataclass(frozen=True, eq=False)
class Scaled:
    """A regressor whose predictions are multiplied by the step."""

    model: Any
    factor: float

    def predict(self, X: Any) -> Any:
        return self.factor * self.model.predict(X)


def scale(model: Any, factor: float) -> Scaled:
    """A regressor multiplied; a product of several factors is one."""
    if isinstance(model, Scaled):
        return Scaled(model.model, factor * model.factor)
    return Scaled(model, factor)


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """:class:`Estimator` bound to the columns of a table."""

    spec: Estimator
    encoder: Matrix
    index: int = field(default=0)

    @property
    def inexact(self) -> str:
        return (
            f"{type(self.spec.regressor).__name__} is not known to minimise squared error exactly"
        )

    def learn(self, task: Task) -> Lesson:
        from joblib import Parallel, delayed

        gathered = list(task.source.each(RowsOf(task.draft, self.index)))
        block, level, y, f, weight = (
            np.concatenate(parts) for parts in zip(*gathered, strict=True)
        )
        response, mass = self._response(task, y, f, weight)
        occupied = [
            v
            for v in range(task.levels)
            if np.count_nonzero(level == v) >= task.penalty.min_level_rows
            and np.any(mass[level == v] > 0)
        ]
        fitted = Parallel(n_jobs=self.spec.n_jobs, prefer="threads")(
            delayed(self._fit)(block[level == v], response[level == v], mass[level == v])
            for v in occupied
        )
        models: list[Any] = [None] * task.levels
        for v, model in zip(occupied, fitted, strict=True):
            models[v] = model if task.step == 1 else Scaled(model, task.step)
        alone = int(weight[~np.isin(level, occupied)].sum())
        skipped = int(alone * 2.0**task.source.scale.hessian_bits)
        return Lesson(EstimatorTable(tuple(models), task.limit), skipped)

    @staticmethod
    def _response(
        task: Task, y: Scores, f: Scores, weight: NDArray[np.int64]
    ) -> tuple[Scores, Scores]:
        """What to fit and with which weights: labels, residuals, or Newton's working response."""
        # A regressor's own penalties are in units of the weights as the user gave them.
        mass = weight / task.source.scale.weight_factor
        if task.draft.replace:
            return y, mass
        if task.draft.log.link == "identity":
            return y - f, mass
        p = from_margin(f, "logit")
        hessian = np.maximum(p * (1 - p), 1e-6)
        response = np.clip((y - p) / hessian, -MARGIN_STEP_LIMIT, MARGIN_STEP_LIMIT)
        return response, mass * hessian

    def _fit(self, X: Block, response: Scores, mass: Scores) -> Any:
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        model = clone(self.spec.regressor)
        if np.all(mass == mass[0]):
            return model.fit(X, response)
        if has_fit_parameter(model, "sample_weight"):
            return model.fit(X, response, sample_weight=mass)
        raise ValueError(
            f"{type(model).__name__}.fit() takes no sample_weight, but the rows differ in weight "
            "(given weights, or the logit link); use link='identity' without weights, or "
            "another regressor"
        )


CLASS = Estimator
