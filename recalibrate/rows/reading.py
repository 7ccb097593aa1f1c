"""From DataFrames, one after the other, to checked rows in files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import (
    InputOptions,
    OriginalRows,
    Problem,
    base_margin,
    choose_link,
    cut_losses,
    known_classes,
    open_base,
    outside_unit,
    refuse_two_numbers,
    settle_kind,
    warn_if_too_good,
    with_scores,
)
from recalibrate.bases.protocol import Base, ScoreColumn, base_outputs
from recalibrate.bases.wrappers import remember_columns, select_columns
from recalibrate.core.fixedpoint import Weights
from recalibrate.core.levels import Link
from recalibrate.data.classes import Known
from recalibrate.data.columns import GrowingColumn, growing
from recalibrate.data.labels import (
    ALL_WEIGHTS_ZERO,
    Seen,
    by_exposure,
    count_outputs,
    per_exposure,
    read_exposure,
    read_scores,
    read_some_weights,
    read_values,
    scale_labels,
    take_scores,
)
from recalibrate.data.table import (
    Column,
    Schema,
    Table,
    find_columns,
    is_collection,
    open_frames,
    split_columns,
)
from recalibrate.rows.disk import DiskStore, Scratch, Spool, SpooledFiles, Stored, scratch_folder
from recalibrate.rows.store import Size, Store
from recalibrate.support.notices import listed

if TYPE_CHECKING:
    import pandas as pd


SAMPLE_ROWS = 1 << 20
"""Rows by which it is judged whether a base has seen the labels."""


@dataclass(frozen=True)
class Roles:
    """Which columns are what; the rest are features.

    Attributes
    ----------
    y
        The labels.
    weight
        The weights, if any.
    exposure
        What the labels are totals over, if anything.
    scores
        The base model's scores, where they are a column, or one for every class.
    features
        All others, in the order of the first rows.
    unread
        Features that hold neither numbers nor text, which only the base model looks at.
    """

    y: str
    weight: str | None
    exposure: str | None
    scores: tuple[str, ...]
    features: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Features that H may look at."""
        return tuple(name for name in self.features if name not in self.unread)

    @property
    def weighted(self) -> bool:
        """Whether rows may differ in how much they count."""
        return self.weight is not None or self.exposure is not None


