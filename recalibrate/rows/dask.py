"""Everything about Dask: models on their way to workers, rows on workers, predictions there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import count
from operator import attrgetter, or_
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import InputOptions, Problem, by_column, known_classes
from recalibrate.bases.protocol import Base, ScoreColumn, base_outputs
from recalibrate.bases.wrappers import GraphBase, select_columns
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import StatsSource
from recalibrate.core.levels import Levels
from recalibrate.core.part import Part, Rows, Statistic, Sums
from recalibrate.core.rounds import Encoder, Rounds, Scores, Step
from recalibrate.data.classes import Known, sort_classes
from recalibrate.data.columns import Columns, GrowingColumn, growing
from recalibrate.data.labels import Labels, check_score_names, take_scores
from recalibrate.data.table import Table
from recalibrate.rows.disk import columns_of, gather, sample_pieces
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.reading import (
    Facts,
    Finish,
    RawRows,
    Roles,
    assign_roles,
    known_outputs,
    leave_unread,
    read_base,
    read_raw,
    settle,
    warn_by_sample,
)
from recalibrate.rows.store import Selection, Size, Weigh, encode_blocks, size_of, sum_sizes
from recalibrate.support.checks import require
from recalibrate.support.notices import warn_user
from recalibrate.support.threads import ignoring_failures, reraise_interruption, share_out

if TYPE_CHECKING:
    import pandas as pd


# --- Models on their way to other processes, and their predictions there ------------------------
#
# A base whose graph gives the very same scores travels as that graph and needs no framework where
# it arrives. Any other has to be an object that can be pickled, and its framework installed there.


@dataclass(frozen=True, eq=False)
class Packed:
    """A base or model, packed; opened once by every worker, and forgotten with its package."""

    content: bytes

    def __getstate__(self) -> dict[str, bytes]:
        return {"content": self.content}

    def open(self) -> Any:
        """The base or model."""
        return self._opened

    @cached_property
    def _opened(self) -> Any:
        return require("distributed.protocol.pickle", "dask").loads(self.content)


def travelling(base: Base) -> Base:
    """The form in which a base travels."""
    if isinstance(base, ScoreColumn):
        return ScoreColumn(base.values[:0], base.link, base.name)
    return (GraphBase.of(base) if base.exact else None) or base


def pack(base: Base, model: Any = None) -> Packed:
    """Pack a base, or a model on it; a TypeError says what to do if the base cannot travel."""
    pickle = require("distributed.protocol.pickle", "dask")
    own = travelling(base)
    try:
        content = pickle.dumps(own if model is None else replace(model, base=own))
    except Exception as error:  # every framework has its own
        reraise_interruption(error)
        raise TypeError(
            f"The base model ({base.name}) cannot be sent to the workers: it has no ONNX graph "
            f"with the same scores, and pickling it failed ({error}). Compute its scores as a "
            "column and pass the column's name as the base model."
        ) from error
    return Packed(content)


def predict_partitions(model: Any, X: Any, base: Any = None) -> Any:
    """Predictions for a Dask DataFrame, as a Dask Series; of several classes a Dask DataFrame.

    ``base`` names the column of scores, or those of all classes.
    """
    names = check_score_names(base)
    dask = require("dask", "dask")
    packed = dask.delayed(pack(model.base, model), traverse=False)
    several = model.labels.kind == "classes"
    classes = list(model.labels.columns) if several else None
    meta: Any = [(label, "f8") for label in classes] if classes else ("prediction", "f8")
    return X.map_partitions(
        _predict_partition, packed, names, classes, meta=meta, align_dataframes=False
    )


def both_classes(p: Any, labels: Labels) -> Any:
    """Probabilities of both classes as a Dask DataFrame, from those of the one that counts as 1."""
    names = (0, 1) if labels.chosen is not None else labels.classes or (0, 1)
    both = p.to_frame(name="1").assign(**{"0": 1.0 - p})[["0", "1"]]
    return both.rename(columns=dict(zip(("0", "1"), names, strict=True)))[list(sort_classes(names))]


def _predict_partition(
    frame: Any, packed: Packed, names: tuple[str, ...], classes: list[Any] | None
) -> Any:
    """Task: predictions for the rows of a partition."""
    import pandas as pd

    values = np.empty(0) if classes is None else np.empty((0, len(classes)))
    if len(frame):
        given = take_scores([frame[name] for name in names])
        values = packed.open().predict(frame, base=given)
    if classes is not None:
        return pd.DataFrame(values, index=frame.index, columns=classes)
    return pd.Series(values, index=frame.index, name="prediction")


# --- Rows on the workers of a Dask cluster ------------------------------------------------------
#
# A worker keeps its parts between statistics, in a table of its own process: a cache, no more.
# The rows themselves are results of Dask tasks, which Dask makes again where a worker is lost; a
# part that is not there, or knows fewer steps, replays the list of steps. A statistic goes out
# as one task per worker, and sums are added on the workers before one of them comes back.


FAN_IN = 8
"""Sums that one task adds up."""


def find_client(client: Any = None) -> Any:
    """The client as given, or the current one."""
    if client is not None:
        return client
    distributed = require("distributed", "dask")
    try:
        return distributed.default_client()
    except ValueError:
        raise ValueError(
            "X is a Dask DataFrame, but there is no Dask client. Start one, for example with "
            "client = distributed.Client(), or pass client=."
        ) from None


LOOK_SECONDS = 5.0
"""Between two looks at the workers, while results are waited for."""

PATIENCE_SECONDS = 120.0
"""Without a worker that takes tasks: time to spill memory to disk, or to start workers."""


def collect(client: Any, tasks: Sequence[Any]) -> list[Any]:
    """Results of tasks; a warning, and in the end an error, where no worker takes any.

    Dask itself waits without a word: for memory to be freed, or for workers to come.
    """
    wait = require("distributed", "dask").wait
    stuck_since: float | None = None
    while True:
        try:
            wait(tasks, timeout=LOOK_SECONDS)
            break
        except TimeoutError:
            why, now = _why_stuck(client), monotonic()
            if why is None:
                stuck_since = None
            elif stuck_since is None:
                stuck_since = now
                warn_user(f"{why} Waiting {PATIENCE_SECONDS:g} seconds for that to change.")
            elif now - stuck_since >= PATIENCE_SECONDS:
                raise RuntimeError(
                    f"{why} That did not change within {PATIENCE_SECONDS:g} seconds, so the work "
                    "was given up."
                ) from None
    found: list[Any] = client.gather(tasks)
    return found


def _why_stuck(client: Any) -> str | None:
    """Why no worker takes tasks, and what to do; None if one does."""
    workers = list(workers_of(client).values())
    if not workers:
        return (
            "The Dask cluster has no workers, so that nothing is done. Start some, or look at "
            "the logs of those that ended: many are ended by the system for want of memory."
        )
    if any(about.get("status") != "paused" for about in workers):
        return None
    used = sum(about.get("metrics", {}).get("memory", 0) for about in workers) / 2**30
    limit = sum(about.get("memory_limit") or 0 for about in workers) / 2**30
    return (
        f"All {len(workers)} Dask workers are paused because their memory is nearly full "
        f"({used:.1f} of {limit:.1f} GiB), so that nothing is done. Give them more memory "
        "(memory_limit=), start more workers, or free what else they hold; smaller partitions "
        "(X.repartition) take less at a time."
    )


def workers_of(client: Any) -> dict[str | None, Any]:
    """What the scheduler knows of its workers, by address; a lost one is an error."""
    about = client.scheduler_info(n_workers=-1)
    if "workers" not in about:  # a client whose scheduler has just gone knows nothing
        raise _lost(client)
    workers: dict[str | None, Any] = about["workers"]
    return workers


def _lost(client: Any) -> ConnectionError:
    address = getattr(client.scheduler, "address", "an unknown address")
    return ConnectionError(
        f"The connection to the Dask scheduler at {address} was lost: its process has ended "
        "or cannot be reached, and what its workers held is lost with it. There is no result. "
        "Look for the reason in the scheduler's log, start the cluster and a new client, and "
        "begin again with a table made by that client."
    )


@contextmanager
def explained(client: Any) -> Iterator[None]:
    """Say what to do where the scheduler is lost while the block runs."""
    closed = require("distributed.comm", "dask").CommClosedError
    try:
        yield
    except (CancelledError, OSError) as error:
        if not isinstance(error, closed) and client.status == "running":
            raise
        raise _lost(client) from error


# ---- what travels


@dataclass(frozen=True)
class _Unknown:
    """Reply of a worker that has not seen some of the steps."""


@dataclass(frozen=True, eq=False)
class _Packet:
    """A statistic on its way to a worker.

    Attributes
    ----------
    fit
        Name of the rows' table on the workers.
    statistic
        The statistic, without its list of steps.
    log
        Numbers of the steps; None where the statistic has none.
    steps
        Those that a worker may not have seen, by number.
    head
        The list without steps, if a worker may not have seen it.
    scale
        Fixed point of the sums.
    """

    fit: str
    statistic: Any
    model: tuple[int, ...] | None
    steps: dict[int, Step]
    head: Rounds | None
    scale: Scale


class _Sender:
    """Numbers steps, and remembers which of them all workers have seen."""

    def __init__(self, scale: Scale) -> None:
        self.fit = uuid4().hex
        self.scale = scale
        self._numbers = count()
        self._known: dict[int, tuple[int, Step]] = {}  # by identity, kept alive by the value
        self._seen: set[int] = set()
        self._head: object = None

    def pack(self, statistic: Any, *, everything: bool = False) -> _Packet:
        """The statistic, with the steps that workers lack (or ``everything``)."""
        model, bare = detach(statistic)
        if model is None:
            return _Packet(self.fit, bare, None, {}, None, self.scale)
        numbered = {self._number(step): step for step in model.steps}
        new = {k: step for k, step in numbered.items() if everything or k not in self._seen}
        head = replace(model, steps=()) if everything or model.encoders is not self._head else None
        return _Packet(self.fit, bare, tuple(numbered), new, head, self.scale)

    def arrived(self, statistic: Any) -> None:
        """All workers have seen the statistic's steps."""
        model, _ = detach(statistic)
        if model is not None:
            self._seen.update(self._number(step) for step in model.steps)
            self._head = model.encoders

    def _number(self, step: Step) -> int:
        if id(step) not in self._known:
            self._known[id(step)] = (next(self._numbers), step)
        return self._known[id(step)][0]


