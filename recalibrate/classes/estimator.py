"""Estimator: any scikit-learn regressor, fitted once per level set."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import as_base
from recalibrate.bases.wrappers import GraphBase, to_bytes
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import (
    BoostingDefaults,
    FitResult,
    Floats,
    FunctionClass,
    Reasons,
    StepContext,
    choose_columns,
)
from recalibrate.core.part import Part, PendingStep, Sums
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema, Table
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, find_column
from recalibrate.files.document import GraphBytes
from recalibrate.support.checks import ModelFileError
from recalibrate.support.hashing import mix

# --- What there is to know of scikit-learn estimators without importing scikit-learn ------------


LARGEST_SEED = 2**32 - 1


def weight_argument(estimator: Any) -> str | None:
    """The argument of ``fit`` that takes the weights; None if there is none."""
    parameters = inspect.signature(estimator.fit).parameters.values()
    if any(p.name == "sample_weight" for p in parameters):
        return "sample_weight"
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    if getattr(estimator, "steps", None) and _routing():  # to the steps that request it
        return "sample_weight"
    if getattr(estimator, "steps", None):  # a pipeline hands it to the step that is named
        step, last = estimator.steps[-1]
        inner = weight_argument(last) if hasattr(last, "fit") else None
        return inner and f"{step}__{inner}"
    nested = getattr(estimator, "estimator", None)  # a search hands it on to what it searches
    return None if nested is None else weight_argument(nested)


def fit_arguments(
    estimator: Any, params: Mapping[str, Any], weight: NDArray[np.float64] | None
) -> dict[str, Any]:
    """What to call ``fit`` with: further arguments, and the weights if the estimator takes them.

    With scikit-learn's metadata routing the estimator gets what it requests, under the names that
    it requests. An estimator that says nothing about weights gets them, as without routing; a
    pipeline asks its steps, and refuses those that say nothing in scikit-learn's words.
    """
    if not _routing():
        name = None if weight is None else weight_argument(estimator)
        return dict(params) if name is None else {**params, name: weight}
    from sklearn.utils.metadata_routing import (
        MetadataRouter,
        MethodMapping,
        get_routing_for_object,
    )

    requests = getattr(getattr(get_routing_for_object(estimator), "fit", None), "requests", {})
    mapping = MethodMapping().add(caller="fit", callee="fit")
    router = MetadataRouter(owner="recalibrate").add(estimator=estimator, method_mapping=mapping)
    router.validate_metadata(params=params, method="fit")
    # Weights count in the recalibration, whether the estimator requests them or not.
    weights = {} if weight is None else {"sample_weight": weight}
    silent = weights if requests.get("sample_weight", False) is None else {}
    given = params if silent else {**weights, **params}
    routed = router.route_params(params=given, caller="fit")
    return {**silent, **routed["estimator"]["fit"]}


def _routing() -> bool:
    """Whether scikit-learn's metadata routing is switched on."""
    sklearn = sys.modules.get("sklearn")
    return sklearn is not None and bool(sklearn.get_config().get("enable_metadata_routing"))


def seed_estimator(estimator: Any, *salts: int) -> None:
    """Give it a number wherever it, or a part of it, would draw one by chance."""
    open_seeds = [
        name
        for name, value in sorted(estimator.get_params(deep=True).items())
        if value is None and name.split("__")[-1] == "random_state"
    ]
    if open_seeds:
        drawn = mix(np.arange(len(open_seeds), dtype=np.uint64), *salts) % np.uint64(LARGEST_SEED)
        estimator.set_params(**dict(zip(open_seeds, drawn.tolist(), strict=True)))


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

    def pace(self, link: str) -> BoostingDefaults:
        """Fewer and larger steps: every one is a fit of a regressor for every level set."""
        return BoostingDefaults(step=0.3, patience=5)

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

    def bind(self, columns: Columns, *, index: int = 0) -> _EstimatorLearner:
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
        return _EstimatorLearner(self, Matrix(tuple(names)), index)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Turns a table into a plain float32 matrix."""

    kind = "estimator"
    names: tuple[str, ...]

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.float32]:
        return table.select(self.names).matrix()


@dataclass(frozen=True, eq=False)
class _RowsOf:
    """Statistic: the rows themselves (not a sum: an Estimator sees them all)."""

    draft: PendingStep
    encoder: int

    def of(self, part: Part) -> Sums:
        f = part.margin(self.draft.model, self.draft.output)
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
class _EstimatorLearner:
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

    def learn(self, task: StepContext) -> FitResult:
        from joblib import Parallel, delayed

        gathered = list(task.source.each(_RowsOf(task.draft, self.index)))
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
        return FitResult(EstimatorTable(tuple(models), task.limit), skipped)

    @staticmethod
    def _response(
        task: StepContext, y: Scores, f: Scores, weight: NDArray[np.int64]
    ) -> tuple[Scores, Scores]:
        """What to fit and with which weights: labels, residuals, or Newton's working response."""
        # A regressor's own penalties are in units of the weights as the user gave them.
        mass = weight / task.source.scale.weight_factor
        if task.draft.replace:
            return y, mass
        family = task.draft.model.family
        g, h = family.slopes(y, f)
        if not family.newton:
            return g, mass
        hessian = np.maximum(h, 2.0**-40 if family.positive else 1e-6)
        return np.clip(g / hessian, -family.step_limit, family.step_limit), mass * hessian

    def _fit(self, task: StepContext, level: int, X: Block, response: Scores, mass: Scores) -> Any:
        from sklearn.base import clone

        model = clone(self.spec.regressor)
        seed_estimator(model, task.seed, len(task.draft.model.steps), level)
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
        return _best_multiple(model, X, response, mass) if self.spec.affine else model


