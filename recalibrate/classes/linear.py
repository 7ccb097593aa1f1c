"""Linear: one linear regression per level set, from exact sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.leastsquares import (
    COLLINEAR,
    Coefficients,
    check_systems,
    fit_levels,
    no_products,
)
from recalibrate.core.fixedpoint import INT64_BITS, Scale, snap
from recalibrate.core.learning import (
    BoostingDefaults,
    FitResult,
    Floats,
    FunctionClass,
    Reasons,
    StatsSource,
    StepContext,
    choose_columns,
)
from recalibrate.core.levels import Levels
from recalibrate.core.part import Part, PendingStep, Sums
from recalibrate.core.rounds import Block, Encoder, Rounds, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema, Table
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, check_coefficients, find_column
from recalibrate.kernels import gram as kernels
from recalibrate.support.checks import ModelFileError, check_number

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

    def pace(self, link: str) -> BoostingDefaults:
        """It cannot split on the score, and may get as many level sets as there are rows for."""
        return BoostingDefaults(LINEAR_PRIOR, levels=(1, 3, None), step=0.3, patience=10)

    def bind(self, columns: Columns, *, index: int = 0) -> LinearLearner:
        """The class on some columns."""
        check_number("ridge of Linear", self.ridge, least=0.0)
        encoder, rounding = self.design(columns)
        return LinearLearner(self.ridge, encoder, index, rounding=rounding)

    def design(self, columns: Columns) -> tuple[Quantiser, tuple[float, ...]]:
        """The columns of the functions, and by how much quantising changes each."""
        names = choose_columns(columns.schema, self.features, self.base_score)
        found = columns.each(partial(_column_terms, columns), names)
        own = [term for terms in found for term in terms.terms]
        rounding = (0.0, *(error for terms in found for error in terms.rounding))
        return Quantiser((Term("constant", ""), *own)), rounding


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
    def count(self) -> int:
        """Columns of the design."""
        return len(self.terms)

    @property
    def labels(self) -> tuple[str, ...]:
        """Column that every term is made of; none: the constant."""
        return tuple(term.name for term in self.terms)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.name for term in self.terms if term.kind != "constant"))

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.int32]:
        out = np.empty((table.n_rows, len(self.terms)), dtype=np.int32)
        values: NDArray[np.float32] = np.empty(0, np.float32)
        read: str | None = None  # a column may be called ''
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


class _Terms(NamedTuple):
    """Terms of a column, and by how much rounding changes each on the calibration rows."""

    terms: list[Term]
    rounding: list[float]

    @classmethod
    def exact(cls, terms: list[Term]) -> _Terms:
        """Flags and indicators."""
        return cls(terms, [0.0] * len(terms))


def _column_terms(columns: Columns, name: str) -> _Terms:
    """Terms of a column."""
    if columns.column(name).kind == "categorical":
        weights = columns.category_weights(name)
        terms = [Term("missing", name)] if weights[0] else []
        heaviest = 1 + np.argsort(-weights[1:], kind="stable")[:MOST_INDICATORS]
        kept = sorted(int(code) for code in heaviest if weights[code] > 0)
        return _Terms.exact(terms + [Term("category", name, category=code) for code in kept])
    low, high, missing = columns.span(name)
    terms = [Term("missing", name)] if missing else []
    if np.isnan(low):
        return _Terms.exact(terms)
    if not np.isfinite([low, high]).all():
        raise ValueError(
            f"column {name!r} holds infinite values, which a linear function cannot use; "
            "clip them, or leave the column out with features=[...]"
        )
    found = columns.distribution(name, lambda total: np.array([(total + 1) // 2]))
    reached = np.cumsum(found.mass)
    centre = float(found.values[np.searchsorted(reached, (reached[-1] + 1) // 2)])
    widest = max(high - centre, centre - low)
    if widest == 0.0:
        return _Terms.exact(terms)
    fraction, exponent = np.frexp(widest)
    power = int(exponent) - (1 if fraction == 0.5 else 0)
    factor = float(2.0 ** (UNIT_BITS - power))
    error = 0.5 / UNIT
    if found.known_anywhere:
        units = (found.values.astype(np.float64) - centre) * factor
        error = float(np.abs(units - np.rint(units)).max()) / UNIT
    return _Terms([Term("value", name, centre, factor), *terms], [error, *(0.0 for _ in terms)])


@dataclass(frozen=True, eq=False)
class Products:
    """Statistic: rows, sum s x x' and sum g x of every level set."""

    draft: PendingStep
    encoder: int
    levels: int
    terms: int
    bits: int = UNIT_BITS

    def of(self, part: Part) -> Sums:
        sums = no_products(self.levels, self.terms)
        kernels.add_products(
            part.blocks[self.encoder],
            part.levels(self.draft),
            part.words(self.draft).ravel(),
            part.scale,
            np.array(bits_to_cut(part.scale, self.bits), dtype=np.int64),
            *sums,
        )
        return sums


