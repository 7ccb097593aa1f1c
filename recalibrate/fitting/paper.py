"""Algorithm 1 to the letter, and its certificate."""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np

from recalibrate.core.boost import Boosted, Settings
from recalibrate.core.certificate import NORMAL_95, Certificate, HeldOut
from recalibrate.core.learning import Learner, NamesGroups, Task
from recalibrate.core.part import Draft
from recalibrate.core.rounds import Rounds, Step
from recalibrate.core.source import StatsSource
from recalibrate.core.statistics import mean_loss
from recalibrate.fitting.training import Training
from recalibrate.fitting.validation import paired_gain, row_losses
from recalibrate.rows.store import Encoded
from recalibrate.support.notices import warn_user


def certify(
    training: Training,
    settings: Settings,
    boosted: Boosted,
    alpha: float,
    B: float,
    held_out: Encoded | None,
) -> Certificate:
    """What the run proves; warns when it changed nothing but the rounding."""
    history = boosted.history
    accepted = len(history.errors) - (2 if history.stopped == "tolerance" else 1)
    if accepted == 0:
        warn_user(
            f"no round lowered the squared error by alpha / (2B) = {alpha / (2 * B):g}: the "
            "output is just the rounded base. A smaller alpha asks for more; typical gains of a "
            "correction are a few thousandths."
        )
    final = history.errors[accepted]
    bound = B * (final - history.unrounded) + B * history.skipped
    return Certificate(
        alpha=alpha,
        B=B,
        m=ceil(2 * B / alpha),
        rounds=accepted,
        errors=history.errors,
        exact=not training.learner.inexact and isfinite(bound),
        reason=training.learner.inexact
        or ("" if isfinite(bound) else f"the run ended early: {history.stopped}"),
        bound=float(bound),
        skipped=history.skipped,
        group_shares=_group_shares(training),
        held_out=_held_out(training, settings, boosted, B, held_out),
    )


def _group_shares(training: Training) -> dict[str, float]:
    learner = training.learner
    if not isinstance(learner, NamesGroups):
        return {}
    with training.encoded.open(training.scale) as source:
        return learner.group_shares(source)


def _held_out(
    training: Training, settings: Settings, boosted: Boosted, B: float, rows: Encoded | None
) -> HeldOut | None:
    if rows is None or boosted.witness is None:
        return None
    # The certificate speaks of the rounded model, whether or not its last step stays un-rounded.
    log = boosted.witness.first(len(boosted.witness.steps) - 1)
    y, quantised = rows.labels(), rows.weights()
    weight = quantised.astype(np.float64) if len(quantised) else None
    with training.open_alone(rows) as source:
        before = row_losses(y, source.scores(log), log.link)
        after = row_losses(y, source.scores(boosted.witness), log.link)
        ceiling = _refitted_gain(source, training.learner, settings, log)
    gain, error = paired_gain(before, after, weight)
    return HeldOut(
        rows=len(y),
        estimate=B * gain,
        low=B * (gain - NORMAL_95 * error),
        high=B * (gain + NORMAL_95 * error),
        ceiling=B * ceiling,
    )


def _refitted_gain(source: StatsSource, learner: Learner, settings: Settings, log: Rounds) -> float:
    """Fall of the squared error on some rows by H fitted on those same rows."""
    if settings.grid is None:
        raise ValueError("a certificate needs a grid")
    draft = Draft(log, settings.grid, settings.replaces)
    task = Task(source, draft, settings.grid.count, 1.0, settings.penalty, settings.seed)
    lesson = learner.learn(task)
    step = Step(settings.grid, lesson.table, 0, settings.replaces, None)
    return mean_loss(source, log) - mean_loss(source, log.append(step))
