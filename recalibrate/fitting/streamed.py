"""fit on rows in pieces: which way they are worked on."""

from __future__ import annotations

import os
from typing import Any

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.data.folds import is_splitter
from recalibrate.data.inputs import open_frames
from recalibrate.fitting.crossfit import is_unfitted
from recalibrate.fitting.run import Plan, Run
from recalibrate.fitting.streamed_run import StreamRun
from recalibrate.model import Recalibrated
from recalibrate.rows.binding import binds
from recalibrate.rows.dask.partitions import read_collection
from recalibrate.rows.dask.workers import find_client
from recalibrate.rows.disk import temporary_shelf
from recalibrate.rows.reading import Reading, read_rows

BYTES_A_ROW = 400
"""What a run in memory needs per row beside two bytes per feature (measured)."""


def fit_streamed(
    base_model: Any,
    X: Any,
    y: Any,
    H: Any,
    plan: Plan,
    reading: Reading,
    *,
    cache: str | os.PathLike[str] | None,
    block_rows: int,
    exportable: bool,
    threads: int,
    seed: int,
    progress: bool | None,
) -> Recalibrated:
    """The model that ``fit`` gives for the same rows in memory.

    With Trees, Linear and Groups one block of rows per thread is held, and by the default those
    that its choices are made on. Estimator is run in memory, if there is enough of it.
    """
    check_plan(base_model, plan)
    with temporary_shelf(cache) as shelf:
        base, pieces = read_rows(
            open_frames(X),
            base_model,
            y,
            reading,
            clip=plan.paper or bool(plan.knobs.rounded),
            identity=plan.paper,
            shelf=shelf,
            block_rows=block_rows,
            threads=threads,
        )
        if exportable:
            _check_exportable(base, H, pieces.problem)
        if binds(H):
            return StreamRun(base, pieces, H, threads, seed, progress).follow(plan)
        _check_memory(pieces.size.n_rows, len(pieces.columns))
        return Run(base, pieces.whole(), H, threads, None, seed, progress).follow(plan)


def fit_collection(
    base_model: Any,
    X: Any,
    y: Any,
    H: Any,
    plan: Plan,
    reading: Reading,
    *,
    client: Any,
    exportable: bool,
    threads: int,
    seed: int,
    progress: bool | None,
) -> Recalibrated:
    """The same on a Dask DataFrame, whose rows stay on the workers; the model is a local one."""
    check_plan(base_model, plan)
    if not binds(H):
        raise ValueError(
            f"H={H!r} fits a regressor that needs all rows in one process. On a Dask DataFrame use "
            "Trees, Linear or Groups, or fit on X.compute()."
        )
    base, pieces = read_collection(
        find_client(client),
        X,
        base_model,
        y,
        reading,
        clip=plan.paper or bool(plan.knobs.rounded),
        identity=plan.paper,
    )
    if exportable:
        _check_exportable(base, H, pieces.problem)
    return StreamRun(base, pieces, H, threads, seed, progress).follow(plan)


def _check_exportable(base: Base, H: Any, problem: Problem) -> None:
    from recalibrate.graph import check_exportable

    check_exportable(base, H, problem)


def check_plan(base_model: Any, plan: Plan) -> None:
    """Refuse what needs all rows at once, and their numbers."""
    if is_unfitted(base_model):
        raise ValueError(
            f"The base model {base_model!r} is not fitted, and cross-fitting needs all rows in "
            "memory. Fit it on other rows first."
        )
    if is_splitter(plan.cv):
        raise ValueError(
            f"cv={plan.cv!r} splits rows by their numbers, which rows in pieces do not have. "
            "Give a number of folds, or validation=."
        )


def _check_memory(n_rows: int, features: int) -> None:
    """Refuse a run in memory that cannot fit."""
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
