"""Everything a fit needs from its input, checked once: features, labels, scores, weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import (
    Base,
    ScoreColumn,
    as_base,
    base_outputs,
    classes_of,
    count_rows,
    deviance_of,
)
from recalibrate.bases.suspicion import warn_if_too_good
from recalibrate.core.family import Family, family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import is_score, score_columns
from recalibrate.core.levels import MARGIN_STEP, Link, from_margin, to_class_scores
from recalibrate.data.bounds import NO_BOUNDS, Bounds
from recalibrate.data.classes import NOTHING_KNOWN, Known
from recalibrate.data.folds import row_hash
from recalibrate.data.labels import Labels, check_aligned, read_labels, warn_if_one_class
from recalibrate.data.scores import count_outputs, read_scores
from recalibrate.data.table import Schema, Table, read_table
from recalibrate.data.values import plain_value
from recalibrate.support.notices import listed, warn_user

POISSON, GAMMA = family("log-poisson"), family("log-gamma")


@dataclass(frozen=True)
class Reading:
    """How rows are read: arguments of ``fit``, and what Algorithm 1 asks for.

    Without ``link`` the base model's objective decides, and then the labels: see `choose_link`.
    With ``exposure`` labels are totals over so much of it, and become rates. ``clip`` cuts
    regression scores at the label bounds. ``reads`` says which columns H looks at. Model files
    that can run code need ``trust``.
    """

    sample_weight: Any = None
    exposure: Any = None
    bounds: Bounds | None = None
    base_link: Link | None = None
    target_class: Any = None
    positive: Any = None
    classes: Sequence[Any] | None = None
    link: str | None = None
    categorical: Sequence[str] | None = None
    clip: bool = False
    trust: bool = False
    reads: Callable[[Schema], Sequence[str]] | None = None


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
        Base scores on the scale of the link; of several classes a column for each.
    link
        The scale that scores are updated on, and the loss: see ``core.family``.
    given
        The rows as given.
    own_table
        Whether H has a table of its own (``Z=``), beside the one that the base takes.
    """

    table: Table
    labels: Labels
    base: NDArray[np.float64]
    link: str
    given: Given
    own_table: bool = False

    @property
    def n_rows(self) -> int:
        return len(self.base)

    @property
    def family(self) -> Family:
        """The link and the loss."""
        return family(self.link)

    @property
    def curvature_unit(self) -> float:
        """What a curvature of one is, in the unit of the user's labels, in that of scaled ones."""
        own = self.family
        return float(self.labels.span ** (own.power - 2.0)) if own.positive else 1.0

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Hash of everything that a fit sees of a row: rows are dealt and drawn by it."""
        numbers = [*by_column(self.labels.values), *by_column(self.base)]
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


def open_base(model: Any, reading: Reading) -> Base:
    """The base model, scoring the class that counts as 1."""
    told: dict[str, Any] = {"link": reading.base_link, "trust": reading.trust}
    base = as_base(model, target_class=reading.target_class, **told)
    wanted, classes = reading.positive, classes_of(base)
    if wanted is None or classes is None or isinstance(classes, range) or wanted == classes[1]:
        return base
    return as_base(model, target_class=wanted, **told)


def by_column(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """One vector, or one for every class."""
    return [values] if values.ndim == 1 else list(values.T)


def known_classes(base: Base | None, reading: Reading, outputs: int = 1) -> Known:
    """What is known of the classes before labels are read."""
    chosen = reading.target_class if reading.positive is None else reading.positive
    classes = None if base is None else classes_of(base)
    if reading.classes is not None:
        if classes is not None and not isinstance(classes, range):
            raise ValueError(
                "classes= was given, but the base model already defines its classes: "
                f"{listed(classes)}. Leave it out."
            )
        classes = tuple(plain_value(label) for label in reading.classes)
        if len(set(classes)) < max(len(classes), 2):
            raise ValueError(f"classes= must name at least two different classes, got {classes}")
    if isinstance(classes, range) and outputs > 1:
        classes = range(outputs)
    if outputs > 1 and classes is not None and len(classes) != outputs:
        raise ValueError(
            f"The base model gives {outputs} numbers per row, but there are {len(classes)} "
            f"classes: {listed(classes)}."
        )
    own = None if base is None else log_family(base, reading)
    if own is None:
        return Known(classes, outputs, chosen)
    if classes is not None:
        raise ValueError(
            f"link={own.name!r} is for counts, amounts and rates, but the base model is a "
            "classifier. Leave link= and exposure= out."
        )
    return Known(None, outputs, chosen, positive=True, above_zero=own.power == GAMMA.power)


def read_labelled(
    X: Any, y: Any, Z: Any, reading: Reading, known: Known = NOTHING_KNOWN
) -> tuple[Table, Labels]:
    """The table that H looks at, and the labels of its rows."""
    rows = X if Z is None else Z
    table = read_table(rows, categorical=reading.categorical, reads=reading.reads)
    weight, exposure = reading.sample_weight, reading.exposure
    check_aligned(X, y=y, sample_weight=weight, exposure=exposure)
    labels = read_labels(
        y,
        n_rows=table.n_rows,
        bounds=reading.bounds,
        sample_weight=weight,
        exposure=exposure,
        known=known,
    )
    return table, labels


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
    outputs = base_outputs(base)
    if scores is None and outputs is not None:  # labels are cheaper to refuse
        read_labelled(X, y, Z, reading, known_classes(base, reading, outputs))
    if scores is None:
        scores = base.values if isinstance(base, ScoreColumn) else base.scores(X)
    known = known_classes(base, reading, count_outputs(scores))
    table, labels = read_labelled(X, y, Z, reading, known)
    labels = settle_kind(labels, base, bool(np.any(outside_unit(scores))))
    if labels.kind == "binary" and base.link == "identity" and are_labels(scores):
        warn_user(
            "all base scores are exactly 0 or 1. Are they predicted labels? Pass probabilities "
            "(predict_proba), or log-odds with base_link='logit'."
        )
    chosen = choose_link(base, reading, labels)
    margin = base_margin(base, scores, labels, chosen, table.n_rows, clip=reading.clip)
    low = int(np.sum(scores <= 0)) if base.link == "identity" and family(chosen).positive else 0
    if low:
        warn_user(
            f"{low} of {table.n_rows} base scores are 0 or less, which no factor changes: "
            "if that is right, use link='identity', bounds=(0, None)."
        )
    given = Given(labels.strata, None, labels.weight is not None)
    problem = Problem(table, labels, margin, chosen, given, own_table=Z is not None)
    if labels.weight is not None and (labels.weight == 0).any():
        problem = problem.take(np.flatnonzero(labels.weight > 0))
    warn_if_one_class(problem.labels)
    warn_if_too_good(problem.labels, problem.base, chosen)
    return replace(
        problem,
        table=with_scores(problem.table, problem.base, problem.labels),
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
    """Labels in [0, 1] are a regression's if scores lie ``outside`` of that range.

    So are two numbers that could have been classes.
    """
    if not outside or base.link != "identity":
        return labels
    if labels.kind == "soft":
        return replace(labels, kind="regression", bounds=NO_BOUNDS)
    numbers = all(isinstance(label, int) for label in labels.classes)
    if labels.kind == "binary" and classes_of(base) is None and numbers and labels.classes:
        low, high = sorted(labels.classes)
        values = labels.values if low == labels.classes[0] else 1.0 - labels.values
        return Labels(values, labels.weight, low, high, "regression", NO_BOUNDS)
    return labels


def are_labels(scores: NDArray[np.float64]) -> bool:
    """Whether scores look like labels: all of them exactly 0 or 1, and both."""
    return bool(np.isin(scores, (0.0, 1.0)).all() and scores.min() < scores.max())


def log_family(base: Base, reading: Reading) -> Family | None:
    """The deviance that scores are fitted by on their logarithm; None for other links.

    As the user says, or the base model's own objective, or Poisson where labels have an exposure.
    """
    own = deviance_of(base)
    if reading.link is not None:
        told = family(reading.link)
        by_base = reading.link == "log" and own
        return (family(f"log-{own}") if by_base else told) if told.positive else None
    if reading.clip or classes_of(base) is not None:
        return None
    if own:
        return family(f"log-{own}")
    return None if reading.exposure is None else POISSON


def choose_link(base: Base, reading: Reading, labels: Labels) -> str:
    """The link as given, or by the base model's objective, or by the kind of the labels."""
    link, logarithm = reading.link, log_family(base, reading)
    if logarithm is not None:
        return logarithm.name
    if labels.kind == "classes" and link == "identity":
        raise ValueError(
            "Several classes are recalibrated on their log-odds, so that probabilities sum to one: "
            'link="identity", rounding and alpha are for one of them against the rest, '
            "target_class=."
        )
    return link or ("logit" if labels.kind in ("binary", "classes") else "identity")


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
    link: str,
    n_rows: int,
    *,
    clip: bool = False,
) -> NDArray[np.float64]:
    """A base's scores on the scale of the link, checked.

    They are multiples of :data:`VALUE_STEP`, like everything that is added to them, so that the
    sum is exact in any order; or, with ``clip``, about to be rounded to a grid and as they are.
    """
    own, probability = family(link), base.link == "identity" and labels.kind != "regression"
    values = read_scores(scores, n_rows=n_rows, probability=probability, outputs=labels.outputs)
    if labels.outputs > 1:
        return to_class_scores(values, base.link)
    if base.link == own.link and own.newton:
        offset = np.log(labels.span) if own.positive else 0.0
        return snap(np.clip(values - offset, *own.range))
    if base.link == "logit":
        values = snap(from_margin(values, "logit"), MARGIN_STEP)
    elif base.link == "log":
        values = from_margin(values, "log")
    if labels.kind == "regression":
        values = labels.scale(values)
    if clip or link == "logit":
        values = np.clip(values, 0.0, 1.0)
    if clip or own.newton:
        return own.to_margin(values)
    return snap(np.clip(values, -own.score_limit, own.score_limit))


