"""Rows on the workers of a Dask cluster.

A worker keeps its parts between questions, in a table of its own process: a cache, no more. The
rows themselves are results of Dask tasks, which Dask makes again where a worker is lost; a part
that is not there, or knows fewer steps, replays the list of steps. Questions go out as one task
per worker, and answers are added on the workers before one of them comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.levels import Levels
from recalibrate.core.part import Answer, Part, Question, Rows
from recalibrate.core.rounds import Rounds, Scores, Step
from recalibrate.support.optional import require

FAN_IN = 8
"""Answers that one task adds up."""


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


# ---- what travels


@dataclass(frozen=True)
class Unknown:
    """Answer of a worker that has not seen some of the steps."""


@dataclass(frozen=True, eq=False)
class Packet:
    """A question on its way to a worker.

    Attributes
    ----------
    fit
        Name of the rows' table on the workers.
    question
        The question, without its list of steps.
    log
        Numbers of the steps; None where the question has none.
    steps
        Those that a worker may not have seen, by number.
    head
        The list without steps, if a worker may not have seen it.
    scale
        Fixed point of the answers.
    """

    fit: str
    question: Any
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

    def pack(self, question: Any, *, everything: bool = False) -> Packet:
        """The question, with the steps that workers lack (or ``everything``)."""
        log, bare = detach(question)
        if log is None:
            return Packet(self.fit, bare, None, {}, None, self.scale)
        numbered = {self._number(step): step for step in log.steps}
        new = {k: step for k, step in numbered.items() if everything or k not in self._seen}
        head = replace(log, steps=()) if everything or log.encoders is not self._head else None
        return Packet(self.fit, bare, tuple(numbered), new, head, self.scale)

    def arrived(self, question: Any) -> None:
        """All workers have seen the question's steps."""
        log, _ = detach(question)
        if log is not None:
            self._seen.update(self._number(step) for step in log.steps)
            self._head = log.encoders

    def _number(self, step: Step) -> int:
        if id(step) not in self._known:
            self._known[id(step)] = (next(self._numbers), step)
        return self._known[id(step)][0]


def detach(question: Any) -> tuple[Rounds | None, Any]:
    """A question's list of steps, and the question without it."""
    if hasattr(question, "draft"):
        draft = question.draft
        return draft.log, replace(question, draft=replace(draft, log=None))
    if hasattr(question, "log"):
        return question.log, replace(question, log=None)
    return None, question


# ---- on a worker


