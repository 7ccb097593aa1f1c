"""Rows of a default fit: all of them to be fitted, and those that its choices are made on.

Folds, numbers of steps and weights come from whole columns of held-out scores. A million rows
say all that can be said about them, so that is where choosing stops; refitting goes over all
rows, wherever they are. What is chosen must hold for both: classes are bound to all rows, and
one scale serves all sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.learning import FunctionClass, Learner
from recalibrate.core.rounds import Encoder
from recalibrate.core.source import StatsSource
from recalibrate.data.folds import tell_apart
from recalibrate.rows.memory import EncodedInMemory, MemoryStore
from recalibrate.rows.store import Encoded, Store, weights_of

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
            keys = tell_apart(self.problem.hashes(self._seed))
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
