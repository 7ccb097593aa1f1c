"""Everything a fit needs from its input, checked once: features, labels, scores, weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import (
    Base,
    CallableBase,
    ProbabilityBase,
    ScoreColumn,
    as_base,
    base_outputs,
    class_of,
    classes_of,
    count_rows,
    deviance_of,
    has_unnamed_outputs,
    may_number_classes,
    numbers_classes,
    predicts_rates,
)
from recalibrate.core.family import Family, family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import is_score, score_columns
from recalibrate.core.levels import MARGIN_LIMIT, MARGIN_STEP, Link, from_margin, to_class_scores
from recalibrate.data.classes import NOTHING_KNOWN, Known, read_class_names
from recalibrate.data.folds import row_hash
from recalibrate.data.labels import (
    NO_BOUNDS,
    Bounds,
    Labels,
    check_aligned,
    count_outputs,
    read_labels,
    read_scores,
    require_exposure,
    warn_if_one_class,
)
from recalibrate.data.table import Schema, Table, read_table
from recalibrate.support import hashing
from recalibrate.support.notices import listed, warn_user

# --- Base scores that are too good: made on the rows that trained the base, or labels themselves


TOO_FEW_ROWS = 20
"""Fewer rows say nothing about whether a base has seen them."""

TOO_GOOD_AUC = 0.999
"""A base that ranks more of the pairs of 0/1 labels right may have seen them."""

TOO_GOOD_LEFT = 1e-4
"""A base that leaves less of the variance of a regression has probably seen the labels."""

LEAST_NOISE = 1e-4
"""Mean variance p (1 - p) below which a base claims to know every label."""


def warn_if_too_good(labels: Labels, margin: NDArray[np.float64], link: str) -> None:
    """Calibration rows that trained the base make every later number look better than it is."""
    mean = from_margin(margin, link)
    if labels.kind == "classes":
        hit = (labels.strata == mean.argmax(axis=1)).astype(np.float64)
        many = len(hit) >= TOO_FEW_ROWS and float(hit.mean()) > TOO_GOOD_AUC
        suspicious = many and _hides_noise(hit, mean.max(axis=1))
    elif labels.kind == "binary":
        suspicious = _separates(labels.values, mean) and _hides_noise(labels.values, mean)
    elif labels.kind == "regression" and len(mean) >= TOO_FEW_ROWS:
        left = float(np.mean((labels.values - mean) ** 2))
        suspicious = left < TOO_GOOD_LEFT * float(np.var(labels.values))
    else:
        suspicious = False
    if suspicious:
        warn_user(
            "the base scores predict the labels almost perfectly. If the base model was trained "
            "on these rows, corrections fitted here will not hold on new ones: calibrate on rows "
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
    if float(np.mean(noise)) < LEAST_NOISE:
        return True
    spread = float(np.sqrt(np.sum(noise * (1 - 2 * p) ** 2)))
    surplus = float(np.sum((y - p) ** 2 - noise))
    return surplus < -2.0 * spread  # two standard errors


POISSON, GAMMA = family("log-poisson"), family("log-gamma")
CUT_TOLERANCE = 1e-6
"""Margins are rounded to 6e-8; what differs by more was cut."""


@dataclass(frozen=True)
class InputOptions:
    """How rows are read: arguments of ``fit``, and what Algorithm 1 asks for.

    Without ``link`` the base model's objective decides, and then the labels: see `choose_link`.
    With ``exposure`` labels are totals over so much of it, and become rates. ``clip`` cuts
    regression scores at the label bounds. ``reads`` says which columns H looks at, ``takes_all``
    that it names none and looks at all. Model files that can run code need ``trust``.
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
    takes_all: bool = False

    def beside(self, own: Collection[str]) -> InputOptions:
        """The same, for a base that takes the columns ``own``.

        What the base takes need not be readable for an H that takes all columns.
        """
        reads = self.reads
        if not self.takes_all or reads is None:
            return self
        return replace(self, reads=lambda schema: [n for n in reads(schema) if n not in own])

    def warn_left_out(self, unread: Sequence[str]) -> None:
        """Say which columns an H that takes all columns cannot read."""
        if self.takes_all and unread:
            warn_user(
                f"H leaves out columns that are neither numbers nor text: {listed(unread)}. The "
                "base model gets them as they are; derive numbers from them if they are to count "
                "in H, too."
            )


