"""Rows on the workers of a Dask cluster.

A worker keeps its parts between statistics, in a table of its own process: a cache, no more. The
rows themselves are results of Dask tasks, which Dask makes again where a worker is lost; a part
that is not there, or knows fewer steps, replays the list of steps. A statistic goes out as one task
per worker, and sums are added on the workers before one of them comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.levels import Levels
from recalibrate.core.part import Part, Rows, Statistic, Sums
from recalibrate.core.rounds import Rounds, Scores, Step
from recalibrate.support.interruptions import ignoring_failures
from recalibrate.support.notices import warn_user
from recalibrate.support.optional import require
from recalibrate.support.threads import share_out

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
class Unknown:
    """Reply of a worker that has not seen some of the steps."""


@dataclass(frozen=True, eq=False)
class Packet:
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
    log: tuple[int, ...] | None
    steps: dict[int, Step]
    head: Rounds | None
    scale: Scale


class Sender:
    """Numbers steps, and remembers which of them all workers have seen."""

    def __init__(self, scale: Scale) -> None:
        self.fit = uuid4().hex
        self.scale = scale
        self._numbers = count()
        self._known: dict[int, tuple[int, Step]] = {}  # by identity, kept alive by the value
        self._seen: set[int] = set()
        self._head: object = None

    def pack(self, statistic: Any, *, everything: bool = False) -> Packet:
        """The statistic, with the steps that workers lack (or ``everything``)."""
        log, bare = detach(statistic)
        if log is None:
            return Packet(self.fit, bare, None, {}, None, self.scale)
        numbered = {self._number(step): step for step in log.steps}
        new = {k: step for k, step in numbered.items() if everything or k not in self._seen}
        head = replace(log, steps=()) if everything or log.encoders is not self._head else None
        return Packet(self.fit, bare, tuple(numbered), new, head, self.scale)

    def arrived(self, statistic: Any) -> None:
        """All workers have seen the statistic's steps."""
        log, _ = detach(statistic)
        if log is not None:
            self._seen.update(self._number(step) for step in log.steps)
            self._head = log.encoders

    def _number(self, step: Step) -> int:
        if id(step) not in self._known:
            self._known[id(step)] = (next(self._numbers), step)
        return self._known[id(step)][0]


def detach(statistic: Any) -> tuple[Rounds | None, Any]:
    """A statistic's list of steps, and the statistic without it."""
    if hasattr(statistic, "draft"):
        draft = statistic.draft
        return draft.log, replace(statistic, draft=replace(draft, log=None))
    if hasattr(statistic, "log"):
        return statistic.log, replace(statistic, log=None)
    return None, statistic


# ---- on a worker


@dataclass
class _Kept:
    """What a worker keeps of one fit."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    head: Rounds | None = None
    steps: dict[int, Step] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)

    def receive(self, packet: Packet) -> Any:
        """The statistic with its list of steps; None if some of them are unknown."""
        if packet.log is None:
            return packet.statistic
        if packet.head is not None and self.head is None:
            self.head = packet.head
        for number, step in packet.steps.items():
            own = replace(step, partition=self._own(step.partition), grid=self._own(step.grid))
            self.steps.setdefault(number, own)
        if self.head is None or any(number not in self.steps for number in packet.log):
            return None
        log = replace(self.head, steps=tuple(self.steps[number] for number in packet.log))
        statistic = packet.statistic
        if not hasattr(statistic, "draft"):
            return replace(statistic, log=log)
        draft = statistic.draft
        return replace(
            statistic, draft=replace(draft, log=log, partition=self._own(draft.partition))
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


def sum_parts(
    packet: Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> Sums | Unknown:
    """Task: the statistic of some parts together."""
    found = each_part(packet, numbers, rows, threads)
    return Unknown() if isinstance(found, Unknown) else add_sums(found)


def each_part(
    packet: Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> list[Sums] | Unknown:
    """Task: the statistic of some parts, one by one."""
    kept = _FITS.setdefault(packet.fit, _Kept())
    with kept.lock:  # a task that Dask runs twice must not meet itself
        statistic = kept.receive(packet)
        if statistic is None:
            return Unknown()
        parts = [kept.part(k, own, packet.scale) for k, own in zip(numbers, rows, strict=True)]
        return share_out(statistic.of, parts, threads)


def add_sums(found: Sequence[Sums | Unknown]) -> Sums | Unknown:
    """Task: sums of several workers added up."""
    known = [sums for sums in found if not isinstance(sums, Unknown)]
    if len(known) < len(found):
        return Unknown()
    return tuple(np.sum(each, axis=0) for each in zip(*known, strict=True))


def forget(fit: str) -> None:
    """Remove what a worker keeps of a fit."""
    _FITS.pop(fit, None)


# ---- on the driver


@dataclass(frozen=True, eq=False)
class ScoresOf:
    """Statistic: scores of the rows after the last step (not a sum)."""

    log: Rounds

    def of(self, part: Part) -> Sums:
        return (part.scores(self.log),)  # type: ignore[return-value]  # floats, not summed


class OnWorkers:
    """A :class:`~recalibrate.core.source.StatsSource` over rows on Dask workers.

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
        self._sender = Sender(scale)

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        for piece in range(pieces):
            work(piece)

    def sums(self, statistic: Statistic) -> Sums:
        found: Sums = self._send(
            statistic, lambda packet: collect(self.client, [self._summed(packet)])[0]
        )
        return found

    def each(self, statistic: Statistic) -> Iterable[Sums]:
        def one_by_one(packet: Packet) -> Any:
            groups = self._by_worker()
            tasks = [self._submit(each_part, packet, *group) for group in groups]
            found = collect(self.client, tasks)
            if any(isinstance(own, Unknown) for own in found):
                return Unknown()
            pairs = zip(groups, found, strict=True)
            return {k: sums for (_, ks), own in pairs for k, sums in zip(ks, own, strict=True)}

        by_part = self._send(statistic, one_by_one)
        return [by_part[k] for k in range(len(self.rows))]

    def scores(self, log: Rounds) -> Scores:
        return np.concatenate([own for (own,) in self.each(ScoresOf(log))])

    def close(self) -> None:
        """Let the workers forget what they worked out."""
        with ignoring_failures():  # workers may be gone, and their memory with them
            self.client.run(forget, self._sender.fit)

    def _send(self, statistic: Any, post: Callable[[Packet], Any]) -> Any:
        """Ask, and once more with all steps if a worker had not seen some of them."""
        for everything in (False, True, True, True):
            found = post(self._sender.pack(statistic, everything=everything))
            if not isinstance(found, Unknown):
                self._sender.arrived(statistic)
                return found
        raise RuntimeError("Dask workers keep losing the steps of the fit; is the cluster stable?")

    def _summed(self, packet: Packet) -> Any:
        tasks = [self._submit(sum_parts, packet, *group) for group in self._by_worker()]
        while len(tasks) > 1:
            groups = [tasks[k : k + FAN_IN] for k in range(0, len(tasks), FAN_IN)]
            tasks = [self.client.submit(add_sums, group, pure=False) for group in groups]
        return tasks[0]

    def _submit(self, task: Any, packet: Packet, worker: str | None, numbers: list[int]) -> Any:
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
