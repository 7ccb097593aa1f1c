"""What is said of the base model before anything is fitted: scores that were cut, or look wrong.

Scores that are worse than no model usually belong to another class than the labels say, or are on
another scale; corrections repair much of that, and would look like a success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.bases.wrappers import Constant
from recalibrate.core.boost import History
from recalibrate.core.family import Family, family
from recalibrate.core.levels import from_margin
from recalibrate.data.labels import Labels
from recalibrate.explain.notes import NamedLoss
from recalibrate.fitting.validation import paired_gain
from recalibrate.rows.reading import SAMPLE_ROWS
from recalibrate.rows.store import Store
from recalibrate.support.hashing import average, total
from recalibrate.support.notices import listed, warn_user

JUDGED_ROWS = 50
"""Fewer rows do not show that a base is worse than a constant: standard errors are too rough."""

BAD_ERRORS = 3.0
"""Standard errors by which a base has to be worse than a constant, or to rank backwards.

Right bases of weak signal and rare events, 50 to 2,000 rows: warned about in at most 1 of 1,000
draws (lognormal labels of 50 rows 3); at 2 standard errors in up to 15. Cross-fitted bases
without any signal are worse than a constant in 2 of 100 draws, which is true of them.
"""

CROSS_FITTED_ADVICE = (
    "Copies that were trained on the other folds do not predict these rows: what they learn does "
    "not carry over. Are there enough rows for its columns, and do the folds keep together what "
    "belongs together?"
)

EPSILON = float(np.finfo(np.float64).eps)

ADVICE = {
    "binary": "Are its scores about the class that counts as 1 (positive=, target_class=), and on "
    "the scale that base_link= says?",
    "classes": "Are its scores in the order of the classes (classes=), and on the scale that "
    "base_link= says?",
    "soft": "Are its scores about the same event as the labels, and on the scale that base_link= "
    "says?",
    "regression": "Do its scores belong to these rows, and are they in the unit of the labels "
    "(with exposure=: per unit of it)?",
}


def review_base(base: Base, store: Store, *, cross_fitted: bool = False) -> tuple[str, ...]:
    """Notes on base scores that were cut, and on scores that look wrong, which is warned about.

    ``cross_fitted``: the scores are of copies of the base that did not see the row.
    """
    if isinstance(base, Constant):
        return ()
    problem, n_rows = store.problem, store.size.n_rows
    pieces = list(store.map(partial(some_rows, -(-n_rows // SAMPLE_ROWS))))
    weighted = problem.labels.weight is not None
    labels = replace(
        problem.labels,
        values=_joined([piece.y for piece in pieces]),
        weight=_joined([piece.weight for piece in pieces]) if weighted else None,
    )
    scores = _joined([piece.base for piece in pieces])
    cuts = [piece.cuts for piece in pieces]
    lost = None
    if any(cut.rows for cut in cuts):
        each = [np.zeros(len(own.y)) if own.cut is None else own.cut for own in pieces]
        lost = _joined(each)
    found = _judge_base(labels, scores, lost, problem.link, cross_fitted=cross_fitted)
    # Boosting from a constant start is not a mistake, whatever the constant is.
    if found and (scores != scores[0]).any():
        advice = CROSS_FITTED_ADVICE if cross_fitted else ADVICE[labels.kind]
        warn_user(f"the base model ({base.name}) {', and '.join(found)}. {advice}")
    notes = [f"base model: {each.removeprefix('is ')}" for each in found]
    if any(cut.rows for cut in cuts):
        notes.insert(0, _say_cut(cuts, store))
    return tuple(notes)


def _say_cut(cuts: Sequence[_Cut], store: Store) -> str:
    """Note: how many base scores were cut, and what that does to their loss."""
    problem, n_rows, cut = store.problem, store.size.n_rows, _combined(cuts)
    losses = zip(store.map(_loss_of), cuts, strict=True)
    mean = sum(each * own.weight for each, own in losses) / cut.weight
    loss = NamedLoss.of(problem.family, problem.labels)
    where = {"logit": "log-odds of +-16 (1.1e-7 from 0 or 1)", "log": "a factor of e^24"}
    limit = where.get(problem.family.link, "the bounds of the labels")
    return (
        f"clipped scores: {cut.rows:,} of {n_rows:,} base scores are beyond {limit} and are "
        f"corrected from there; {loss.name} of the base {loss.show(mean + cut.lost)}, from "
        f"there {loss.show(mean)}"
    )


@dataclass(frozen=True)
class _Cut:
    """Base scores that were cut, see ``bases.problem.cut_losses``.

    Attributes
    ----------
    rows
        How many.
    lost
        What that took off their mean loss, by the weight of the rows.
    weight
        The sum of weights.
    """

    rows: int
    lost: float
    weight: float


def _cut_of(piece: Problem) -> _Cut:
    """Work: what was cut in a piece."""
    weight = piece.labels.weight
    rows = 0 if piece.cut is None else int(np.count_nonzero(piece.cut))
    return _Cut(rows, piece.cut_loss(), float(piece.n_rows) if weight is None else total(weight))


def _loss_of(piece: Problem) -> float:
    """Work: the mean loss of the base scores of a piece, as they were cut."""
    labels = piece.labels
    return average(piece.family.losses(labels.values, piece.base), labels.weight)


def lost_by_cutting(store: Store) -> float:
    """What cutting base scores took off the mean loss of some rows."""
    return _combined(list(store.map(_cut_of))).lost


def _combined(cuts: Sequence[_Cut]) -> _Cut:
    weight = sum(each.weight for each in cuts)
    lost = sum(each.lost * each.weight for each in cuts) / weight
    return _Cut(sum(each.rows for each in cuts), lost, weight)


def uncut(history: History, fitted: float, held_out: float) -> History:
    """Losses of the base as its scores were given, on rows that were fitted and held out."""
    errors, aside = history.errors, history.held_out
    return replace(
        history,
        errors=(errors[0] + fitted, *errors[1:]) if errors else (),
        held_out=(aside[0] + held_out, *aside[1:]) if aside else (),
    )


@dataclass(frozen=True, eq=False)
class _SomeRows:
    """Every so many rows of a piece, and what was cut in all of them."""

    y: NDArray[np.float64]
    base: NDArray[np.float64]
    weight: NDArray[np.float64]
    cut: NDArray[np.float64] | None
    cuts: _Cut


def some_rows(step: int, piece: Problem) -> _SomeRows:
    """Work: every so many rows."""
    part, labels = slice(None, None, step), piece.labels
    weight = np.empty(0) if labels.weight is None else labels.weight[part]
    cut = None if piece.cut is None else piece.cut[part]
    return _SomeRows(labels.values[part], piece.base[part], weight, cut, _cut_of(piece))


def _joined(arrays: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """One after the other; a copy only of several."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _judge_base(
    labels: Labels,
    margin: NDArray[np.float64],
    cut: NDArray[np.float64] | None,
    link: str,
    *,
    cross_fitted: bool = False,
) -> tuple[str, ...]:
    """Why the base scores look wrong, a sentence each; empty for most.

    Parameters
    ----------
    labels
        Labels and weights of some rows.
    margin
        Their base scores on the scale of the link.
    cut
        What was cut off their losses, see ``bases.problem.cut_losses``.
    link
        The link, and with it the loss.
    cross_fitted
        Whether the scores are of copies that did not see the row. Those of a copy that has learned
        nothing rank backwards by construction: where labels are high, those of the other folds,
        which it was trained on, are low.
    """
    y, own = labels.values, family(link)
    if len(y) < JUDGED_ROWS or (y == y[0]).all():
        return ()
    found = [_worse_than_constant(labels, own, margin, cut)]
    if not cross_fitted and (margin != margin[0]).any():  # a constant ranks nothing
        weight = np.ones(len(y)) if labels.weight is None else labels.weight
        found.append(_say_backwards(labels, margin, weight, link))
    return tuple(filter(None, found))


