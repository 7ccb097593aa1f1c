"""Groups in a file."""

from __future__ import annotations

import numpy as np

from recalibrate.classes.groups.spec import GroupEncoder, Groups, GroupTable
from recalibrate.data.table import Schema
from recalibrate.files import codec
from recalibrate.files.codec import LARGEST_VALUE, ClassFiles, check_coefficients, find_column
from recalibrate.groups.groupset import GroupSet
from recalibrate.support.errors import ModelFileError


def check_columns(encoder: GroupEncoder, schema: Schema) -> None:
    """Refuse groups that take columns for what they are not."""
    for column in encoder.groups.schema.columns:
        if find_column(schema, column.name).kind != column.kind:
            raise ModelFileError(f"groups take column {column.name!r} for {column.kind}")


def check_groups(table: GroupTable, encoder: GroupEncoder, levels: int) -> None:
    """Refuse groups without a coefficient."""
    check_coefficients(table.present, table.coefficient, levels)
    columns, offsets = table.columns, table.offsets
    sizes = np.diff(encoder.offsets)
    if ((columns < 0) | (columns >= len(sizes))).any() or len(offsets) != len(columns) + 1:
        raise ModelFileError("a term does not exist")
    # A row's number within its term is at most the term's number of groups.
    last = offsets[:-1] + sizes[columns]
    outside = (offsets < 0) | (offsets >= LARGEST_VALUE)
    if outside.any() or (last >= table.coefficient.shape[1]).any():
        raise ModelFileError("a group has no coefficient")


FILES = ClassFiles(
    spec=codec.Record(
        Groups,
        {"min_rows": codec.whole(1)},
        make=lambda terms, min_rows: Groups(*terms, min_rows=min_rows),
    ),
    encoder_kind="groups",
    encoder=codec.Record(GroupEncoder, {"groups": codec.own_form(GroupSet)}),
    check_encoder=check_columns,
    table=codec.Record(
        GroupTable, {"coefficient": codec.Array(np.float64, 2), "limit": codec.number(0.0)}
    ),
    check_table=check_groups,
)
