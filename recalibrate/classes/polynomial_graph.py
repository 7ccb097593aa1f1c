"""Polynomials in a graph: products of quantised columns, then what linear functions do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from recalibrate.classes.linear import UNIT, WIDEST
from recalibrate.classes.linear_graph import FORM as LINEAR
from recalibrate.classes.linear_graph import use_linear, write_quantised
from recalibrate.classes.polynomial import Monomials, PolynomialTable
from recalibrate.graph.forms import Form, Place, Runner, Update


class _PolynomialForm(Form[PolynomialTable, Monomials]):
    """A polynomial per level set."""

    def update(self, table: PolynomialTable, encoder: Monomials, place: Place) -> Update:
        return use_linear(table, encoder, _write_monomials, place)

    def thresholds(
        self, encoder: Monomials, tables: Sequence[PolynomialTable]
    ) -> Iterator[tuple[str, float]]:
        return LINEAR.thresholds(encoder.linear, tables)


FORM = _PolynomialForm()


def _write_monomials(encoder: Monomials, runner: Runner) -> str:
    """The float64 columns of the design but for the constant."""
    builder = runner.builder
    columns = write_quantised(encoder.linear, runner)
    products, known = encoder.products - 1, len(encoder.linear.terms) - 1  # without the constant
    while len(products):
        # As many at once as are made of columns that are there; the first always is.
        ready = np.append((products < known).all(axis=1), False)
        some, products = np.split(products, [int(np.argmin(ready))])
        left, right = (builder.columns(columns, side) for side in some.T)
        product = builder.op("Mul", left, builder.op("Div", right, builder.number(UNIT)))
        units = builder.clip(builder.op("Round", product), -float(WIDEST), float(WIDEST))
        columns, known = builder.concat([columns, units]), known + len(some)
    return columns
