"""Before a fit: whether what comes out of it can become a graph."""

from __future__ import annotations

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.core.learning import FunctionClass, is_score
from recalibrate.graph.base import read_base
from recalibrate.graph.forms import form_of
from recalibrate.graph.inputs import plan_inputs


def check_exportable(base: Base, H: FunctionClass, problem: Problem) -> None:
    """Refuse a base model or a class that has no ONNX form; an `ExportError` says why."""
    schema = problem.table.schema
    own = schema.select([name for name in schema.names if not is_score(name)])
    form = form_of(H.kind)
    wanted = [own.columns[own.index(name)] for name in H.reads(own)]
    graph = read_base(base, None if problem.own_table else own.names)
    array = () if own.named else own.names
    plan_inputs(graph.inputs, wanted, array, own_table=problem.own_table)
    form.try_out(H, problem)
