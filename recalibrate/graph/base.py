"""The base model's graph inside of ours: its inputs, its nodes, its score on the link's scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from recalibrate.bases.protocol import Base, ScoreColumn
from recalibrate.bases.wrappers import Constant
from recalibrate.core.family import Family
from recalibrate.core.fixedpoint import VALUE_STEP
from recalibrate.core.levels import MARGIN_LIMIT, MARGIN_STEP, Link
from recalibrate.data.labels import NO_BOUNDS, Labels
from recalibrate.graph.facts import ABSENTS, is_known
from recalibrate.graph.inputs import MATRIX, BaseInputs, ExportError, Inputs
from recalibrate.support.notices import listed
from recalibrate.support.onnxgraph import (
    ABSENT,
    BASE_PREFIX,
    INVERSE,
    IR_VERSION,
    KNOWN,
    ML_DOMAIN,
    ML_OPSET,
    OPSET,
    VALUES,
    GraphBuilder,
    own_inputs,
)
from recalibrate.support.strictjson import parse


@dataclass(frozen=True, eq=False)
class BaseGraph:
    """A base model as the exporter sees it.

    Attributes
    ----------
    base
        The base model.
    proto
        Its graph; None for a constant and where scores are given.
    inputs
        What the graph takes.
    """

    base: Base
    proto: onnx.ModelProto | None
    inputs: BaseInputs


def read_base(base: Base, table_columns: tuple[str, ...] | None, outputs: int = 1) -> BaseGraph:
    """The graph of a base model, checked as far as merging needs it.

    ``table_columns`` are the columns of the table that the model was fitted on, for a base that
    takes it as it is; None if that was not the base's own table. ``outputs`` is the number of its
    scores.
    """
    if isinstance(base, ScoreColumn):
        return BaseGraph(base, None, BaseInputs(scores=outputs))
    if isinstance(base, Constant):
        return BaseGraph(base, None, BaseInputs())
    proto: Any = base.graph()
    if proto is None:
        raise ExportError(
            f"the base model ({base.name}) has no ONNX graph: {base.why_no_graph}. Fit on its "
            "scores instead of on the model: the graph then takes them as an input"
        )
    _check_versions(base, proto)
    if len(proto.graph.output) != 1:
        raise ExportError(_fault(base, f"{len(proto.graph.output)} outputs, not one"))
    taken = own_inputs(proto)
    facts = {fact.key: fact.value for fact in proto.metadata_props}
    values: Any = facts.get(VALUES, "any")
    known = _known(base, facts)
    names = base.columns()
    if len(taken) != 1 or (names == (taken[0].name,) and taken[0].name != "X"):
        columns = _columns(base, taken)
        return BaseGraph(base, proto, BaseInputs(columns=columns, values=values, known=known))
    shape, kind = _shape(taken[0]), _kind(base, taken[0])
    if kind not in ("float32", "float64") or len(shape) != 2:
        return BaseGraph(base, proto, BaseInputs(tensor=(kind, ("N", *shape[1:]))))
    names = names or table_columns
    if names is None and isinstance(shape[1], int):
        names = tuple(f"x{j}" for j in range(shape[1]))
    if names is None or shape[1] not in (len(names), *_dynamic(shape[1])):
        raise ExportError(
            _fault(base, f"a matrix of {shape[1]} columns, but it takes {listed(names or ())}")
        )
    # Columns of a matrix have numbers, which may be called otherwise in every table.
    own = {names[int(j)]: v for j, v in known.items() if j.isdigit() and int(j) < len(names)}
    absent = _absent(base, facts)
    inputs = BaseInputs(matrix=names, precision=kind, values=values, known=own, absent=absent)
    return BaseGraph(base, proto, inputs)


def _known(base: Base, facts: dict[str, str]) -> dict[str, tuple[Any, ...]]:
    """Categories of columns that take no others."""
    known = parse(facts.get(KNOWN, "{}").encode(), f"the graph of the base model ({base.name})")
    if not is_known(known):
        raise ExportError(_fault(base, f"damaged metadata: {KNOWN!r}"))
    return {name: tuple(taken) for name, taken in known.items()}


def _absent(base: Base, facts: dict[str, str]) -> float | None:
    """What an entry is that a sparse matrix does not store."""
    if ABSENT in facts and facts[ABSENT] not in ABSENTS:
        raise ExportError(_fault(base, f"damaged metadata: {ABSENT!r}"))
    return float(facts[ABSENT]) if ABSENT in facts else None


def _dynamic(size: int | str) -> tuple[str, ...]:
    return () if isinstance(size, int) else (size,)


def _columns(base: Base, taken: list[onnx.ValueInfoProto]) -> tuple[tuple[str, str], ...]:
    columns = tuple((value.name, _kind(base, value)) for value in taken)
    wanted = base.columns()
    if wanted is None or set(wanted) != {name for name, _ in columns}:
        raise ExportError(
            _fault(base, f"inputs {listed([n for n, _ in columns])}, but it takes {wanted!r}")
        )
    return columns


def _kind(base: Base, value: onnx.ValueInfoProto) -> str:
    kind = INVERSE.get(value.type.tensor_type.elem_type)
    if kind is None:
        raise ExportError(_fault(base, f"an input {value.name!r} of an unknown type"))
    return kind


def _shape(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    sizes = value.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in sizes)


def _check_versions(base: Base, proto: onnx.ModelProto) -> None:
    versions = {opset.domain: opset.version for opset in proto.opset_import}
    limits = {"": OPSET, ML_DOMAIN: ML_OPSET}
    for domain, most in limits.items():
        if versions.get(domain, 0) > most:
            raise ExportError(
                _fault(base, f"operators of {domain or 'ai.onnx'} {versions[domain]}, above {most}")
            )
    if proto.ir_version > IR_VERSION:
        raise ExportError(_fault(base, f"ir_version {proto.ir_version}, above {IR_VERSION}"))


def _fault(base: Base, what: str) -> str:
    return f"the graph of the base model ({base.name}) has {what}; this is a fault of its adapter"


def write_base(builder: GraphBuilder, graph: BaseGraph, inputs: Inputs) -> str | None:
    """The base model's score as it is, a float64 column [N, 1]; None for a constant.

    Of several classes a matrix, a column for each.
    """
    if graph.inputs.scores:
        given = inputs.ports[0].name
        return builder.column(given) if graph.inputs.scores == 1 else given
    if graph.proto is None:
        return None
    builder.include(graph.proto, BASE_PREFIX, _sources(builder, graph, inputs))
    output = graph.proto.graph.output[0]
    score = BASE_PREFIX + output.name
    if INVERSE.get(output.type.tensor_type.elem_type) != "float64":
        score = builder.cast(score, "float64")
    return builder.column(score) if len(_shape(output)) == 1 else score


def _sources(builder: GraphBuilder, graph: BaseGraph, inputs: Inputs) -> dict[str, str]:
    """Tensors for the inputs of the base's graph, made of ours."""
    taken = own_inputs(graph.proto) if graph.proto is not None else []
    if graph.inputs.tensor is not None:
        return {taken[0].name: MATRIX}
    if graph.inputs.matrix is not None:
        matrix = _matrix(builder, inputs, graph.inputs.matrix, graph.inputs.precision)
        return {taken[0].name: matrix}
    columns = graph.inputs.columns
    return {name: inputs.column(builder, inputs.base[name], kind) for name, kind in columns}