@dataclass(frozen=True, eq=False)
class OriginalRows:
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
    cut
        Where base scores were cut, see `cut_losses`; None if none was.
    """

    table: Table
    labels: Labels
    base: NDArray[np.float64]
    link: str
    given: OriginalRows
    own_table: bool = False
    cut: NDArray[np.float64] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.base)

    def cut_loss(self, rows: NDArray[np.intp] | None = None) -> float:
        """Mean of what cutting base scores took off their loss, over some rows or all."""
        if self.cut is None:
            return 0.0
        part = slice(None) if rows is None else rows
        weight = self.labels.weight
        return hashing.average(self.cut[part], None if weight is None else weight[part])

    @property
    def family(self) -> Family:
        """The link and the loss."""
        return family(self.link)

    @property
    def bounded(self) -> bool:
        """Whether predictions are cut where they leave bounds of the labels."""
        return self.labels.kind == "regression" and self.labels.bounds != NO_BOUNDS

    def returned_losses(
        self, y: NDArray[np.float64], f: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Loss of every row's prediction as it is returned, inside the bounds, from its score."""
        own, labels = self.family, self.labels
        if self.bounded:
            mean = labels.unscale(own.from_margin(f))
            kept = labels.within(mean)
            f = np.where(kept == mean, f, own.to_margin(labels.scale(kept)))
        return own.losses(y, f)

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
            self,
            table=self.table.take(rows),
            labels=labels,
            base=self.base[rows],
            given=given,
            cut=None if self.cut is None else self.cut[rows],
        )


def open_base(model: Any, reading: InputOptions) -> Base:
    """The base model, scoring the class that counts as 1."""
    options: dict[str, Any] = {"link": reading.base_link, "trust": reading.trust}
    base = as_base(model, target_class=reading.target_class, **options)
    require_exposure(predicts_rates(base), reading.exposure)
    wanted, classes = reading.positive, classes_of(base)
    if wanted is None:
        return base
    # Some tell their classes only by the columns of what they give.
    if classes is None and isinstance(base, ProbabilityBase):
        return as_base(model, target_class=wanted, **options)
    told = classes is not None and not isinstance(classes, range)
    outputs: Sequence[Any] = classes if told and classes is not None else range(2)
    labels = outputs if told else _output_labels(base, reading)
    if not labels:
        return base
    scored = labels[1 if class_of(base) is None else list(outputs).index(class_of(base))]
    if wanted == scored:
        return base
    if base is model or hasattr(type(model), "as_base"):
        raise ValueError(
            f"positive={wanted!r}, but the base model predicts the probability of {scored!r} and "
            "keeps doing so. Leave positive= out, or fit its own base model with positive=."
        )
    known = dict(zip(labels, outputs, strict=True))
    return as_base(model, target_class=known.get(wanted, wanted), **options)


def _output_labels(base: Base, reading: InputOptions) -> Sequence[Any]:
    """Labels of the two outputs of a base that only numbers them.

    Empty where nothing says which is which: then the score is about ``positive``.
    """
    labels = (0, 1) if reading.classes is None else read_class_names(reading.classes)
    if len(labels) != 2 or reading.positive not in labels:
        return ()
    if isinstance(base, ScoreColumn | CallableBase):
        if reading.classes is not None and reading.positive == labels[0]:
            raise ValueError(
                f"By classes={list(labels)!r} the scores are about {labels[1]!r}, by "
                f"positive={labels[0]!r} about the other class. Leave one of the two out."
            )
        return ()
    return labels if may_number_classes(base) else ()


