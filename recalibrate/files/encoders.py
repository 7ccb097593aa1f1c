"""Encoders in a file: what turns a table into the numbers that steps refer to."""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate.classes.estimator.spec import Matrix
from recalibrate.classes.groups.spec import GroupEncoder
from recalibrate.classes.linear.spec import Quantiser, Term
from recalibrate.core.rounds import Encoder
from recalibrate.data.bins import MOST_BINS, Bins, FeatureBins
from recalibrate.data.table import Column, Schema
from recalibrate.files.container import Arrays
from recalibrate.files.fields import Fields, number
from recalibrate.groups.groupset import GroupSet

MOST_FEATURES = 1 << 18
"""A packed tree node has 19 bits for the feature."""


def encode_encoder(encoder: Encoder, arrays: Arrays) -> dict[str, Any]:
    """An encoder for the header; its arrays go to ``arrays``."""
    if isinstance(encoder, Bins):
        return {
            "kind": "bins",
            "features": [
                {
                    "name": feature.name,
                    "edges": arrays.add(feature.edges),
                    "lookup": None if feature.lookup is None else arrays.add(feature.lookup),
                    "exact": bool(feature.exact),
                    "ordered": bool(feature.ordered),
                }
                for feature in encoder.features
            ],
        }
    if isinstance(encoder, Quantiser):
        return {
            "kind": "quantiser",
            "terms": [
                {
                    "kind": term.kind,
                    "name": term.name,
                    "centre": number(term.centre),
                    "factor": number(term.factor),
                    "category": int(term.category),
                }
                for term in encoder.terms
            ],
        }
    if isinstance(encoder, GroupEncoder):
        return {"kind": "groups", "groups": encoder.groups.to_dict()}
    if isinstance(encoder, Matrix):
        return {"kind": "matrix", "names": list(encoder.names)}
    raise TypeError(f"an encoder of type {type(encoder).__name__} cannot be saved")


def decode_encoder(fields: Fields, schema: Schema) -> Encoder:
    """An encoder of a file, whose columns must be those of the schema."""
    with fields:
        kind = fields.choice("kind", ("bins", "quantiser", "groups", "matrix"))
        if kind == "bins":
            entries = fields.items("features")
            if not 1 <= len(entries) <= MOST_FEATURES:
                raise fields.fault(
                    f"trees look at 1 to {MOST_FEATURES} columns, not {len(entries)}"
                )
            return Bins(tuple(_decode_feature(entry, schema) for entry in entries))
        if kind == "quantiser":
            terms = tuple(_decode_term(entry, schema) for entry in fields.items("terms"))
            if not terms:
                raise fields.fault("there are no terms")
            return Quantiser(terms)
        if kind == "groups":
            groups = GroupSet.from_dict(fields.raw("groups"))
            for column in groups.schema.columns:
                if _column(fields, schema, column.name).kind != column.kind:
                    raise fields.fault(f"groups take column {column.name!r} for {column.kind}")
            return GroupEncoder(groups)
        names = fields.texts("names")
        for name in names:
            _column(fields, schema, name)
        if not names or len(set(names)) < len(names):
            raise fields.fault("a matrix needs columns, each once")
        return Matrix(names)


def _column(fields: Fields, schema: Schema, name: str) -> Column:
    if name not in schema.names:
        raise fields.fault(f"the model has no column {name!r}")
    return schema.columns[schema.index(name)]


def _decode_feature(fields: Fields, schema: Schema) -> FeatureBins:
    with fields:
        column = _column(fields, schema, fields.text("name"))
        edges = fields.array("edges", np.float32)
        lookup = None if fields.is_null("lookup") else fields.array("lookup", np.int32)
        if np.isnan(edges).any() or not (edges[:-1] < edges[1:]).all():
            raise fields.fault("edges must be numbers that ascend")
        if (lookup is not None) != (column.kind == "categorical"):
            raise fields.fault(f"column {column.name!r} is {column.kind}, its bins are not")
        if lookup is None:
            if len(edges) + 1 > MOST_BINS:
                raise fields.fault(f"there are more than {MOST_BINS} bins")
        elif (
            len(edges)
            or len(lookup) != len(column.categories) + 1
            or lookup[0] != 0
            or not ((lookup >= 0) & (lookup <= MOST_BINS)).all()
        ):
            raise fields.fault(f"the bins of column {column.name!r} do not fit its categories")
        # Format version 1 had no orders.
        ordered = fields.has("ordered") and fields.flag("ordered")
        if ordered and lookup is None:
            raise fields.fault(f"column {column.name!r} has no categories to be in order")
        return FeatureBins(column.name, edges, lookup, fields.flag("exact"), ordered)


def _decode_term(fields: Fields, schema: Schema) -> Term:
    with fields:
        kind = fields.choice("kind", ("constant", "value", "missing", "category"))
        name = fields.text("name")
        centre = fields.number("centre", least=-1e300, most=1e300)
        factor = fields.number("factor", least=0.0, most=2.0**300)
        category = fields.whole("category", least=0, most=1 << 24)
        if kind == "constant":
            if name:
                raise fields.fault("the constant belongs to no column")
        else:
            column = _column(fields, schema, name)
            if kind == "value" and (column.kind != "numeric" or factor == 0.0):
                raise fields.fault(f"column {name!r} has no values that can be scaled")
            if kind == "category" and not 1 <= category <= len(column.categories):
                raise fields.fault(f"column {name!r} has no category {category}")
        return Term(kind, name, centre, factor, category)
