"""The loop on rows in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.boost import Boosted, Settings, boost
from recalibrate.core.fixedpoint import label_bits, make_scale
from recalibrate.core.learning import FunctionClass
from recalibrate.core.rounds import Scores
from recalibrate.core.source import StatsSource
from recalibrate.fitting.validation import (
    FoldRun,
    Verdict,
    mean_rounds,
    pass_verdict,
    row_losses,
)
from recalibrate.fitting.workbench import Bench, alone_scale
from recalibrate.rows.binding import Binder
from recalibrate.rows.dealing import Folds
from recalibrate.rows.memory import Rows, Sided, rows_in_memory
from recalibrate.rows.pieces import Encoded, Pieces, Weigh, extreme_weights


@dataclass(frozen=True, eq=False)
class HeldOutPieces:
    """Rows in pieces that only validate."""

    encoded: Encoded

    @property
    def y(self) -> Scores:
        return self.encoded.labels()

    @property
    def weight(self) -> NDArray[np.int64]:
        return self.encoded.weights()


HeldOut = Rows | HeldOutPieces


@dataclass(frozen=True, eq=False)
class StreamBench(Bench[HeldOut]):
    """Rows in pieces, encoded where they are, for one class H.

    Attributes
    ----------
    encoded
        The rows.
    pieces
        What they were made from.
    """

    encoded: Encoded
    pieces: Pieces

    def run(
        self, settings: Settings, *, held_out: HeldOut | None = None, progress: bool | None = None
    ) -> Boosted:
        self.pieces.drop()  # the last run of a fit: from now on encoded rows are enough
        return super().run(settings, held_out=held_out, progress=progress)

    @contextmanager
    def open(self, held_out: HeldOut | None = None) -> Iterator[StatsSource]:
        with self.encoded.open(self.scale) as source:
            if held_out is None:
                yield source
            elif isinstance(held_out, Rows):
                with rows_in_memory(held_out, self.scale, threads=self.threads) as aside:
                    yield Sided(source, aside)
            else:
                with held_out.encoded.open(self.scale) as elsewhere:
                    yield Sided(source, elsewhere)

    def open_alone(self, held_out: HeldOut) -> AbstractContextManager[StatsSource]:
        scale, weight = alone_scale(held_out)
        if isinstance(held_out, Rows):
            return rows_in_memory(replace(held_out, weight=weight), scale, threads=self.threads)
        return held_out.encoded.reweighted(weight).open(scale)

    def keep(self, rows: Rows) -> HeldOut:
        return rows

    def hold_out(self, aside: Pieces) -> HeldOutPieces:
        """Rows that were set aside, encoded like the others."""
        factor = None
        if self.scale.weighted:
            factor = self.scale.held_out_factor(aside.size.n_rows, aside.size.heaviest)
        return HeldOutPieces(aside.encode((self.learner.encoder,), Weigh(self.scale, factor)))

    def cross_validate(
        self,
        settings: Settings,
        folds: Folds,
        held_out: Sequence[int],
        weight: Sequence[Scores] | None,
    ) -> Verdict:
        """How many rounds to take, by fitting without the rows of each fold.

        Parameters
        ----------
        settings
            Of the loop.
        folds
            Fold of every row, piece by piece.
        held_out
            The folds to hold out, one after the other.
        weight
            Weight of every row, piece by piece, if they differ.
        """
        start = self.start(settings)
        aside = [self.encoded.take(folds, k, inside=True) for k in held_out]
        runs = []
        for k, own in zip(held_out, aside, strict=True):
            train = self.encoded.take(folds, k, inside=False)
            runs.append(self._run_fold(settings, train, own))
            train.drop()
        rounds = mean_rounds(runs, start)
        before, after = [], []
        for run, own in zip(runs, aside, strict=True):
            y, end = own.labels(), run.log.first_rounds(start.n_rounds + rounds)
            with own.open(self.scale) as source:
                before.append(row_losses(y, source.scores(start), start.link))
                after.append(row_losses(y, source.scores(end), start.link))
            own.drop()
        mass = None
        if weight is not None:
            pairs = [(w, fold) for w, fold in zip(weight, folds, strict=True)]
            mass = np.concatenate([w[fold == k] for k in held_out for w, fold in pairs])
        return pass_verdict(runs, rounds, np.concatenate(before), np.concatenate(after), mass)

    def _run_fold(self, settings: Settings, train: Encoded, aside: Encoded) -> FoldRun:
        # Keeping the last update un-rounded is the last word of a model, not of a fold.
        settings = replace(settings, keep_unrounded=False)
        with train.open(self.scale) as source, aside.open(self.scale) as held_out:
            boosted = boost(
                Sided(source, held_out),
                self.learner,
                settings,
                self.start(settings),
                progress=False,
                keep_if_interrupted=False,
            )
        return FoldRun(boosted.path, np.empty(0, np.intp), boosted.history.held_out)


def make_bench(pieces: Pieces, H: FunctionClass, settings: Settings, threads: int) -> StreamBench:
    """Bind the class to the columns of all pieces and encode the rows."""
    bits = None
    if settings.replaces:
        found = list(pieces.map(LabelBits()))
        bits = None if None in found else max(bit for bit in found if bit is not None)
    newton = settings.link == "logit"
    scale = make_scale(pieces.size.n_rows, extreme_weights(pieces), newton=newton, exact_bits=bits)
    learner = Binder(pieces, scale).bind(H)
    encoded = pieces.encode((learner.encoder,), Weigh(scale))
    return StreamBench(pieces.problem, learner, scale, threads, encoded, pieces)


@dataclass(frozen=True)
class LabelBits:
    """Work: bits after the point that hold every label of a piece, see ``fixedpoint``."""

    def __call__(self, piece: Problem) -> int | None:
        return label_bits(piece.labels.values)
