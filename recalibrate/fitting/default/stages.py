"""Stages of a default fit: classes with the settings they are boosted with, and runs of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from recalibrate.core.boost import Boosted, Settings, boost, boost_in_turns
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.learning import FunctionClass, Learner, StatsSource
from recalibrate.core.rounds import Encoder, Rounds
from recalibrate.data.folds import salt_duplicates
from recalibrate.rows.memory import EncodedInMemory, MemoryStore
from recalibrate.rows.store import Encoded, Store, weights_of
from recalibrate.support.threads import Flag, Pool

# --- Rows of a default fit: all of them to be fitted, and those that its choices are made on ----
#
# Folds, numbers of steps and weights come from whole columns of held-out scores. A million rows
# say all that can be said about them, so that is where choosing stops; refitting goes over all
# rows, wherever they are. What is chosen must hold for both: classes are bound to all rows, and
# one scale serves all sums.


CHOOSING_ROWS = 1_000_000
"""Most rows that choices are made on.

With so many the standard error of a held-out loss is a thousandth of a row's own spread, far
below any difference that a user would notice; and they fit in any memory.
"""


class Sample:
    """The rows that choices are made on, in memory, and all rows, wherever they are.

    Parameters
    ----------
    store
        All rows.
    seed
        Draws the sample.
    threads
        For work in this process; does not change a result.

    Attributes
    ----------
    store
        The sample: all rows, or `CHOOSING_ROWS` of them.
    numbers
        Their numbers among all rows; None: these are all, or have none.
    scale
        Fixed point of all sums.
    complete
        Whether the sample is all rows.
    """

    def __init__(self, store: Store, seed: int, threads: int) -> None:
        size = store.size
        self.complete = size.n_rows <= CHOOSING_ROWS
        if self.complete:
            self.store = store = store.in_memory()  # then they are few, and quicker here
            self.numbers = None
        else:
            problem, self.numbers = store.sample(CHOOSING_ROWS, seed)
            self.store = MemoryStore(problem, threads)
        family = store.problem.family
        self.scale = make_scale(
            size.n_rows, weights_of(store), newton=family.newton, extra_bits=family.extra_bits
        )
        self.problem = self.store.problem
        self._all = store
        self._columns = store.columns(self.scale)
        self._seed = seed
        self._threads = threads

    def bind(self, H: FunctionClass, index: int) -> Learner:
        """A class on the columns of all rows; its encoder will be number ``index``."""
        return H.bind(self._columns, index=index)

    def encode(self, encoders: Sequence[Encoder], *, draws: bool) -> EncodedInMemory:
        """The sample as blocks of numbers, one for every encoder.

        With keys if steps ``draw`` rows and these are all there are. More rows than choices are
        made on need no drawing: what a tree finds in them is hardly an accident.
        """
        encoded = self.store.encode(encoders, self.scale.quantise_weight)
        self.store.drop()
        if draws and self.complete:
            keys = salt_duplicates(self.problem.hashes(self._seed))
            encoded = replace(encoded, rows=replace(encoded.rows, keys=keys))
        self.encoded = encoded
        return encoded

    @contextmanager
    def open(self, encoders: Sequence[Encoder | None]) -> Iterator[StatsSource]:
        """All rows as a source; of encoders that are None no step will need the block."""
        encoded: Encoded = self.encoded
        if not self.complete:
            encoded = self._all.encode(encoders, self.scale.quantise_weight)
            self._all.drop()
        with encoded.open(self.scale) as source:
            yield source

    @contextmanager
    def beside(self, source: StatsSource, count: int) -> Iterator[Sequence[StatsSource]]:
        """``count`` sources of the same rows, to work on at the same time.

        Where that does not pay, the opened ``source`` alone: each has scores and sums of its own
        for all rows.
        """
        if not self.complete or min(count, self._threads) == 1:
            yield [source]
            return
        threads = max(1, self._threads // count)
        with ExitStack() as opened:
            open_one = self.encoded.open
            yield [
                opened.enter_context(open_one(self.scale, threads=threads)) for _ in range(count)
            ]


@dataclass(frozen=True, eq=False)
class Stage:
    """A class, bound, with the settings it is boosted with."""

    learner: Learner
    settings: Settings
    encoder: int

    def run(
        self,
        source: StatsSource,
        model: Rounds,
        *,
        progress: bool | None = False,
        keep_if_interrupted: bool = False,
        stop: Flag | None = None,
        **changes: Any,
    ) -> Boosted:
        """Boost from ``model`` on, with some settings changed."""
        return boost(
            source,
            self.learner,
            replace(self.settings, **changes),
            model,
            encoder=self.encoder,
            progress=progress,
            keep_if_interrupted=keep_if_interrupted,
            stop=stop,
        )

    def run_in_turns(
        self, source: StatsSource, model: Rounds, held_out: StatsSource
    ) -> Generator[None, None, Boosted]:
        """The same, with pauses in which other runs have the thread."""
        return boost_in_turns(
            source, self.learner, self.settings, model, held_out, encoder=self.encoder
        )

    def run_several(
        self,
        sources: Sequence[StatsSource],
        model: Rounds,
        runs: int,
        *,
        progress: bool | None = False,
        **changes: Any,
    ) -> Boosted:
        """The mean of so many runs from ``model`` on that differ in what they draw.

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
                model,
                progress=progress if number == 0 else False,
                keep_if_interrupted=True,
                stop=stop,
                **{**changes, "seed": runs * self.settings.seed + number},
            )
            if result.history.stopped == "interrupted":
                stop.set()
            return result

        results = _side_by_side(run, runs, stop) if side_by_side else [run(k) for k in range(runs)]
        begun = len(model.steps)
        grown = [each.model.steps[begun:] for each in results]
        # An interrupted run that hardly began would only weaken the others.
        grown = [steps for steps in grown if 2 * len(steps) >= len(max(grown, key=len))]
        scaled = [step.along(1.0 / len(grown)) for steps in grown for step in steps]
        mean = replace(model, steps=(*model.steps, *scaled))
        return replace(results[0], model=mean, path=mean)


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
