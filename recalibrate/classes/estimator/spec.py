"""Estimator: any scikit-learn regressor, fitted once per level set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import (
    FunctionClass,
    Lesson,
    Pace,
    Task,
    choose_columns,
)
from recalibrate.core.part import Draft, Part, Sums
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Table
from recalibrate.support.estimators import seed_estimator, weight_argument

SAME = 1e-6
"""Slopes as near to 1 are 1: regressors may work in float32, as their rows are."""


@dataclass(frozen=True)
class Estimator(FunctionClass):
    """Any scikit-learn regressor as the class H.

    The general and slow way: one ``fit`` per level set and round, where :class:`Trees`,
    :class:`Linear` and :class:`Groups` need one pass for all. Categories arrive as numbers
    (their position in sorted order), missing values as NaN: regressors that cannot take them
    need a pipeline. Random regressors get a seed of their own for every step and level set,
    drawn from that of the fit, wherever ``random_state`` is None: the same fit twice is the same
    model. It is not promised to be the same for another order of the rows, or number of threads
    inside of the regressor.

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
    affine
        Replace the regressor h of every level set by a h + b with the least squared error there:
        the theory needs a class that contains these, and not every regressor's is one (ridge
        regression, averages of trees).
    exact
        Your word that the regressor minimises the squared error over its class exactly, as
        ``LinearRegression`` does: a certificate then builds on it.

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
    affine: bool = True
    exact: bool = False

    def pace(self, link: str) -> Pace:
        """Fewer and larger steps: every one is a fit of a regressor for every level set."""
        return Pace(step=0.3, patience=5)

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
class Affine:
    """A regressor whose predictions are multiplied and shifted."""

    model: Any
    factor: float = 1.0
    shift: float = 0.0

    def predict(self, X: Any) -> Any:
        return self.factor * np.asarray(self.model.predict(X), dtype=np.float64) + self.shift


def scale(model: Any, factor: float) -> Affine:
    """A regressor multiplied; a product of several factors is one."""
    own = model if isinstance(model, Affine) else Affine(model)
    return Affine(own.model, factor * own.factor, factor * own.shift)


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """:class:`Estimator` bound to the columns of a table."""

    spec: Estimator
    encoder: Matrix
    index: int = field(default=0)

    @property
    def inexact(self) -> str:
        if self.spec.exact:
            return ""
        return (
            f"{type(self.spec.regressor).__name__} is not known to minimise squared error exactly "
            "(Estimator(..., exact=True) says that it does)"
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
            delayed(self._fit)(task, v, block[level == v], response[level == v], mass[level == v])
            for v in occupied
        )
        models: list[Any] = [None] * task.levels
        for v, model in zip(occupied, fitted, strict=True):
            models[v] = model if task.step == 1 else scale(model, task.step)
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
        family = task.draft.log.family
        g, h = family.slopes(y, f)
        if not family.newton:
            return g, mass
        hessian = np.maximum(h, 2.0**-40 if family.positive else 1e-6)
        return np.clip(g / hessian, -family.step_limit, family.step_limit), mass * hessian

    def _fit(self, task: Task, level: int, X: Block, response: Scores, mass: Scores) -> Any:
        from sklearn.base import clone

        model = clone(self.spec.regressor)
        seed_estimator(model, task.seed, len(task.draft.log.steps), level)
        if np.all(mass == mass[0]):
            model = model.fit(X, response)
        else:
            argument = weight_argument(model)
            if argument is None:
                raise ValueError(
                    f"{type(model).__name__}.fit() takes no sample_weight, but the rows differ in "
                    "weight (given weights, or the logit link); use link='identity' without "
                    "weights, or another regressor"
                )
            model = model.fit(X, response, **{argument: mass})
        return best_multiple(model, X, response, mass) if self.spec.affine else model


def best_multiple(model: Any, X: Block, response: Scores, mass: Scores) -> Any:
    """A h + b with the least squared error on the rows; h itself where that is all but the same."""
    h = np.asarray(model.predict(X), dtype=np.float64).ravel()
    total = mass.sum()
    centre, mean = float(mass @ h / total), float(mass @ response / total)
    spread = float(mass @ (h - centre) ** 2 / total)
    size = float(np.abs(h).max(initial=0.0))
    if spread <= SAME**2 * size**2:  # a constant, which only a shift can make better
        slope = 1.0
    else:
        slope = float(mass @ ((h - centre) * (response - mean)) / total) / spread
    shift = mean - slope * centre
    if abs(slope - 1.0) <= SAME and abs(shift) <= SAME * max(size, SAME):
        return model
    return Affine(model, slope, shift)


CLASS = Estimator
