"""SimpleImputer inside of models that skl2onnx converts.

onnxruntime has no Imputer for float64, and skl2onnx leaves indicator columns out. Imputed numbers
in float32 would put rows on the wrong side of splits that follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.graphs import cast, constant


def convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an imputer of numbers; one of texts is left to skl2onnx."""
    from onnx import helper
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    if not _is_numeric(operator):
        get_converter(operator.type)(scope, operator, container)
        return
    prefix = scope.get_unique_operator_name("imputer") + "/"
    kept = np.flatnonzero(~np.isnan(np.asarray(model.statistics_, dtype=np.float64)))
    constants = [
        constant(f"{prefix}values", np.asarray(model.statistics_, dtype=np.float64)[kept]),
        constant(f"{prefix}kept", kept.astype(np.int64)),
    ]
    nodes = [
        *_joined(operator, f"{prefix}all"),
        helper.make_node("IsNaN", [f"{prefix}all"], [f"{prefix}missing"]),
        helper.make_node("Gather", [f"{prefix}all", f"{prefix}kept"], [f"{prefix}present"], axis=1),
        helper.make_node(
            "Gather", [f"{prefix}missing", f"{prefix}kept"], [f"{prefix}gaps"], axis=1
        ),
        helper.make_node(
            "Where",
            [f"{prefix}gaps", f"{prefix}values", f"{prefix}present"],
            [f"{prefix}filled"],
        ),
    ]
    result = f"{prefix}filled"
    if model.add_indicator:
        result = f"{prefix}result"
        shown = np.asarray(model.indicator_.features_, dtype=np.int64)
        constants.append(constant(f"{prefix}shown", shown))
        flags = [f"{prefix}missing", f"{prefix}shown"]
        nodes += [
            helper.make_node("Gather", flags, [f"{prefix}flags"], axis=1),
            cast(f"{prefix}flags", f"{prefix}numbers", "double"),
            helper.make_node("Concat", [f"{prefix}filled", f"{prefix}numbers"], [result], axis=1),
        ]
    output = operator.outputs[0]
    double = type(output.type).__name__ == "DoubleTensorType"
    nodes.append(cast(result, output.full_name, "double" if double else "float"))
    container.nodes.extend(nodes)
    container.initializers.extend(constants)


def set_imputer_shape(operator: Any) -> None:
    """Shape of the output; columns without any value in training are dropped."""
    from skl2onnx.common._registration import get_shape_calculator

    if not _is_numeric(operator):
        get_shape_calculator(operator.type)(operator)
        return
    model = operator.raw_operator
    width = int((~np.isnan(np.asarray(model.statistics_, dtype=np.float64))).sum())
    width += len(model.indicator_.features_) if model.add_indicator else 0
    first = operator.inputs[0]
    operator.outputs[0].type = type(first.type)([first.get_first_dimension(), width])


def _is_numeric(operator: Any) -> bool:
    kinds = {type(value.type).__name__ for value in operator.inputs}
    missing = operator.raw_operator.missing_values
    by_nan = isinstance(missing, float) and np.isnan(missing)
    return by_nan and kinds in ({"DoubleTensorType"}, {"FloatTensorType"})


def _joined(operator: Any, target: str) -> list[Any]:
    """All inputs as one float64 matrix."""
    from onnx import helper

    names = [value.full_name for value in operator.inputs]
    joined = helper.make_node("Concat", names, [f"{target}/narrow"], axis=1)
    return [joined, cast(f"{target}/narrow", target, "double")]
