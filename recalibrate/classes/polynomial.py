"""Polynomial: linear functions of columns and of products of columns, from exact sums."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.linear import FILES as LINEAR
from recalibrate.classes.linear import (
    UNIT,
    WIDEST,
    Linear,
    LinearLearner,
    LinearReasons,
    LinearTable,
    Quantiser,
    check_terms,
)
from recalibrate.core.learning import BoostingDefaults, FunctionClass
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema, Table
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, check_coefficients
from recalibrate.support.checks import ModelFileError, check_number

DEGREES = 2, 3
MOST_COLUMNS = 300
"""Columns of the design: a row takes 4 bytes for each, and a round the time of their square."""
ROWS_AT_ONCE = 4096
"""Rows whose products are made together; they stay in a processor's cache."""
_NAMED = re.compile(r"\s*\w+\s*=(?!=)")


@dataclass(frozen=True)
class Polynomial(FunctionClass):
    """Polynomials of the numeric columns with an intercept.

    The design has the columns of :class:`Linear` (numeric columns, flags of missing values,
    indicators of categories) and all products of two (``degree=3``: also of three) numeric
    columns, squares (and cubes) included. Flags and indicators are not multiplied: for functions
    that differ by category take :class:`Groups` or :class:`Trees`.

    Numeric columns are centred at their median and scaled by a power of two into [-1, 1], as in
    :class:`Linear`, then multiplied, and every product is again quantised to 2**-15. Least squares
    is exact over this class of quantised products, whose sums are those of integers, so that models
    are the same for any number of threads, blocks and order of rows, and in a graph.

    Parameters
    ----------
    features
        Columns to use; None means all. At most 300 columns of the design: 22 numeric columns
        alone have 276 for degree 2, 10 have 286 for degree 3.
    degree
        Most factors of a product, 2 or 3.
    ridge
        Penalty on the squared coefficients of the scaled columns (not on the intercept).
    base_score
        Whether the base model's score is a numeric column too.

    Examples
    --------
    >>> from recalibrate import Polynomial
    >>> Polynomial(features=["age", "hours"])
    Polynomial(features=('age', 'hours'), degree=2, ridge=0.0, base_score=False)
    """

    kind = "polynomial"
    shorthand = ("polynomial", "polynomial(age, hours, degree=2)")
    features: Sequence[str] | None = None
    degree: int = 2
    ridge: float = 0.0
    base_score: bool = False

    @classmethod
    def read(cls, arguments: Sequence[str], text: str) -> Polynomial:
        """The class from its arguments in a short text; those without a name are columns."""
        columns = [each for each in arguments if not _NAMED.match(each)]
        named = [each for each in arguments if _NAMED.match(each)]
        if columns:
            named.append(f"features=[{', '.join(columns)}]")
        return super().read(named, text)

    def pace(self, link: str) -> BoostingDefaults:
        """As for linear functions."""
        return self._linear.pace(link)

    def bind(self, columns: Columns, *, index: int = 0) -> LinearLearner:
        """The class on some columns."""
        if not isinstance(self.degree, int | np.integer) or self.degree not in DEGREES:
            raise ValueError(f"Polynomial(degree=...) must be 2 or 3, got {self.degree!r}")
        check_number("ridge of Polynomial", self.ridge, least=0.0)
        linear, rounding = self._linear.design(columns)
        monomials = Monomials(linear, self._products(linear))
        return LinearLearner(
            self.ridge,
            monomials,
            index,
            rounding=monomials.rounding(rounding),
            table=PolynomialTable,
        )

    @property
    def _linear(self) -> Linear:
        """The class without products."""
        return Linear(self.features, self.ridge, self.base_score)

    def _products(self, linear: Quantiser) -> NDArray[np.int32]:
        """Pairs of columns to be multiplied: numeric ones, then their products with one more."""
        numeric = [j for j, term in enumerate(linear.terms) if term.kind == "value"]
        first = len(linear.terms)
        count = first + sum(comb(len(numeric) + d - 1, d) for d in range(2, self.degree + 1))
        if count > MOST_COLUMNS:
            smaller = "degree=2" if self.degree > DEGREES[0] else "Linear(...)"
            raise ValueError(
                f"Polynomial(degree={self.degree}) of {len(numeric)} numeric columns and "
                f"{first - 1 - len(numeric)} indicators has {count} columns in its design, more "
                f"than {MOST_COLUMNS}; name fewer columns in features=[...], or take {smaller}"
            )
        products: list[tuple[int, int]] = []
        highest = [(j, j) for j in numeric]  # column of the design, and its last factor
        for _ in range(2, self.degree + 1):
            higher = []
            for column, last in highest:
                for j in numeric[numeric.index(last) :]:
                    higher.append((first + len(products), j))
                    products.append((column, j))
            highest = higher
        return np.array(products, np.int32).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class Monomials:
    """Turns a table into integer columns in units of 2**-15: those of a quantiser, and products.

    ``products[k]`` are the two columns before it that the k-th of the further columns is made of.
    """

    kind = "polynomial"
    linear: Quantiser
    products: NDArray[np.int32]

    @property
    def names(self) -> tuple[str, ...]:
        return self.linear.names

    @property
    def count(self) -> int:
        """Columns of the design."""
        return len(self.linear.terms) + len(self.products)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every column of the design in words; none: the constant."""
        factors = [Counter([label]) for label in self.linear.labels]
        for a, b in self.products:
            factors.append(factors[a] + factors[b])
        return tuple(
            " * ".join(name if power == 1 else f"{name}^{power}" for name, power in own.items())
            for own in factors
        )

    def rounding(self, linear: Sequence[float]) -> tuple[float, ...]:
        """By how much rounding changes every column, from that of the linear ones."""
        errors = list(linear)
        for a, b in self.products:
            both = errors[a] + errors[b] + errors[a] * errors[b]
            errors.append(both + 0.5 / UNIT)
        return tuple(errors)

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.int32]:
        first, products = len(self.linear.terms), self.products.tolist()
        out = np.empty((table.n_rows, self.count), dtype=np.int32)
        out[:, :first] = self.linear.encode(table, threads)
        for start in range(0, len(out), ROWS_AT_ONCE):
            rows = out[start : start + ROWS_AT_ONCE]
            for k, (a, b) in enumerate(products, start=first):
                # In float64, as in a graph: exact on the calibration rows, and far outside of
                # them rounded the same everywhere.
                product = rows[:, a] * (rows[:, b] / UNIT)
                rows[:, k] = np.clip(np.rint(product), -WIDEST, WIDEST)
        return out


class PolynomialTable(LinearTable):
    """Coefficients per level set, on the quantised columns and products."""

    kind = "polynomial"


CLASS = Polynomial


# --- Polynomials in a file ----------------------------------------------------------------------


def _check_products(encoder: Monomials, schema: Schema) -> None:
    """Refuse products of columns that do not come before them."""
    with codec.located("linear"):
        check_terms(encoder.linear, schema)
    products = encoder.products
    if products.shape[1] != 2 or encoder.count > MOST_COLUMNS:
        raise ModelFileError(f"a design has at most {MOST_COLUMNS} columns, products are of two")
    known = len(encoder.linear.terms) + np.arange(len(products))[:, None]
    if ((products < 1) | (products >= known)).any():
        raise ModelFileError("a product is of a column that does not come before it")


def _check_functions(table: PolynomialTable, encoder: Monomials, levels: int) -> None:
    """Refuse polynomials of another design or level sets."""
    check_coefficients(table.present, table.coefficient, levels)
    if table.coefficient.shape[1] != encoder.count:
        raise ModelFileError("a polynomial needs one coefficient per term")


FILES = ClassFiles(
    spec=codec.Record(Polynomial, {"degree": codec.whole(*DEGREES), "ridge": codec.number(0.0)}),
    encoder_kind="monomials",
    encoder=codec.Record(
        Monomials, {"linear": LINEAR.encoder, "products": codec.Array(np.int32, 2)}
    ),
    check_encoder=_check_products,
    table=codec.Record(PolynomialTable, LINEAR.table.special),
    check_table=_check_functions,
)


# --- Why a polynomial moved a row, in words: as linear functions, of columns and of products ----


REASONS = LinearReasons
