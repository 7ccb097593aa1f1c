"""Stages of a default fit: classes with the settings they are boosted with, and runs of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from recalibrate.core.boost import Boosted, Settings, boost, boost_in_turns
from recalibrate.core.learning import Learner
from recalibrate.core.rounds import Rounds
from recalibrate.core.source import StatsSource
from recalibrate.support.pool import Flag, Pool


@dataclass(frozen=True, eq=False)
class Stage:
    """A class, bound, with the settings it is boosted with."""

    learner: Learner
    settings: Settings
    encoder: int

    def run(
        self,
        source: StatsSource,
        log: Rounds,
        *,
        progress: bool | None = False,
        keep_if_interrupted: bool = False,
        stop: Flag | None = None,
        **changes: Any,
    ) -> Boosted:
        """Boost from ``log`` on, with some settings changed."""
        return boost(
            source,
            self.learner,
            replace(self.settings, **changes),
            log,
            encoder=self.encoder,
            progress=progress,
            keep_if_interrupted=keep_if_interrupted,
            stop=stop,
        )

    def run_in_turns(
        self, source: StatsSource, log: Rounds, held_out: StatsSource
    ) -> Generator[None, None, Boosted]:
        """The same, with pauses in which other runs have the thread."""
        return boost_in_turns(
            source, self.learner, self.settings, log, held_out, encoder=self.encoder
        )

    def run_several(
        self,
        sources: Sequence[StatsSource],
        log: Rounds,
        runs: int,
        *,
        progress: bool | None = False,
        **changes: Any,
    ) -> Boosted:
        """The mean of so many runs from ``log`` on that differ in what they draw.

        Several runs need steps that add on a single level set. They are done side by side if every
        one has a source of the rows, else one after the other on the first. Ctrl-C ends all of
        them, and each keeps its rounds.

        Returns
        -------
        Boosted
            All runs' steps, scaled, with the history of the first run.
        """
        stop, side_by_side = Flag(), runs > 1 and len(sources) == runs

        def run(number: int) -> Boosted:
            result = self.run(
                sources[number if side_by_side else 0],
                log,
                progress=progress if number == 0 else False,
                keep_if_interrupted=True,
                stop=stop,
                **{**changes, "seed": runs * self.settings.seed + number},
            )
            if result.history.stopped == "interrupted":
                stop.set()
            return result

        results = _side_by_side(run, runs, stop) if side_by_side else [run(k) for k in range(runs)]
        begun = len(log.steps)
        grown = [each.log.steps[begun:] for each in results]
        # An interrupted run that hardly began would only weaken the others.
        grown = [steps for steps in grown if 2 * len(steps) >= len(max(grown, key=len))]
        scaled = [step.along(1.0 / len(grown)) for steps in grown for step in steps]
        mean = replace(log, steps=(*log.steps, *scaled))
        return replace(results[0], log=mean, path=mean)


def _side_by_side(run: Callable[[int], Boosted], runs: int, stop: Flag) -> list[Boosted]:
    """All runs at the same time, the first in this thread, which Ctrl-C reaches."""
    with Pool(runs - 1) as pool:
        try:
            later = [pool.submit(partial(run, number)) for number in range(1, runs)]
            first = run(0)
            try:
                for each in later:
                    each.wait()
            except KeyboardInterrupt:  # each keeps its rounds
                stop.set()
            return [first, *(each.result() for each in later)]
        except BaseException:  # also of a time limit: the other runs would go on to their end
            stop.set()
            raise
