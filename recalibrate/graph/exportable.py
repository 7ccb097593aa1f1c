"""Before a fit: whether what comes out of it can become a graph."""

from __future__ import annotations

from typing import Any

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.classes import Estimator, Groups, Linear, Trees
from recalibrate.core.learning import SCORE_COLUMN, choose_columns
from recalibrate.data.columns import Columns
from recalibrate.graph.base import read_base
from recalibrate.graph.errors import ExportError
from recalibrate.graph.estimators import convert_regressor
from recalibrate.graph.inputs import plan_inputs
from recalibrate.groups.expressions import columns_of, parse

TRIAL_ROWS = 200


def check_exportable(base: Base, H: Any, problem: Problem) -> None:
    """Refuse a base model or a class that has no ONNX form; an `ExportError` says why."""
    schema = problem.table.schema
    own = schema.select([name for name in schema.names if name != SCORE_COLUMN])
    if isinstance(H, Groups):
        terms = [parse(term, own) for term in H.terms]
        names = list(dict.fromkeys(name for term in terms for name in columns_of(term)))
    elif isinstance(H, Trees | Linear | Estimator):
        names = choose_columns(problem.table.schema, _names(H.features), base_score=False)
    else:
        raise ExportError(
            f"H={H!r} has no ONNX form; use Trees(...), Linear(...), Groups(...) or Estimator(...)"
        )
    graph = read_base(base, None if problem.own_table else own.names)
    wanted = [own.columns[own.index(name)] for name in names]
    array = () if own.named else own.names
    plan_inputs(graph.inputs, wanted, array, own_table=problem.own_table)
    if isinstance(H, Estimator):
        _try_regressor(H, problem)


def _names(features: Any) -> tuple[str, ...] | None:
    return None if features is None else tuple(features)


def _try_regressor(H: Estimator, problem: Problem) -> None:
    """Fit a copy on a few rows and convert it: only a fitted one says whether it can be."""
    from sklearn.base import clone

    learner = H.bind(Columns.of(problem.table))
    rows = slice(0, TRIAL_ROWS)
    block = learner.encoder.encode(problem.table.take(rows))
    trial = clone(H.regressor).fit(block, problem.labels.values[rows])
    convert_regressor(trial, block.shape[1])
