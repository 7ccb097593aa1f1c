"""Rows that do not come as a table: which store they are read into."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recalibrate.bases.problem import Reading
from recalibrate.bases.protocol import Base
from recalibrate.data.inputs import is_collection, open_frames
from recalibrate.rows.files import scratch_folder
from recalibrate.rows.reading import read_rows
from recalibrate.rows.store import Store

BYTES_A_ROW = 400
"""What a run in memory needs per row beside two bytes per feature (measured)."""
MOST_MEMORY = 1 << 30
CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


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
    memory: int | None,
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
    with scratch_folder(cache, default_memory() if memory is None else memory) as scratch:
        yield read_rows(
            open_frames(X), base_model, y, reading, scratch, block_rows=block_rows, threads=threads
        )


def default_memory() -> int:
    """Bytes of encoded rows that stay in memory between rounds, if nobody says."""
    present = memory_present()
    return 0 if present is None else min(MOST_MEMORY, present // 8)


def memory_present() -> int | None:
    """Bytes that this machine has, or lets this container have; None if it does not say."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # not there, or "max"
            present = min(present, int(Path(limit).read_text()))
    return present


def check_memory(store: Store) -> None:
    """Refuse a run in memory that cannot fit."""
    n_rows, features = store.size.n_rows, len(store.problem.table.schema.columns)
    needed = n_rows * (BYTES_A_ROW + 2 * features)
    present = memory_present()
    if present is not None and needed > present:
        raise MemoryError(
            f"Estimator fits regressors that need all rows in memory: {n_rows} rows take about "
            f"{needed / 2**30:.0f} GiB, of {present / 2**30:.0f} GiB that this machine has. Trees, "
            "Linear and Groups are not bound by memory."
        )
