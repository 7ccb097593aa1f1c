"""One graph of a base model and its rounds."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnx

from recalibrate.bases.problem import Problem, base_margin
from recalibrate.bases.protocol import Base
from recalibrate.bases.wrappers import Constant
from recalibrate.core.learning import SCORE_COLUMN, FunctionClass, is_score, score_columns
from recalibrate.data.table import Column
from recalibrate.graph.base import (
    BaseGraph,
    constant_margin,
    read_base,
    write_base,
    write_bounds,
    write_class_scores,
    write_margin,
    write_means,
)
from recalibrate.graph.decisions import ACTION, describe_decision, write_action
from recalibrate.graph.features import Code, Columns, FeatureList, Number, Truth
from recalibrate.graph.forms import Runner, form_of
from recalibrate.graph.inputs import Inputs, Style, plan_inputs
from recalibrate.graph.updates import plan_updates
from recalibrate.groups.expressions import (
    And,
    Compare,
    Condition,
    In,
    IsMissing,
    Not,
    Or,
    codes_where,
)
from recalibrate.support.onnxgraph import GraphBuilder, value_info

if TYPE_CHECKING:
    from recalibrate.deciding import ClassDecision, Decision
    from recalibrate.model import Recalibrated


# --- Group expressions as nodes: the truth of a condition on every row --------------------------


_COMPARE = {
    "<": "Less",
    "<=": "LessOrEqual",
    ">": "Greater",
    ">=": "GreaterOrEqual",
    "==": "Equal",
}


def _write_truth(truth: Truth, columns: Columns) -> str:
    """A bool column [N, 1]; comparisons with a missing value are False, as in Python."""
    return _Writer({column.name: column for column in truth.columns}, columns).write(
        truth.condition
    )


class _Writer:
    def __init__(self, schema: dict[str, Column], columns: Columns) -> None:
        self.schema = schema
        self.columns = columns
        self.builder = columns.builder

    def write(self, node: Condition) -> str:
        if isinstance(node, And | Or):
            combine = "And" if isinstance(node, And) else "Or"
            parts = [self.write(operand) for operand in node.operands]
            return reduce(lambda a, b: self.builder.op(combine, a, b), parts)
        if isinstance(node, Not):
            return self.builder.op("Not", self.write(node.operand))
        if isinstance(node, IsMissing):
            return self.builder.op("IsNaN", self._column(node.column))
        if self.schema[node.column].kind == "categorical":
            return self._categories(node)
        return self._numbers(node)

    def _column(self, name: str) -> str:
        column = self.schema[name]
        return self.columns.column(Code(column) if column.kind == "categorical" else Number(name))

    def _categories(self, node: Compare | In) -> str:
        """Look the code up; NaN, which is missing or unknown, is at 0."""
        truth = codes_where(node, self.schema[node.column])
        codes = self._column(node.column)
        zero = self.builder.constant(np.zeros((), dtype=np.float32))
        known = self.builder.op("Where", self.builder.op("IsNaN", codes), zero, codes)
        return self.builder.op(
            "Gather", self.builder.constant(truth), self.builder.cast(known, "int64")
        )

    def _numbers(self, node: Compare | In) -> str:
        values = self._column(node.column)
        given = node.values if isinstance(node, In) else (node.value,)
        with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is in the column
            constants = np.array([float(v) for v in given]).astype(np.float32)
        if isinstance(node, Compare) and node.op != "!=":
            return self.builder.op(_COMPARE[node.op], values, self.builder.constant(constants[0]))
        equal = [
            self.builder.op("Equal", values, self.builder.constant(constant))
            for constant in constants
        ]
        found = reduce(lambda a, b: self.builder.op("Or", a, b), equal)
        if isinstance(node, In) and not node.negated:
            return found
        present = self.builder.op("Not", self.builder.op("IsNaN", values))
        return self.builder.op("And", present, self.builder.op("Not", found))


# --- Before a fit: whether what comes out of it can become a graph ------------------------------


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


FORMAT = "1"
"""Version of the file's conventions: names of inputs, outputs and metadata."""


