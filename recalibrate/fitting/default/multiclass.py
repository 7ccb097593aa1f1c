"""What ``fit`` does by default for several classes.

1. Scores of classes become linear functions of the base's (``scaling``), if that lowers the
   held-out loss.
2. Boosting with H from there, or from the base: in every sweep a small step for each class, all
   from the same scores. Those of a line are from one that had not seen the row, because a matrix of
   numbers that was fitted to a row knows its label.
3. Weights of the line and of what boosting added, from held-out scores; what does not pay in full
   is taken in part.
4. Correction on level sets, class by class (``level_sets``).

Everything has to pay on held-out rows (``judging.is_taken``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.classes.linear import UNIT, LinearTable, Quantiser
from recalibrate.core.boost import EVERYTHING, Boosted, History, Settings
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import FunctionClass, is_score
from recalibrate.core.rounds import Rounds, Scores, Step
from recalibrate.explain.notes import NO_CORRECTION, NamedLoss, say_shrinkage
from recalibrate.fitting.default.judging import (
    HeldOutScores,
    best_share,
    class_weights,
    correction_weight,
    held_out_gain,
    is_informed,
    is_taken,
)
from recalibrate.fitting.default.level_sets import add_level_sets
from recalibrate.fitting.default.recipe import finish
from recalibrate.fitting.default.score import LINE_CLASS
from recalibrate.fitting.default.settings import (
    DEFAULT_CLASS,
    MORE_STEPS,
    MOST_WEIGHT,
    REFIT_RUNS,
    main_settings,
)
from recalibrate.fitting.default.stages import Sample, Stage
from recalibrate.fitting.validation import Fitted
from recalibrate.kernels.classes import add_scaled
from recalibrate.rows.memory import EncodedInMemory
from recalibrate.rows.store import Fold
from recalibrate.support.hashing import average
from recalibrate.support.notices import listed
from recalibrate.support.threads import take_turns

# --- Scores of classes as linear functions of the base's: the line of several classes -----------
#
# :math:`z = (a I + D + O) x + b` with the base's log-probabilities x: a temperature a, a
# diagonal D and intercepts b that every class has of its own, and O for what the score of one
# class says about another. Each is pulled towards zero by a ridge that grows with how many
# numbers it holds, K / n for D and b, K (K - 1) / n for O, so that a few rows choose a
# temperature and many a whole matrix. How much of O is worth having differs from base to base
# more than its size tells: it is fitted with a small ridge, and held-out rows say which share of
# it to take.


RIDGE = 1.0
"""Times K / n, for the numbers of each class (this and the next: halves of calibration rows)."""
OFF_RIDGE = 0.2
"""Times K (K - 1) / n, for what classes say about each other."""
MOST_STEPS, FACTOR, DIGITS = 200, 1e7, 6
"""The search ends where a step lowers the loss by less than 2e-9 of it, below what rows tell."""
SCORE_BITS, RESIDUAL_BITS, LOSS_BITS = 10, 16, 20
"""Bits behind the point of scores, residuals and losses while the matrix is searched for.

Products of so few bits, summed over a million rows, are whole numbers below 2**53: their sums are
exact in any order.
"""


@dataclass(frozen=True, eq=False)
class _Scaling:
    """The matrix and the intercepts."""

    matrix: NDArray[np.float64]
    intercept: NDArray[np.float64]

    @classmethod
    def identity(cls, count: int) -> _Scaling:
        """Scores of so many classes as they are."""
        return cls(np.eye(count), np.zeros(count))

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        unchanged = np.array_equal(self.matrix, np.eye(len(self.matrix)))
        return unchanged and not self.intercept.any()

    def of(self, x: Scores) -> Scores:
        """Scores of classes from those of the base; multiples of what steps are made of."""
        # Column by column: a matrix product may add up in any order.
        out = np.empty(x.shape, order="F")
        for k, (row, constant) in enumerate(zip(self.matrix, self.intercept, strict=True)):
            total = np.full(len(x), constant)
            for j, factor in enumerate(row):
                total += factor * x[:, j]
            out[:, k] = total
        return snap(out)

    def steps(
        self, encoder: Quantiser, index: int, names: Sequence[str], x: Scores
    ) -> tuple[Step, ...]:
        """The same as steps of a model, one for every class; ``names`` of the scores' columns."""
        change = self.matrix - np.eye(len(self.matrix))
        values = {t.name: (j, t) for j, t in enumerate(encoder.terms) if t.kind == "value"}
        columns = np.zeros((len(change), len(encoder.terms)))
        columns[:, 0] = self.intercept
        for j, name in enumerate(names):
            if name in values:
                at, term = values[name]
                columns[:, at] = change[:, j] / term.factor
                columns[:, 0] += change[:, j] * term.centre
            else:  # the same score for all rows
                columns[:, 0] += change[:, j] * float(x[0, j])
        columns[:, 0] /= UNIT
        tables = [LinearTable(np.ones(1, np.bool_), row[None, :], inf) for row in snap(columns)]
        return tuple(
            Step(EVERYTHING if k == 0 else None, table, index, False, None, k)
            for k, table in enumerate(tables)
        )

    def weighted(self, factor: float) -> _Scaling:
        """The same with all scores multiplied."""
        return _Scaling(factor * self.matrix, factor * self.intercept)

    def towards(self, other: _Scaling, share: float) -> _Scaling:
        """Between the two: a share of the way to the other."""
        matrix = self.matrix + share * (other.matrix - self.matrix)
        return _Scaling(matrix, self.intercept + share * (other.intercept - self.intercept))

    def without(self, other: _Scaling, everything: _Scaling) -> _Scaling:
        """What is left if also those rows are left out that ``other`` was fitted without.

        To first order, rows left out change a fit by a sum over rows (the infinitesimal jackknife).
        """
        matrix = self.matrix + (other.matrix - everything.matrix)
        return _Scaling(matrix, self.intercept + (other.intercept - everything.intercept))


