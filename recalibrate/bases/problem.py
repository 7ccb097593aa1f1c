"""Everything a fit needs from its input, checked once: features, labels, scores, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import Base, ScoreColumn, as_base, count_rows
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import SCORE_COLUMN
from recalibrate.core.levels import MARGIN_LIMIT, MARGIN_STEP, Link, from_margin, to_margin
from recalibrate.data.folds import row_hash
from recalibrate.data.labels import Labels, read_labels, read_scores
from recalibrate.data.table import Schema, Table, read_table
from recalibrate.support.notices import warn_user

SCORE_LIMIT = 2.0**40
"""Regression scores are kept inside +- this many label ranges, far from float64's own limit."""

TOO_FEW_ROWS = 20
"""Fewer rows say nothing about whether a base has seen them."""

TOO_GOOD_AUC = 0.999
"""A base that ranks more of the pairs of 0/1 labels right may have seen them."""

TOO_GOOD_LEFT = 1e-4
"""A base that leaves less of the variance of a regression has probably seen the labels."""

CERTAIN = 1e-4
"""Mean variance p (1 - p) below which a base claims to know every label."""


@dataclass(frozen=True)
class Reading:
    """How rows are read: arguments of ``fit``, and what Algorithm 1 asks for.

    Without ``link``, binary labels are fitted on the log-odds, others as they are. ``clip`` cuts
    regression scores at the label bounds. A model file that can run code is opened only with
    ``trust``.
    """

    sample_weight: Any = None
    bounds: tuple[float, float] | None = None
    base_link: Link | None = None
    target_class: Any = None
    link: Link | None = None
    categorical: Sequence[str] | None = None
    clip: bool = False
    trust: bool = False

    def open_base(self, model: Any) -> Base:
        """The base of a model, a model file, a callable or an array of scores."""
        told = {"link": self.base_link, "target_class": self.target_class, "trust": self.trust}
        return as_base(model, **told)


@dataclass(frozen=True, eq=False)
class Given:
    """What a problem keeps of the rows as the user gave them.

    Attributes
    ----------
    labels
        Labels of all rows, scaled to [0, 1].
    rows
        Which of them are left; None: all.
    weighted
        Whether there were weights, be they all the same.
    """

    labels: NDArray[np.float64]
    rows: NDArray[np.intp] | None
    weighted: bool


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows ready to be fitted; rows of weight zero are gone.

    Attributes
    ----------
    table
        Features that H may look at, with the base score as the last column.
    labels
        Labels scaled to [0, 1], their bounds and weights.
    base
        Base scores on the scale of the link.
    link
        The scale that scores are updated on.
    given
        The rows as given.
    own_table
        Whether H has a table of its own (``Z=``), beside the one that the base takes.
    """

    table: Table
    labels: Labels
    base: NDArray[np.float64]
    link: Link
    given: Given
    own_table: bool = False

    @property
    def n_rows(self) -> int:
        return len(self.base)

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Hash of everything that a fit sees of a row: rows are dealt and drawn by it."""
        numbers = [self.labels.values, self.base]
        weight = self.labels.weight
        return row_hash(self.table, numbers if weight is None else [*numbers, weight], seed)

    def take(self, rows: NDArray[np.intp]) -> Problem:
        """Some of the rows."""
        weight = self.labels.weight
        labels = replace(
            self.labels,
            values=self.labels.values[rows],
            weight=None if weight is None else weight[rows],
        )
        kept = rows if self.given.rows is None else self.given.rows[rows]
        given = replace(self.given, rows=kept)
        return replace(
            self, table=self.table.take(rows), labels=labels, base=self.base[rows], given=given
        )


def read_labelled(X: Any, y: Any, Z: Any, reading: Reading) -> tuple[Table, Labels]:
    """The table that H looks at, and the labels of its rows."""
    table = read_table(X if Z is None else Z, categorical=reading.categorical)
    weight = reading.sample_weight
    return table, read_labels(y, n_rows=table.n_rows, bounds=reading.bounds, sample_weight=weight)


def read_problem(
    base: Base,
    X: Any,
    y: Any,
    reading: Reading,
    *,
    scores: NDArray[np.float64] | None = None,
    Z: Any = None,
) -> Problem:
    """Check and align all inputs of a fit.

    ``scores`` are the base's scores of these rows where its own would not be honest.
    """
    table, labels = read_labelled(X, y, Z, reading)
    if scores is None:
        scores = base.values if isinstance(base, ScoreColumn) else base.scores(X)
    labels = settle_kind(labels, base, bool(np.any(outside_unit(scores))))
    chosen = choose_link(reading.link, labels)
    margin = base_margin(base, scores, labels, chosen, table.n_rows, clip=reading.clip)
    given = Given(labels.values, None, labels.weight is not None)
    problem = Problem(table, labels, margin, chosen, given, own_table=Z is not None)
    if labels.weight is not None and (labels.weight == 0).any():
        problem = problem.take(np.flatnonzero(labels.weight > 0))
    warn_if_too_good(problem.labels, problem.base, chosen)
    return replace(
        problem,
        table=with_scores(problem.table, problem.base),
        labels=_without_equal_weights(problem.labels),
    )


def _without_equal_weights(labels: Labels) -> Labels:
    """Weights that are all the same say nothing; without them sums are finer and faster."""
    weight = labels.weight
    equal = weight is not None and bool((weight == weight[0]).all())
    return replace(labels, weight=None) if equal else labels


