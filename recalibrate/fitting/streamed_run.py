"""One call of ``fit`` on rows in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.core.boost import Settings
from recalibrate.core.rounds import Scores
from recalibrate.data.folds import count_folds
from recalibrate.data.quantiles import cut_at_quantiles, integer_weights
from recalibrate.fitting.arguments import gives_rows, is_share, ranked_values
from recalibrate.fitting.default.sample import Pantry, PantryInMemory, choosing_rows
from recalibrate.fitting.run import Run, check_share
from recalibrate.fitting.streamed_bench import StreamBench, make_bench
from recalibrate.fitting.streamed_pantry import PantryInPieces
from recalibrate.fitting.validation import Verdict
from recalibrate.fitting.workbench import Bench
from recalibrate.rows.dealing import deal, set_aside
from recalibrate.rows.distributions import distribution
from recalibrate.rows.pieces import Pieces
from recalibrate.rows.sampling import collect


class StreamRun(Run):
    """A fit whose rows are in pieces, wherever they are.

    Everything is run as in memory; what differs is where rows are encoded, how they are set
    aside, and that the default collects those that its choices are made on.

    Parameters
    ----------
    pieces
        The rows.
    base, H, threads, seed, progress
        As in `Run`.
    """

    def __init__(
        self,
        base: Base,
        pieces: Pieces,
        H: Any,
        threads: int,
        seed: int,
        progress: bool | None,
    ) -> None:
        super().__init__(base, pieces.problem, H, threads, None, seed, progress)
        self.pieces = pieces

    @property
    def n_rows(self) -> int:
        """Rows that can be fitted."""
        return self.pieces.size.n_rows

    def borders(self, levels: int) -> NDArray[np.float64]:
        """Borders of cells with equally many labels, see `recalibrate.fitting.arguments`."""
        size = self.pieces.size
        weighted = self.problem.labels.weight is not None
        reader = RankedValues(levels, size.n_rows, size.heaviest if weighted else None)

        def targets(total: int) -> NDArray[np.int64]:
            return np.array([-(-total * j // levels) for j in range(1, levels)], dtype=np.int64)

        found = distribution(self.pieces, reader, targets)
        inner = cut_at_quantiles(found.values, found.mass, levels)
        return np.concatenate([[found.low], inner, [found.high]])

    def _pantry(self) -> Pantry:
        if choosing_rows(self.n_rows) == self.n_rows:  # then they are few, and quicker here
            return PantryInMemory(collect(self.pieces), self.seed, self.threads, None)
        return PantryInPieces(self.pieces, self.seed, self.threads)

    def _bench(self, settings: Settings) -> StreamBench:
        return make_bench(self.pieces, self.H, settings, self.threads)

    def _paper_bench(self, settings: Settings, validation: Any) -> tuple[Bench[Any], Any]:
        if is_share(validation):
            check_share(validation)
            folds = set_aside(self.pieces, float(validation), self.seed)
            train = self.pieces.take(folds, 1, inside=False)
            aside = self.pieces.take(folds, 1, inside=True)
            if train.size.n_rows and aside.size.n_rows:
                bench = make_bench(train, self.H, settings, self.threads)
                encoded_aside = bench.hold_out(aside)
                self.pieces.drop()
                return bench, encoded_aside
        bench, held_out = self._bench(settings), None
        if gives_rows(validation):
            held_out = bench.read_held_out(self.base, validation, clip=True)
        return bench, held_out

    def _cross_validate(
        self, bench: Any, settings: Settings, cv: Any, validation: float | None
    ) -> Verdict | None:
        check_share(validation)
        if validation is not None:
            folds, held_out = set_aside(self.pieces, float(validation), self.seed), [1]
            if not 0 < sum(int(fold.sum()) for fold in folds) < self.n_rows:
                return None
        else:
            count = min(count_folds(cv), self.n_rows)
            if count < 2:
                return None
            folds, held_out = deal(self.pieces, count, self.seed), list(range(count))
        weighted = self.problem.labels.weight is not None
        weight = list(self.pieces.map(RawWeights())) if weighted else None
        own: StreamBench = bench
        return own.cross_validate(settings, folds, held_out, weight)


@dataclass(frozen=True)
class RankedValues:
    """Labels on the link's scale (of 0/1 labels base scores), by their own weights."""

    levels: int
    n_rows: int
    heaviest: float | None

    def __call__(self, piece: Problem) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        weight = piece.labels.weight
        values = np.asarray(ranked_values(piece))
        if weight is None or self.heaviest is None:
            return values, np.empty(0, dtype=np.int64)
        return values, integer_weights(weight, self.levels, self.n_rows, self.heaviest)


@dataclass(frozen=True)
class RawWeights:
    """Work: weights of the rows."""

    def __call__(self, piece: Problem) -> Scores:
        weight = piece.labels.weight
        return np.ones(piece.n_rows) if weight is None else np.array(weight)
