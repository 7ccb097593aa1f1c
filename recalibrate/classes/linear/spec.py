"""Linear: one linear regression per level set, from exact sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.leastsquares import Coefficients, fit_levels, no_products
from recalibrate.core.fixedpoint import INT64_BITS, RESPONSE_LIMIT_BITS, Scale, snap
from recalibrate.core.learning import FunctionClass, Lesson, Pace, Task, choose_columns
from recalibrate.core.levels import Link
from recalibrate.core.part import Draft, Part, Sums
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Table
from recalibrate.kernels import gram as kernels
from recalibrate.support.checks import check_number

UNIT_BITS = 15
UNIT = 1 << UNIT_BITS
"""Features are integers in units of 2**-15 of their range."""
WIDEST = 1 << 30
"""Values beyond this many units, far outside of the calibration rows, are clipped to it."""
MOST_INDICATORS = 32
LINEAR_PRIOR = 10.0
"""Ridge on the coefficients in a default fit."""


@dataclass(frozen=True)
class Linear(FunctionClass):
    """Linear functions of the features with an intercept.

    Numeric columns are centred at their median, scaled by a power of two into [-1, 1] and
    quantised to 2**-15; a missing value counts as the median and sets an indicator. Of a
    categorical column the 32 heaviest categories get an indicator each. Solved exactly for
    that table; collinear columns are left out.

    Parameters
    ----------
    features
        Columns to use; None means all.
    ridge
        Penalty on the squared coefficients of the scaled columns (not on the intercept).
    base_score
        Whether the base model's score is a feature too.

    Examples
    --------
    >>> from recalibrate import Linear
    >>> Linear(features=["age"], ridge=1.0)
    Linear(features=('age',), ridge=1.0, base_score=False)
    """

    kind = "linear"
    shorthand = ("linear",)
    features: Sequence[str] | None = None
    ridge: float = 0.0
    base_score: bool = False

    def pace(self, link: Link) -> Pace:
        """It cannot split on the score, and may get as many level sets as there are rows for."""
        return Pace(LINEAR_PRIOR, levels=(1, 3, None), step=0.3, patience=10)

    def bind(self, columns: Columns, *, index: int = 0) -> LinearLearner:
        """The class on some columns."""
        check_number("ridge of Linear", self.ridge, least=0.0)
        names = choose_columns(columns.schema, self.features, self.base_score)
        own = [
            term for terms in columns.each(partial(column_terms, columns), names) for term in terms
        ]
        return LinearLearner(self, Quantiser((Term("constant", ""), *own)), index)


@dataclass(frozen=True)
class Term:
    """One column of the design: constant, scaled value, missing flag or category flag."""

    kind: str
    name: str
    centre: float = 0.0
    factor: float = 0.0
    category: int = 0


@dataclass(frozen=True, eq=False)
class Quantiser:
    """Turns a table into integer columns in units of 2**-15."""

    kind = "linear"
    terms: tuple[Term, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Column that every term is made of; none: the constant."""
        return tuple(term.name for term in self.terms)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(label for label in self.labels if label))

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.int32]:
        out = np.empty((table.n_rows, len(self.terms)), dtype=np.int32)
        values: NDArray[np.float32] = np.empty(0, np.float32)
        read = ""
        for j, term in enumerate(self.terms):
            if term.kind == "constant":
                out[:, j] = UNIT
                continue
            if term.name != read:
                values, read = table.column(term.name), term.name
            if term.kind == "missing":
                out[:, j] = np.isnan(values) * UNIT
            elif term.kind == "category":
                out[:, j] = (values == term.category) * UNIT
            else:
                centred = np.where(np.isnan(values), 0.0, values.astype(np.float64) - term.centre)
                out[:, j] = np.clip(np.rint(centred * term.factor), -WIDEST, WIDEST)
        return out