def outside_unit(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether scores are no probabilities."""
    return (scores < 0.0) | (scores > 1.0)


def settle_kind(labels: Labels, base: Base, outside: bool) -> Labels:
    """Labels in [0, 1] are a regression's if scores lie ``outside`` of that range."""
    if labels.kind == "soft" and base.link == "identity" and outside:
        return replace(labels, kind="regression", observed=True)
    return labels


def choose_link(link: Link | None, labels: Labels) -> Link:
    """The link as given, or by the kind of the labels."""
    if link not in (None, "identity", "logit"):
        raise ValueError(f'link must be "identity" or "logit", got {link!r}')
    return link or ("logit" if labels.kind == "binary" else "identity")


def count_scores(scores: Any) -> int:
    """Number of base scores given."""
    try:
        return len(scores)
    except TypeError:
        raise TypeError(
            f"base= must hold one score per row, got {type(scores).__name__} {scores!r}"
        ) from None


def base_margin(
    base: Base,
    scores: Any,
    labels: Labels,
    link: Link,
    n_rows: int,
    *,
    clip: bool = False,
) -> NDArray[np.float64]:
    """A base's scores on the scale of the link, checked.

    They are multiples of :data:`VALUE_STEP`, like everything that is added to them, so that the
    sum is exact in any order; or, with ``clip``, about to be rounded to a grid and as they are.
    """
    probability = base.link == "identity" and labels.kind != "regression"
    values = read_scores(scores, n_rows=n_rows, probability=probability)
    if base.link == "logit" and link == "logit":
        return snap(np.clip(values, -MARGIN_LIMIT, MARGIN_LIMIT))
    if base.link == "logit":
        values = snap(from_margin(values, "logit"), MARGIN_STEP)
    if labels.kind == "regression":
        values = labels.scale(values)
    if clip or link == "logit":
        return to_margin(np.clip(values, 0.0, 1.0), link)
    return snap(np.clip(values, -SCORE_LIMIT, SCORE_LIMIT))


def with_scores(table: Table, margin: NDArray[np.float64]) -> Table:
    """The table with the base score as a further column."""
    if SCORE_COLUMN in table.schema.names:
        raise ValueError(
            f"a feature is called {SCORE_COLUMN!r}, the name of the base model's own score; "
            "rename that column"
        )
    return table.append(SCORE_COLUMN, margin)


def read_features(
    schema: Schema, names: Sequence[str], X: Any, margin: NDArray[np.float64]
) -> Table:
    """The table of new rows: the columns ``names`` of a fitted schema, and the base score."""
    wanted = [name for name in names if name != SCORE_COLUMN]
    if not wanted:
        _check_lengths(count_rows(X), margin)
        return with_scores(Table(Schema((), schema.named), [], len(margin)), margin)
    own = schema.select([name for name in schema.names if name != SCORE_COLUMN])
    # Columns of an array have only their position, so all of them have to be there.
    table = own.select(wanted).read(X) if schema.named else own.read(X).select(wanted)
    _check_lengths(table.n_rows, margin)
    return with_scores(table, margin)


def _check_lengths(n_rows: int | None, margin: NDArray[np.float64]) -> None:
    """Kernels read as many rows as there are scores."""
    if n_rows is not None and n_rows != len(margin):
        raise ValueError(
            f"there are {len(margin)} base scores for {n_rows} rows; pass one score per row"
        )


def warn_if_too_good(labels: Labels, margin: NDArray[np.float64], link: Link) -> None:
    """Calibration rows that trained the base make every later number look better than it is."""
    mean = from_margin(margin, link)
    if labels.kind == "binary":
        suspicious = _separates(labels.values, mean) and _hides_noise(labels.values, mean)
    elif labels.kind == "regression" and len(mean) >= TOO_FEW_ROWS:
        left = float(np.mean((labels.values - mean) ** 2))
        suspicious = left < TOO_GOOD_LEFT * float(np.var(labels.values))
    else:
        suspicious = False
    if suspicious:
        warn_user(
            "the base scores predict the labels almost perfectly. If the base model was trained "
            "on these rows, what is learned here will not hold on new ones: calibrate on rows "
            "that it has not seen."
        )


def _separates(y: NDArray[np.float64], p: NDArray[np.float64]) -> bool:
    """Whether almost every positive row ranks above almost every negative one."""
    positive, negative = p[y == 1], p[y == 0]
    if min(len(positive), len(negative)) < TOO_FEW_ROWS / 2:
        return False
    right = np.searchsorted(np.sort(negative), positive, side="left").sum()
    return bool(right > TOO_GOOD_AUC * len(positive) * len(negative))


def _hides_noise(y: NDArray[np.float64], p: NDArray[np.float64]) -> bool:
    """Whether there are fewer errors than the probabilities themselves announce.

    An honest model of an easy task errs as often as it says. On its training rows a model errs
    less, or it is certain of everything, as fully grown trees are.
    """
    noise = p * (1 - p)
    if float(np.mean(noise)) < CERTAIN:
        return True
    spread = float(np.sqrt(np.sum(noise * (1 - 2 * p) ** 2)))
    surplus = float(np.sum((y - p) ** 2 - noise))
    return surplus < -2.0 * spread  # two standard errors
