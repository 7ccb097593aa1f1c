"""ONNX graphs of scikit-learn models: converted by skl2onnx, then put into our form.

A converter's result is a proposal; `recalibrate_adapters.agreement` decides whether it is right.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recalibrate.scores import Base
from recalibrate_adapters.agreement import Candidate
from recalibrate_adapters.frames import column_feed, numbers, text_columns
from recalibrate_adapters.graphs import (
    INNER,
    InputKind,
    as_vector,
    cast,
    constant,
    enclose,
    value_info,
)
from recalibrate_adapters.runtime import Feed
from recalibrate_adapters.sklearn_converters import own_converters, own_shapes
from recalibrate_adapters.treeops import RewriteError, rewrite_trees

if TYPE_CHECKING:
    import onnx
    import pandas as pd

Width = Literal["double", "float"]

_ML_OPSET_OF_CONVERTERS = 3


@dataclass(frozen=True)
class Wanted:
    """Which output of a converted model is the score.

    Attributes
    ----------
    classifier
        Whether the model has a label and one output per class; else it has one output.
    position
        The class.
    raw
        Whether decision_function is wanted rather than probabilities.
    n_classes
        Number of classes.
    """

    classifier: bool
    position: int = 0
    raw: bool = False
    n_classes: int = 0


def propose(model: Any, wanted: Wanted, tail: Base | None, frame: pd.DataFrame,
            named: bool) -> Iterator[Candidate | str]:  # fmt: skip
    """Graphs of a model for rows like these, the most accurate first; texts say what failed.

    Parameters
    ----------
    model
        A fitted model of scikit-learn.
    wanted
        Its output.
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
        yield "the model has text columns without names, which a graph's inputs need"
        return
    if "score" in frame.columns:
        yield 'the model has a column called "score", which is the name of the output'
        return
    kinds: dict[str, InputKind] = {
        str(name): "string" if name in texts else "float" for name in frame.columns
    }
    layouts: list[dict[str, InputKind] | None] = [kinds] if texts else [None, kinds]
    for use_tail in [True, False] if tail is not None else [False]:
        for layout in layouts if named else [None]:
            for width in ("double", "float"):
                try:
                    yield _candidate(
                        model, wanted, tail if use_tail else None, layout, frame.shape[1], width
                    )
                except Exception as error:  # converters raise whatever they come across
                    yield f"skl2onnx cannot convert it: {_summary(error)}"


def _candidate(
    model: Any,
    wanted: Wanted,
    tail: Base | None,
    layout: dict[str, InputKind] | None,
    n_columns: int,
    width: Width,
) -> Candidate:
    source = model[:-1] if tail is not None else model
    converted = _convert(source, wanted, layout, n_columns, width)
    if layout is None:
        inputs = [value_info("X", "float", n_columns)]
        before = [cast("X", f"{INNER}X", width)]
    else:
        inputs = [value_info(name, kind, 1) for name, kind in layout.items()]
        before = [_pass(name, kind, width) for name, kind in layout.items()]
    if tail is not None:
        after, constants = _tail_nodes(converted.graph.output[0].name, tail)
    else:
        tensor = _score_tensor(converted, wanted)
        after, constants = _score_nodes(tensor, wanted)
    graph = enclose(converted, inputs, before, after, constants)
    feed = _matrix_feed if layout is None else partial(_columns_feed, kinds=layout)
    return Candidate(graph, feed)


def _convert(
    model: Any,
    wanted: Wanted,
    layout: Mapping[str, InputKind] | None,
    n_columns: int,
    width: Width,
) -> onnx.ModelProto:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    number = DoubleTensorType if width == "double" else FloatTensorType
    if layout is None:
        types = [("X", number([None, n_columns]))]
    else:
        types = [
            (name, StringTensorType([None, 1]) if kind == "string" else number([None, 1]))
            for name, kind in layout.items()
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own dependencies and unrelated options
        converted = convert_sklearn(
            model,
            initial_types=types,
            options={id(_last_step(model)): {"raw_scores": True}} if wanted.raw else None,
            target_opset={"": 18, "ai.onnx.ml": _ML_OPSET_OF_CONVERTERS},
            custom_conversion_functions=own_converters(),
            custom_shape_calculators=own_shapes(),
        )
    return rewrite_trees(_without_unused(converted))


def _last_step(model: Any) -> Any:
    """The model whose options count."""
    from sklearn.pipeline import Pipeline

    return _last_step(model[-1]) if isinstance(model, Pipeline) else model


def _without_unused(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without labels, which would keep operators alive that nothing needs."""
    import onnx

    from recalibrate_adapters.graphs import needed_nodes

    result = onnx.ModelProto()
    result.CopyFrom(model)
    label = "label" in model.graph.output[0].name and len(model.graph.output) > 1
    outputs = [value.name for value in model.graph.output[1 if label else 0 :]]
    kept = needed_nodes(list(model.graph.node), outputs)
    del result.graph.node[:]
    result.graph.node.extend(kept)
    return result


def _score_tensor(model: onnx.ModelProto, wanted: Wanted) -> str:
    if not wanted.classifier:
        return str(model.graph.output[0].name)
    name = model.graph.output[1].name
    for node in model.graph.node:
        if node.op_type == "ZipMap" and name in node.output:
            return str(node.input[0])
    return str(name)


def _score_nodes(tensor: str, wanted: Wanted) -> tuple[list[Any], list[Any]]:
    from onnx import helper

    source = INNER + tensor
    if not wanted.classifier:
        return as_vector(source)
    position = constant("score_class", np.array(wanted.position, dtype=np.int64))
    nodes = [helper.make_node("Gather", [source, position.name], ["score_column"], axis=1)]
    last, more = as_vector("score_column")
    return [*nodes, *last], [position, *more]


def _tail_nodes(tensor: str, tail: Base) -> tuple[list[Any], list[Any]]:
    """The graph of a pipeline's last step, on the output of the steps before it."""
    import onnx
    from onnx import helper

    graph = tail.graph()
    if not isinstance(graph, onnx.ModelProto) or len(graph.graph.input) != 1:
        raise RewriteError("the last step has no graph that takes a matrix")
    inner = onnx.compose.add_prefix(graph, "tail_").graph
    nodes = [
        cast(INNER + tensor, inner.input[0].name, "float"),
        *inner.node,
        helper.make_node("Identity", [inner.output[0].name], ["score"]),
    ]
    return nodes, list(inner.initializer)


def _pass(name: str, kind: InputKind, width: Width) -> Any:
    from onnx import helper

    if kind == "string":
        return helper.make_node("Identity", [name], [INNER + name])
    return cast(name, INNER + name, width)


def _matrix_feed(frame: pd.DataFrame) -> Feed:
    columns = [numbers(str(name), frame[name]) for name in frame.columns]
    return np.stack(columns, axis=1).astype(np.float32)


def _columns_feed(frame: pd.DataFrame, kinds: Mapping[str, InputKind]) -> Feed:
    return column_feed(frame, kinds)


def _summary(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return f"{type(error).__name__}: {text}"[:300]
