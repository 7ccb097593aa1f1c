"""Rows of a default fit that come in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.learning import FunctionClass, Learner
from recalibrate.core.rounds import Encoder
from recalibrate.core.source import StatsSource
from recalibrate.fitting.default.sample import choosing_rows
from recalibrate.rows.binding import Binder
from recalibrate.rows.memory import Rows
from recalibrate.rows.pieces import Pieces, Weigh, extreme_weights
from recalibrate.rows.sampling import sample_pieces


class PantryInPieces:
    """A `Pantry`: the sample in this process, all rows where they are.

    Parameters
    ----------
    pieces
        All rows, more than choices are made on.
    seed
        Draws the sample.
    threads
        For work in this process; does not change a result.
    """

    numbers = None

    def __init__(self, pieces: Pieces, seed: int, threads: int) -> None:
        n_rows, newton = pieces.size.n_rows, pieces.problem.link == "logit"
        self.sample = sample_pieces(pieces, choosing_rows(n_rows), seed)
        self.scale = make_scale(n_rows, extreme_weights(pieces), newton=newton)
        self._pieces = pieces
        self._binder = Binder(pieces, self.scale)
        self._threads = threads

    def bind(self, H: FunctionClass, index: int) -> Learner:
        return self._binder.bind(H, index)

    def encode(self, encoders: Sequence[Encoder], *, lots: bool = False) -> Rows:
        sample, labels = self.sample, self.sample.labels
        blocks = tuple(encoder.encode(sample.table, self._threads) for encoder in encoders)
        weight = self.scale.quantise_weight(labels.weight)
        return Rows(blocks, labels.values, sample.base, weight)

    @contextmanager
    def open(self, encoders: Sequence[Encoder | None]) -> Iterator[StatsSource]:
        encoded = self._pieces.encode(encoders, Weigh(self.scale))
        self._pieces.drop()
        with encoded.open(self.scale) as source:
            yield source

    @contextmanager
    def beside(self, source: StatsSource, count: int) -> Iterator[Sequence[StatsSource]]:
        yield [source]  # its parts are where the rows are, and there is one of each