def bits_to_cut(scale: Scale, bits: int = UNIT_BITS) -> tuple[int, int]:
    """Bits taken off a row's s x x' and g x so that no sum can overflow.

    Features have 15 ``bits`` and a sign, on rows outside of the calibration rows' range more;
    without weights and hessians nothing is cut off s x x'.
    """
    s_bits = scale.mass_bits + scale.hessian_bits + scale.hessian_limit
    g_bits = scale.mass_bits + scale.response_bits + scale.response_limit
    gram_cut = max(0, s_bits + 2 * bits - INT64_BITS)
    return gram_cut, max(0, g_bits + bits - INT64_BITS)


@dataclass(frozen=True, eq=False)
class _Widths:
    """Statistic: rows by the bits that their widest column needs."""

    encoder: int

    def of(self, part: Part) -> Sums:
        block = part.blocks[self.encoder]
        widest = np.abs(block).max(axis=1) if len(block) else np.zeros(0, np.int32)
        return (np.bincount(np.frexp(widest)[1], minlength=INT64_BITS).astype(np.int64),)


def _bits_of(source: StatsSource, encoder: int) -> int:
    """Bits of the widest column of some rows, those of the calibration rows at least."""
    (rows,) = source.sums(_Widths(encoder))
    return max(UNIT_BITS, int(np.flatnonzero(rows).max(initial=0)))


def _lost_by_rounding(
    source: StatsSource,
    products: Products,
    rounding: Sequence[float],
    names: Sequence[str],
    B: float,
) -> tuple[float, str]:
    """Most that h = sum c_j x_j with h^2 <= B differs from the same of rounded columns.

    With r_j what the other columns leave of column j (root mean square), |c_j| is at most |h| / r_j
    in the mean square, and rounding changes h by sum |c_j| e_j; see ``docs/guarantees.md``.
    """
    _, (gram,), _ = source.sums(products)
    count = len(gram)
    moments = np.tril(gram) + np.tril(gram, -1).T
    moments = moments.astype(np.float64) / float(moments[0, 0])
    errors = np.asarray(rounding)
    # Columns without error first: of those that others explain, none is missed.
    order = np.argsort(errors > 0, kind="stable")
    kept: list[int] = []
    for j in order:
        left = _left_over(moments, kept, j)
        if left > COLLINEAR * moments[j, j] and moments[j, j] > 0:
            kept.append(int(j))
        elif errors[j] > 0 and moments[j, j] > 0:
            others = [names[k] for k in kept if names[k]]
            return inf, (
                f"column {names[j]!r} is a linear function of {others}, as far as rounding to "
                f"2^-{UNIT_BITS} of its range leaves a difference"
            )
    inverse = np.linalg.inv(moments[np.ix_(kept, kept)])
    share = float(errors[kept] @ np.sqrt(np.maximum(np.diag(inverse), 0.0))) if count else 0.0
    if share < 1:
        return share * sqrt(B) / (1.0 - share), ""
    worst = names[kept[int(np.argmax(errors[kept] * np.sqrt(np.diag(inverse))))]]
    return inf, (
        f"what column {worst!r} adds to the others depends on rounding to 2^-{UNIT_BITS} of its "
        "range: it is nearly a linear function of them, or has extreme values"
    )


def _left_over(moments: NDArray[np.float64], kept: list[int], j: int) -> float:
    """Mean square that columns leave of column j."""
    if not kept:
        return float(moments[j, j])
    solved = np.linalg.solve(moments[np.ix_(kept, kept)], moments[kept, j])
    return float(moments[j, j] - moments[j, kept] @ solved)


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


class _Design(Encoder, Protocol):
    """What turns a table into the quantised columns of a linear function, the constant first."""

    @property
    def count(self) -> int:
        """Columns of the design."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Every column of the design in words; none: the constant."""