def export_model(
    model: Recalibrated,
    *,
    inputs: Style = "auto",
    output: Literal["all", "score"] = "all",
    audit: Any = None,
    decision: Decision | ClassDecision | None = None,
) -> onnx.ModelProto:
    """The model as one ONNX graph, not yet compared with it.

    Parameters
    ----------
    model
        The model.
    inputs
        "matrix", "columns" or "auto", see :mod:`recalibrate.graph`.
    output
        "all" outputs, or just "score", float64 on the model's own scale (log-odds under the logit
        link, else means): what the graph of a base model has to give.
    audit
        A report, whose verdict is kept in the metadata, or a summary of your own: text, or anything
        that JSON can hold.
    decision
        Adds the output "action": the best action of every row.
    """
    return _Export(model, inputs, output, audit, decision).run()


@dataclass(eq=False)
class _Export:
    """One export."""

    model: Recalibrated
    style: Style
    output: str
    audit: Any
    decision: Decision | ClassDecision | None

    def __post_init__(self) -> None:
        schema = self.model.schema
        self.rounds = self.model.rounds
        self.own = schema.select([n for n in schema.names if not is_score(n)])

    def run(self) -> onnx.ModelProto:
        model, rounds = self.model, self.rounds
        features = FeatureList()
        updates = plan_updates(rounds, model.schema, features)
        columns_of = None if model.own_table else self.own.names
        base = self._by_position(read_base(model.base, columns_of, rounds.outputs))
        inputs = self._inputs(base)
        builder = GraphBuilder()
        score, margins = self._base(builder, base, inputs)
        columns = Columns(builder, inputs, margins, _write_truth)
        runner = Runner(columns, features.features, model.schema, rounds.family.score_limit)
        for update in updates:
            update.write(runner)
        unchanged = not rounds.steps and rounds.start is None
        last = builder.concat(runner.scores)
        mean = self._mean(builder, last, score if unchanged else None)
        outputs = self._outputs(builder, last, mean)
        ports = [value_info(p.name, p.kind, list(p.shape)) for p in inputs.ports]
        return builder.model(ports, outputs, self._metadata(inputs))

    def _by_position(self, base: BaseGraph) -> BaseGraph:
        """The columns of an array have one name each: H's, which are their numbers."""
        old, own = base.inputs.matrix, self.own.names
        if self.own.named or self.model.own_table or old is None or len(old) != len(own):
            return base
        known = {own[old.index(name)]: taken for name, taken in base.inputs.known.items()}
        return replace(base, inputs=replace(base.inputs, matrix=own, known=known))

    def _inputs(self, base: BaseGraph) -> Inputs:
        """Inputs for the columns that the model uses; all of an array's, found by position."""
        used = [n for encoder in self.rounds.encoders for n in encoder.names if not is_score(n)]
        wanted = [self.own.columns[self.own.index(name)] for name in dict.fromkeys(used)]
        array = () if self.own.named and not isinstance(base.base, Constant) else self.own.names
        return plan_inputs(
            base.inputs, wanted, array, style=self.style, own_table=self.model.own_table
        )

    def _base(
        self, builder: GraphBuilder, base: BaseGraph, inputs: Inputs
    ) -> tuple[str, dict[str, str]]:
        """Base scores as they are, and on the link's scale by the names that H knows them by."""
        model, link, outputs = self.model, self.rounds.link, self.rounds.outputs
        score = write_base(builder, base, inputs)
        if score is not None and outputs > 1:
            scores = write_class_scores(builder, score, model.base.link, outputs)
            names = score_columns(model.labels.classes)
            return score, dict(zip(names, scores, strict=True))
        if score is not None:
            own = self.rounds.family
            margin = write_margin(builder, score, model.base, model.labels, own, clip=model.clip)
            return score, {SCORE_COLUMN: margin}
        value = model.base.scores([None])
        start = base_margin(model.base, value, model.labels, link, 1, clip=model.clip)
        rows = inputs.ports[0].name
        names = score_columns(model.labels.classes) if outputs > 1 else [SCORE_COLUMN]
        constants = [constant_margin(each, rows, builder) for each in value.ravel().tolist()]
        margins = [constant_margin(each, rows, builder) for each in start.ravel().tolist()]
        return builder.concat(constants), dict(zip(names, margins, strict=True))

    def _mean(self, builder: GraphBuilder, score: str, base: str | None) -> str:
        """The prediction: the calibrated mean, or the base's own where nothing was changed."""
        labels, rounds = self.model.labels, self.rounds
        regression = labels.kind == "regression"
        if base is not None:
            mean = write_means(builder, base, self.model.base.link, rounds.outputs)
            return write_bounds(builder, mean, labels) if regression else mean
        mean = write_means(builder, score, rounds.family.link, rounds.outputs)
        if regression:
            mean = builder.clip(mean, 0.0, 1.0) if self.model.clip else mean
            scaled = builder.op("Mul", mean, builder.number(labels.span))
            mean = builder.op("Add", scaled, builder.number(labels.low))
            return write_bounds(builder, mean, labels)
        return mean if rounds.link == "logit" else builder.clip(mean, 0.0, 1.0)

    def _outputs(self, builder: GraphBuilder, score: str, mean: str) -> list[onnx.ValueInfoProto]:
        if self.rounds.outputs > 1:
            return self._class_outputs(builder, score, mean)
        regression = self.model.labels.kind == "regression"
        if self.output == "score":
            margins = self.rounds.link == "logit" and not regression
            builder.same(builder.flat(score if margins else mean), "score")
            return [value_info("score", "float64", ["N"])]
        outputs = []
        flat = builder.flat(mean)
        if not regression:
            above = builder.op("Greater", flat, builder.number(0.5))
            kind = self._label(builder, builder.cast(above, "int64"))
            other = builder.op("Sub", builder.number(1.0), mean)
            pair = [mean, other] if self._event_first else [other, mean]
            builder.same(builder.cast(builder.concat(pair), "float32"), "probabilities")
            outputs += [
                value_info("label", kind, ["N"]),
                value_info("probabilities", "float32", ["N", 2]),
            ]
        builder.same(builder.cast(flat, "float32"), "score")
        builder.same(builder.flat(score), "score_margin")
        outputs += [
            value_info("score", "float32", ["N"]),
            value_info("score_margin", "float64", ["N"]),
        ]
        return outputs + self._action(builder, mean)

    def _action(self, builder: GraphBuilder, mean: str) -> list[onnx.ValueInfoProto]:
        """The best action, if there is a decision."""
        if self.decision is None:
            return []
        action = builder.cast(write_action(builder, self.decision.rule, mean), "float32")
        builder.same(builder.flat(action), ACTION)
        return [value_info(ACTION, "float32", ["N"])]

    def _class_outputs(
        self, builder: GraphBuilder, score: str, mean: str
    ) -> list[onnx.ValueInfoProto]:
        """Outputs of a model of several classes."""
        count = self.rounds.outputs
        if self.output == "score":
            builder.same(score, "score")
            return [value_info("score", "float64", ["N", count])]
        score, mean = self._in_columns(builder, score), self._in_columns(builder, mean)
        best = builder.op("ArgMax", mean, axis=1, keepdims=0)
        kind = self._label(builder, best)
        builder.same(builder.cast(mean, "float32"), "probabilities")
        builder.same(score, "score_margin")
        return [
            value_info("label", kind, ["N"]),
            value_info("probabilities", "float32", ["N", count]),
            value_info("score_margin", "float64", ["N", count]),
            *self._action(builder, mean),
        ]

    @property
    def _event_first(self) -> bool:
        """Whether the class that counts as 1 is the first of two sorted ones."""
        labels = self.model.labels
        named = bool(labels.classes) and labels.chosen is None
        return named and labels.columns != labels.classes

    def _in_columns(self, builder: GraphBuilder, values: str) -> str:
        """Columns of several classes in the order of ``classes_``."""
        labels = self.model.labels
        if labels.columns == labels.classes:
            return values
        places = np.array([labels.classes.index(label) for label in labels.columns])
        return builder.op("Gather", values, builder.constant(places), axis=1)

    def _classes(self) -> dict[str, Any]:
        """Classes for the metadata in the order of the columns, if they have names.

        Of two the second counts as 1, unless it says otherwise.
        """
        labels = self.model.labels
        if not labels.classes:
            return {}
        if labels.chosen is not None:
            return {"classes": list(labels.classes), "chosen": labels.chosen}
        two = self._event_first and labels.kind != "classes"
        return {
            "classes": list(labels.columns),
            **({"positive": labels.classes[-1]} if two else {}),
        }

    def _label(self, builder: GraphBuilder, number: str) -> str:
        """The class of a number, in its own type, which is returned; whole numbers are int64."""
        labels = self.model.labels
        named = labels.columns if labels.kind == "classes" else labels.classes
        classes = np.array(named if labels.chosen is None else ())
        if classes.dtype.kind == "f" and (classes == np.round(classes)).all():
            classes = classes.astype(np.int64)
        if classes.dtype.kind == "b" and self._event_first:  # the number is that of the event
            classes = classes.astype(np.int64)
        kinds = {"U": "string", "i": "int64", "f": "float64"}
        if not len(classes) or classes.dtype.kind not in kinds:
            builder.same(number, "label")
            return "int64"
        kind = kinds[classes.dtype.kind]
        values = classes.astype(object) if kind == "string" else classes
        builder.same(builder.op("Gather", builder.constant(values), number, axis=0), "label")
        return kind

    def _metadata(self, inputs: Inputs) -> dict[str, str]:
        from recalibrate import __version__

        model = self.model
        widest = max(
            (s.partition.count for s in self.rounds.steps if s.partition is not None), default=1
        )
        facts = {
            "recalibrate_format": FORMAT,
            "recalibrate_version": __version__,
            "base": model.base.name,
            "base_link": model.base.link,
            "link": self.rounds.link,
            "labels": json.dumps(
                {
                    "kind": model.labels.kind,
                    "low": model.labels.low,
                    "high": model.labels.high,
                    **self._classes(),
                    **({"exposed": True} if model.labels.exposed else {}),
                }
            ),
            "H": repr(model.H),
            "levels": str(widest),
            "rounds": str(model.n_rounds_),
            "learners": str(model.n_learners_),
            "training_rows": str(model.n_rows),
            "own_table": json.dumps(model.own_table),
            "inputs": json.dumps([port.to_dict() for port in inputs.ports]),
            "columns": json.dumps(
                {
                    "named": self.own.named,
                    "names": self.own.names,
                    # Where tables have their columns that the fitted array had by position.
                    "order": None if self.own.named else model.base.columns(),
                }
            ),
        }
        origin = model.provenance
        if origin is not None:
            facts |= {
                "fitted_version": origin.version,
                "fitted_date": origin.date,
                "calibration_data": origin.data,
                "base_fingerprint": origin.base,
                "seed": str(origin.seed),
            }
        facts["model_fingerprint"] = model.fingerprint_
        if self.decision is not None:
            facts["decision"] = describe_decision(self.decision)
        if self.audit is not None:
            facts["audit"] = _summary_of(self.audit)
        return facts


def _summary_of(audit: Any) -> str:
    """What the metadata say of an audit: of a report its verdict, else what was given."""
    if isinstance(audit, str):
        return audit
    verdict = getattr(audit, "verdict", None)
    if isinstance(verdict, str):
        return verdict
    try:
        return json.dumps(audit)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"audit={type(audit).__name__} cannot be kept in a graph's metadata ({error}). Give a "
            "report of recalibrate.audit, a text, or what JSON can hold, such as report.to_dict()."
        ) from None
