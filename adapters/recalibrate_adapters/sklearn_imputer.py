"""SimpleImputer inside of models that skl2onnx converts.

onnxruntime has no Imputer for float64, and skl2onnx leaves indicator columns out. Imputed numbers
in float32 would put rows on the wrong side of splits that follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.sklearn_nodes import OperatorNodes


def convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an imputer of numbers; one of texts is left to skl2onnx."""
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    if not _is_numeric(operator):
        get_converter(operator.type)(scope, operator, container)
        return
    nodes = OperatorNodes(scope, operator)
    wide = nodes.cast(nodes.concat([value.full_name for value in operator.inputs]), "float64")
    missing = nodes.op("IsNaN", wide)
    statistics = np.asarray(model.statistics_, dtype=np.float64)
    kept = np.flatnonzero(~np.isnan(statistics))
    values, gaps = nodes.constant(statistics[kept]), nodes.columns(missing, kept)
    parts = [nodes.op("Where", gaps, values, nodes.columns(wide, kept))]
    if model.add_indicator:
        flags = nodes.columns(missing, np.asarray(model.indicator_.features_))
        parts.append(nodes.cast(flags, "float64"))
    nodes.finish(container, nodes.concat(parts))


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