@dataclass(frozen=True, eq=False)
class LinearLearner:
    """A class of linear functions of a design, bound to the columns of a table.

    ``rounding`` says by how much quantising changes every column of the design; ``table`` is what
    the coefficients are kept in.
    """

    ridge: float
    encoder: _Design
    index: int = 0
    bits: int = UNIT_BITS
    rounding: tuple[float, ...] = ()
    table: type[LinearTable] = LinearTable

    @property
    def inexact(self) -> str:
        return f"ridge {self.ridge:g} shrinks the coefficients" if self.ridge else ""

    def learn(self, task: StepContext) -> FitResult:
        count = self.encoder.count
        check_systems(task, count, f"{count} columns of a design", "columns of H")
        products = Products(task.draft, self.index, task.levels, count, self.bits)
        return _fit_functions(task, products, self.ridge, self.table)

    def for_rows(self, source: StatsSource) -> LinearLearner:
        """The same, with the bits that the rows need."""
        return replace(self, bits=_bits_of(source, self.index))

    def lost(self, source: StatsSource, B: float) -> tuple[float, str]:
        """See ``core.learning.Quantises``."""
        draft = PendingStep(Rounds("identity", None, (self.encoder,)), Levels.single(), True)
        products = Products(draft, self.index, 1, self.encoder.count)
        return _lost_by_rounding(source, products, self.rounding, self.encoder.labels, B)


def _fit_functions(
    task: StepContext, products: Products, ridge: float, kind: type[LinearTable] = LinearTable
) -> FitResult:
    """Least squares on all level sets; the encoder's first column is the constant."""
    gram_cut, cross_cut = bits_to_cut(task.source.scale, products.bits)
    gram_unit = 2.0 ** (gram_cut - 2 * UNIT_BITS)
    cross_unit = 2.0 ** (cross_cut - UNIT_BITS)
    present, solved, skipped = fit_levels(task, products, ridge, gram_unit, cross_unit)
    # Snapped per quantised unit: coefficient * integer is then exact, and so are the sums.
    coefficient = snap(solved / UNIT)
    return FitResult(kind(present, coefficient, task.limit), skipped)


CLASS = Linear


# --- Linear functions in a file -----------------------------------------------------------------


TERM = codec.Record(
    Term,
    {
        "kind": codec.choice("constant", "value", "missing", "category"),
        "centre": codec.number(-1e300, 1e300),
        "factor": codec.number(0.0, 2.0**300),
        "category": codec.whole(0, 1 << 24),
    },
)


def check_terms(encoder: Quantiser, schema: Schema) -> None:
    """Refuse terms that the columns do not have."""
    if not encoder.terms:
        raise ModelFileError("there are no terms")
    for k, term in enumerate(encoder.terms):
        with codec.located(f"terms[{k}]"):
            _check_term(term, schema)


def _check_term(term: Term, schema: Schema) -> None:
    if term.kind == "constant":
        if term.name:
            raise ModelFileError("the constant belongs to no column")
        return
    column = find_column(schema, term.name)
    if term.kind == "value" and (column.kind != "numeric" or term.factor == 0.0):
        raise ModelFileError(f"column {term.name!r} has no values that can be scaled")
    if term.kind == "category" and not 1 <= term.category <= len(column.categories):
        raise ModelFileError(f"column {term.name!r} has no category {term.category}")


def _check_functions(table: LinearTable, encoder: Quantiser, levels: int) -> None:
    """Refuse linear functions of other terms or level sets."""
    check_coefficients(table.present, table.coefficient, levels)
    if table.coefficient.shape[1] != len(encoder.terms):
        raise ModelFileError("a linear function needs one coefficient per term")


FILES = ClassFiles(
    spec=codec.Record(Linear, {"ridge": codec.number(0.0)}),
    encoder_kind="quantiser",
    encoder=codec.Record(Quantiser, {"terms": codec.Items(TERM)}),
    check_encoder=check_terms,
    table=codec.Record(
        LinearTable, {"coefficient": codec.Array(np.float64, 2), "limit": codec.number(0.0)}
    ),
    check_table=_check_functions,
)


# --- Why a linear function moved a row, in words ------------------------------------------------


class _LabelledDesign(Encoder, Protocol):
    """An encoder that makes the columns of a linear function."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What every column stands for; nothing: for the level set."""


class LinearReasons(Reasons[LinearTable, _LabelledDesign]):
    """The terms of a row's linear function."""

    additive = True

    @property
    def kind(self) -> str:
        return "line" if len(set(self.encoder.labels)) == 2 else self.table.kind

    @cached_property
    def _parts(self) -> dict[str, Floats]:
        coefficient = np.where(self.table.present[:, None], self.table.coefficient, 0.0)
        products = coefficient[self.level] * self.block
        added: dict[str, Floats] = {}
        for j, label in enumerate(self.encoder.labels):
            if label:
                added[label] = added.get(label, 0.0) + products[:, j]
        return added

    def words(self, row: int) -> str:
        return "a linear function" if self.table.present[self.level[row]] else ""

    def parts(self) -> dict[str, Floats]:
        return self._parts


REASONS = LinearReasons
