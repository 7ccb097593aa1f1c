"""Polynomials in a file."""

from __future__ import annotations

import numpy as np

from recalibrate.classes.linear.files import FILES as LINEAR
from recalibrate.classes.linear.files import check_terms
from recalibrate.classes.polynomial.spec import (
    DEGREES,
    MOST_COLUMNS,
    Monomials,
    Polynomial,
    PolynomialTable,
)
from recalibrate.data.table import Schema
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, check_coefficients
from recalibrate.support.errors import ModelFileError


def check_products(encoder: Monomials, schema: Schema) -> None:
    """Refuse products of columns that do not come before them."""
    with codec.located("linear"):
        check_terms(encoder.linear, schema)
    products = encoder.products
    if products.shape[1] != 2 or encoder.count > MOST_COLUMNS:
        raise ModelFileError(f"a design has at most {MOST_COLUMNS} columns, products are of two")
    known = len(encoder.linear.terms) + np.arange(len(products))[:, None]
    if ((products < 1) | (products >= known)).any():
        raise ModelFileError("a product is of a column that does not come before it")


def check_functions(table: PolynomialTable, encoder: Monomials, levels: int) -> None:
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
    check_encoder=check_products,
    table=codec.Record(PolynomialTable, LINEAR.table.special),
    check_table=check_functions,
)
