"""Linear functions as nodes, in the order that Python adds in.

Products of coefficients and quantised columns are exact for rows near the calibration rows, in
any order; far outside they round, so that the order of the sum is kept: ``CumSum`` adds from left
to right in every runtime, which sums and matrix products do not promise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.linear.spec import UNIT, WIDEST, Quantiser, Term
from recalibrate.core.learning import SCORE_COLUMN
from recalibrate.data.table import Schema
from recalibrate.graph.features import Columns, feature_of
from recalibrate.support.onnxgraph import GraphBuilder


def write_quantised(
    encoder: Quantiser, columns: Columns, schema: Schema, score_limit: float
) -> str:
    """The float64 columns of all terms but the constant, [N, terms - 1]."""
    builder = columns.builder
    kinds = ("value", "missing", "category")
    by_kind = {kind: [j for j, t in enumerate(encoder.terms) if t.kind == kind] for kind in kinds}
    parts, order = [], []
    for kind, chosen in by_kind.items():
        if not chosen:
            continue
        features = [feature_of(encoder.terms[j].name, schema) for j in chosen]
        terms = [encoder.terms[j] for j in chosen]
        parts.append(_quantise(builder, columns.matrix(features), kind, terms, score_limit))
        order += chosen
    joined = builder.concat(parts)
    if order != sorted(order):
        joined = builder.columns(joined, np.argsort(order))
    return joined


def _quantise(
    builder: GraphBuilder, block: str, kind: str, terms: list[Term], score_limit: float
) -> str:
    if kind == "missing":
        flag = builder.cast(builder.op("IsNaN", block), "float64")
        return builder.op("Mul", flag, builder.number(UNIT))
    if kind == "category":
        codes = builder.constant(np.array([[term.category for term in terms]], dtype=np.float32))
        flag = builder.cast(builder.op("Equal", block, codes), "float64")
        return builder.op("Mul", flag, builder.number(UNIT))
    centre = np.array([[term.centre for term in terms]])
    factor = np.array([[term.factor for term in terms]])
    centred = builder.op("Sub", builder.cast(block, "float64"), builder.constant(centre))
    scores = all(term.name == SCORE_COLUMN for term in terms)
    if not scores:  # scores are never missing
        centred = builder.op("Where", builder.op("IsNaN", block), builder.number(0.0), centred)
    units = builder.op("Round", builder.op("Mul", centred, builder.constant(factor)))
    if scores and bool(np.all((score_limit + np.abs(centre)) * factor < WIDEST)):
        return units
    return builder.clip(units, -float(WIDEST), float(WIDEST))


def write_linear(
    builder: GraphBuilder,
    quantised: str | None,
    coefficient: NDArray[np.float64],
    level: str | None,
    score: str,
) -> str:
    """Values [N, 1] of the linear function of every row's level set.

    ``quantised`` is None where a constant is all there is; ``level`` holds the numbers of the
    level sets, [N] int64, and is None if there is only one; ``score`` says how many rows.
    """
    count = coefficient.shape[1]
    first, rest = coefficient[:, :1] * UNIT, coefficient[:, 1:]
    if level is None:
        zero = builder.op("Mul", score, builder.number(0.0))
        start = builder.op("Add", zero, builder.constant(first))
    else:
        start = builder.op("Gather", builder.constant(first), level, axis=0)
    if quantised is None:
        return start
    weights = builder.constant(rest)
    if level is not None:
        weights = builder.op("Gather", weights, level, axis=0)
    products = builder.op("Mul", quantised, weights)
    if count == 2:
        return builder.op("Add", products, start)
    sums = builder.op(
        "CumSum",
        builder.concat([start, products]),
        builder.constant(np.array(1, dtype=np.int64)),
    )
    return builder.columns(sums, [count - 1])