def _fit_scaling(
    x: Scores,
    y: Scores,
    weight: Scores | None,
    start: _Scaling | None = None,
    *,
    whole: bool = True,
) -> _Scaling:
    """The matrix with the lowest penalised log loss on some rows, searched from ``start``.

    ``whole`` False: classes say nothing about each other, the matrix is diagonal.
    """
    from scipy.optimize import fmin_l_bfgs_b

    count = x.shape[1]
    begun = _Scaling.identity(count) if start is None else start
    found, _, _ = fmin_l_bfgs_b(
        _objective(x, y, weight, whole), _pack(begun), maxiter=MOST_STEPS, m=20, factr=FACTOR
    )
    # Processors add up in different orders, and searches on two of them ended 1e-10 apart. The loss
    # is flat far beyond the sixth digit: its change is of the order of the square of 1e-6.
    return _unpack(np.round(found, DIGITS), count)


def _pack(scaling: _Scaling) -> NDArray[np.float64]:
    """Temperature, what classes differ from it, and intercepts, as one vector."""
    matrix = scaling.matrix
    temperature = float(np.mean(np.diag(matrix)))
    apart = matrix - temperature * np.eye(len(matrix))
    return np.concatenate([[temperature], apart.ravel(), scaling.intercept])


def _unpack(packed: NDArray[np.float64], count: int) -> _Scaling:
    apart = packed[1 : 1 + count * count].reshape(count, count)
    return _Scaling(apart + packed[0] * np.eye(count), packed[1 + count * count :])


