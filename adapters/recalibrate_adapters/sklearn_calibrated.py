"""CalibratedClassifierCV as ONNX nodes: sigmoid, isotonic and temperature, over any model."""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.agreement import TOLERANCE
from recalibrate_adapters.sklearn_curves import Floats, interpolate, softmax
from recalibrate_adapters.sklearn_writer import Block, Method, NotWrittenError, Writer, unwrapped

FLOAT32_ERROR = 1e-6
"""What a probability may be off by that is computed from float32 numbers: some of their 2**-24."""

_AWAY_FROM_ZERO = 1e-12
"""Added to probabilities before their logarithm, as scikit-learn does."""


def write_calibrated(w: Writer, model: Any, block: Block, method: Method) -> str:
    """The mean over the calibrated classifiers."""
    if method != "predict_proba":
        raise NotWrittenError("a CalibratedClassifierCV gives probabilities only")
    return w.sum_of([_one(w, pair, block) for pair in model.calibrated_classifiers_])


def _one(w: Writer, pair: Any, block: Block) -> str:
    """One classifier with its calibrators."""
    count, known = len(pair.classes), len(pair.estimator.classes_)
    if known != count:
        raise NotWrittenError("a classifier inside has not seen all classes")
    by_margin = hasattr(unwrapped(pair.estimator), "decision_function")
    method: Method = "decision_function" if by_margin else "predict_proba"
    responses = w.outputs(pair.estimator, block, method)
    if pair.method == "temperature":
        if count == 2 and by_margin:
            responses = w.concat([w.op("Neg", responses), responses])
        elif not by_margin:
            responses = w.op("Log", w.op("Add", responses, w.number(_AWAY_FROM_ZERO)))
        beta = float(np.asarray(pair.calibrators[0].beta_).reshape(-1)[0])
        return softmax(w, w.op("Mul", responses, w.number(beta)))
    if count == 2:
        second = responses if by_margin else w.columns(responses, [1])
        return w.both(_curve(w, pair.calibrators[0], second))
    columns = [
        _curve(w, calibrator, w.columns(responses, [k]))
        for k, calibrator in enumerate(pair.calibrators)
    ]
    return _normalised(w, w.concat(columns), count)


def _curve(w: Writer, calibrator: Any, column: str) -> str:
    if hasattr(calibrator, "a_"):
        slope, shift = w.number(-float(calibrator.a_)), w.number(-float(calibrator.b_))
        return w.sigmoid(w.op("Add", w.op("Mul", column, slope), shift))
    x = np.asarray(calibrator.X_thresholds_, dtype=np.float64)
    y = np.asarray(calibrator.y_thresholds_, dtype=np.float64)
    # The curve keeps the precision of what it was fitted to: that of the classifier inside.
    widths = (calibrator.X_thresholds_.dtype.name, w.width)
    if "float32" in widths or w.reads_float32([column]):
        _check_slope(x, y)
    return interpolate(w, column, x, y)


def _check_slope(x: Floats, y: Floats) -> None:
    """Refuse a curve that turns rounding into differences that can be seen.

    An isotonic curve is all but a staircase. A classifier that adds and rounds in float32, as
    xgboost does, cannot be followed to the last bit, and beside a step that bit is worth the step.
    """
    steepest = float(np.max(np.diff(y) / np.maximum(np.diff(x), FLOAT32_ERROR), initial=0.0))
    if steepest * FLOAT32_ERROR > TOLERANCE:
        raise NotWrittenError(
            "its isotonic curves are so steep that the rounding of the float32 numbers of the "
            f"classifier inside changes probabilities by up to {steepest * FLOAT32_ERROR:.2g}; "
            "method='sigmoid' has a graph"
        )


def _normalised(w: Writer, columns: str, count: int) -> str:
    """Divided by their sum; even shares where all are zero."""
    total = w.op("ReduceSum", columns, w.constant(np.array([1], dtype=np.int64)), keepdims=1)
    none = w.op("Equal", total, w.number(0.0))
    safe = w.op("Where", none, w.number(1.0), total)
    return w.op("Where", none, w.number(1.0 / count), w.op("Div", columns, safe))
