"""Rows that do not come as a table: which store they are read into."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recalibrate.bases.problem import Reading
from recalibrate.bases.protocol import Base
from recalibrate.data.inputs import is_collection, open_frames
from recalibrate.rows.files import scratch_folder
from recalibrate.rows.reading import read_rows
from recalibrate.rows.store import Store

BYTES_A_ROW = 400
"""What a run in memory needs per row beside two bytes per feature (measured)."""


@contextmanager
def open_rows(
    base_model: Any,
    X: Any,
    y: Any,
    reading: Reading,
    *,
    threads: int,
    cache: str | os.PathLike[str] | None,
    block_rows: int,
    client: Any,
) -> Iterator[tuple[Base, Store]]:
    """The base model, and the rows: in files, or on the workers of a Dask cluster."""
    if is_collection(X):
        from recalibrate.rows.dask.partitions import read_collection
        from recalibrate.rows.dask.workers import explained, find_client

        client = find_client(client)
        with explained(client):
            yield read_collection(client, X, base_model, y, reading, threads=threads)
        return
    with scratch_folder(cache) as scratch:
        yield read_rows(
            open_frames(X), base_model, y, reading, scratch, block_rows=block_rows, threads=threads
        )


def check_memory(store: Store) -> None:
    """Refuse a run in memory that cannot fit."""
    n_rows, features = store.size.n_rows, len(store.problem.table.schema.columns)
    needed = n_rows * (BYTES_A_ROW + 2 * features)
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > present:
        raise MemoryError(
            f"Estimator fits regressors that need all rows in memory: {n_rows} rows take about "
            f"{needed / 2**30:.0f} GiB, of {present / 2**30:.0f} GiB that this machine has. Trees, "
            "Linear and Groups are not bound by memory."
        )