def _objective(
    x: Scores, y: Scores, weight: Scores | None, whole: bool
) -> Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
    """Penalised mean log loss and its gradient."""
    n_rows, count = x.shape
    share = np.ones(n_rows) if weight is None else weight / weight.max()
    total = float(np.sum(np.rint(share * 2.0**LOSS_BITS))) / 2.0**LOSS_BITS
    coarse, labels = np.ascontiguousarray(np.rint(x * 2.0**SCORE_BITS)), np.ascontiguousarray(y)
    units = 2.0**SCORE_BITS, 2.0**RESIDUAL_BITS, 2.0**LOSS_BITS
    diagonal = np.arange(count)
    ridge = np.full((count, count), OFF_RIDGE * count * (count - 1) / total)
    own_ridge = ridge[diagonal, diagonal] = RIDGE * count / total

    def value(packed: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scaling = _unpack(packed, count)
        slope, by_class = np.zeros((count, count)), np.zeros(count)
        rows = coarse, labels, share, scaling.matrix, scaling.intercept
        loss = add_scaled(*rows, units, whole, slope, by_class) / (total * units[2])
        slope /= total * units[1] * units[0]
        apart, b = packed[1 : 1 + count * count].reshape(count, count), scaling.intercept
        penalty = float(np.sum(ridge * apart**2)) + own_ridge * float(b @ b)
        by_class = by_class / (total * units[1]) + 2.0 * own_ridge * b
        gradient = [[np.trace(slope)], (slope + 2.0 * ridge * apart).ravel(), by_class]
        return loss + penalty, np.concatenate(gradient)

    return value


LINE_ENCODER, MAIN_ENCODER = range(2)
LINE_ERRORS = 1.5
"""Standard errors by which the line has to lower the held-out loss: fewer than boosting, because a
line is pulled towards the base as strongly as rows are few. On halves of calibration rows lines of
1.6 to 1.9 lowered the loss by .7 to 3 %; on simulated right bases one of 1 raised it by 12 %."""
CHANCE, MOVED_CHANCE = 2.5, 1.0
"""Standard errors that chance makes of boosting worth nothing: from the base, and from a line
that was taken.

A part of boosting is shrunken as James and Stein do, by 1 - (chance / errors)^2. More than one from
the base, because rows of two folds judge each other, so that every pair of them counts twice, and
the same rows chose the number of sweeps: of 60 right bases of four classes and 1,000 rows three
were more than three such errors off. One from a line, where a model that was moved anyway has less
to lose: in 32 draws of some 600 rows that lowered the loss by .35 % and raised it by .4 % at worst.
"""
PATIENCE = 16
"""Sweeps without a gain on held-out rows. A sweep has K trees, and the sum over classes falls more
evenly than the loss of a single tree; of 25, most time went into sweeps beyond the best."""
BINS = 63
"""A base has K scores, and bins of all of them are what most time goes into: 255 take a third more
and do no better (halves of calibration rows)."""
LEAST_GRADIENT = 0.1
"""Rows that are so unlikely of a class are looked at in proportion to their probability.

A row of probability p adds p to the variance of a gradient's sum by its label, and standing for
1 / p tenths of a row another tenth of p: about what leaving out a tenth of all rows adds.
"""


def follow_classes(
    sample: Sample,
    H: FunctionClass,
    folds: Sequence[Fold],
    *,
    threads: int,
    seed: int,
    progress: bool | None = False,
) -> tuple[Boosted, Settings, tuple[str, ...]]:
    """All stages on all rows, settings of the main one, and in words what was decided."""
    stages = _Classes(sample, H, folds, threads, seed)
    choice = stages.choose(stages.run_folds())
    model, history = stages.refit(choice, progress)
    # With H given, no column counts that it does not name.
    terms = H if H.terms or H is DEFAULT_CLASS else None
    model, note = add_level_sets(
        model, sample.problem, terms, choice.held_out, sample.scale, threads
    )
    history = replace(history, held_out=choice.curve)
    notes = (*_say_absent(sample.problem), *choice.notes, note)
    notes = notes if model.steps else (*notes, NO_CORRECTION)
    return finish(model, history), stages.main.settings, notes


def _say_absent(problem: Problem) -> tuple[str, ...]:
    """Classes without a row: all that these rows say of them is that they are rare."""
    found = np.count_nonzero(problem.labels.values, axis=0)
    absent = [label for label, some in zip(problem.labels.classes, found, strict=True) if not some]
    if not absent:
        return ()
    return (f"no calibration row is of class {listed(absent, 5)}: its probability can only fall",)


@dataclass(frozen=True, eq=False)
class _Choice:
    """How far to go, and held-out scores there.

    Attributes
    ----------
    line, added
        Weights of the line and of what boosting adds to it; 0: leave it out.
    sweeps
        Sweeps of boosting.
    curve
        Mean held-out loss of the base, then by sweep.
    """

    line: float
    added: float
    sweeps: int
    held_out: HeldOutScores
    curve: tuple[float, ...]
    notes: tuple[str, ...]


class _Classes:
    """Bound classes of one default fit, and the rows that choices are made on."""

    def __init__(
        self, sample: Sample, H: FunctionClass, folds: Sequence[Fold], threads: int, seed: int
    ) -> None:
        self.sample, self.threads = sample, threads
        self.problem = problem = sample.problem
        self.x, self.y = problem.base, problem.labels.values
        self.weight = problem.labels.weight
        own = replace(DEFAULT_CLASS, bins=BINS) if H is DEFAULT_CLASS else H
        line, main = sample.bind(LINE_CLASS, LINE_ENCODER), sample.bind(own, MAIN_ENCODER)
        self.line = cast(Quantiser, line.encoder)
        settings = main_settings(problem, H, seed)
        # On level sets of one class after the other, a round is a K-th of a sweep.
        turns = 1 if settings.levels == 1 else problem.labels.outputs
        settings = replace(settings, least_gradient=LEAST_GRADIENT, patience=PATIENCE * turns)
        self.main = Stage(main, settings, MAIN_ENCODER)
        draws = self.main.settings.row_share < 1
        self.refit_runs = REFIT_RUNS if draws else 1
        encoders = (line.encoder, main.encoder)
        self.encoded = sample.encode(encoders, draws=draws)
        self.start = Rounds(problem.link, None, encoders, outputs=problem.labels.outputs)
        self.train = [fold.train.of(0) for fold in folds]
        self.held_out = [fold.held_out.of(0) for fold in folds]
        self.all, self.lines = self._fit_lines()
        self.line_taken, self.line_note = self._judge_line()
        if not self.line_taken:  # boosting starts from the base itself
            self.all = _Scaling.identity(problem.labels.outputs)
            self.lines = [self.all] * len(folds)

    def _judge_line(self) -> tuple[bool, str]:
        """Whether the line lowers the held-out loss of the base, and a note that says so."""
        rows, both = np.concatenate(self.held_out), zip(self.lines, self.held_out, strict=True)
        line = HeldOutScores(rows, np.concatenate([line.of(self.x[r]) for line, r in both]))
        gain, error = held_out_gain(HeldOutScores(rows, self.x[rows]), line, self.problem)
        pays = is_taken(gain, error, evidence=False, least=LINE_ERRORS)
        loss = NamedLoss.of(self.problem.family, self.problem.labels)
        return pays, loss.stage("matrix scaling", "applied" if pays else "", gain, error)

    def _fit_lines(self) -> tuple[_Scaling, list[_Scaling]]:
        """Lines of all rows and of each fold's.

        The share that classes have in each other's is what is best for held-out rows, and the only
        number these lines learn from them.
        """
        everything = np.arange(len(self.y))
        plain = [self._line(rows, None, whole=False) for rows in (everything, *self.train)]
        start = self._line(everything, plain[0], whole=True)
        full = [start, *(self._line(rows, start, whole=True) for rows in self.train)]
        rows = np.concatenate(self.held_out)
        diagonal, matrix = (
            np.concatenate([lines[k + 1].of(self.x[r]) for k, r in enumerate(self.held_out)])
            for lines in (plain, full)
        )
        weight = None if self.weight is None else self.weight[rows]
        share = best_share(self.y[rows], diagonal, matrix - diagonal, weight)
        found = [a.towards(b, share) for a, b in zip(plain, full, strict=True)]
        return found[0], found[1:]

    def _line(self, rows: NDArray[np.intp], start: _Scaling | None, *, whole: bool) -> _Scaling:
        weight = None if self.weight is None else self.weight[rows]
        return _fit_scaling(self.x[rows], self.y[rows], weight, start, whole=whole)

    def _beginnings(self, fold: int) -> Scores:
        """Scores of a fold's training rows by lines that have seen neither them nor the fold."""
        line, rows = self.lines[fold], self.train[fold]
        begun = line.of(self.x)
        if not self.line_taken:
            return begun[rows]
        inside = np.zeros(len(begun), np.bool_)
        inside[rows] = True
        for other, aside in enumerate(self.held_out):
            own = aside[inside[aside]]
            if other == fold or not len(own):
                continue
            if len(aside) + len(self.train[other]) == len(begun):
                apart = line.without(self.lines[other], self.all)
            else:  # folds of another kind: only the rows of this one
                inside[own] = False
                apart = self._line(np.flatnonzero(inside), line, whole=True)
                inside[own] = True
            begun[own] = apart.of(self.x[own])
        return begun[rows]

    def _rows(self, at: NDArray[np.intp], base: Scores) -> EncodedInMemory:
        """Some rows, as if the base had given them other scores."""
        rows = replace(self.encoded.rows.take(at), base=base)
        return replace(self.encoded, rows=rows)

    def run_folds(self) -> list[Fitted]:
        """Boosting without each fold's rows, which say when to stop."""

        def run(fold: int) -> Generator[None, None, Fitted]:
            train = self._rows(self.train[fold], self._beginnings(fold))
            aside = self._aside(fold)
            scale = self.sample.scale
            with train.open(scale, threads=1) as source, aside.open(scale, threads=1) as held_out:
                boosted = yield from self.main.run_in_turns(source, self.start, held_out)
            return Fitted(boosted.path, boosted.history.held_out, (0,))

        return take_turns([run(fold) for fold in range(len(self.train))], self.threads)

    def _aside(self, fold: int) -> EncodedInMemory:
        rows = self.held_out[fold]
        return self._rows(rows, self.lines[fold].of(self.x[rows]))

    def choose(self, runs: Sequence[Fitted]) -> _Choice:
        """How much of boosting to take, by the held-out rows, from the base or its line."""
        sweeps = round(float(np.mean([run.best for run in runs])))
        rows = np.concatenate(self.held_out)
        base = HeldOutScores(rows, self.x[rows])
        begun, boosted = (HeldOutScores(rows, z) for z in self._held_out(runs, sweeps))
        weight = base.weight(self.problem)
        losses = [each.losses(self.problem) for each in (base, begun, boosted)]
        loss = NamedLoss.of(self.problem.family, self.problem.labels)
        gain, error = held_out_gain(begun, boosted, self.problem)
        pays = is_taken(gain, error, evidence=False)
        notes = [self.line_note, loss.stage("boosting", "applied" if pays else "", gain, error)]
        parts = [begun.scores, boosted.scores - begun.scores]
        first, second = float(self.line_taken), float(pays)
        if self.main.settings.levels > 1:  # with other weights, level sets would be others
            first = max(first, second)
        elif pays:
            y = self.y[rows]
            found = class_weights(y, parts, weight)
            if found is None or found[1] > MOST_WEIGHT:
                both = class_weights(y, [boosted.scores], weight)
                found = None if both is None else both * 2
            first, second = found or (1.0, 1.0)
            notes.append(say_shrinkage(first, second))
        else:
            share, errors = correction_weight(begun, boosted, self.problem)
            right = not self.line_taken and is_informed(self.problem)
            chance = CHANCE if right else MOVED_CHANCE
            if errors > chance:
                first, second = 1.0, min(share, 1.0) * (1.0 - (chance / errors) ** 2)
                notes[-1] = (
                    f"boosting: applied at {second:.0%} (at 100%: {loss.change(gain, error)})"
                )
        chosen = first * parts[0] + second * parts[1] if first else base.scores
        means = [average(each, weight) for each in losses]
        cut = self.problem.cut_loss(rows)
        curve = (means[0] + cut, *_mean_curve(runs))
        held_out = HeldOutScores(rows, np.asfortranarray(chosen))
        notes.insert(0, loss.held_out(means[0], held_out.returned_loss(self.problem), cut))
        steps = round(sweeps * MORE_STEPS)
        return _Choice(first, second, steps, held_out, curve, tuple(notes))

    def _held_out(self, runs: Sequence[Fitted], sweeps: int) -> tuple[Scores, Scores]:
        """Held-out scores that boosting starts from, and those after so many sweeps."""
        begun, ends = [], []
        per_sweep = self.start.outputs if self.main.settings.levels == 1 else 1
        for fold, run in enumerate(runs):
            own = self._aside(fold).rows
            begun.append(own.base)
            ends.append(run.model.first(sweeps * per_sweep).apply(own.blocks, own.base))
        return np.concatenate(begun), np.concatenate(ends)

    def refit(self, choice: _Choice, progress: bool | None) -> tuple[Rounds, History]:
        """The chosen stages on all rows."""
        model, history = self.start, History()
        if choice.line == 0:
            return model, history
        added: list[Step] = []
        if choice.added:
            boosted, begun = self._boost(choice.sweeps, progress)
            history = boosted.history
            added = [step.along(choice.added) for step in boosted.model.steps[begun:]]
        return model.append(*self._steps(self.all.weighted(choice.line)), *added), history

    def _steps(self, line: _Scaling) -> tuple[Step, ...]:
        """A line as steps of the model; none if it changes nothing."""
        if line.is_identity:
            return ()
        names = [name for name in self.problem.table.schema.names if is_score(name)]
        return line.steps(self.line, LINE_ENCODER, names, self.x)

    def _boost(self, sweeps: int, progress: bool | None) -> tuple[Boosted, int]:
        """Boosting on all rows, and the steps before it, which are those of the line.

        Rows that all chose from begin at scores of lines that have not seen them. A line through a
        million rows and more knows none of them.
        """
        runs = self.refit_runs
        how: dict[str, Any] = {"patience": None, "max_rounds": sweeps, "progress": progress}
        if not self.sample.complete:
            model = self.start.append(*self._steps(self.all))
            with self.sample.open(self.start.encoders) as source:
                return self.main.run_several([source], model, runs, **how), len(model.steps)
        base = self.all.of(self.x)
        for line, rows in zip(self.lines, self.held_out, strict=True):
            base[rows] = line.of(self.x[rows])
        encoded = self._rows(np.arange(len(base)), base)
        threads = max(1, self.threads // runs)
        with ExitStack() as opened:
            open_one = partial(encoded.open, self.sample.scale, threads=threads)
            sources = [opened.enter_context(open_one()) for _ in range(runs)]
            return self.main.run_several(sources, self.start, runs, **how), 0


def _mean_curve(runs: Sequence[Fitted]) -> tuple[float, ...]:
    """Mean held-out loss by sweep, as far as all folds went."""
    length = min(len(run.curve) for run in runs)
    return tuple(np.mean([run.curve[:length] for run in runs], axis=0).tolist())
