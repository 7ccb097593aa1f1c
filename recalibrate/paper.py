"""Algorithm 1 to the letter, and its certificate."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, isfinite

import numpy as np

from recalibrate.boost import Boosted, Settings, mean_loss
from recalibrate.certificate import NORMAL_95, Certificate, HeldOut
from recalibrate.classes.base import Task
from recalibrate.classes.groups import GroupEncoder
from recalibrate.engines.memory import Rows, rows_in_memory
from recalibrate.engines.part import Draft
from recalibrate.fixedpoint import label_bits, make_scale
from recalibrate.notices import warn_user
from recalibrate.rounds import Rounds, Step
from recalibrate.validation import paired_gain, row_losses
from recalibrate.workbench import Workbench


def certify(
    bench: Workbench,
    settings: Settings,
    boosted: Boosted,
    alpha: float,
    B: float,
    held_out: Rows | None,
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
        exact=not bench.learner.inexact and isfinite(bound),
        reason=bench.learner.inexact
        or ("" if isfinite(bound) else f"the run ended early: {history.stopped}"),
        bound=float(bound),
        skipped=history.skipped,
        group_shares=_group_shares(bench),
        held_out=_held_out(bench, settings, boosted, B, held_out),
    )


def _group_shares(bench: Workbench) -> dict[str, float]:
    encoder = bench.learner.encoder
    if not isinstance(encoder, GroupEncoder):
        return {}
    codes, weight = bench.rows.blocks[0], bench.rows.weight
    mass = weight.astype(np.float64) if len(weight) else None
    shares: dict[str, float] = {}
    offsets, labels = encoder.groups.offsets, encoder.groups.labels
    for t in range(codes.shape[1]):
        size = offsets[t + 1] - offsets[t]
        counts = np.bincount(codes[:, t], weights=mass, minlength=size + 1)
        for k in range(size):
            shares[labels[offsets[t] + k]] = float(counts[k + 1] / counts.sum())
    return shares


def _held_out(
    bench: Workbench, settings: Settings, boosted: Boosted, B: float, rows: Rows | None
) -> HeldOut | None:
    if rows is None or boosted.witness is None:
        return None
    # The certificate speaks of the rounded model, whether or not its last step stays un-rounded.
    log = boosted.witness.first(len(boosted.witness.steps) - 1)
    weight = rows.weight.astype(np.float64) if len(rows.weight) else None
    before = row_losses(rows.y, log.apply(rows.blocks, rows.base), log.link)
    after = row_losses(rows.y, boosted.witness.apply(rows.blocks, rows.base), log.link)
    gain, error = paired_gain(before, after, weight)
    return HeldOut(
        rows=len(rows),
        estimate=B * gain,
        low=B * (gain - NORMAL_95 * error),
        high=B * (gain + NORMAL_95 * error),
        ceiling=B * _refitted_gain(bench, settings, log, rows),
    )


def _refitted_gain(bench: Workbench, settings: Settings, log: Rounds, rows: Rows) -> float:
    """Fall of the squared error on some rows by H fitted on those same rows."""
    if settings.grid is None:
        raise ValueError("a certificate needs a grid")
    # Their number and weights are not those that the fit's scale was made for.
    weight = rows.weight.astype(np.float64) if len(rows.weight) else None
    scale = make_scale(len(rows), weight, newton=False, exact_bits=label_bits(rows.y))
    rows = replace(rows, weight=scale.quantise_weight(weight))
    with rows_in_memory(rows, scale, threads=bench.threads) as source:
        draft = Draft(log, settings.grid, settings.replaces)
        task = Task(source, draft, settings.grid.count, 1.0, settings.penalty, settings.seed)
        lesson = bench.learner.learn(task)
        step = Step(settings.grid, lesson.table, 0, settings.replaces, None)
        return mean_loss(source, log) - mean_loss(source, log.append(step))
