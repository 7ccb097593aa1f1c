"""What ``fit`` does when nobody turns its knobs.

1. A line through the base score (on the log-odds for 0/1 labels): repairs over-confidence.
2. Boosting from there with H: small penalised steps, as many as held-out rows support.
3. Level sets have the last word (``levelstage``): on held-out predictions, every column and
   pair of columns is tested on every level set, and what is more than noise is moved.

A stage has to pay on held-out rows, otherwise it is left out; the base itself is the first
candidate. Folds choose the number of steps, then everything is refitted on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recalibrate.boost import Boosted, History, Settings, boost
from recalibrate.classes.base import FunctionClass, Learner, Penalty
from recalibrate.classes.groups import Groups
from recalibrate.classes.linear import Linear
from recalibrate.classes.trees import Trees
from recalibrate.engines.memory import Rows, StatsSource, rows_in_memory
from recalibrate.fixedpoint import Scale, make_scale
from recalibrate.folds import Fold
from recalibrate.levelstage import HeldOutScores, add_level_sets, level_count
from recalibrate.problem import Problem
from recalibrate.rounds import Rounds
from recalibrate.validation import paired_gain

DEFAULT_CLASS = Trees(
    depth=6,
    leaves=15,
    base_score=True,
    min_leaf_rows=20,
    feature_share=0.7,
    one_vs_rest=64,
    category_smoothing=50.0,
)
LINE, MAIN = 0, 1
"""Numbers of the stages, and of their encoders in the model."""
NEWTON_STEPS = 6
MORE_ROWS = 1.25
"""The refit has 5/4 of a fold's rows, and carries that many more steps."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A class, bound, with the settings it is boosted with."""

    learner: Learner
    settings: Settings
    encoder: int

    def run(self, source: StatsSource, log: Rounds, **changes: Any) -> Boosted:
        """Boost from ``log`` on."""
        settings = replace(self.settings, **changes)
        return boost(source, self.learner, settings, log, encoder=self.encoder, progress=False)


@dataclass(frozen=True, eq=False)
class Choice:
    """How far to go: number of stages, steps of the last one, and held-out scores there."""

    stages: int
    steps: int
    held_out: HeldOutScores
    notes: tuple[str, ...]


def line_settings(problem: Problem) -> Settings:
    """Least squares in one step, or Newton's method to convergence."""
    steps = NEWTON_STEPS if problem.link == "logit" else 1
    return Settings(link=problem.link, levels=1, tables_per_round=steps, max_rounds=1)


def main_settings(problem: Problem, H: FunctionClass, seed: int) -> Settings:
    """Small penalised steps; a class that cannot split on the score gets level sets at once."""
    levels, step, patience = 1, 0.1, 30
    if isinstance(H, (Groups, Linear)):
        levels, step, patience = level_count(problem.n_rows), 0.3, 10
    elif not (isinstance(H, Trees) and H.base_score):
        levels = 3
    return Settings(
        link=problem.link,
        levels=levels,
        step=step,
        penalty=Penalty(l2=10.0),
        patience=patience,
        max_rounds=2000,
        seed=seed,
    )


def follow_recipe(
    problem: Problem,
    H: FunctionClass,
    folds: Sequence[Fold],
    *,
    threads: int,
    blocks: int | None,
    seed: int,
    progress: bool | None = False,
    level_sets: bool = True,
) -> tuple[Boosted, Settings, tuple[str, ...]]:
    """All stages on all rows, settings of the main one, and in words what was decided."""
    kitchen = _Kitchen(problem, H, threads, blocks, seed)
    runs = kitchen.run_folds(folds)
    choice = kitchen.choose(folds, runs)
    log, history = kitchen.refit(choice)
    notes = choice.notes
    if level_sets:
        log, note = add_level_sets(log, problem, H, choice.held_out, kitchen.scale, threads)
        notes = (*notes, note)
    history = replace(history, held_out=_mean_curve(runs))
    return Boosted(log.pruned(), history, None, log), kitchen.stages[MAIN].settings, notes