def with_scores(table: Table, margin: NDArray[np.float64], labels: Labels) -> Table:
    """The table with the base score as a further column, or a column for every class."""
    taken = [name for name in table.schema.names if is_score(name)]
    if taken:
        raise ValueError(
            f"a feature is called {taken[0]!r}, the name of the base model's own score; "
            "rename that column"
        )
    names = score_columns(labels.classes if labels.kind == "classes" else ())
    for name, column in zip(names, by_column(margin), strict=True):
        table = table.append(name, column)
    return table


def read_features(
    schema: Schema, names: Sequence[str], X: Any, margin: NDArray[np.float64], labels: Labels
) -> Table:
    """The table of new rows: the columns ``names`` of a fitted schema, and the base score."""
    wanted = [name for name in names if not is_score(name)]
    if not wanted:
        _check_lengths(count_rows(X), margin)
        return with_scores(Table(Schema((), schema.named), [], len(margin)), margin, labels)
    own = schema.select([name for name in schema.names if not is_score(name)])
    # Columns of an array have only their position, so all of them have to be there.
    table = own.select(wanted).read(X) if schema.named else own.read(X).select(wanted)
    _check_lengths(table.n_rows, margin)
    return with_scores(table, margin, labels)


def _check_lengths(n_rows: int | None, margin: NDArray[np.float64]) -> None:
    """Kernels read as many rows as there are scores."""
    if n_rows is not None and n_rows != len(margin):
        raise ValueError(
            f"there are {len(margin)} base scores for {n_rows} rows; pass one score per row"
        )