def by_column(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """One vector, or one for every class."""
    return [values] if values.ndim == 1 else list(values.T)


def known_classes(base: Base | None, reading: InputOptions, outputs: int = 1) -> Known:
    """What is known of the classes before labels are read."""
    told = (reading.positive, reading.target_class, None if base is None else class_of(base))
    chosen = next((label for label in told if label is not None), None)
    classes = None if base is None else classes_of(base)
    if reading.classes is not None:
        if classes is not None and not isinstance(classes, range):
            raise ValueError(
                "classes= was given, but the base model already defines its classes: "
                f"{listed(classes)}. Leave it out."
            )
        classes = read_class_names(reading.classes)
    if isinstance(classes, range) and outputs > 1:
        classes = range(outputs)
    if outputs > 1 and classes is not None and len(classes) != outputs:
        raise ValueError(
            f"The base model gives {outputs} numbers per row, but there are {len(classes)} "
            f"classes: {listed(classes)}."
        )
    own = None if base is None else _log_family(base, reading)
    if own is None:
        unnamed = base is not None and has_unnamed_outputs(base)
        numbered = base is not None and numbers_classes(base)
        return Known(classes, outputs, chosen, unnamed=unnamed, numbered=numbered)
    if classes is not None:
        raise ValueError(
            f"link={own.name!r} is for counts, amounts and rates, but the base model is a "
            "classifier. Leave link= and exposure= out."
        )
    return Known(None, outputs, chosen, positive=True, above_zero=own.power == GAMMA.power)


def read_labelled(
    X: Any,
    y: Any,
    Z: Any,
    reading: InputOptions,
    known: Known = NOTHING_KNOWN,
    table: Table | None = None,
) -> tuple[Table, Labels]:
    """The table that H looks at (unless it was read already), and the labels of its rows."""
    if table is None:
        check_own_table(Z, X)
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


def check_own_table(Z: Any, X: Any) -> None:
    """Refuse a table for H that has another number of rows than X, where both say theirs."""
    own, given = None if Z is None else count_rows(Z), count_rows(X)
    if own is not None and given is not None and own != given:
        raise ValueError(f"Z has {own} rows, but X has {given}: pass the same rows in both.")


def read_problem(
    base: Base,
    X: Any,
    y: Any,
    reading: InputOptions,
    *,
    scores: NDArray[np.float64] | None = None,
    Z: Any = None,
) -> Problem:
    """Check and align all inputs of a fit.

    ``scores`` are the base's scores of these rows where its own would not be honest.
    """
    outputs, table = base_outputs(base), None
    if scores is None and outputs is not None:  # labels are cheaper to refuse
        table, _ = read_labelled(X, y, Z, reading, known_classes(base, reading, outputs))
    if scores is None:
        scores = base.values if isinstance(base, ScoreColumn) else base.scores(X)
    known = known_classes(base, reading, count_outputs(scores))
    table, labels = read_labelled(X, y, Z, reading, known, table)
    outside = bool(np.any(outside_unit(scores)))
    labels = settle_kind(labels, base, outside)
    values = labels.values
    if not outside and np.isin(values, (0.0, 1.0)).all() and values.min() < values.max():
        refuse_two_numbers(labels, base, reading)
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
    given = OriginalRows(labels.strata, None, labels.weight is not None)
    cut = cut_losses(base, scores, labels, chosen, margin)
    problem = Problem(table, labels, margin, chosen, given, own_table=Z is not None, cut=cut)
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
        return Labels(
            values, labels.weight, low, high, "regression", NO_BOUNDS, exposed=labels.exposed
        )
    return labels


def refuse_two_numbers(labels: Labels, base: Base, reading: InputOptions) -> None:
    """Refuse labels of two different numbers beside scores in [0, 1], which are probabilities.

    As a regression they would be fitted without a word, and every prediction be of another size
    than the labels.
    """
    link = None if reading.clip else reading.link  # rounded runs have the identity link anyway
    told = reading.bounds is not None or link is not None or _log_family(base, reading) is not None
    if labels.kind != "regression" or base.link != "identity" or told:
        return
    low, high = labels.low, labels.high
    raise ValueError(
        f"y holds two numbers, {low!r} and {high!r}, but all base scores lie in [0, 1], as "
        f"probabilities do. If the labels are two classes, pass y > {low!r} (or y < {high!r}), "
        "True where the event has happened that the scores are about. If their mean is predicted, "
        f"pass scores on that scale, or confirm it with bounds=({low!r}, {high!r})."
    )


def are_labels(scores: NDArray[np.float64]) -> bool:
    """Whether scores look like labels: all of them exactly 0 or 1, and both."""
    return bool(np.isin(scores, (0.0, 1.0)).all() and scores.min() < scores.max())


def _log_family(base: Base, reading: InputOptions) -> Family | None:
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


def choose_link(base: Base, reading: InputOptions, labels: Labels) -> str:
    """The link as given, or by the base model's objective, or by the kind of the labels."""
    link, logarithm = reading.link, _log_family(base, reading)
    if logarithm is not None:
        return logarithm.name
    if labels.kind == "classes" and link == "identity":
        raise ValueError(
            "Several classes are recalibrated on their log-odds, so that probabilities sum to one: "
            'link="identity", rounding and alpha are for one of them against the rest, '
            "target_class=."
        )
    return link or ("logit" if labels.kind in ("binary", "classes") else "identity")


def has_no_rows(X: Any, base: Any = None) -> bool:
    """Whether there is nothing to predict: no rows, and no scores if any are given."""
    found = [each for each in (X, base) if each is not None]
    return bool(found) and all(count_rows(each) == 0 for each in found)


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


def cut_losses(
    base: Base, scores: Any, labels: Labels, link: str, margin: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Loss of every score as it was given minus that of its ``margin``; None if none was cut.

    Log-odds are cut at +-16, and scores of a run with rounded levels at the bounds of the labels.
    Losses of the base model are those of its scores as given: that is what it predicts, and what
    audits report. Probabilities of 0 and 1 count as the nearest ones, as scikit-learn has it.
    """
    own = family(link)
    low, high = (-MARGIN_LIMIT, np.inf) if labels.outputs > 1 else own.range
    if margin.min() > low and margin.max() < high:
        return None
    given = read_scores(scores, n_rows=len(margin), probability=False, outputs=labels.outputs)
    whole = _uncut_margin(base, given, labels, own)
    moved = np.abs(whole - margin) > CUT_TOLERANCE * (1.0 + np.abs(whole))
    cut = moved.any(axis=1) if moved.ndim == 2 else moved
    if not cut.any():
        return None
    y = labels.values
    return np.where(cut, own.losses(y, whole) - own.losses(y, margin), 0.0)


def _uncut_margin(
    base: Base, scores: NDArray[np.float64], labels: Labels, own: Family
) -> NDArray[np.float64]:
    """Scores on the scale of the link, with limits that only keep their losses finite."""
    tiny = float(np.finfo(np.float64).eps)
    if labels.outputs > 1:
        return np.log(np.clip(from_margin(scores, base.link), tiny, 1.0))
    if own.link == base.link == "logit":
        limit = np.log(1.0 - tiny) - np.log(tiny)
        return np.clip(scores, -limit, limit)
    if own.link == base.link == "log":
        return np.asarray(scores - np.log(labels.span))
    mean = from_margin(scores, base.link)
    mean = labels.scale(mean) if labels.kind == "regression" else mean
    if own.link == "logit":
        mean = np.clip(mean, tiny, 1.0 - tiny)
        return np.asarray(np.log(mean) - np.log1p(-mean))
    return np.log(np.maximum(mean, np.finfo(np.float64).tiny)) if own.positive else mean


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
    return Features.of(schema, names, labels).read(X, margin)


@dataclass(frozen=True, eq=False)
class Features:
    """Which columns of new rows a fitted model reads: worked out once for all requests.

    Attributes
    ----------
    given
        Columns that the rows must have.
    wanted
        Names of those that are looked at.
    schema
        The table's: the columns that are looked at, and the base score.
    """

    given: Schema
    wanted: tuple[str, ...]
    schema: Schema

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str], labels: Labels) -> Features:
        """For the columns ``names`` of a fitted schema."""
        own = schema.select([name for name in schema.names if not is_score(name)])
        kept = own.select([name for name in names if not is_score(name)])
        nothing = np.empty((0, labels.outputs)) if labels.outputs > 1 else np.empty(0)
        blank = Table(kept, [np.empty(0, np.float32) for _ in kept.columns], 0)
        # Columns of an array have only their position, so all of them have to be there.
        given = kept if schema.named or not kept.columns else own
        return cls(given, kept.names, with_scores(blank, nothing, labels).schema)

    def read(self, X: Any, margin: NDArray[np.float64]) -> Table:
        """The table of new rows, whose base scores on the link's scale are ``margin``."""
        scores = by_column(margin)
        if not self.wanted:
            _check_lengths(count_rows(X), margin)
            return Table(self.schema, scores, len(margin))
        table = self.given.read(X)
        _check_lengths(table.n_rows, margin)
        return Table(self.schema, [*map(table.source, self.wanted), *scores], len(margin))


def _check_lengths(n_rows: int | None, margin: NDArray[np.float64]) -> None:
    """Kernels read as many rows as there are scores."""
    if n_rows is not None and n_rows != len(margin):
        raise ValueError(
            f"there are {len(margin)} base scores for {n_rows} rows; pass one score per row"
        )