class _Kitchen:
    """Encoded rows and bound classes of one default fit."""

    def __init__(
        self, problem: Problem, H: FunctionClass, threads: int, blocks: int | None, seed: int
    ) -> None:
        labels, table = problem.labels, problem.table
        self.problem = problem
        self.threads = threads
        self.blocks = blocks
        self.scale: Scale = make_scale(
            problem.n_rows, labels.weight, newton=problem.link == "logit"
        )
        weight = self.scale.quantise_weight(labels.weight)
        line = Linear(features=(), base_score=True).bind(table, weight)
        main = H.bind(table, weight, threads=threads, index=MAIN)
        self.stages = (
            Stage(line, line_settings(problem), LINE),
            Stage(main, main_settings(problem, H, seed), MAIN),
        )
        encoders = (line.encoder, main.encoder)
        blocks_of = tuple(encoder.encode(table, threads) for encoder in encoders)
        self.rows = Rows(blocks_of, labels.values, problem.base, weight)
        self.start = Rounds(problem.link, None, encoders)

    def run_folds(self, folds: Sequence[Fold]) -> list[Boosted]:
        """Both stages without each fold's rows, which say when to stop."""

        def run(fold: Fold) -> Boosted:
            train, held_out = (self.rows.take(part) for part in fold)
            with rows_in_memory(train, self.scale, held_out=held_out) as source:
                line, main = self.stages
                return main.run(source, line.run(source, self.start).log)

        if self.threads == 1:
            return [run(fold) for fold in folds]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(run, folds))

    def choose(self, folds: Sequence[Fold], runs: Sequence[Boosted]) -> Choice:
        """Compare the base, the line and the boosted model on held-out rows."""
        line = self.stages[LINE].settings.tables_per_round
        steps = round(float(np.mean([np.argmin(run.history.held_out) for run in runs])))
        candidates = [self._held_out(folds, runs, n) for n in (0, line, line + steps)]
        weight = candidates[0].weight(self.problem)
        losses = [each.losses(self.problem) for each in candidates]
        taken, notes = 0, []
        for stage, name in ((LINE, "a line through the base score"), (MAIN, "boosting")):
            gain, error = paired_gain(losses[taken], losses[stage + 1], weight)
            pays = gain > error and (stage == LINE or steps > 0)
            verdict = "pays" if pays else "does not pay, left out"
            notes.append(
                f"{name} {verdict}: held-out loss falls by {gain:.3g} (standard error {error:.2g})"
            )
            taken = stage + 1 if pays else taken
        if taken == 0:
            notes.append("the data supports no correction of the base by these stages")
        return Choice(taken, round(MORE_ROWS * steps), candidates[taken], tuple(notes))

    def _held_out(
        self, folds: Sequence[Fold], runs: Sequence[Boosted], n_steps: int
    ) -> HeldOutScores:
        rows = [held_out for _, held_out in folds]
        scores = []
        for held_out, run in zip(rows, runs, strict=True):
            own = self.rows.take(held_out)
            scores.append(run.path.first(n_steps).apply(own.blocks, own.base))
        return HeldOutScores(np.concatenate(rows), np.concatenate(scores))

    def refit(self, choice: Choice) -> tuple[Rounds, History]:
        """The chosen stages on all rows."""
        log, history = self.start, History()
        with rows_in_memory(
            self.rows, self.scale, blocks=self.blocks, threads=self.threads
        ) as source:
            for stage in self.stages[: choice.stages]:
                rounds = stage.settings.max_rounds if stage.encoder == LINE else choice.steps
                boosted = stage.run(source, log, patience=None, max_rounds=rounds)
                log, history = boosted.log, boosted.history
        return log, history


def _mean_curve(runs: Sequence[Boosted]) -> tuple[float, ...]:
    length = min(len(run.history.held_out) for run in runs)
    mean = np.mean([run.history.held_out[:length] for run in runs], axis=0)
    return tuple(float(value) for value in mean)
