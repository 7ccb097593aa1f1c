"""A torch model as an ONNX graph, by whichever of torch's exporters can do it."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.scores import Link
from recalibrate.support.optional import require
from recalibrate_adapters.graphs import INNER, OPSET, as_vector, cast, constant, enclose

if TYPE_CHECKING:
    import onnx

_TYPES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "int64": "INT64",
}


Exporter = Callable[[Any, Any], "onnx.ModelProto"]


def exporters(model: Any) -> list[Exporter]:
    """The exporters that may know a kind of model, the best one first."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return [_export_program]
    if isinstance(model, torch.jit.ScriptModule):
        return [_export_trace]
    # The tracer is quick and needs no further package, but does not know control flow.
    return [_export_trace, _export_module]


def try_export(exporter: Exporter, model: Any, sample: Any) -> onnx.ModelProto | str:
    """The model as a graph, or why there is none.

    Parameters
    ----------
    exporter
        One of `exporters`.
    model : nn.Module, ScriptModule or ExportedProgram
        In eval mode.
    sample : Tensor
        Two rows: a batch of one may be taken for a constant.
    """
    try:
        with _quiet():
            return exporter(model, sample)
    except Exception as error:  # the model's own code runs here and may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        return f"torch cannot export the model to ONNX ({reason})"


def score_graph(
    exported: onnx.ModelProto, sample: Any, width: int | None, column: int | None, link: Link
) -> onnx.ModelProto:
    """An exported model with one input "X", float32 or int64, and one float64 output "score".

    Parameters
    ----------
    exported
        As the exporter made it.
    sample : Tensor
        Rows as the model takes them: their shape and type.
    width
        Number of outputs per row; None: one, without a dimension of its own.
    column
        Which of several outputs is the score; None: there is only one.
    link
        Whether several outputs are logits or probabilities.
    """
    from onnx import TensorProto, helper

    inner_input = INNER + exported.graph.input[0].name
    inner_output = INNER + exported.graph.output[0].name
    kind = getattr(TensorProto, _TYPES[str(sample.dtype).removeprefix("torch.")])
    outer = TensorProto.INT64 if kind == TensorProto.INT64 else TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("X", outer, ["N", *sample.shape[1:]])]
    before = [helper.make_node("Cast", ["X"], [inner_input], to=kind)]
    if column is None or width is None:
        after, constants = as_vector(inner_output)
    elif link == "identity":
        after, constants = _one_column(inner_output, column)
    else:
        after, constants = _log_odds(inner_output, column, width)
    return enclose(exported, inputs, before, after, constants)


def _one_column(source: str, column: int) -> tuple[list[Any], list[Any]]:
    from onnx import helper

    nodes = [
        cast(source, "outputs", "double"),
        helper.make_node("Gather", ["outputs", "column"], ["score"], axis=1),
    ]
    return nodes, [constant("column", np.int64(column))]


def _log_odds(source: str, column: int, width: int) -> tuple[list[Any], list[Any]]:
    """Log-odds of one class against the rest: z[c] - log(sum of exp(z) over the others)."""
    from onnx import helper

    make = helper.make_node
    others = np.delete(np.arange(width), column)
    nodes = [
        cast(source, "outputs", "double"),
        make("Gather", ["outputs", "column"], ["own"], axis=1),
        make("Gather", ["outputs", "others"], ["rest"], axis=1),
        make("ReduceMax", ["rest", "classes"], ["largest"], keepdims=1),
        make("Sub", ["rest", "largest"], ["shifted"]),
        make("Exp", ["shifted"], ["powers"]),
        make("ReduceSum", ["powers", "classes"], ["power"], keepdims=0),
        make("Log", ["power"], ["log_power"]),
        make("Squeeze", ["largest", "classes"], ["peak"]),
        make("Add", ["log_power", "peak"], ["against"]),
        make("Sub", ["own", "against"], ["score"]),
    ]
    constants = [
        constant("column", np.int64(column)),
        constant("others", others.astype(np.int64)),
        constant("classes", np.array([1], dtype=np.int64)),
    ]
    return nodes, constants


def _export_trace(model: Any, sample: Any) -> onnx.ModelProto:
    """By running the model once and writing down what it does."""
    import onnx
    import torch

    target = io.BytesIO()
    with warnings.catch_warnings():
        # The tracer only warns where it writes down one branch of several: an error for us.
        warnings.simplefilter("error", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        export: Callable[..., Any] = torch.onnx.export
        export(
            model,
            (sample,),
            target,
            dynamo=False,
            opset_version=OPSET,
            input_names=["X"],
            output_names=["outputs"],
            dynamic_axes={"X": {0: "N"}, "outputs": {0: "N"}},
        )
    return onnx.load_from_string(target.getvalue())


def _export_module(model: Any, sample: Any) -> onnx.ModelProto:
    """By torch.export, which refuses what it cannot follow."""
    import torch

    rows = {0: torch.export.Dim("N")}
    return _export_new(model, args=(sample,), dynamic_shapes=(rows,))


def _export_program(model: Any, sample: Any) -> onnx.ModelProto:
    return _export_new(model)


def _export_new(model: Any, **options: Any) -> onnx.ModelProto:
    import torch

    require("onnxscript", "torch")
    export: Callable[..., Any] = torch.onnx.export
    program = export(model, dynamo=True, opset_version=OPSET, verbose=False, **options)
    proto: onnx.ModelProto = program.model_proto
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' notes on themselves away from the user."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
