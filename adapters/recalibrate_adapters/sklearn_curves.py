"""Functions of one number as ONNX nodes, in float64: numpy's, and curves given by points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate_adapters.sklearn_writer import NotWrittenError, Writer

Floats = NDArray[np.float64]
Write = Callable[[Writer, str], str]


def interpolate(w: Writer, column: str, x: Floats, y: Floats) -> str:
    """Straight lines between ascending points, constant outside, as by `numpy.interp`."""
    if len(x) == 1:
        return w.op("Add", w.op("Mul", column, w.number(0.0)), w.number(float(y[0])))
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(np.diff(x) > 0, np.diff(y) / np.diff(x), 0.0)
    rows = np.column_stack([x[:-1], y[:-1], slopes])
    inside = w.clip(column, float(x[0]), float(x[-1]))
    found = w.op("Gather", w.constant(rows), w.place(column, x[1:-1]), axis=0)
    start, value, slope = (w.columns(found, [k]) for k in range(3))
    line = w.op("Add", w.op("Mul", slope, w.op("Sub", inside, start)), value)
    # The last point itself, which the line through it may miss in the last bit.
    at_end = w.op("GreaterOrEqual", column, w.number(float(x[-1])))
    return w.op("Where", at_end, w.number(float(y[-1])), line)


def polynomial(w: Writer, coefficients: Sequence[str | float], column: str) -> str:
    """Horner's rule, the highest power first; coefficients are numbers or tensors."""
    tensors = [c if isinstance(c, str) else w.number(c) for c in coefficients]
    total = tensors[0]
    for coefficient in tensors[1:]:
        total = w.op("Add", w.op("Mul", total, column), coefficient)
    return total


def softmax(w: Writer, logits: str) -> str:
    """Shares of classes."""
    return w.op("Softmax", logits, axis=1)


def named_function(function: Any) -> Write:
    """The nodes of a function of numpy or scipy; None is no function at all."""
    if function is None:
        return lambda w, column: column
    found = _functions().get(function)
    if found is None:
        name = getattr(function, "__name__", type(function).__name__)
        raise NotWrittenError(
            f"the function {name} is Python, which has no ONNX form (functions of numpy such as "
            "log1p, sqrt and exp have one)"
        )
    return found


@cache
def _functions() -> dict[Any, Write]:
    from scipy.special import expit, logit

    def one(operator: str) -> Write:
        return lambda w, x: w.op(operator, x)

    def scaled_log(base: float) -> Write:
        return lambda w, x: w.op("Div", w.op("Log", x), w.number(float(np.log(base))))

    return {
        np.log: one("Log"),
        np.exp: one("Exp"),
        np.sqrt: one("Sqrt"),
        np.abs: one("Abs"),
        np.negative: one("Neg"),
        np.reciprocal: one("Reciprocal"),
        np.floor: one("Floor"),
        np.ceil: one("Ceil"),
        np.rint: one("Round"),
        np.sign: one("Sign"),
        np.square: lambda w, x: w.op("Mul", x, x),
        np.log2: scaled_log(2.0),
        np.log10: scaled_log(10.0),
        np.log1p: log1p,
        np.expm1: expm1,
        np.tanh: _tanh,
        expit: lambda w, x: w.sigmoid(x),
        logit: _logit,
    }


def log1p(w: Writer, x: str) -> str:
    """log(1 + x); what rounding 1 + x loses of a small x is made good by its own error."""
    u = w.op("Add", x, w.number(1.0))
    error = w.op("Sub", x, w.op("Sub", u, w.number(1.0)))
    correction = w.op("Div", error, u)
    whole = w.op("Log", u)
    # At -1 and at infinity there is nothing to correct, and infinite minus infinite.
    fine = w.op("And", w.op("Greater", u, w.number(0.0)), w.op("Less", u, w.number(np.inf)))
    return w.op("Where", fine, w.op("Add", whole, correction), whole)


def expm1(w: Writer, x: str) -> str:
    """exp(x) - 1; near 0, where the difference cancels, by the series."""
    near = w.op("Less", w.op("Abs", x), w.number(1e-3))
    series = polynomial(w, [1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 0.0], x)
    return w.op("Where", near, series, w.op("Sub", w.op("Exp", x), w.number(1.0)))


def _tanh(w: Writer, x: str) -> str:
    doubled = w.sigmoid(w.op("Mul", x, w.number(2.0)))
    return w.op("Sub", w.op("Mul", doubled, w.number(2.0)), w.number(1.0))


def _logit(w: Writer, p: str) -> str:
    other = w.op("Sub", w.number(1.0), p)
    return w.op("Sub", w.op("Log", p), w.op("Log", other))


# Wichura (1988), Algorithm AS 241, PPND16: about 16 digits. Highest power first.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0),
)  # fmt: skip


def normal_quantile(w: Writer, p: str) -> str:
    """The number below which a standard normal variable lies with probability p."""

    def ratio(parts: Any, at: str) -> str:
        return w.op("Div", polynomial(w, parts[0], at), polynomial(w, parts[1], at))

    q = w.op("Sub", p, w.number(0.5))
    squared = w.op("Sub", w.number(0.180625), w.op("Mul", q, q))
    centre = w.op("Mul", q, ratio(_CENTRE, squared))
    least = w.op("Min", p, w.op("Sub", w.number(1.0), p))
    r = w.op("Sqrt", w.op("Neg", w.op("Log", least)))
    far = w.op("Greater", r, w.number(5.0))
    outer = w.op(
        "Where",
        far,
        ratio(_TAIL, w.op("Sub", r, w.number(5.0))),
        ratio(_MIDDLE, w.op("Sub", r, w.number(1.6))),
    )
    outer = w.op("Mul", outer, w.op("Sign", q))
    return w.op("Where", w.op("LessOrEqual", w.op("Abs", q), w.number(0.425)), centre, outer)
