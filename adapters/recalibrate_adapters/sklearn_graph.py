"""ONNX graphs of scikit-learn models: converted by skl2onnx, then put into our form.

A converter's result is a proposal; `recalibrate_adapters.agreement` decides whether it is right.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from recalibrate.scores import Base
from recalibrate.support.onnxgraph import (
    ML_DOMAIN,
    OPSET,
    SCORE,
    GraphBuilder,
    pruned,
    value_info,
)
from recalibrate_adapters.agreement import Candidate, first_line
from recalibrate_adapters.classes import EVERY
from recalibrate_adapters.forest import CALLED_SCORE, NO_NAMES
from recalibrate_adapters.frames import InputKind, column_feed, matrix_feed, text_columns
from recalibrate_adapters.sklearn_converters import own_converters, own_shapes
from recalibrate_adapters.sklearn_task import Task
from recalibrate_adapters.treeops import RewriteError, rewrite_trees

if TYPE_CHECKING:
    import onnx
    import pandas as pd

Width = Literal["float64", "float32"]

_INNER, _TAIL = "inner/", "tail/"  # before all names of converted graphs
_ML_OPSET_OF_CONVERTERS = 3


def propose(
    model: Any, task: Task, tail: Base | None, frame: pd.DataFrame, *, named: bool
) -> Iterator[Candidate | str]:
    """Graphs of a model for rows like these, the most accurate first; texts say what failed.

    Parameters
    ----------
    model
        A fitted model of scikit-learn.
    task
        Which of its outputs is the score.
    tail
        The last step of a pipeline, where its graph is known; only the steps before it are
        converted then.
    frame
        Rows, which tell numbers from text.
    named
        Whether the model knows the names of its columns.
    """
    texts = text_columns(frame)
    if texts and not named:
        yield NO_NAMES
        return
    if SCORE in frame.columns:
        yield CALLED_SCORE
        return
    kinds: dict[str, InputKind] = {
        str(name): "string" if name in texts else "float64" for name in frame.columns
    }
    layouts: list[dict[str, InputKind] | None] = [kinds] if texts else [None, kinds]
    for use_tail in [True, False] if tail is not None else [False]:
        for layout in layouts if named else [None]:
            widths: tuple[Width, ...] = ("float64", "float32")
            for width in widths:
                try:
                    yield _candidate(
                        model, task, tail if use_tail else None, layout, frame.shape[1], width
                    )
                except Exception as error:  # converters raise whatever they come across
                    yield f"skl2onnx cannot convert it: {first_line(error)}"


def _candidate(
    model: Any,
    task: Task,
    tail: Base | None,
    layout: dict[str, InputKind] | None,
    n_columns: int,
    width: Width,
) -> Candidate:
    source = model[:-1] if tail is not None else model
    converted = _convert(source, task, layout, n_columns, width)
    builder = GraphBuilder()
    if layout is None:
        inputs = [value_info("X", "float64", ["N", n_columns])]
        sources = {"X": builder.cast("X", width)}
    else:
        inputs = [value_info(name, kind, ["N", 1]) for name, kind in layout.items()]
        # By position: skl2onnx has its own spelling of names with spaces.
        sources = {
            value.name: name if kind == "string" else builder.cast(name, width)
            for value, (name, kind) in zip(converted.graph.input, layout.items(), strict=True)
        }
    builder.include(converted, _INNER, sources)
    if tail is not None:
        score = _write_tail(builder, _INNER + converted.graph.output[0].name, tail)
    elif task.position is None:
        score = _INNER + converted.graph.output[0].name
    elif task.position == EVERY:
        score = _INNER + _class_tensor(converted)
    else:
        score = builder.columns(_INNER + _class_tensor(converted), [task.position])
    feed = matrix_feed if layout is None else partial(column_feed, kinds=layout)
    outputs = len(task.classes or ()) if task.position == EVERY else 1
    return Candidate(builder.score_model(inputs, score, width=outputs), feed)


def _convert(
    model: Any,
    task: Task,
    layout: Mapping[str, InputKind] | None,
    n_columns: int,
    width: Width,
) -> onnx.ModelProto:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    number = DoubleTensorType if width == "float64" else FloatTensorType
    if layout is None:
        types = [("X", number([None, n_columns]))]
    else:
        types = [
            (name, StringTensorType([None, 1]) if kind == "string" else number([None, 1]))
            for name, kind in layout.items()
        ]
    raw = task.method == "decision_function"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own dependencies and unrelated options
        converted = convert_sklearn(
            model,
            initial_types=types,
            options={id(_last_step(model)): {"raw_scores": True}} if raw else None,
            target_opset={"": OPSET, ML_DOMAIN: _ML_OPSET_OF_CONVERTERS},
            custom_conversion_functions=own_converters(),
            custom_shape_calculators=own_shapes(),
        )
    return rewrite_trees(_without_label(converted))


def _last_step(model: Any) -> Any:
    """The model whose options count."""
    from sklearn.pipeline import Pipeline

    return _last_step(model[-1]) if isinstance(model, Pipeline) else model


def _without_label(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without labels, which would keep operators alive that nothing needs."""
    outputs = [value.name for value in model.graph.output]
    label = len(outputs) > 1 and "label" in outputs[0]
    return pruned(model, outputs[1:] if label else outputs)


def _class_tensor(model: onnx.ModelProto) -> str:
    """The tensor with one number per class."""
    name = model.graph.output[1].name
    for node in model.graph.node:
        if node.op_type == "ZipMap" and name in node.output:
            return str(node.input[0])
    return str(name)


def _write_tail(builder: GraphBuilder, tensor: str, tail: Base) -> str:
    """The graph of a pipeline's last step, on the output of the steps before it."""
    import onnx

    model = tail.graph()
    if not isinstance(model, onnx.ModelProto) or len(model.graph.input) != 1:
        raise RewriteError("the last step has no graph that takes a matrix")
    taken = model.graph.input[0]
    source = builder.cast(tensor, taken.type.tensor_type.elem_type)
    builder.include(model, _TAIL, {taken.name: source})
    return f"{_TAIL}{model.graph.output[0].name}"