def _say_backwards(
    labels: Labels, margin: NDArray[np.float64], weight: NDArray[np.float64], link: str
) -> str:
    """A sentence if labels, or the labels of a class, fall with the scores."""
    y = labels.values
    if y.ndim == 1:
        turned_round = _ranks_backwards(y, margin, weight)
        said = "ranks the labels backwards: where it is higher, labels are lower"
        return said if turned_round else ""
    p = from_margin(margin, link)
    turned = [
        label
        for k, label in enumerate(labels.classes)
        if _ranks_backwards(y[:, k], p[:, k], weight)
    ]
    if not turned:
        return ""
    return (
        f"ranks {'a class' if len(turned) == 1 else 'classes'} backwards: where the "
        f"probability of {listed(turned, 5)} is higher, there are fewer of them"
    )


def _worse_than_constant(
    labels: Labels,
    own: Family,
    margin: NDArray[np.float64],
    cut: NDArray[np.float64] | None,
) -> str:
    """A sentence if the loss is above that of the mean label of the other rows, beyond noise.

    Without the row itself: the mean of a few rows knows their labels.
    """
    y, weight = labels.values, labels.weight
    several = y.ndim == 2
    share = np.full(1, 1.0 / len(y)) if weight is None else weight / weight.sum()
    share = share[:, None] if several else share
    mean = (share * y).sum(axis=0)
    others = mean + share * (mean - y)  # the mean in the place of the row itself
    constant = np.log(np.maximum(others, EPSILON)) if several else own.to_margin(others)
    base = own.losses(y, margin)
    if cut is not None:
        base += cut
    rival = own.losses(y, constant)
    excess, error = paired_gain(base, rival, weight)
    if not excess > BAD_ERRORS * error:
        return ""
    loss = NamedLoss.of(own, labels)
    both = [loss.show(average(each, weight)) for each in (base, rival)]
    rate = "mean label" if labels.kind == "regression" else "base rate"
    return f"is worse than the constant {rate}: {loss.name} {both[0]} against {both[1]}"


def _ranks_backwards(
    y: NDArray[np.float64], score: NDArray[np.float64], weight: NDArray[np.float64]
) -> bool:
    """Whether labels fall with the rank of their score, beyond noise."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - 0.5 * count)[place]
    share = weight / weight.sum()
    pull = share * (y - share @ y) * (rank - share @ rank)
    return bool(pull.sum() < -BAD_ERRORS * np.sqrt(np.sum(pull**2)))