def column_terms(columns: Columns, name: str) -> list[Term]:
    """Terms of a column."""
    if columns.column(name).kind == "categorical":
        weights = columns.category_weights(name)
        terms = [Term("missing", name)] if weights[0] else []
        heaviest = 1 + np.argsort(-weights[1:], kind="stable")[:MOST_INDICATORS]
        kept = sorted(int(code) for code in heaviest if weights[code] > 0)
        return terms + [Term("category", name, category=code) for code in kept]
    low, high, missing = columns.span(name)
    terms = [Term("missing", name)] if missing else []
    if np.isnan(low):
        return terms
    if not np.isfinite([low, high]).all():
        raise ValueError(
            f"column {name!r} holds infinite values, which a linear function cannot use; "
            "clip them, or leave the column out with features=[...]"
        )
    found = columns.distribution(name, lambda total: np.array([(total + 1) // 2]))
    if not len(found.values):  # all present values weigh next to nothing
        return terms
    reached = np.cumsum(found.mass)
    centre = float(found.values[np.searchsorted(reached, (reached[-1] + 1) // 2)])
    widest = max(high - centre, centre - low)
    if widest == 0.0:
        return terms
    fraction, exponent = np.frexp(widest)
    power = int(exponent) - (1 if fraction == 0.5 else 0)
    return [Term("value", name, centre, float(2.0 ** (UNIT_BITS - power))), *terms]


@dataclass(frozen=True, eq=False)
class Products:
    """Statistic: rows, sum s x x' and sum g x of every level set."""

    draft: Draft
    encoder: int
    levels: int
    terms: int

    def of(self, part: Part) -> Sums:
        sums = no_products(self.levels, self.terms)
        kernels.add_products(
            part.blocks[self.encoder],
            part.levels(self.draft),
            part.words(self.draft).ravel(),
            part.scale,
            np.array(bits_to_cut(part.scale), dtype=np.int64),
            *sums,
        )
        return sums


def bits_to_cut(scale: Scale) -> tuple[int, int, int, int]:
    """Bits taken off s, s x x', g and g x so that no product and no sum can overflow.

    Features have 15 bits and a sign; without weights and hessians nothing is cut off s x x'.
    """
    s_bits = 1 if scale.plain else scale.weight_bits + scale.hessian_bits
    s_cut = max(0, s_bits - (INT64_BITS - 2 * UNIT_BITS))
    product = s_bits - s_cut + 2 * UNIT_BITS
    gram_cut = max(0, product + scale.row_bits - INT64_BITS)
    g_bits = scale.weight_bits + scale.response_bits + RESPONSE_LIMIT_BITS
    g_cut = max(0, g_bits - (INT64_BITS - UNIT_BITS))
    cross_cut = max(0, g_bits - g_cut + UNIT_BITS + scale.row_bits - INT64_BITS)
    return s_cut, gram_cut, g_cut, cross_cut


@dataclass(frozen=True, eq=False)
class LinearTable(Coefficients):
    """Coefficients per level set, on the quantised columns."""

    kind = "linear"

    def update(self, block: Block, level: NDArray[np.int32], f: Scores, replaces: bool) -> Scores:
        out = np.empty(len(f))
        kernels.linear_update(
            block, level, self.present, self.coefficient, f, replaces, self.limit, out
        )
        return out


@dataclass(frozen=True, eq=False)
class LinearLearner:
    """:class:`Linear` bound to the columns of a table."""

    spec: Linear
    encoder: Quantiser
    index: int = field(default=0)

    @property
    def inexact(self) -> str:
        return f"ridge {self.spec.ridge:g} shrinks the coefficients" if self.spec.ridge else ""

    def learn(self, task: Task) -> Lesson:
        return fit_functions(task, self.index, len(self.encoder.terms), self.spec.ridge)


def fit_functions(
    task: Task, encoder: int, terms: int, ridge: float, kind: type[LinearTable] = LinearTable
) -> Lesson:
    """Least squares on all level sets; the encoder's first column is the constant."""
    products = Products(task.draft, encoder, task.levels, terms)
    s_cut, gram_cut, g_cut, cross_cut = bits_to_cut(task.source.scale)
    gram_unit = 2.0 ** (s_cut + gram_cut - 2 * UNIT_BITS)
    cross_unit = 2.0 ** (g_cut + cross_cut - UNIT_BITS)
    present, solved, skipped = fit_levels(task, products, ridge, gram_unit, cross_unit)
    # Snapped per quantised unit: coefficient * integer is then exact, and so are the sums.
    coefficient = snap(solved / UNIT)
    return Lesson(kind(present, coefficient, task.limit), skipped)


CLASS = Linear