def detach(statistic: Any) -> tuple[Rounds | None, Any]:
    """A statistic's list of steps, and the statistic without it."""
    if hasattr(statistic, "draft"):
        draft = statistic.draft
        return draft.model, replace(statistic, draft=replace(draft, model=None))
    if hasattr(statistic, "model"):
        return statistic.model, replace(statistic, model=None)
    return None, statistic


# ---- on a worker


@dataclass
class _Kept:
    """What a worker keeps of one fit."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    head: Rounds | None = None
    steps: dict[int, Step] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)

    def receive(self, packet: _Packet) -> Any:
        """The statistic with its list of steps; None if some of them are unknown."""
        if packet.model is None:
            return packet.statistic
        if packet.head is not None and self.head is None:
            self.head = packet.head
        for number, step in packet.steps.items():
            own = replace(step, partition=self._own(step.partition), grid=self._own(step.grid))
            self.steps.setdefault(number, own)
        if self.head is None or any(number not in self.steps for number in packet.model):
            return None
        model = replace(self.head, steps=tuple(self.steps[number] for number in packet.model))
        statistic = packet.statistic
        if not hasattr(statistic, "draft"):
            return replace(statistic, model=model)
        draft = statistic.draft
        return replace(
            statistic, draft=replace(draft, model=model, partition=self._own(draft.partition))
        )

    def part(self, number: int, rows: Rows, scale: Scale) -> Part:
        """The part of some rows, new if it is not there."""
        if number not in self.parts:
            self.parts[number] = Part(rows, scale)
        return self.parts[number]

    def _own(self, levels: Levels | None) -> Levels | None:
        """Levels as this worker knows them: drawing the same grid again then costs nothing."""
        grid = None if self.head is None else self.head.start
        if levels is None or grid is None or grid.values is None or levels.values is None:
            return levels
        return grid if np.array_equal(levels.values, grid.values) else levels


_FITS: dict[str, _Kept] = {}


def _sum_parts(
    packet: _Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> Sums | _Unknown:
    """Task: the statistic of some parts together."""
    found = _each_part(packet, numbers, rows, threads)
    return _Unknown() if isinstance(found, _Unknown) else _add_sums(found)


def _each_part(
    packet: _Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> list[Sums] | _Unknown:
    """Task: the statistic of some parts, one by one."""
    kept = _FITS.setdefault(packet.fit, _Kept())
    with kept.lock:  # a task that Dask runs twice must not meet itself
        statistic = kept.receive(packet)
        if statistic is None:
            return _Unknown()
        parts = [kept.part(k, own, packet.scale) for k, own in zip(numbers, rows, strict=True)]
        return share_out(statistic.of, parts, threads)


def _add_sums(found: Sequence[Sums | _Unknown]) -> Sums | _Unknown:
    """Task: sums of several workers added up."""
    known = [sums for sums in found if not isinstance(sums, _Unknown)]
    if len(known) < len(found):
        return _Unknown()
    return tuple(np.sum(each, axis=0) for each in zip(*known, strict=True))


def forget(fit: str) -> None:
    """Remove what a worker keeps of a fit."""
    _FITS.pop(fit, None)


# ---- on the driver


@dataclass(frozen=True, eq=False)
class _ScoresOf:
    """Statistic: scores of the rows after the last step (not a sum)."""

    model: Rounds

    def of(self, part: Part) -> Sums:
        return (part.scores(self.model),)  # type: ignore[return-value]  # floats, not summed


class OnWorkers:
    """A :class:`~recalibrate.core.learning.StatsSource` over rows on Dask workers.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    rows
        Futures of `Rows`.
    n_rows
        How many rows they have together.
    scale
        Fixed point shared by all parts.
    """

    only_part = None

    def __init__(self, client: Any, rows: Sequence[Any], n_rows: int, scale: Scale) -> None:
        self.client = client
        self.rows = list(rows)
        self.n_rows = n_rows
        self.scale = scale
        self._sender = _Sender(scale)

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        for piece in range(pieces):
            work(piece)

    def sums(self, statistic: Statistic) -> Sums:
        found: Sums = self._send(
            statistic, lambda packet: collect(self.client, [self._summed(packet)])[0]
        )
        return found

    def each(self, statistic: Statistic) -> Iterable[Sums]:
        def one_by_one(packet: _Packet) -> Any:
            groups = self._by_worker()
            tasks = [self._submit(_each_part, packet, *group) for group in groups]
            found = collect(self.client, tasks)
            if any(isinstance(own, _Unknown) for own in found):
                return _Unknown()
            pairs = zip(groups, found, strict=True)
            return {k: sums for (_, ks), own in pairs for k, sums in zip(ks, own, strict=True)}

        by_part = self._send(statistic, one_by_one)
        return [by_part[k] for k in range(len(self.rows))]

    def scores(self, model: Rounds) -> Scores:
        return np.concatenate([own for (own,) in self.each(_ScoresOf(model))])

    def close(self) -> None:
        """Let the workers forget what they worked out."""
        with ignoring_failures():  # workers may be gone, and their memory with them
            self.client.run(forget, self._sender.fit)

    def _send(self, statistic: Any, post: Callable[[_Packet], Any]) -> Any:
        """Ask, and once more with all steps if a worker had not seen some of them."""
        for everything in (False, True, True, True):
            found = post(self._sender.pack(statistic, everything=everything))
            if not isinstance(found, _Unknown):
                self._sender.arrived(statistic)
                return found
        raise RuntimeError("Dask workers keep losing the steps of the fit; is the cluster stable?")

    def _summed(self, packet: _Packet) -> Any:
        tasks = [self._submit(_sum_parts, packet, *group) for group in self._by_worker()]
        while len(tasks) > 1:
            groups = [tasks[k : k + FAN_IN] for k in range(0, len(tasks), FAN_IN)]
            tasks = [self.client.submit(_add_sums, group, pure=False) for group in groups]
        return tasks[0]

    def _submit(self, task: Any, packet: _Packet, worker: str | None, numbers: list[int]) -> Any:
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        rows = [self.rows[k] for k in numbers]
        threads = self._threads.get(worker, 1)
        return self.client.submit(task, packet, numbers, rows, threads, pure=False, **where)

    def _by_worker(self) -> list[tuple[str | None, list[int]]]:
        """Numbers of the parts on every worker; lost ones go to whoever makes them again."""
        workers = workers_of(self.client)
        self._threads = {address: int(about["nthreads"]) for address, about in workers.items()}
        holders = self.client.who_has(self.rows)
        groups: dict[str | None, list[int]] = {}
        for number, future in enumerate(self.rows):
            present = [address for address in holders.get(future.key, ()) if address in workers]
            groups.setdefault(present[0] if present else None, []).append(number)
        return list(groups.items())


# --- Rows in the partitions of a Dask DataFrame: read, checked and encoded on the workers -------


T = TypeVar("T")


class _RowsChangedError(RuntimeError):
    """Rows that were read again, because a worker was lost, are not what they were."""


# ---- on a worker


@dataclass(frozen=True, eq=False)
class _Partition:
    """Rows of a partition as they were read.

    Attributes
    ----------
    rows
        The rows that count; None if there are none.
    columns
        Kinds and categories of their columns.
    checksum
        Of everything that a fit sees of them.
    """

    rows: RawRows | None
    columns: list[GrowingColumn]
    checksum: str


def _read_partition(
    frame: pd.DataFrame, roles: Roles, packed: Packed | None, reading: InputOptions, known: Known
) -> _Partition:
    """Task: check and score the rows of a partition."""
    columns = growing(roles.columns, reading.categorical)
    if not len(frame):
        return _Partition(None, columns, "")
    base = None if packed is None else packed.open()
    rows = read_raw(frame, roles, base, columns, known)
    digest = hashlib.blake2b(digest_size=16)
    weight = [] if rows.weight is None else [rows.weight]
    for values in (*rows.columns, rows.y, rows.score, *weight):
        digest.update(np.ascontiguousarray(values).data)
    for column in columns:
        digest.update(repr(column).encode())
    return _Partition(rows, columns, digest.hexdigest())


def describe(partition: _Partition) -> tuple[Facts | None, list[GrowingColumn], str]:
    """Task: what the driver has to know of a partition."""
    rows = partition.rows
    return None if rows is None else rows.facts, partition.columns, partition.checksum


def _finish_partition(partition: _Partition, expected: str, finish: Finish) -> Problem:
    """Task: a partition as a piece of the problem; refused if it is not what it was."""
    if partition.checksum != expected or partition.rows is None:
        raise _RowsChangedError(
            "a partition had to be read again (a Dask worker was lost, or memory ran short) and "
            "its rows, or their base scores, are not what they were. Fit on rows that stay the "
            "same: Parquet files that nobody rewrites, or a persisted table."
        )
    rows, problem = partition.rows, finish.problem
    features = problem.table.schema.columns[: len(rows.columns)]  # the others are base scores
    triples = zip(partition.columns, rows.columns, features, strict=True)
    columns = [own.recode(values, column) for own, values, column in triples]
    base = finish.scores(rows.score)
    table = Table(problem.table.schema, [*columns, *by_column(base)], len(base))
    weight = None if problem.labels.weight is None else rows.weight
    labels = replace(problem.labels, values=finish.labels(rows.y), weight=weight)
    cut = finish.cut(rows.score, labels.values, base)
    return replace(problem, table=table, labels=labels, base=base, cut=cut)


def _encode_piece(piece: Problem, encoders: Sequence[Encoder | None], weigh: Weigh) -> Rows:
    """Task: a piece as blocks of numbers."""
    labels = piece.labels
    blocks = encode_blocks(encoders, piece.table)
    return Rows(blocks, labels.values, piece.base, weigh(labels.weight))


def apply(work: Callable[[Any], T], piece: Any) -> T:
    """Task: what ``work``, which Dask could not name, finds in a piece."""
    return work(piece)


# ---- on the driver


@dataclass(frozen=True, eq=False)
class _DaskStore:
    """Rows of a problem that are results of Dask tasks.

    Attributes
    ----------
    problem
        Everything but the rows.
    client
        A ``distributed.Client``.
    pieces
        Futures of problems, none of them without rows.
    sizes
        Of each piece.
    threads
        For work in this process; does not change a result.
    """

    problem: Problem
    client: Any
    pieces: tuple[Any, ...]
    sizes: tuple[Size, ...]
    threads: int

    @property
    def size(self) -> Size:
        return sum_sizes(self.sizes)

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        yield from collect(self.client, [self._submit(apply, work, own) for own in self.pieces])

    def columns(self, scale: Scale) -> Columns:
        return columns_of(self, scale)

    def take(self, rows: Selection) -> _DaskStore:
        chosen = [(piece, rows.of(k)) for k, piece in enumerate(self.pieces)]
        taken = tuple(self._submit(Problem.take, piece, own) for piece, own in chosen if len(own))
        found = replace(self, pieces=taken)
        return replace(found, sizes=tuple(found.map(size_of)))

    def sample(self, count: int, seed: int) -> tuple[Problem, NDArray[np.intp] | None]:
        return sample_pieces(self, count, seed), None

    def in_memory(self) -> MemoryStore:
        return MemoryStore(gather(self), self.threads)

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weigh) -> _EncodedOnWorkers:
        rows = tuple(self._submit(_encode_piece, piece, encoders, weigh) for piece in self.pieces)
        return _EncodedOnWorkers(self.client, rows, tuple(size.n_rows for size in self.sizes))

    def drop(self) -> None:
        """Let the workers forget the pieces; Dask makes them again if encoded rows are lost."""
        for piece in self.pieces:
            piece.release()

    def _submit(self, task: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(task, *arguments, pure=False)


@dataclass(frozen=True, eq=False)
class _EncodedOnWorkers:
    """Encoded rows that are results of Dask tasks, and how many each has."""

    client: Any
    rows: tuple[Any, ...]
    counts: tuple[int, ...]

    side_by_side = False

    def open(
        self, scale: Scale, *, threads: int | None = None
    ) -> AbstractContextManager[StatsSource]:
        return closing(OnWorkers(self.client, self.rows, sum(self.counts), scale))

    def take(self, rows: Selection) -> _EncodedOnWorkers:
        chosen = [(own, rows.of(k)) for k, own in enumerate(self.rows)]
        chosen = [(own, numbers) for own, numbers in chosen if len(numbers)]
        taken = tuple(self._submit(Rows.take, own, numbers) for own, numbers in chosen)
        return replace(self, rows=taken, counts=tuple(len(numbers) for _, numbers in chosen))

    def drop(self) -> None:
        """Nothing to do: Dask lets rows go when nobody refers to them any more."""

    def labels(self) -> Scores:
        return np.concatenate(self._gather(attrgetter("y")))

    def weights(self) -> NDArray[np.int64]:
        return np.concatenate(self._gather(attrgetter("weight")))

    def reweighted(self, weight: NDArray[np.int64]) -> _EncodedOnWorkers:
        cuts = np.cumsum(self.counts)[:-1]
        parts = np.split(weight, cuts) if len(weight) else [weight] * len(self.rows)
        pairs = zip(self.rows, parts, strict=True)
        return replace(
            self, rows=tuple(self._submit(replace, own, weight=part) for own, part in pairs)
        )

    def _gather(self, task: Callable[[Rows], Any]) -> list[Any]:
        return collect(self.client, [self._submit(apply, task, own) for own in self.rows])

    def _submit(self, task: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self.client.submit(task, *arguments, pure=False, **named)


def read_collection(
    client: Any,
    X: Any,
    base_model: Any,
    y: Any,
    reading: InputOptions,
    *,
    threads: int,
) -> tuple[Base, _DaskStore]:
    """Read all partitions of a Dask DataFrame on the workers."""
    roles = assign_roles([str(name) for name in X.columns], base_model, y, reading)
    base = read_base(base_model, roles, reading, select_columns(X._meta, roles.features))
    outputs = base_outputs(base)
    if outputs is None:
        outputs = known_outputs(base, select_columns(X.head(1, npartitions=-1), roles.features))
    known = known_classes(base, reading, outputs)
    roles = leave_unread(roles, base, reading, X._meta_nonempty)
    packed = None
    if not roles.scores:
        packed = client.submit(_hold, pack(base), pure=False)
    frames = client.compute(X.to_delayed())
    partitions = [
        client.submit(_read_partition, frame, roles, packed, reading, known, pure=False)
        for frame in frames
    ]
    del frames  # Dask reads them again if it has to
    told = collect(client, [client.submit(describe, each, pure=False) for each in partitions])
    if all(facts is None for facts, _, _ in told):
        raise ValueError("There are no rows: pass at least one row with its label.")
    columns = growing(roles.columns, reading.categorical)
    for _, own, _ in told:
        for column, seen in zip(columns, own, strict=True):
            column.merge(seen)
    together = reduce(or_, [facts for facts, _, _ in told if facts is not None])
    problem = settle(together, columns, base, reading, known)
    finish = Finish(problem, base.link, together.seen, reading, known)
    pieces, sizes = [], []
    for partition, (facts, _, checksum) in zip(partitions, told, strict=True):
        if facts is not None and facts.size.n_rows:
            piece = client.submit(_finish_partition, partition, checksum, finish, pure=False)
            pieces.append(piece)
            sizes.append(facts.size)
    store = _DaskStore(problem, client, tuple(pieces), tuple(sizes), threads)
    warn_by_sample(store)
    return base, store


def _hold(packed: Packed) -> Packed:
    """Task: keeps a base on the cluster."""
    return packed
