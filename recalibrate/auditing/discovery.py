"""Where are the predictions wrong? Subgroups found on half of the rows, tested on the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import copysign, erfc, log, sinh, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.limits import score_rows
from recalibrate.auditing.measure.sweep import Law
from recalibrate.auditing.records import Discoveries, Subgroup
from recalibrate.auditing.scan import (
    Axis,
    Half,
    Rule,
    choose_candidates,
    feature_axes,
    find_leaves,
    find_rules,
    term_axes,
)
from recalibrate.classes.groups import Groups
from recalibrate.classes.trees import Trees
from recalibrate.core.levels import Levels
from recalibrate.data.bins import Bins
from recalibrate.data.columns import quantile_edges
from recalibrate.data.folds import occurrence_index, row_hash
from recalibrate.data.labels import Labels
from recalibrate.data.table import Table
from recalibrate.support.checks import check_number, check_whole
from recalibrate.support.hashing import combine, mix

# --- How surprising a summed residual is if the predictions are right, as a normal score --------
#
# For 0/1 labels the sum of weighted residuals is a sum of independent variables whose law is known
# under calibration; its tail comes from the saddlepoint approximation, which is accurate where the
# normal one is off by factors: few expected events, and the far tails that many tests ask for.
# Otherwise the sum is divided by the root of its summed squares, by cluster where there are any.


Floats = NDArray[np.float64]

LEAST_PROBABILITY = 2.0**-20
"""Predictions are kept this far from 0 and 1, which nothing can be tested against."""
FARTHEST_TILT = 40.0
"""Largest exponent of the saddlepoint: beyond, every row has the rarer label."""
NEWTON_STEPS = 60


def two_sided(score: float) -> float:
    """Two-sided p-value of a normal score.

    Examples
    --------
    >>> round(two_sided(1.96), 3)
    0.05
    """
    return erfc(abs(score) / sqrt(2.0))


def summed_score(gaps: Floats, cluster: NDArray[np.intp] | None = None) -> float:
    """Sum of residuals over the root of their summed squares.

    Examples
    --------
    >>> summed_score(np.array([1.0, 1.0, 1.0, 1.0]))
    2.0
    """
    if cluster is not None:
        gaps = np.bincount(cluster, weights=gaps).astype(np.float64)
    squares = float(gaps @ gaps)
    return float(gaps.sum()) / sqrt(squares) if squares > 0 else 0.0


def binary_score(y: Floats, f: Floats, weight: Floats | None) -> float:
    """Normal score with the tail probability of a sum of weighted 0/1 residuals.

    Lugannani and Rice's saddlepoint approximation in Barndorff-Nielsen's form; with equal
    weights the sum is a whole number plus a constant, and is corrected for continuity.

    Examples
    --------
    >>> exact = 0.9 ** 100  # no event in 100 rows of probability .1
    >>> approximate = two_sided(binary_score(np.zeros(100), np.full(100, 0.1), None)) / 2
    >>> bool(abs(approximate / exact - 1) < 0.1)
    True
    """
    f = np.clip(f, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    w = np.ones(len(f)) if weight is None else weight / float(weight.max())
    total = float(np.sum(w * (y - f)))
    if weight is None:
        total = copysign(max(abs(total) - 0.5, 0.0), total)
    if abs(total) < 1e-9 * sqrt(len(f)):
        return 0.0
    t = _saddlepoint(total, f, w)
    tilted = _tilted(t, f, w)
    # K(t) = sum log(1 - f + f e^(tw)) - t w f, without overflow for large t w.
    cumulant = float(np.sum(np.logaddexp(np.log1p(-f), np.log(f) + t * w) - t * w * f))
    root = copysign(sqrt(max(2.0 * (t * total - cumulant), 0.0)), t)
    spread = sqrt(float(np.sum(w**2 * tilted * (1.0 - tilted))))
    reach = (2.0 * sinh(t / 2.0) if weight is None else t) * spread
    if abs(t) >= FARTHEST_TILT or abs(root) < 1e-3 or reach / root <= 0:
        return root
    return root + log(reach / root) / root


def _tilted(t: float, f: Floats, w: Floats) -> Floats:
    """Probabilities under which the sum is expected to be what it is."""
    margin = np.log(f) - np.log1p(-f) + t * w
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(margin, -700.0, 700.0))))


def _saddlepoint(total: float, f: Floats, w: Floats) -> float:
    """The t with K'(t) = total, by Newton's method inside a bracket that shrinks."""
    low, high = (0.0, FARTHEST_TILT) if total > 0 else (-FARTHEST_TILT, 0.0)
    t = float(np.clip(total / np.sum(w**2 * f * (1.0 - f)), low, high))
    for _ in range(NEWTON_STEPS):
        tilted = _tilted(t, f, w)
        excess = float(np.sum(w * (tilted - f))) - total
        if abs(excess) <= 1e-9 * abs(total):
            break
        low, high = (low, t) if excess > 0 else (t, high)
        slope = float(np.sum(w**2 * tilted * (1.0 - tilted)))
        step = t - excess / slope if slope > 0 else low
        t = step if low < step < high else (low + high) / 2.0
    return t


# --- Parts of the rows that are independent of each other, for tests and held-out estimates -----
#
# The folds of ``fit`` are balanced: equal rows, labels included, are spread evenly over them. That
# makes noise look alike in all folds, which is fine for choosing a number of rounds and wrong for
# a test. Here every row is dealt by chance, a hash of its content, so that the result still does
# not depend on the order of rows.


class Counted(NamedTuple):
    """Rows of positive weight."""

    predictions: Floats
    table: Table
    labels: Labels
    cluster: NDArray[np.intp] | None


def rows_that_count(
    predictions: Floats, table: Table, labels: Labels, cluster: NDArray[np.intp] | None
) -> Counted:
    """Leave out rows of weight zero; weights that are then all the same are no weights."""
    weight = labels.weight
    if weight is None:
        return Counted(predictions, table, labels, cluster)
    kept = np.flatnonzero(weight > 0)
    weight = weight[kept]
    equal = bool((weight == weight[0]).all())
    labels = replace(labels, values=labels.values[kept], weight=None if equal else weight)
    cluster = None if cluster is None else cluster[kept]
    return Counted(predictions[kept], table.take(kept), labels, cluster)


def deal(
    table: Table,
    labels: Labels,
    scores: Floats,
    cluster: NDArray[np.intp] | None,
    *,
    parts: int,
    seed: int,
) -> NDArray[np.intp]:
    """Part of every row, all of about the same size; rows of a cluster stay together."""
    if cluster is not None:
        draw = mix(np.arange(int(cluster.max()) + 1, dtype=np.uint64), seed)
        return _in_turn(draw, parts)[cluster]
    numbers = [labels.values, scores]
    if labels.weight is not None:
        numbers.append(labels.weight)
    content = row_hash(table, numbers, seed)
    # Equal rows get a number each: interchangeable, but dealt independently.
    return _in_turn(combine(content, occurrence_index(content)), parts)


def _in_turn(draw: NDArray[np.uint64], parts: int) -> NDArray[np.intp]:
    part = np.empty(len(draw), dtype=np.intp)
    part[np.argsort(draw, kind="stable")] = np.arange(len(draw)) % parts
    return part


def score_levels(predictions: Floats, count: int, weight: Floats | None) -> Levels:
    """Level sets of about equal weight, cut at numbers of three digits that reports can print.

    Examples
    --------
    >>> score_levels(np.linspace(0.0, 1.0, 1000), 3, None).thresholds
    array([0.333, 0.668])
    """
    edges = quantile_edges(predictions, count, weight)
    short = np.unique([float(f"{edge:.3g}") for edge in edges])
    inside = (short > predictions.min()) & (short <= predictions.max())
    return Levels(short[inside])


def level_bounds(levels: Levels, level: int) -> tuple[float | None, float | None]:
    """Scores of a level set, from (included) and to (excluded); None where it has no limit."""
    edges = levels.thresholds
    low = float(edges[level - 1]) if level > 0 else None
    high = float(edges[level]) if level < len(edges) else None
    return low, high


def say_level(levels: Levels, level: int) -> str:
    """A level set in words; empty where it is all scores.

    Examples
    --------
    >>> say_level(Levels(np.array([0.2, 0.4])), 1)
    'score in [0.2, 0.4)'
    """
    low, high = level_bounds(levels, level)
    if low is None and high is None:
        return ""
    if low is None:
        return f"score < {high:g}"
    return f"score >= {low:g}" if high is None else f"score in [{low:g}, {high:g})"


# --- Gaps of rules that were reported because they are large: corrected for that choice ---------
#
# A subgroup is reported if its score z, on rows that did not suggest it, is beyond a threshold
# c. So z is not normal around the true score :math:`\theta`, but the part of that beyond c, and
# is too large on average. The corrected score is the :math:`\theta` of which z is the median,
# and limits are those of which it is an extreme quantile [1]_. Close to the threshold they reach
# far towards and beyond zero; so they are cut where limits for all tested rules at once, which
# hold whatever is chosen among them, end.
#
# References
# ----------
# .. [1] J. D. Lee, D. L. Sun, Y. Sun, J. E. Taylor, "Exact post-selection inference", Annals of
#    Statistics 2016.
# .. [2] I. Andrews, T. Kitagawa, A. McCloskey, "Inference on winners", Quarterly Journal of
#    Economics 2024.


HALVINGS = 60
FARTHEST_GAP = 60.0
FOR_ALL = 0.1
"""Share of the allowed error that goes to limits for all rules at once."""


def thresholds(p: Sequence[float], weight: Sequence[float], alpha: float) -> list[float]:
    """Largest p-value of each hypothesis that weighted Holm would reject, the others given.

    Examples
    --------
    >>> [round(value, 4) for value in thresholds([0.001, 0.2], [1.0, 1.0], 0.05)]
    [0.025, 0.05]
    """
    order = sorted(range(len(p)), key=lambda k: p[k] / weight[k])
    found = []
    for k in range(len(p)):
        left = float(sum(weight))
        for j in order:
            if j == k:
                continue
            if p[j] * left > alpha * weight[j]:
                break
            left -= weight[j]
        found.append(min(1.0, alpha * weight[k] / left))
    return found


def _correct(z: float, threshold: float, sure: float, alpha: float) -> tuple[float, float, float]:
    """The score of which one beyond a threshold is the median, and limits of it.

    ``sure`` is the critical value for all rules at once, at `FOR_ALL` of the error.

    Examples
    --------
    >>> [round(value, 2) for value in _correct(9.0, 3.0, 4.0, 0.05)]
    [9.0, 7.0, 11.0]
    >>> middle, low, high = _correct(3.2, 3.0, 4.0, 0.05)
    >>> middle < 2.0 and low < 0.0
    True
    """
    outside = (1.0 - FOR_ALL) * alpha / 2.0
    middle, low, high = (_score_where(z, threshold, q) for q in (0.5, outside, 1.0 - outside))
    bottom, top = z - sure, z + sure
    return max(middle, bottom), max(low, bottom), min(high, top)


def _score_where(z: float, threshold: float, chance: float) -> float:
    """The true score of which one beyond the threshold is above z with this probability."""
    from scipy.special import log_ndtr

    low, high = z - FARTHEST_GAP, z + FARTHEST_GAP
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = log_ndtr(middle - z) - log_ndtr(middle - min(threshold, z))
        low, high = (middle, high) if above < np.log(chance) else (low, middle)
    return 0.5 * (low + high)


Bools = NDArray[np.bool_]

DEFAULT_CLASS = Trees(depth=2)
EXHAUSTIVE_DEPTH = 2
"""All rules up to this depth are looked at; deeper ones as far as trees find them."""
MOST_LEVELS, ROWS_PER_LEVEL = 5, 1000
STILL_OFF = 3.0
"""Standard errors that a subgroup must be off by when those before it are put right."""
UNSUSPICIOUS = 1.0
"""Below this normal score no accurate tail is needed: such a rule is not reported anyway."""


def discover(
    predictions: Floats,
    table: Table,
    labels: Labels,
    *,
    H: Any = None,
    cluster: NDArray[np.intp] | None = None,
    exposure: Floats | None = None,
    alpha: float = 0.05,
    min_rows: int = 100,
    most: int = 10,
    seed: int = 0,
) -> Discoveries:
    """Find subgroups on which predictions are wrong, without being fooled by the search.

    The rows are split by chance into two halves. On one of them every rule of the class H is
    looked at (for trees: one or two conditions on columns), over all scores and on every level
    set of the scores. The most suspicious rules, and what is left of them without one of their
    conditions, are tested on the other half. Then the halves change places.

    Parameters
    ----------
    predictions : ndarray of float64, shape (n,)
        Predicted means, on the scale of the user's labels.
    table : Table
        Columns that rules may speak of.
    labels : Labels
        Outcomes and weights.
    H : Trees, Groups or None
        The class to search: trees (depth 1 and 2 exhaustively, deeper ones greedily), or the
        groups of ``Groups``. By default trees of depth 2 on all columns.
    cluster : ndarray of int, shape (n,), optional
        Cluster of every row, numbered from 0: people or households that occur repeatedly. They
        are not torn apart, and p-values are by cluster.
    exposure : ndarray of float64, shape (n,), optional
        What labels are rates over: the longer, the less they vary.
    alpha : float
        Chance that anything is reported where the predictions are right everywhere.
    min_rows : int
        Smallest subgroup that is looked for (over both halves).
    most : int
        Most subgroups to report.
    seed : int
        Of the split.

    Returns
    -------
    Discoveries

    Notes
    -----
    Labels of 0 and 1 are tested by the saddlepoint approximation of the sum of independent
    0/1 variables with the predicted probabilities, others as the groups of an audit are: by
    Student's t and by the noise of all rows, whichever says less. A subgroup is reported if
    its gap has the same sign in both halves and its two-sided p-value on the half that did not
    suggest it is at most alpha after two adjustments: for all rules that the other half
    suggested, by Holm's method with weight k**-1.5 for the k-th of them, and by a factor of two,
    because both halves suggest. Predicted, observed and gap are those of the half that did not
    choose the rule. It still had to be large there to be reported: the corrected gap and its
    limits take that into account.

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.data.labels import read_labels
    >>> from recalibrate.data.table import read_table
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 5, 9000), rng.integers(0, 5, 9000)])
    >>> y = rng.random(9000) < np.where((X[:, 0] < 2) & (X[:, 1] == 4), 0.5, 0.3)
    >>> found = discover(np.full(9000, 0.3), read_table(X), read_labels(y, n_rows=9000))
    >>> [subgroup.rule for subgroup in found.subgroups]
    ['x0 <= 1 and x1 > 3']
    """
    check_number("alpha", alpha, above=0.0, most=0.5)
    check_whole("min_rows", min_rows, least=2)
    check_whole("most", most, least=1)
    H = DEFAULT_CLASS if H is None else H
    if not isinstance(H, Trees | Groups):
        raise TypeError(
            "Discovery names subgroups by rules, so it searches Trees(...) or Groups(...), not "
            f"{type(H).__name__}. For other classes, the richness of H says whether they gain."
        )
    counted = rows_that_count(predictions, table, labels, cluster)
    n_rows = len(counted.predictions)
    if exposure is not None and labels.weight is not None:
        exposure = exposure[labels.weight > 0]
    if n_rows < 2 * min_rows:
        note = f"{n_rows} rows are too few to search for subgroups of {min_rows}"
        return Discoveries((), 0, 0, 0, 0, alpha, note)
    return _Discovery(counted, H, min_rows, seed, alpha, exposure).report(most)


@dataclass(frozen=True, eq=False)
class _Tested:
    """A rule that one half suggests, and what the other says.

    Attributes
    ----------
    rule, rows
        The rule, and which of all rows it holds for.
    other
        Numbers of the rows in the half that tested it.
    sign
        Of the gap in the half that suggested it.
    evidence
        Log-likelihood of the gap over all rows, less the price of the rule's conditions.
    p, score
        On the half that tested it, and its size as normal score.
    p_holm
        Adjusted for all candidates of both halves.
    threshold, sure
        Scores beyond which it is reported, and beyond which the size of no tested rule is wrong.
    """

    rule: Rule
    rows: Bools
    other: NDArray[np.intp]
    sign: float
    evidence: float
    p: float
    score: float
    p_holm: float = 1.0
    threshold: float = 0.0
    sure: float = 0.0


class _Discovery:
    """One search: statistics of all rows, cut into two halves."""

    def __init__(
        self,
        counted: Counted,
        H: Trees | Groups,
        min_rows: int,
        seed: int,
        alpha: float,
        exposure: Floats | None,
    ) -> None:
        self.alpha, self.exposure = alpha, exposure
        predictions, table, labels, cluster = counted
        n_rows = len(predictions)
        self.labels, self.H, self.cluster, self.min_rows = labels, H, cluster, min_rows
        self.predictions = predictions
        self.f = labels.scale(predictions)
        self.weight = np.ones(n_rows)
        if labels.weight is not None:
            self.weight = labels.weight / labels.weight.mean()
        self.gaps = self.weight * (labels.values - self.f)
        # Under calibration the variance of a 0/1 label is known; by cluster nothing is.
        self.known = labels.kind == "binary" and cluster is None
        variance = np.maximum(self.f * (1.0 - self.f), LEAST_PROBABILITY)
        self.noise = self.weight**2 * variance if self.known else self.gaps**2
        count = int(np.clip(n_rows // ROWS_PER_LEVEL, 1, MOST_LEVELS))
        self.levels = score_levels(predictions, count, labels.weight)
        self.level = self.levels.index(predictions)
        self.axes: list[Axis]
        self.bins: Bins | None = None
        if isinstance(H, Trees):
            self.axes, self.bins = feature_axes(H, table)
        else:
            self.axes = term_axes(H, table)
        self.law = (
            None
            if self.known
            else Law.of(labels.values - self.f, self.level, self.levels.count, exposure)
        )
        half = deal(table, labels, self.f, cluster, parts=2, seed=seed)
        self.halves = [np.flatnonzero(half == k) for k in range(2)]

    def report(self, most: int) -> Discoveries:
        """Search, test, and say what is off."""
        first, second = self.halves
        tested = [*self._search(first, second), *self._search(second, first)]
        off: dict[object, _Tested] = {}
        for each in sorted(tested, key=lambda each: each.p_holm):
            if each.p_holm <= self.alpha:
                off.setdefault(each.rule.key, each)
        kept = self._merge(list(off.values()))
        return Discoveries(
            tuple(self._subgroup(each) for each in kept[:most]),
            len(tested),
            len(off) - len(kept),
            len(first),
            len(second),
            self.alpha,
        )

    def _search(self, one: NDArray[np.intp], other: NDArray[np.intp]) -> list[_Tested]:
        """Rules that one half suggests, tested on the other at half of the allowed error."""
        tested = [self._test(rule, sign, other) for rule, sign in self._candidates(one)]
        p, weight = [each.p for each in tested], _holm_weights(len(tested))
        adjusted = weighted_holm(p)
        limits = thresholds(p, weight.tolist(), self.alpha / 2.0)
        shares = FOR_ALL * self.alpha / 2.0 * weight / weight.sum()
        return [
            replace(each, p_holm=min(1.0, 2.0 * a), threshold=_score_of(t), sure=_score_of(s))
            for each, a, t, s in zip(tested, adjusted, limits, shares, strict=True)
        ]

    def _candidates(self, at: NDArray[np.intp]) -> list[tuple[Rule, float]]:
        """Rules worth a test and the signs of their gaps, most suspicious first."""
        half, H = self._half(at), self.H
        found = find_rules(half, pairs=isinstance(H, Trees) and H.depth > 1)
        if isinstance(H, Trees) and H.depth > EXHAUSTIVE_DEPTH and self.bins is not None:
            levels = Levels(self.labels.scale(self.levels.thresholds))
            y, f = self.labels.values[at], self.f[at]
            found += find_leaves(H, self.bins, half, y, f, levels)
        rules: dict[object, tuple[Rule, float]] = {}
        for family in choose_candidates(half, found):
            sign = float(np.sign(family[0].gap))
            own = [each.rule for each in family]
            fewer = [each for rule in own for each in rule.relaxed()]
            for rule in (*own, *fewer):
                rules.setdefault(rule.key, (rule, sign))
        return list(rules.values())

    def _half(self, at: NDArray[np.intp]) -> Half:
        # Where variances are not known they are compared with the average one.
        unit = 1.0 if self.known else max(float(self.noise[at].mean()), LEAST_PROBABILITY**2)
        return Half(
            [axis.take(at) for axis in self.axes],
            self.level[at],
            self.levels.count,
            self.gaps[at] / np.sqrt(unit),
            self.noise[at] / unit,
            self.weight[at],
            max(1, self.min_rows // 2),
        )

    def _test(self, rule: Rule, sign: float, other: NDArray[np.intp]) -> _Tested:
        rows = rule.rows(self.axes, self.level)
        score = self._score(other[rows[other]])
        p = two_sided(score) if score * sign > 0 else 1.0
        evidence = self._plain_score(self.gaps, rows) ** 2 / 2 - self._price(rule)
        return _Tested(rule, rows, other, sign, evidence, p, abs(score))

    def _price(self, rule: Rule) -> float:
        """Log of the number of rules of this form: what a name has to pay for its conditions."""
        choices = [self.axes[axis].choices(codes) for axis, codes in rule.parts]
        levels = log(self.levels.count) if rule.level >= 0 else 0.0
        return sum(choices) + len(choices) * log(len(self.axes)) + levels

    def _score(self, at: NDArray[np.intp]) -> float:
        """How surprising the summed residual of some rows is."""
        if not len(at):
            return 0.0
        if self.law is not None:
            cluster = None if self.cluster is None else self.cluster[at]
            exposure = None if self.exposure is None else self.exposure[at]
            rows = self.gaps[at], self.weight[at], self.level[at]
            return score_rows(self.law, *rows, cluster, exposure)
        normal = float(self.gaps[at].sum() / np.sqrt(self.noise[at].sum()))
        if abs(normal) < UNSUSPICIOUS:
            return normal
        weight = None if self.labels.weight is None else self.weight[at]
        return binary_score(self.labels.values[at], self.f[at], weight)

    def _plain_score(self, gaps: Floats, rows: Bools) -> float:
        """The same without regard to the tails."""
        if self.known:
            return float(gaps[rows].sum() / np.sqrt(self.noise[rows].sum()))
        return summed_score(gaps[rows], None if self.cluster is None else self.cluster[rows])

    def _merge(self, off: Sequence[_Tested]) -> list[_Tested]:
        """Subgroups that are still off when those before them are put right.

        In the order of evidence: of rules that tell the same story the simplest is kept.
        """
        kept: list[_Tested] = []
        gaps = self.gaps.copy()
        for each in sorted(off, key=lambda each: -each.evidence):
            if kept and each.sign * self._plain_score(gaps, each.rows) < STILL_OFF:
                continue
            kept.append(each)
            mass = self.weight[each.rows]
            gaps[each.rows] -= mass * (gaps[each.rows].sum() / mass.sum())
        return kept

    def _corrected(self, each: _Tested, size: float, error: float) -> tuple[float, float, float]:
        """Its gap without what the selection adds, and limits, in standard errors."""
        if not error:
            return (np.nan,) * 3
        # Tests and standard errors measure noise differently; the threshold is that of the test.
        z = size / error
        return _correct(z, each.threshold * z / each.score, each.sure, self.alpha)

    def _subgroup(self, each: _Tested) -> Subgroup:
        at = each.other[each.rows[each.other]]
        weight, level = self.weight[at], each.rule.level
        mass = float(weight.sum())
        residual = self.labels.values[at] - self.f[at]
        gap = float(weight @ residual) / mass
        spread: Floats = weight * (residual - gap)
        if self.cluster is not None:
            spread = np.bincount(self.cluster[at], weights=spread).astype(np.float64)
        width = self.labels.high - self.labels.low
        error = width * float(np.sqrt(spread @ spread)) / mass
        corrected, near, far = (
            each.sign * value * error for value in self._corrected(each, abs(width * gap), error)
        )
        score = say_level(self.levels, level) if level >= 0 else ""
        rule, expression = each.rule.words(self.axes, score)
        low, high = level_bounds(self.levels, level) if level >= 0 else (None, None)
        predicted = float(weight @ self.predictions[at]) / mass
        return Subgroup(
            rule,
            expression,
            low,
            high,
            rows=int(each.rows.sum()),
            share=float(self.weight[each.rows].sum() / self.weight.sum()),
            tested_rows=len(at),
            mean_prediction=predicted,
            mean_outcome=predicted + width * gap,
            gap=width * gap,
            gap_se=error,
            corrected_gap=corrected,
            low=min(near, far),
            high=max(near, far),
            p=each.p,
            p_holm=each.p_holm,
        )


def _score_of(p: float) -> float:
    """Size of the normal score with a two-sided p-value."""
    from scipy.special import ndtri

    return float(-ndtri(p / 2.0))


def _holm_weights(count: int) -> Floats:
    """Weights of hypotheses in the order given: k**-1.5 for the k-th."""
    return np.arange(1.0, count + 1) ** -1.5


def weighted_holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values with weights that fall with the place in the order given.

    The weight of the k-th is k**-1.5: the first hypotheses get most of the allowed error, which
    passes on to the others when they are rejected.

    Examples
    --------
    >>> [round(value, 3) for value in weighted_holm([0.01, 0.5])]
    [0.014, 0.5]
    """
    weight = _holm_weights(len(p))
    order = np.argsort(np.asarray(p) / weight, kind="stable")
    adjusted, reached, left = np.ones(len(p)), 0.0, float(weight.sum())
    for k in order:
        reached = max(reached, min(1.0, p[k] * left / weight[k]))
        adjusted[k] = reached
        left -= float(weight[k])
    return [float(value) for value in adjusted]
