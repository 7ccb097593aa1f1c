"""Foreign regressors in a graph: all are evaluated, and the level set picks one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import as_base
from recalibrate.classes.estimator import Estimator, EstimatorTable, Matrix, scale
from recalibrate.core.fixedpoint import VALUE_STEP
from recalibrate.core.levels import Levels
from recalibrate.data.columns import Columns
from recalibrate.graph.features import feature_of
from recalibrate.graph.forms import Form, Place, Runner, Update
from recalibrate.graph.inputs import ExportError
from recalibrate.support.onnxgraph import GraphBuilder

PROBE_ROWS = TRIAL_ROWS = 200


class _EstimatorForm(Form[EstimatorTable, Matrix]):
    """A foreign regressor per level set."""

    def update(self, table: EstimatorTable, encoder: Matrix, place: Place) -> Update:
        return _UseEstimators(encoder.names, place.levels, table, place.step.replace)

    def thresholds(
        self, encoder: Matrix, tables: Sequence[EstimatorTable]
    ) -> tuple[tuple[str, float], ...]:
        return ()  # only the regressors know

    def try_out(self, H: Estimator, problem: Problem) -> None:
        """Fit a copy on a few rows and convert it: only a fitted one says whether it can be."""
        from sklearn.base import clone

        learner = H.bind(Columns.of(problem.table))
        rows = slice(0, TRIAL_ROWS)
        block = learner.encoder.encode(problem.table.take(rows))
        trial = clone(H.regressor).fit(block, problem.labels.values[rows])
        _convert(trial, block.shape[1])


FORM = _EstimatorForm()


@dataclass(frozen=True, eq=False)
class _UseEstimators(Update):
    """A foreign regressor per level set; those without one keep their score."""

    names: tuple[str, ...]
    levels: Levels
    table: EstimatorTable
    replaces: bool

    def write(self, runner: Runner) -> None:
        value, keeps = self._values(runner, runner.level(self.levels))
        if not self.replaces:
            runner.add(value, self.table.limit)
        elif keeps is None:
            runner.score = value
        else:
            runner.score = runner.builder.op("Where", keeps, runner.score, value)

    def _values(self, runner: Runner, level: str | None) -> tuple[str, str | None]:
        """Values [N, 1] of the regressor of every row's level set, 0 where there is none.

        The second result is a bool column that says where there is none; None if there are all.
        """
        builder = runner.builder
        features = [feature_of(name, runner.schema) for name in self.names]
        matrix = runner.columns.matrix(features)
        values = [
            _regress(builder, model, matrix, len(features), f"{builder.name('estimator')}/")
            for model in self.table.models
            if model is not None
        ]
        zero = builder.op("Mul", runner.score, builder.number(0.0))
        if not values:
            return zero, builder.op("Equal", zero, builder.number(0.0))
        every = builder.concat([zero, *values])
        # Column 0 is for level sets without a regressor.
        has = [model is not None for model in self.table.models]
        place = np.where(has, np.cumsum(has), 0)
        if level is None:
            return builder.columns(every, [int(place[0])]), None
        picked = builder.op("Gather", builder.constant(place.astype(np.int64)), level)
        picked = builder.column(picked)
        value = builder.op("GatherElements", every, picked, axis=1)
        if all(has):
            return value, None
        return value, builder.op("Equal", picked, builder.constant(np.array(0, dtype=np.int64)))


def _convert(model: Any, n_columns: int) -> onnx.ModelProto:
    """A fitted scikit-learn regressor on float32 columns as a graph, through its adapter."""
    base = as_base(model)
    # Adapters compare a graph with the model's own predictions before they hand it out; the
    # learner's real rows are compared by the parity gate.
    rows = np.random.default_rng(0).normal(1.0, 1.0, (PROBE_ROWS, n_columns))
    base.scores(rows.astype(np.float32))
    graph = base.graph()
    if not isinstance(graph, onnx.ModelProto):
        raise ExportError(
            f"{type(model).__name__}, a learner of Estimator(), cannot be converted to ONNX: "
            f"{base.why_no_graph}. Use another regressor, or Trees, Linear or Groups as H"
        )
    inputs = graph.graph.input
    if len(inputs) != 1:
        raise ExportError(
            f"{type(model).__name__}, a learner of Estimator(), takes {len(inputs)} inputs as a "
            f"graph, not one matrix of {n_columns} columns"
        )
    return graph


def _regress(builder: GraphBuilder, model: Any, matrix: str, n_columns: int, prefix: str) -> str:
    own = scale(model, 1.0)
    proto = _convert(own.model, n_columns)
    taken = proto.graph.input[0]
    source = builder.cast(matrix, taken.type.tensor_type.elem_type)
    builder.include(proto, prefix, {taken.name: source})
    value = builder.cast(builder.column(prefix + proto.graph.output[0].name), "float64")
    if own.factor != 1.0:
        value = builder.op("Mul", value, builder.number(own.factor))
    if own.shift != 0.0:
        value = builder.op("Add", value, builder.number(own.shift))
    return builder.snap(value, VALUE_STEP)