def _matrix(builder: GraphBuilder, inputs: Inputs, names: tuple[str, ...], kind: str) -> str:
    """The base's own matrix: our matrix, some columns of it, or columns put together."""
    places = [inputs.base[name] for name in names]
    first = inputs.ports[places[0][0]]
    if len({port for port, _ in places}) > 1 or first.shape[1:] == (1,):
        return builder.concat([inputs.column(builder, place, kind) for place in places])
    positions = [position for _, position in places]
    whole = positions == list(range(len(first.columns)))
    tensor = first.name if whole else builder.columns(first.name, positions)
    return tensor if first.kind == kind else builder.cast(tensor, kind)


def write_margin(
    builder: GraphBuilder, score: str, base: Base, labels: Labels, own: Family, *, clip: bool
) -> str:
    """The base score on the link's scale: `recalibrate.bases.problem.base_margin` as nodes."""
    if base.link == own.link and own.newton:
        if own.positive:
            score = builder.op("Sub", score, builder.number(float(np.log(labels.span))))
        return builder.snap(builder.clip(score, *own.range), VALUE_STEP)
    if base.link == "logit":
        score = builder.snap(builder.sigmoid(score), MARGIN_STEP)
    elif base.link == "log":
        score = builder.op("Exp", score)
    if labels.kind == "regression":
        shifted = builder.op("Sub", score, builder.number(labels.low))
        score = builder.op("Div", shifted, builder.number(labels.high - labels.low))
    if clip or own.link == "logit":
        score = builder.clip(score, 0.0, 1.0)
    if own.newton:
        if own.positive:
            score = builder.op("Max", score, builder.number(0.0))
        margin = builder.op("Log", score)
        if own.link == "logit":
            other = builder.op("Log", builder.op("Sub", builder.number(1.0), score))
            margin = builder.op("Sub", margin, other)
        return builder.snap(builder.clip(margin, *own.range), MARGIN_STEP)
    if clip:
        return score
    return builder.snap(builder.clip(score, -own.score_limit, own.score_limit), VALUE_STEP)


def write_means(builder: GraphBuilder, score: str, link: Link, outputs: int = 1) -> str:
    """Means of scores: `recalibrate.core.levels.from_margin` as nodes."""
    if link == "identity":
        return score
    if link == "log":
        return builder.op("Exp", score)
    return builder.sigmoid(score) if outputs == 1 else builder.softmax(score)


def write_bounds(builder: GraphBuilder, mean: str, labels: Labels) -> str:
    """Predictions inside of the bounds: `recalibrate.data.labels.Labels.within` as a node."""
    if labels.bounds == NO_BOUNDS:
        return mean
    return builder.op(
        "Clip", mean, *("" if b is None else builder.number(b) for b in labels.bounds)
    )


def write_class_scores(builder: GraphBuilder, scores: str, link: Link, outputs: int) -> list[str]:
    """Scores of classes as H sees them: `recalibrate.core.levels.to_class_scores` as nodes."""
    if link == "identity":
        z = builder.op("Log", scores)
    else:
        axis = builder.constant(np.array([1], dtype=np.int64))
        z = builder.op("Sub", scores, builder.op("ReduceMax", scores, axis, keepdims=1))
        total = builder.op("ReduceSum", builder.op("Exp", z), axis, keepdims=1)
        z = builder.op("Sub", z, builder.op("Log", total))
    z = builder.snap(builder.clip(z, -MARGIN_LIMIT, 0.0), MARGIN_STEP)
    return [builder.columns(z, [k]) for k in range(outputs)]


def constant_margin(value: float, rows: str, builder: GraphBuilder) -> str:
    """The same number for every row; ``rows`` is any input that says how many there are."""
    count = builder.op("Shape", rows, start=0, end=1)
    shape = builder.op("Concat", count, builder.constant(np.array([1], dtype=np.int64)), axis=0)
    return builder.op("Expand", builder.constant(np.array([[value]])), shape)
