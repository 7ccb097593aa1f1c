"""Brings a foreign graph to the operator versions that the rest of our graphs use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.onnxgraph import ML_DOMAIN, ML_OPSET, OPSET, pruned
from recalibrate_adapters.agreement import first_line
from recalibrate_adapters.treeops import RewriteError, rewrite_trees

if TYPE_CHECKING:
    import onnx


class ConversionError(Exception):
    """A graph cannot be brought to our versions; the message says why."""


def modernise(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """A copy in our versions, with only the nodes that a tensor needs.

    Labels and maps from classes are dropped with the nodes that make them. Operators of a newer
    version than ours are left as they are: new versions mostly add types of numbers, and a graph
    that means something else in our version is refused by onnxruntime or by its results.

    Raises
    ------
    ConversionError
        If an operator has no counterpart in our versions.
    """
    import onnx
    from onnx import version_converter

    result = pruned(model, [tensor])
    del result.graph.value_info[:]
    del result.graph.output[:]
    result.graph.output.append(onnx.ValueInfoProto(name=tensor))
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if versions.get(ML_DOMAIN, 0) > ML_OPSET:
        raise ConversionError(f"the graph uses {ML_DOMAIN} {versions[ML_DOMAIN]}, above {ML_OPSET}")
    try:
        result = rewrite_trees(result)
        if versions.get("", OPSET) < OPSET:
            result = version_converter.convert_version(result, OPSET)
    except RewriteError as error:
        raise ConversionError(f"the graph cannot be rewritten: {error}") from error
    except Exception as error:  # the converter raises plain RuntimeErrors
        reraise_interruption(error)
        raise ConversionError(
            f"the graph uses version {versions.get('')} of ONNX's operators, which cannot be "
            f"converted to version {OPSET}: {first_line(error)}"
        ) from error
    return result