def check_roles(roles: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Refuse arguments that do not name a column; only ``y`` has to be there."""
    for argument, name in roles.items():
        if name is None and argument != "y":
            continue
        if not isinstance(name, str):
            raise TypeError(
                f"{argument} must be the name of a column where {where}, got {type(name).__name__}"
            )
        find_columns([name], names)


def assign_roles(names: Sequence[str], base_model: Any, y: Any, reading: InputOptions) -> Roles:
    """Find labels, weights and scores among the columns."""
    sample_weight, exposure = reading.sample_weight, reading.exposure
    given = {"y": y, "sample_weight": sample_weight, "exposure": exposure}
    check_roles(given, names, "rows come in pieces")
    scores = _score_names(base_model, names)
    taken = {y, sample_weight, exposure, *scores}
    features = tuple(name for name in names if name not in taken)
    if not features:
        raise ValueError(f"X has no columns but {listed(sorted(map(str, taken - {None})))}")
    return Roles(y, sample_weight, exposure, scores, features)


def _score_names(base_model: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that a base model's scores are in; none where it is a model."""
    if isinstance(base_model, str):
        return (base_model,) if base_model in names else ()
    listed_names = isinstance(base_model, list | tuple) and len(base_model) > 0
    if not listed_names or not all(isinstance(name, str) for name in base_model):
        return ()
    find_columns(base_model, names)
    if len(set(base_model)) < max(len(base_model), 3):
        raise ValueError(
            "columns of scores must be one, or a different one for each of at least three "
            f"classes; got {listed(base_model)}. Of two classes, name the column of the second."
        )
    return tuple(base_model)


def read_base(base_model: Any, roles: Roles, reading: InputOptions, X: pd.DataFrame) -> Base:
    """The base model, tied to the columns of X, or the promise of its scores in a column."""
    if roles.scores:
        link, count = reading.base_link or "identity", len(roles.scores)
        name = f"column {roles.scores[0]!r}" if count == 1 else f"columns {listed(roles.scores)}"
        return ScoreColumn(_no_scores(count), link=link, name=name)
    base = open_base(base_model, reading)
    if isinstance(base, ScoreColumn):
        raise TypeError(
            "an array of scores cannot be matched to rows that come in pieces: make the scores a "
            "column and pass its name as the base model"
        )
    return remember_columns(base, X)


def leave_unread(roles: Roles, base: Base, reading: InputOptions, some: pd.DataFrame) -> Roles:
    """Roles without columns that H cannot read, by some rows, if H does not look at them."""
    blank = Schema(tuple(Column(name, "categorical") for name in roles.features), named=True)
    reads = reading.beside(base.columns() or ()).reads
    wanted = roles.features if reads is None else reads(blank)
    unread = []
    for column in growing(roles.features, reading.categorical):
        try:
            column.encode(some.iloc[:, find_columns([column.name], list(map(str, some)))[0]])
        except ValueError:
            if column.name in wanted:
                raise
            unread.append(column.name)
    reading.warn_left_out(sorted(unread))
    return replace(roles, unread=tuple(unread))


@dataclass(frozen=True)
class Facts:
    """What pieces say about all rows.

    Attributes
    ----------
    seen
        Range and kind of the labels, also of rows of weight zero.
    outside
        Whether scores lie outside of [0, 1].
    size
        Number and weights of the rows that count.
    """

    seen: Seen
    outside: bool
    size: Size

    def __or__(self, other: Facts) -> Facts:
        """Facts of both."""
        return Facts(self.seen | other.seen, self.outside or other.outside, self.size | other.size)


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows of one piece as they were given, checked; those of weight zero are gone."""

    columns: list[NDArray[np.float32]]
    y: NDArray[np.float64]
    score: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    facts: Facts


def read_raw(
    frame: pd.DataFrame,
    roles: Roles,
    base: Base | None,
    columns: Sequence[GrowingColumn],
    known: Known,
) -> RawRows:
    """Check one piece; ``base`` None: scores are a column."""
    n_rows = len(frame)
    names = [str(name) for name in frame.columns]

    def column(name: str) -> Any:
        return frame.iloc[:, find_columns([name], names)[0]]

    X = select_columns(frame, roles.features)
    exposure = None
    if roles.exposure is not None:
        exposure = read_exposure(column(roles.exposure), n_rows)
    y, seen = _read_labels(column(roles.y), n_rows, known, exposure)
    named = [column(name) for name in roles.scores]
    given = take_scores(named) if base is None else base.scores(X)
    score = read_scores(given, n_rows=n_rows, probability=False, outputs=known.outputs)
    _, values = split_columns(select_columns(frame, roles.columns))
    encoded = [own.encode(each) for own, each in zip(columns, values, strict=True)]
    outside = bool(outside_unit(score).any())
    if not roles.weighted:
        return RawRows(encoded, y, score, None, Facts(seen, outside, Size(n_rows)))
    given = None if roles.weight is None else read_some_weights(column(roles.weight), n_rows)
    weight = np.ones(n_rows) if given is None else given
    weight = weight if exposure is None else by_exposure(given, exposure)
    kept = weight > 0
    if not kept.all():
        encoded = [each[kept] for each in encoded]
        y, score, weight = y[kept], score[kept], weight[kept]
    size = Size(len(y), Weights.of(weight))
    return RawRows(encoded, y, score, weight, Facts(seen, outside, size))


def _no_scores(outputs: int) -> NDArray[np.float64]:
    """Scores of no rows."""
    return np.empty(0) if outputs == 1 else np.empty((0, outputs))


def known_outputs(base: Base, rows: pd.DataFrame) -> int:
    """Numbers that a base gives per row; if it does not say, by what it makes of some."""
    told = base_outputs(base)
    return count_outputs(base.scores(rows)) if told is None else told


def _read_labels(
    y: Any, n_rows: int, known: Known, exposure: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], Seen]:
    """Labels of a piece as numbers, text by its place among the classes; and what they are."""
    values = read_values(y, n_rows)
    if exposure is not None:
        values = per_exposure(values, exposure)
    seen = Seen.of(values)
    if values.dtype.kind != "O":
        return values.astype(np.float64), seen
    classes = list(known.classes or ()) if known.told else []
    unknown = [label for label in seen.distinct or () if label not in classes]
    if unknown:
        raise ValueError(
            f"y holds {listed(unknown, 5)}, and rows that come in pieces do not tell all classes "
            f"beforehand (known: {listed(classes) or 'none'}). Name them with classes=."
        )
    return np.array([classes.index(label) for label in values], dtype=np.float64), seen


def settle(
    facts: Facts, columns: Sequence[GrowingColumn], base: Base, reading: InputOptions, known: Known
) -> Problem:
    """The problem without its rows, once all were seen."""
    weighted = reading.sample_weight is not None or reading.exposure is not None
    if not facts.size.n_rows:
        raise ValueError(ALL_WEIGHTS_ZERO)
    schema = Schema(tuple(column.column() for column in columns), named=True)
    nothing, scores = np.empty(0), _no_scores(known.outputs)
    labels = scale_labels(nothing, None, facts.seen, reading.bounds, known)
    labels = replace(labels, exposed=reading.exposure is not None)
    labels = settle_kind(labels, base, facts.outside)
    if not facts.outside and len(facts.seen.distinct or ()) == 2:
        refuse_two_numbers(labels, base, reading)
    weights = facts.size.weights
    if weights is not None and weights.smallest != weights.largest:
        labels = replace(labels, weight=nothing)
    blank = Table(schema, [np.empty(0, np.float32)] * len(schema.columns), 0)
    given = OriginalRows(nothing, None, weighted)
    table = with_scores(blank, scores, labels)
    return Problem(table, labels, scores, choose_link(base, reading, labels), given)


def read_rows(
    frames: Iterable[pd.DataFrame],
    base_model: Any,
    y: Any,
    reading: InputOptions,
    scratch: Scratch,
    *,
    block_rows: int,
    threads: int,
) -> tuple[Base, DiskStore]:
    """Read all pieces once: the base model, and the rows in files, cut into blocks."""
    some = (frame for frame in frames if len(frame))
    first = next(some, None)
    if first is None:
        raise ValueError("There are no rows: pass at least one row with its label.")
    roles = assign_roles([str(name) for name in first.columns], base_model, y, reading)
    base = read_base(base_model, roles, reading, select_columns(first, roles.features))
    outputs = known_outputs(base, select_columns(first, roles.features))
    known = known_classes(base, reading, outputs)
    roles = leave_unread(roles, base, reading, first)
    columns = growing(roles.columns, reading.categorical)
    spool = Spool(scratch, len(columns), outputs, weighted=roles.weighted)
    facts = []
    try:
        for frame in chain([first], some):
            raw = read_raw(frame, roles, None if roles.scores else base, columns, known)
            spool.append(raw.columns, raw.y, raw.score, raw.weight)
            facts.append(raw.facts)
    finally:
        files = spool.close()
    together = reduce(or_, facts)
    problem = settle(together, columns, base, reading, known)
    n_rows = together.size.n_rows
    ranges = tuple(slice(a, min(a + block_rows, n_rows)) for a in range(0, n_rows, block_rows))
    finish = Finish(problem, base.link, together.seen, reading, known)
    files = replace(files, y=_finish_labels(ranges, files.y, finish, scratch))
    cut = [_finish_block(rows, files, columns, finish) for rows in ranges]
    if any(own is not None for own in cut):
        sizes = [rows.stop - rows.start for rows in ranges]
        own = [np.zeros(n) if each is None else each for each, n in zip(cut, sizes, strict=True)]
        files = replace(files, cut=scratch.put(np.concatenate(own)))
    store = DiskStore(problem, files, ranges, scratch, threads, together.size)
    warn_by_sample(store)
    return base, store


@dataclass(frozen=True, eq=False)
class Finish:
    """Brings labels and scores to their scales, once these are known."""

    problem: Problem
    base_link: Link
    seen: Seen
    reading: InputOptions
    known: Known

    def labels(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Labels scaled to [0, 1]."""
        values: NDArray[Any] = np.array(y)
        if any(isinstance(label, str) for label in self.seen.distinct or ()):
            values = np.array(self.known.classes, dtype=object)[values.astype(np.intp)]
        return scale_labels(values, None, self.seen, self.reading.bounds, self.known).values

    def scores(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Base scores on the link's scale."""
        problem = self.problem
        given, clip = np.array(score), self.reading.clip
        return base_margin(self._base, given, problem.labels, problem.link, len(given), clip=clip)

    def cut(
        self, score: NDArray[np.float64], y: NDArray[np.float64], margin: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """What cutting base scores took off their losses, for labels and margins that are final."""
        labels = replace(self.problem.labels, values=y)
        return cut_losses(self._base, np.array(score), labels, self.problem.link, margin)

    @property
    def _base(self) -> ScoreColumn:
        return ScoreColumn(_no_scores(self.known.outputs), link=self.base_link)


def _finish_labels(
    ranges: Sequence[slice], stored: Stored, finish: Finish, scratch: Scratch
) -> Stored:
    """Labels as they are meant to be: of several classes a column for each, in a new file."""
    outputs = finish.known.outputs
    if outputs > 1:
        wide = scratch.reserve()
        np.memmap(wide, stored.dtype, "w+", shape=(len(stored), outputs)).flush()
        target = Stored(wide, stored.dtype, (len(stored), outputs))
    else:
        target = stored
    given = stored.open()
    for rows in ranges:
        target.open(in_place=True)[rows] = finish.labels(given[rows])
    if target is not stored:
        scratch.drop(stored)
    return target


def _finish_block(
    rows: slice, files: SpooledFiles, columns: Sequence[GrowingColumn], finish: Finish
) -> NDArray[np.float64] | None:
    """Scores and codes of a block as they are meant to be, in place; what was cut of scores."""
    score = files.score.open(in_place=True)[rows]
    margin = finish.scores(score)
    cut = finish.cut(score, files.y.open()[rows], margin)
    score[:] = margin
    features = finish.problem.table.schema.columns[: len(columns)]  # the others are base scores
    for own, column, stored in zip(columns, features, files.columns, strict=True):
        codes = stored.open(in_place=True)[rows]
        recoded = own.recode(codes, column)
        if recoded is not codes:
            codes[:] = recoded
    return cut


def _every_nth(step: int, piece: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Work: labels and base scores of every so many rows."""
    return np.array(piece.labels.values[::step]), np.array(piece.base[::step])


def warn_by_sample(store: Store) -> None:
    """The usual warning about a base that has seen the rows, by a sample of them."""
    step = -(-store.size.n_rows // SAMPLE_ROWS)
    found = store.map(partial(_every_nth, step))
    y, base = (np.concatenate(each) for each in zip(*found, strict=True))
    warn_if_too_good(replace(store.problem.labels, values=y), base, store.problem.link)


# --- Rows that do not come as a table: which store they are read into ---------------------------


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
    reading: InputOptions,
    *,
    threads: int,
    cache: str | os.PathLike[str] | None,
    block_rows: int,
    memory: int | None,
    client: Any,
) -> Iterator[tuple[Base, Store]]:
    """The base model, and the rows: in files, or on the workers of a Dask cluster."""
    if is_collection(X):
        from recalibrate.rows.dask import explained, find_client, read_collection

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
    present = _memory_present()
    return 0 if present is None else min(MOST_MEMORY, present // 8)


def _memory_present() -> int | None:
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
    present = _memory_present()
    if present is not None and needed > present:
        raise MemoryError(
            f"Estimator fits regressors that need all rows in memory: {n_rows} rows take about "
            f"{needed / 2**30:.0f} GiB, of {present / 2**30:.0f} GiB that this machine has. Trees, "
            "Linear and Groups are not bound by memory."
        )
