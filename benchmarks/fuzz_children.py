"""Work on many hostile inputs in forked children, with limits of time and memory.

A child works on a batch, and says after each input what became of it. If it dies, or is killed for
its time, that input is a finding, and another child goes on with the next one.
"""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable

BATCH = 100
HANGS = (signal.SIGALRM, signal.SIGPROF)
MOST_MAPPED = 16 << 30
"""Address space of a child: what keeps a runaway from harming the machine. Memory in use counts."""


def run_in_children(
    job: Callable[[int], str],
    count: int,
    *,
    seconds: int = 20,
    most_bytes: int = 2 << 30,
    budget: float | None = None,
    most_findings: int = 10,
) -> tuple[Counter[str], list[str]]:
    """Outcomes of inputs number 0 to count - 1, and findings.

    Parameters
    ----------
    job
        Works on an input and says what became of it; any exception is a finding.
    count
        Number of inputs.
    seconds, most_bytes
        Limits for one of them.
    budget
        Seconds for all of them: then the rest is left.
    most_findings
        Stop after so many.
    """
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    started, at = time.monotonic(), 0
    while at < count and len(findings) < most_findings:
        if budget is not None and time.monotonic() - started > budget:
            outcomes["left for lack of time"] = count - at
            break
        said, status = _batch(job, at, min(at + BATCH, count), seconds, most_bytes)
        for line in said:
            outcome, _, detail = line.partition("\t")
            outcomes[outcome] += 1
            if detail:
                findings.append(f"input {at}: {outcome}: {detail}")
            at += 1
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            outcome = "HANG" if number in HANGS else "CRASH"
            outcomes[outcome] += 1
            findings.append(f"input {at}: {outcome}: signal {number}")
            at += 1
    return outcomes, findings


def in_child(work: Callable[[], None]) -> None:
    """Do something in a child that would start threads, which must not be there at a fork."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the child failed")


def _batch(
    job: Callable[[int], str], start: int, stop: int, seconds: int, most_bytes: int
) -> tuple[list[str], int]:
    """Lines of a child, and how it ended."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        code = 1
        try:
            _work(job, range(start, stop), seconds, most_bytes, theirs)
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    with open(ours, encoding="utf-8") as pipe:
        said = pipe.read().splitlines()
    return said, os.waitpid(child, 0)[1]


def _work(
    job: Callable[[int], str], numbers: range, seconds: int, most_bytes: int, pipe: int
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MAPPED, MOST_MAPPED))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for ending in HANGS:  # by default they end the process, also inside of C code
        signal.signal(ending, signal.SIG_DFL)
    for number in numbers:
        # Processor time, and a generous one of the clock: other programs may be running.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(20 * seconds)
        try:
            line = job(number)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            line = f"UNCLEAR\t{type(error).__name__} at {where}: {str(error)[:200]!r}"
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if used > most_bytes and "\t" not in line:
            line = f"MEMORY\t{used:,} bytes"
        os.write(pipe, (line.replace("\n", " ") + "\n").encode("utf-8", "backslashreplace"))
        if used > most_bytes:
            return