@dataclass
class _Kept:
    """What a worker keeps of one fit."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    head: Rounds | None = None
    steps: dict[int, Step] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)

    def receive(self, packet: Packet) -> Any:
        """The question with its list of steps; None if some of them are unknown."""
        if packet.log is None:
            return packet.question
        if packet.head is not None and self.head is None:
            self.head = packet.head
        for number, step in packet.steps.items():
            own = replace(step, partition=self._own(step.partition), grid=self._own(step.grid))
            self.steps.setdefault(number, own)
        if self.head is None or any(number not in self.steps for number in packet.log):
            return None
        log = replace(self.head, steps=tuple(self.steps[number] for number in packet.log))
        question = packet.question
        if not hasattr(question, "draft"):
            return replace(question, log=log)
        draft = question.draft
        return replace(
            question, draft=replace(draft, log=log, partition=self._own(draft.partition))
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


def ask_parts(
    packet: Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> Answer | Unknown:
    """Task: the summed answer of some parts."""
    answers = _ask_each(packet, numbers, rows, threads)
    return Unknown() if isinstance(answers, Unknown) else add_answers(answers)


def ask_rows(
    packet: Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> list[Answer] | Unknown:
    """Task: the answers of some parts, one by one."""
    return _ask_each(packet, numbers, rows, threads)


def _ask_each(
    packet: Packet, numbers: Sequence[int], rows: Sequence[Rows], threads: int
) -> list[Answer] | Unknown:
    kept = _FITS.setdefault(packet.fit, _Kept())
    with kept.lock:  # a task that Dask runs twice must not meet itself
        question = kept.receive(packet)
        if question is None:
            return Unknown()
        parts = [kept.part(k, own, packet.scale) for k, own in zip(numbers, rows, strict=True)]
        if threads == 1 or len(parts) == 1:
            return [question.ask(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(question.ask, parts))


def add_answers(answers: Sequence[Answer | Unknown]) -> Answer | Unknown:
    """Task: the sum of some answers."""
    known = [answer for answer in answers if not isinstance(answer, Unknown)]
    if len(known) < len(answers):
        return Unknown()
    return tuple(np.sum(each, axis=0) for each in zip(*known, strict=True))


def forget(fit: str) -> None:
    """Remove what a worker keeps of a fit."""
    _FITS.pop(fit, None)


# ---- on the driver


@dataclass(frozen=True, eq=False)
class ScoresOf:
    """Question: scores of the rows after the last step (not a sum)."""

    log: Rounds

    def ask(self, part: Part) -> Answer:
        return (part.scores(self.log),)  # type: ignore[return-value]  # floats, not summed


class OnWorkers:
    """A :class:`~recalibrate.rows.memory.StatsSource` over rows on Dask workers.

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

    def sums(self, question: Question) -> Answer:
        found: Answer = self._send(question, lambda packet: self._summed(packet).result())
        return found

    def each(self, question: Question) -> Iterable[Answer]:
        def one_by_one(packet: Packet) -> Any:
            groups = self._by_worker()
            tasks = [self._submit(ask_rows, packet, *group) for group in groups]
            found = self.client.gather(tasks)
            if any(isinstance(answers, Unknown) for answers in found):
                return Unknown()
            pairs = zip(groups, found, strict=True)
            return {
                k: own for (_, ks), answers in pairs for k, own in zip(ks, answers, strict=True)
            }

        answers = self._send(question, one_by_one)
        return [answers[k] for k in range(len(self.rows))]

    def scores(self, log: Rounds) -> Scores:
        return np.concatenate([own for (own,) in self.each(ScoresOf(log))])

    def close(self) -> None:
        """Let the workers forget what they worked out."""
        with suppress(Exception):  # workers may be gone, and their memory with them
            self.client.run(forget, self._sender.fit)

    def _send(self, question: Any, post: Callable[[Packet], Any]) -> Any:
        """Ask, and once more with all steps if a worker had not seen some of them."""
        for everything in (False, True, True, True):
            found = post(self._sender.pack(question, everything=everything))
            if not isinstance(found, Unknown):
                self._sender.arrived(question)
                return found
        raise RuntimeError("Dask workers keep losing the steps of the fit; is the cluster stable?")

    def _summed(self, packet: Packet) -> Any:
        tasks = [self._submit(ask_parts, packet, *group) for group in self._by_worker()]
        while len(tasks) > 1:
            groups = [tasks[k : k + FAN_IN] for k in range(0, len(tasks), FAN_IN)]
            tasks = [self.client.submit(add_answers, group, pure=False) for group in groups]
        return tasks[0]

    def _submit(self, task: Any, packet: Packet, worker: str | None, numbers: list[int]) -> Any:
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        rows = [self.rows[k] for k in numbers]
        threads = self._threads.get(worker, 1)
        return self.client.submit(task, packet, numbers, rows, threads, pure=False, **where)

    def _by_worker(self) -> list[tuple[str | None, list[int]]]:
        """Numbers of the parts on every worker; lost ones go to whoever makes them again."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        self._threads = {address: int(about["nthreads"]) for address, about in workers.items()}
        holders = self.client.who_has(self.rows)
        groups: dict[str | None, list[int]] = {}
        for number, future in enumerate(self.rows):
            present = [address for address in holders.get(future.key, ()) if address in workers]
            groups.setdefault(present[0] if present else None, []).append(number)
        return list(groups.items())


@contextmanager
def rows_on_workers(
    client: Any, rows: Sequence[Any], n_rows: int, scale: Scale
) -> Iterator[OnWorkers]:
    """An engine over rows on Dask workers."""
    source = OnWorkers(client, rows, n_rows, scale)
    try:
        yield source
    finally:
        source.close()
