"""A torch model as an ONNX graph, by whichever of torch's exporters can do it."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from recalibrate.scores import Link
from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.onnxgraph import OPSET, TYPES, GraphBuilder, value_info
from recalibrate.support.optional import require
from recalibrate_adapters.agreement import first_line
from recalibrate_adapters.classes import EVERY

if TYPE_CHECKING:
    import onnx

_TYPES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "int64": "INT64",
}
_SHAPES = "torch.fx.experimental.symbolic_shapes"
_INNER = "inner/"  # before all names of torch's own graph

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
    except SystemError:  # the tracer's warning, an error for us, inside of torch's own code
        return "torch cannot trace the model: what it does depends on the numbers in the rows"
    except ImportError as error:
        return f"torch's newer exporter, which knows more models, needs a package ({error})"
    except Exception as error:  # the model's own code runs here and may raise anything
        reraise_interruption(error)
        return f"torch cannot export the model to ONNX ({first_line(error)})"


def score_graph(
    exported: onnx.ModelProto, sample: Any, width: int | None, column: int | None, link: Link
) -> onnx.ModelProto:
    """An exported model with one input "X" and one float64 output "score".

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
    from onnx import TensorProto

    kind = str(sample.dtype).removeprefix("torch.")
    taken = kind if kind in TYPES else "float32"
    inputs = [value_info("X", taken, ["N", *sample.shape[1:]])]
    builder = GraphBuilder()
    source = builder.cast("X", getattr(TensorProto, _TYPES[kind]))
    builder.include(exported, _INNER, {exported.graph.input[0].name: source})
    score = _INNER + exported.graph.output[0].name
    if column is not None and width is not None:
        wide = builder.cast(score, "float64")
        score = builder.class_score(wide, column, width, logits=link == "logit")
        if column == EVERY:
            return builder.score_model(inputs, score, width=width)
    return builder.score_model(inputs, score)


def _export_trace(model: Any, sample: Any) -> onnx.ModelProto:
    """By running the model once and writing down what it does."""
    import onnx
    import torch

    target = io.BytesIO()
    with warnings.catch_warnings():
        # The tracer only warns where it writes down one branch of several: an error for us.
        tracing: Any = torch.jit  # its type hints do not name the warning
        warnings.simplefilter("error", tracing.TracerWarning)
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
    names = ("torch", "torch.onnx", "torch.export", "torch.fx", _SHAPES, "onnxscript", "onnx_ir")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        # What it could not follow is printed, too; the error says enough.
        sink = io.StringIO()
        with warnings.catch_warnings(), redirect_stdout(sink), redirect_stderr(sink):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