def _best_multiple(model: Any, X: Block, response: Scores, mass: Scores) -> Any:
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


# --- Regressors of ``Estimator(...)`` in a file: as the ONNX graphs that their adapter makes ----


COMPARED_ROWS = 500
TOLERANCE = 1e-4
"""Graphs of regressors work in float32: equality to the last bit is not to be had."""


@dataclass(frozen=True)
class _SavedDescription:
    """Stands for the regressor of a saved ``Estimator(...)``, which cannot be fitted again."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class _SavedRegressor:
    """A fitted regressor that came out of a file."""

    graph: GraphBase

    @classmethod
    def of(cls, content: bytes) -> _SavedRegressor:
        """The regressor of a graph's bytes."""
        return cls(GraphBase(content, "identity", "a regressor of Estimator()", None, False))

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return self.graph.scores(X)

    def as_base(self) -> GraphBase:
        """The regressor as a base model, for those who want its graph."""
        return self.graph


def _make_regressor(graph: bytes, factor: float, shift: float) -> _SavedRegressor | Affine:
    saved = _SavedRegressor.of(graph)
    return saved if (factor, shift) == (1.0, 0.0) else Affine(saved, factor, shift)


REGRESSOR = codec.Record(
    Affine,
    {
        "graph": GraphBytes("a regressor"),
        "factor": codec.number(-1e12, 1e12),
        "shift": codec.number(-1e12, 1e12),
    },
    without=("model",),
    absent={"shift": 0.0},
    take=lambda own: {**vars(own), "graph": own.model.graph.content},
    make=_make_regressor,
)


def _check_matrix(encoder: Matrix, schema: Schema) -> None:
    """Refuse a matrix of columns that the model does not have."""
    for name in encoder.names:
        find_column(schema, name)
    if not encoder.names or len(set(encoder.names)) < len(encoder.names):
        raise ModelFileError("a matrix needs columns, each once")


def _check_regressors(table: EstimatorTable, encoder: Matrix, levels: int) -> None:
    """Refuse regressors for other level sets."""
    if len(table.models) != levels:
        raise ModelFileError(
            f"there must be one regressor (or null) for each of {levels} level sets"
        )


def _convert_regressors(table: EstimatorTable, encoder: Matrix) -> EstimatorTable:
    """The table with every regressor as its graph, and its factor."""

    def convert(model: Any) -> Affine | None:
        own = scale(model, 1.0)
        return None if own.model is None else replace(own, model=_convert(own.model, width))

    width = len(encoder.names)
    return replace(table, models=tuple(convert(model) for model in table.models))


def _convert(model: Any, n_columns: int) -> _SavedRegressor:
    name = type(model).__name__
    advice = (
        "Use another regressor, or H=Trees(...), Linear(...) or Groups(...). Pickled objects are "
        "never written, because loading them can run any code."
    )
    rows = _generated_rows(n_columns)
    base = as_base(model)
    base.scores(rows)  # an adapter may have to see rows before it trusts its graph
    graph = base.graph()
    if graph is None:
        raise TypeError(f"H=Estimator({name}) cannot be saved: {base.why_no_graph}. {advice}")
    saved = _SavedRegressor.of(to_bytes(graph))
    worst = _largest_difference(model, saved, rows)
    if not worst <= TOLERANCE:
        raise TypeError(
            f"H=Estimator({name}) cannot be saved: its ONNX graph differs from the regressor by "
            f"{worst:.2g} (relative). {advice}"
        )
    return saved


def _generated_rows(n_columns: int) -> NDArray[np.float32]:
    """Rows of several scales, some of them whole numbers like the codes of categories."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.integers(-2, 4, (COMPARED_ROWS, n_columns))
    rows = (rng.normal(size=(COMPARED_ROWS, n_columns)) * scale).astype(np.float32)
    rows[: COMPARED_ROWS // 5] = rng.integers(0, 20, (COMPARED_ROWS // 5, n_columns))
    return rows


def _largest_difference(model: Any, saved: _SavedRegressor, rows: NDArray[np.float32]) -> float:
    """Between the regressor and its graph, relative to the size of the predictions."""
    holes = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, np.float32(np.nan), rows)
    worst = 0.0
    for some in (rows, holes):
        try:
            native = np.asarray(model.predict(some), dtype=np.float64).ravel()
        except ValueError:  # a regressor that takes no missing values
            continue
        size = 1e-6 + float(np.abs(native).max())
        worst = max(worst, float(np.abs(native - saved.predict(some)).max()) / size)
    return worst


FILES = ClassFiles(
    spec=codec.Record(
        Estimator,
        {
            "regressor": replace(codec.text(), store=repr, load=_SavedDescription),
            "n_jobs": codec.whole(-codec.LARGEST),
        },
        absent={"affine": True, "exact": False},
    ),
    encoder_kind="matrix",
    encoder=codec.Record(Matrix),
    check_encoder=_check_matrix,
    table=codec.Record(
        EstimatorTable,
        {"models": codec.Items(codec.Optional(REGRESSOR)), "limit": codec.number(0.0)},
    ),
    check_table=_check_regressors,
    storable=_convert_regressors,
)


# --- A foreign regressor does not say why -------------------------------------------------------


class _EstimatorReasons(Reasons[EstimatorTable, Matrix]):
    """Which model it was, and no more."""

    def words(self, row: int) -> str:
        return "the level set's regressor"

    def parts(self) -> dict[str, Floats]:
        return {}


REASONS = _EstimatorReasons
