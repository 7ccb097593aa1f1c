"""Linear functions in a graph, in the order that Python adds in.

Products of coefficients and quantised columns are exact for rows near the calibration rows, in
any order; far outside they round, so that the order of the sum is kept: ``CumSum`` adds from left
to right in every runtime, which sums and matrix products do not promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.linear import UNIT, WIDEST, LinearTable, Quantiser, Term
from recalibrate.core.learning import is_score
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Encoder
from recalibrate.graph.features import feature_of
from recalibrate.graph.forms import Form, Place, Runner, Update
from recalibrate.support.onnxgraph import GraphBuilder

E = TypeVar("E", bound=Encoder)


class _LinearForm(Form[LinearTable, Quantiser]):
    """A linear function per level set."""

    def update(self, table: LinearTable, encoder: Quantiser, place: Place) -> Update:
        return use_linear(table, encoder, write_quantised, place)

    def thresholds(
        self, encoder: Quantiser, tables: Sequence[LinearTable]
    ) -> Iterator[tuple[str, float]]:
        for term in encoder.terms:
            if term.kind == "value":
                yield term.name, term.centre
                yield term.name, term.centre + 1.0 / term.factor


FORM = _LinearForm()


@dataclass(frozen=True, eq=False)
class _UseLinear(Update):
    """A linear function per level set, added to the score (cut at +-limit) or in its place.

    ``design`` writes the encoder's columns but for the constant, float64 [N, terms - 1].
    """

    encoder: Encoder
    design: Callable[[Any, Runner], str]
    levels: Levels
    coefficient: NDArray[np.float64]
    replaces: bool
    limit: float = inf

    def write(self, runner: Runner) -> None:
        columns = runner.once(self.encoder, self.design) if self.coefficient.shape[1] > 1 else None
        level = runner.level(self.levels)
        value = _write_function(runner.builder, columns, self.coefficient, level, runner.score)
        if self.replaces:
            runner.score = value
        else:
            runner.add(value, self.limit)


def use_linear(
    table: LinearTable, encoder: E, design: Callable[[E, Runner], str], place: Place
) -> _UseLinear:
    """A step with linear functions of the columns that ``design`` writes."""
    replaces = place.step.replace
    coefficient = np.where(table.present[:, None], table.coefficient, 0.0)
    if replaces and place.known is not None:
        # The constant term counts in units of a power of two: exact.
        coefficient[:, 0] = np.where(table.present, coefficient[:, 0], place.known / UNIT)
    for name in encoder.names:
        place.features.number(feature_of(name, place.schema))
    limit = inf if replaces else table.limit
    return _UseLinear(encoder, design, place.levels, coefficient, replaces, limit)


def write_quantised(encoder: Quantiser, runner: Runner) -> str:
    """The float64 columns of all terms but the constant, [N, terms - 1]."""
    builder = runner.builder
    kinds = ("value", "missing", "category")
    by_kind = {kind: [j for j, t in enumerate(encoder.terms) if t.kind == kind] for kind in kinds}
    parts, order = [], []
    for kind, chosen in by_kind.items():
        if not chosen:
            continue
        terms = [encoder.terms[j] for j in chosen]
        matrix = runner.columns.matrix([feature_of(term.name, runner.schema) for term in terms])
        parts.append(_quantise(builder, matrix, kind, terms, runner.score_limit))
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
    scores = all(is_score(term.name) for term in terms)
    if not scores:  # scores are never missing
        centred = builder.op("Where", builder.op("IsNaN", block), builder.number(0.0), centred)
    units = builder.op("Round", builder.op("Mul", centred, builder.constant(factor)))
    if scores and bool(np.all((score_limit + np.abs(centre)) * factor < WIDEST)):
        return units
    return builder.clip(units, -float(WIDEST), float(WIDEST))


def _write_function(
    builder: GraphBuilder,
    columns: str | None,
    coefficient: NDArray[np.float64],
    level: str | None,
    score: str,
) -> str:
    """Values [N, 1] of the linear function of every row's level set.

    ``columns`` is None where a constant is all there is; ``level`` holds the numbers of the
    level sets, [N] int64, and is None if there is only one; ``score`` says how many rows.
    """
    count = coefficient.shape[1]
    first, rest = coefficient[:, :1] * UNIT, coefficient[:, 1:]
    if level is None:
        zero = builder.op("Mul", score, builder.number(0.0))
        start = builder.op("Add", zero, builder.constant(first))
    else:
        start = builder.op("Gather", builder.constant(first), level, axis=0)
    if columns is None:
        return start
    weights = builder.constant(rest)
    if level is not None:
        weights = builder.op("Gather", weights, level, axis=0)
    products = builder.op("Mul", columns, weights)
    if count == 2:
        return builder.op("Add", products, start)
    sums = builder.op(
        "CumSum",
        builder.concat([start, products]),
        builder.constant(np.array(1, dtype=np.int64)),
    )
    return builder.columns(sums, [count - 1])
