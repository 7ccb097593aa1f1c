"""Would a refit on recent rows help? Tried on the earlier of them, judged on the later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recalibrate.data.labels import Float64
from recalibrate.model import Recalibrated
from recalibrate.monitoring.batches import read_predictions, read_targets, read_weights, rows_of
from recalibrate.monitoring.judging import Place
from recalibrate.monitoring.state import State

SHARE = 0.6
"""Of the recent rows, the earliest, that a refit is tried on."""

FEWEST_ROWS = 200


@dataclass(frozen=True)
class _RefitGap:
    """Gap of a group with an alarm on the held-out rows, before and after a refit."""

    group: str
    rows: int
    before: float
    after: float


@dataclass(frozen=True)
class RefitAdvice:
    """What a refit on recent rows gains on rows after them.

    Attributes
    ----------
    rows, held_out : int
        Rows that the refit was tried on, and that it is judged on.
    before, after : float
        Mean squared error on the held-out rows (Brier score for 0/1 labels).
    change, se : float
        After minus before, and the standard error of that.
    helps : bool
        Whether the error falls by more than two standard errors.
    gaps : tuple of RefitGap
        Of the groups with an alarm, on the held-out rows.
    """

    rows: int
    held_out: int
    before: float
    after: float
    change: float
    se: float
    helps: bool
    gaps: tuple[_RefitGap, ...]

    def __str__(self) -> str:
        start = "would help" if self.helps else "would not help beyond noise"
        text = (
            f"A refit on {self.rows:,} recent rows {start}: squared error on the {self.held_out:,} "
            f"rows after them {self.before:.4g} -> {self.after:.4g} (change {self.change:+.2g}, "
            f"standard error {self.se:.2g})"
        )
        if self.gaps:
            told = (f"{gap.group} {gap.before:+.3f} -> {gap.after:+.3f}" for gap in self.gaps[:3])
            text += f"; gaps there: {', '.join(told)}"
        return text + "."


def advise(
    model: Any, X: Any, y: Any, state: State, scores: Any, base: Any, Z: Any, sample_weight: Any
) -> RefitAdvice:
    """Refit on the earlier of some recent rows, and compare on the later."""
    if X is None or y is None:
        raise ValueError("X_recent and y_recent belong together: give the rows and their labels.")
    if state.scale.n_scores > 1:
        raise ValueError(
            "Whether a refit would help is not tried for several classes: fit a model on the "
            "recent rows and audit it on later ones."
        )
    n_rows = rows_of(X, None, y)
    if n_rows < FEWEST_ROWS:
        raise ValueError(
            f"{n_rows} recent rows are too few for a refit: give {FEWEST_ROWS} or more."
        )
    p = read_predictions(model, X, base, Z, scores, state.scale, n_rows)[:, 0]
    target = read_targets(y, state.scale, n_rows)[:, 0]
    weight, _ = read_weights(sample_weight, n_rows, None)
    cut = int(SHARE * n_rows)
    table = X if Z is None else Z
    after = _refitted(model, table, p, target, weight, state, cut)
    old, target, weight = p[cut:], target[cut:], weight[cut:]
    share = weight / weight.sum()
    errors = [(target - own) ** 2 for own in (old, after)]
    before, now = (float(share @ own) for own in errors)
    change = errors[1] - errors[0]
    se = float(np.sqrt(np.sum(share**2 * (change - share @ change) ** 2)))
    span = state.scale.span
    return RefitAdvice(
        rows=cut,
        held_out=n_rows - cut,
        before=before * span**2,
        after=now * span**2,
        change=(now - before) * span**2,
        se=se * span**2,
        helps=now - before < -2.0 * se,
        gaps=_gaps(state, table, n_rows, cut, old, after, target, weight),
    )


def _refitted(
    model: Any, table: Any, p: Float64, target: Float64, weight: Float64, state: State, cut: int
) -> Float64:
    """Predictions of the later rows by a refit on the earlier ones.

    On the predictions as scores, which is what a refit starts from, whatever the model is.
    """
    from recalibrate.classes.groups import Groups
    from recalibrate.fitting.entry import fit

    H = model.H if isinstance(model, Recalibrated) else None
    if H is None and state.watched.groups is not None:
        H = Groups(*(term.text for term in state.watched.groups.terms))
    rows, later = _cut(table, cut)
    uneven = weight[:cut] if (weight != weight[0]).any() else None
    bounds = None if state.scale.probabilities else (0.0, 1.0)
    new = fit(p[:cut], rows, target[:cut], H, sample_weight=uneven, bounds=bounds, progress=False)
    return new.predict(later, base=p[cut:])


def _cut(table: Any, cut: int) -> tuple[Any, Any]:
    if hasattr(table, "iloc"):
        return table.iloc[:cut], table.iloc[cut:]
    return table[:cut], table[cut:]


def _gaps(
    state: State,
    table: Any,
    n_rows: int,
    cut: int,
    old: Float64,
    new: Float64,
    target: Float64,
    weight: Float64,
) -> tuple[_RefitGap, ...]:
    codes = state.watched.codes(table, n_rows, allow_unknown=True)[0][cut:]
    offsets, bands = state.watched.offsets, state.watched.band(old, 0)
    found = []
    for (_, g), alarm in state.alarms.items():
        term = int(np.searchsorted(offsets, g, side="right")) - 1
        inside = codes[:, term] == g - offsets[term] + 1
        place: Place = alarm.place
        if place.cell:
            inside &= bands == place.cell - 1
        w = weight * inside
        if w.sum():
            before, after = (
                float((w @ (target - own)) / w.sum()) * state.scale.span for own in (old, new)
            )
            found.append(_RefitGap(state.watched.names[g], int(inside.sum()), before, after))
    return tuple(found)
