"""Linear functions in a file."""

from __future__ import annotations

import numpy as np

from recalibrate.classes.linear.spec import Linear, LinearTable, Quantiser, Term
from recalibrate.data.table import Schema
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, check_coefficients, find_column
from recalibrate.support.errors import ModelFileError

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


def check_functions(table: LinearTable, encoder: Quantiser, levels: int) -> None:
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
    check_table=check_functions,
)
