"""recalibrate export: a saved model to one ONNX graph, compared before it is written.

Write a saved model (.rcal) as one ONNX graph of the base model and all corrections. The graph is
run by onnxruntime and compared with the model on rows made for the purpose, and on those of
--data, before the file appears.

  recalibrate export model.rcal -o model.onnx
  recalibrate export model.rcal -o model.onnx --data rows.csv --decide "pinball(0.9)"
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from recalibrate.commands.console import Console
from recalibrate.commands.data import read_frame
from recalibrate.commands.models import base_scores, known_text, open_saved
from recalibrate.commands.options import Outputs, add_base, add_table
from recalibrate.support.strictjson import parse

SUMMARY = "write a recalibrated model as one ONNX graph"


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", metavar="MODEL", help="the saved model, .rcal")
    add_table(parser, required=False)
    add_base(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--out", metavar="FILE", required=True, help="the graph, .onnx")
    group.add_argument(
        "--inputs",
        choices=("auto", "matrix", "columns"),
        default="auto",
        help="one matrix, one input per column, or as the base model takes them (auto)",
    )
    group.add_argument("--decide", metavar="LOSS", help="add the output action: best for this loss")
    group.add_argument("--audit", metavar="FILE", help="audit (.json) to keep in the metadata")


def run(args: Namespace, console: Console) -> int:
    """Export."""
    outputs = Outputs(args.force, args.model, args.data, args.base, args.audit)
    path = outputs.plan("--out", args.out, ".onnx")
    audit = _audit_summary(args.audit)
    model = open_saved(args.model, args.base, trust=args.trust)
    frame = scores = None
    if args.data is not None:
        frame = read_frame(args.data, text=args.text, known_text=known_text(model))
        scores = base_scores(model, frame, args, args.data)
    console.step("exporting, and comparing the graph with the model")
    graph = model.to_onnx(
        path,
        frame,
        base=scores,
        inputs=args.inputs,
        decide=args.decide,
        audit=audit,
        overwrite=args.force,
    )
    inputs = ", ".join(value.name for value in graph.graph.input)
    found = ", ".join(value.name for value in graph.graph.output)
    console.say(f"wrote {path}: the graph gives what the model gives")
    console.say(f"  inputs   {inputs}\n  outputs  {found}")
    return 0


def _audit_summary(file: str | None) -> Any:
    """What an audit found, without the numbers of every group."""
    if file is None:
        return None
    try:
        content = parse(Path(file).read_bytes(), "it", finite=False)
        return {key: content[key] for key in ("verdict", "rows", "alpha", "overall")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file!r} is not an audit: write one with recalibrate audit --json ({error})"
        ) from error
