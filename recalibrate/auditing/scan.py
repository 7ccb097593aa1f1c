"""Leaves of trees deeper than a search over all rules can go, as rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import lgamma, log, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups import Groups
from recalibrate.classes.trees import Paths, TreeLearner, Trees, TreeTable
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.learning import Penalty, StepContext, choose_columns
from recalibrate.core.levels import Levels
from recalibrate.core.part import PendingStep, Rows
from recalibrate.core.rounds import Rounds
from recalibrate.data.bins import Bins, FeatureBins, bin_columns
from recalibrate.data.columns import Columns
from recalibrate.data.table import Column, Table
from recalibrate.groups import expressions as ex
from recalibrate.groups.conditions import condition_of, conjunction, is_whole, said
from recalibrate.groups.groupset import bind
from recalibrate.kernels.audit import add_overlaps, add_pair
from recalibrate.rows.memory import rows_in_memory

# --- Sets of codes of one axis that no single split can tell: intervals, and several categories -
#
# Which set of codes is off by the most standard errors is known from the sums of the codes alone.
# Of categories it is one of the first k in the order of gap per noise [1]_, of numbers an interval;
# all of those are looked at.
#
# References
# ----------
# .. [1] D. B. Neill, "Fast subset scan for spatial pattern detection", JRSS B 2012.


MOST_CATEGORIES = 6
"""Of a set: a longer list is no name that anybody could use."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def best_set(sums: Floats, sign: float, *, ordered: bool, least: tuple[int, float]) -> Bools | None:
    """The set of codes with the largest score of a sign; None if none is large enough.

    Parameters
    ----------
    sums : ndarray of shape (3, codes)
        Rows, gap and noise of every code; code 0 (missing) is never in the set.
    sign : float
        +1 or -1.
    ordered : bool
        Whether sets are intervals of the codes.
    least : (int, float)
        Fewest rows, and least noise or gap.

    Examples
    --------
    >>> sums = np.array([[0, 50, 50, 50, 50], [0, 1, 9, 8, -5], [0, 4, 4, 4, 4.0]])
    >>> best_set(sums, 1.0, ordered=True, least=(1, 1.0)).astype(int)
    array([0, 0, 1, 1, 0])
    """
    used = np.flatnonzero(sums[0, 1:] > 0) + 1
    if len(used) < 2:
        return None
    if not ordered:
        rate = sign * sums[1, used] / np.where(sums[2, used] > 0, sums[2, used], np.inf)
        used = used[np.argsort(-rate, kind="stable")]
    total = np.concatenate([np.zeros((3, 1)), np.cumsum(sums[:, used], axis=1)], axis=1)
    starts = np.arange(len(used)) if ordered else np.zeros(1, dtype=np.intp)
    stops = np.arange(1, len(used) + 1 if ordered else min(len(used), MOST_CATEGORIES) + 1)
    count, gap, noise = total[:, None, stops] - total[:, starts, None]
    wide = (stops[None] > starts[:, None]) & (stops[None] - starts[:, None] < len(used))
    eventful = np.maximum(noise, np.abs(gap)) >= least[1]
    usable = wide & (count >= least[0]) & (noise > 0) & eventful
    score = np.where(usable, sign * gap / np.sqrt(np.where(usable, noise, 1.0)), -np.inf)
    start, stop = np.unravel_index(int(score.argmax()), score.shape)
    if score[start, stop] <= 0:
        return None
    chosen = np.zeros(sums.shape[1], dtype=np.bool_)
    if ordered:
        chosen[used[start] : used[stop] + 1] = True  # with the codes between that do not occur
    else:
        chosen[used[: stop + 1]] = True
    return chosen


# --- What a search for subgroups looks along: code columns, and which sets of their codes count -


BINS = 64
"""Per feature: fine enough to cut off a fiftieth of the rows, coarse enough for all pairs."""


class Axis(Protocol):
    """One column of codes."""

    @property
    def codes(self) -> NDArray[np.unsignedinteger]:
        """Code of every row."""

    @property
    def sides(self) -> Bools:
        """Sets of codes that may be part of a rule, [set, code]."""

    @property
    def ordered(self) -> bool | None:
        """Whether sets of codes are intervals, or any; None where only sides make rules."""

    def take(self, rows: NDArray[np.intp]) -> Axis:
        """Some of the rows."""

    def choices(self, codes: Bools) -> float:
        """Logarithm of the number of sets of codes of this form."""

    def condition(self, codes: Bools) -> ex.Condition | str | None:
        """A set of codes as a condition, or in words where there is none; None of all codes."""


@dataclass(frozen=True, eq=False)
class _Everyone:
    """The axis that tells nobody apart: with it, a pair of axes is a single one."""

    codes: NDArray[np.unsignedinteger]

    @property
    def sides(self) -> Bools:
        return np.ones((1, 1), dtype=np.bool_)

    @property
    def ordered(self) -> None:
        return None

    def choices(self, codes: Bools) -> float:
        return 0.0

    def take(self, rows: NDArray[np.intp]) -> _Everyone:
        return _Everyone(self.codes[rows])

    def condition(self, codes: Bools) -> None:
        return None


@dataclass(frozen=True, eq=False)
class _FeatureAxis:
    """A feature: sides are what one split of a tree can tell apart."""

    feature: FeatureBins
    column: Column
    codes: NDArray[np.unsignedinteger]
    whole: bool
    missing: bool

    @cached_property
    def sides(self) -> Bools:
        """Up to and above every edge; every category and all others; missing or not."""
        count = self.feature.count
        if self.feature.categorical:
            own = np.eye(count, dtype=np.bool_)[1:]
        else:
            own = np.tri(count, dtype=np.bool_)[1:-1]
            own[:, 0] = False
        other = ~own
        other[:, 0] = False
        some = [own, other]
        if self.missing:
            nothing = np.zeros((1, count), dtype=np.bool_)
            nothing[0, 0] = True
            some += [nothing, ~nothing]
        every = np.unique(np.concatenate(some), axis=0)
        # Sets without codes, or with all that occur, are no part of a rule.
        occurring = np.bincount(self.codes, minlength=count) > 0
        told = every & occurring
        return np.asarray(every[told.any(axis=1) & (told != occurring).any(axis=1)])

    @property
    def ordered(self) -> bool:
        return not self.feature.categorical

    def choices(self, codes: Bools) -> float:
        count, inside = self.feature.count - 1, int(codes[1:].sum())
        if self.ordered:
            alone = inside == 0 or codes[1] or codes[-1]
            return log(max(len(self.sides), 1)) if alone else log(count * (count - 1) / 2)
        if inside <= 1 or inside >= count - 1:
            return log(max(len(self.sides), 1))
        return lgamma(count + 1) - lgamma(inside + 1) - lgamma(count - inside + 1)

    def take(self, rows: NDArray[np.intp]) -> _FeatureAxis:
        return replace(self, codes=self.codes[rows])

    def condition(self, codes: Bools) -> ex.Condition | None:
        return condition_of(
            self.feature, self.column, codes, whole=self.whole, missing=self.missing
        )


@dataclass(frozen=True, eq=False)
class _TermAxis:
    """A group term: sides are its groups."""

    labels: tuple[str, ...]
    codes: NDArray[np.unsignedinteger]

    @property
    def sides(self) -> Bools:
        return np.eye(len(self.labels) + 1, dtype=np.bool_)[1:]

    @property
    def ordered(self) -> None:
        return None

    def choices(self, codes: Bools) -> float:
        return log(len(self.labels))

    def take(self, rows: NDArray[np.intp]) -> _TermAxis:
        return replace(self, codes=self.codes[rows])

    def condition(self, codes: Bools) -> str:
        return self.labels[int(np.flatnonzero(codes)[0]) - 1]


def feature_axes(H: Trees, table: Table) -> tuple[list[Axis], Bins]:
    """Axes of the columns that trees may look at, and their bins."""
    names = choose_columns(table.schema, H.features, base_score=False)
    if not names:
        raise ValueError("Trees(features=[]) leaves no column to search; name one")
    bins = bin_columns(Columns.of(table), names, most=BINS)
    codes = bins.encode(table)
    axes: list[Axis] = []
    for j, feature in enumerate(bins.features):
        values = table.column(feature.name)
        axes.append(
            _FeatureAxis(
                feature,
                table.schema.columns[table.schema.index(feature.name)],
                np.ascontiguousarray(codes[:, j]),
                is_whole(values),
                bool(np.isnan(values).any()),
            )
        )
    return axes, bins


def term_axes(H: Groups, table: Table) -> list[Axis]:
    """Axes of group terms."""
    groups = bind(H.terms, table, min_rows=H.min_rows)
    codes = groups.codes(table)
    return [
        _TermAxis(
            groups.labels[groups.offsets[t] : groups.offsets[t + 1]],
            np.ascontiguousarray(codes[:, t]).astype(np.uint32),
        )
        for t in range(len(groups.terms))
    ]


@dataclass(frozen=True, eq=False)
class Rule:
    """Some sides of some axes, on one level set or (-1) on all of them."""

    parts: tuple[tuple[int, Bools], ...]
    level: int = -1

    @property
    def key(self) -> object:
        """Equal for equal rules."""
        return self.level, frozenset((axis, codes.tobytes()) for axis, codes in self.parts)

    def rows(self, axes: Sequence[Axis], level: NDArray[np.int32], at: Any = slice(None)) -> Bools:
        """Which of some rows the rule holds for."""
        held = np.ones(len(level[at]), np.bool_) if self.level < 0 else level[at] == self.level
        for axis, codes in self.parts:
            held &= codes[axes[axis].codes[at]]
        return np.asarray(held)

    def relaxed(self) -> list[Rule]:
        """The rule with a condition less: any level, one part fewer, or both."""
        fewer = [
            Rule(self.parts[:k] + self.parts[k + 1 :], self.level) for k in range(len(self.parts))
        ]
        if self.level < 0:
            return fewer
        anywhere = [Rule(rule.parts) for rule in (self, *fewer)]
        return [anywhere[0], *fewer, *anywhere[1:]]

    def words(self, axes: Sequence[Axis], score: str) -> tuple[str, str]:
        """The rule in words, and its conditions on columns as a group expression (or empty).

        ``score`` is the level set in words, empty for all of them.
        """
        parts = sorted(self.parts, key=lambda part: part[0])
        found = [axes[axis].condition(codes) for axis, codes in parts]
        labels = [each for each in found if isinstance(each, str)]
        conditions = [each for each in found if each is not None and not isinstance(each, str)]
        said_parts = [*labels, said(conditions), score]
        rule = " and ".join(part for part in said_parts if part) or "all rows"
        whole = None if labels else conjunction(conditions)
        return rule, "" if whole is None else ex.to_text(whole)


# --- The search for subgroups on which residuals are not zero on average ------------------------
#
# Every pair of axes is a table of cells (level set x code x code), filled in one pass over the
# rows. The sums of all rules (one side of each axis, on one level set or on all) follow from it by
# two matrix products. They are sums of integers below 2**52, so that neither the order of rows nor
# the threads of a BLAS can change the result.


LEAST_EVENTS = 5.0
"""Rules with less variance (for 0/1 labels: fewer expected events) and a smaller gap than this
are not looked at."""
LEAST_SCORE = 2.0
"""Rules within two standard errors are no candidates."""
MOST_RULES, MOST_CANDIDATES = 200, 20
MOST_PAIRED = 40
"""Of more columns than this, only the most suspicious ones are paired."""
MOST_SHARPENED = 40
"""Rules whose sides are replaced by intervals and sets of categories."""
MOSTLY = 0.9
"""Share of a rule's weight that has to be inside of another to be called inside."""
SHARED = 0.7
"""Neighbouring rules share most rows: N of them are as good as N**SHARED independent ones."""


@dataclass(frozen=True, eq=False)
class _FoundRule:
    """A rule, its summed gap with the noise (variance) of that, and what it costs.

    The price is for having looked at so many rules like it.
    """

    rule: Rule
    gap: float
    noise: float
    price: float

    @property
    def score(self) -> float:
        """Size of the gap in standard errors."""
        return abs(self.gap) / sqrt(self.noise)

    @property
    def evidence(self) -> float:
        """Log-likelihood of the gap, less the price."""
        return self.score**2 / 2 - self.price


@dataclass(frozen=True, eq=False)
class Half:
    """The half of the rows that is searched.

    Attributes
    ----------
    axes
        Their codes.
    level, levels
        Their level sets, and how many there are.
    gaps
        Weight times residual.
    noise
        Variance of that if the scores are right.
    weight
        Weights.
    min_rows
        Rules with fewer rows are not looked at.
    """

    axes: Sequence[Axis]
    level: NDArray[np.int32]
    levels: int
    gaps: Floats
    noise: Floats
    weight: Floats
    min_rows: int


def find_rules(half: Half, *, pairs: bool) -> list[_FoundRule]:
    """The best rule of either sign of every axis (and pair) on every level set and on all."""
    search = _Search(half)
    found = list(search.pair(None, None))
    columns = range(len(half.axes))
    single = [list(search.pair(j, None)) for j in columns]
    for own in single:
        found += own
    if pairs:
        worst = sorted(columns, key=lambda j: -max((x.evidence for x in single[j]), default=-1e9))
        for i, j in combinations(sorted(worst[:MOST_PAIRED]), 2):
            found += search.pair(i, j)
    for j in columns:
        found += search.sets(j)
    best = sorted(found, key=lambda each: -each.evidence)[:MOST_SHARPENED]
    return found + [sharper for each in best for sharper in search.sharpen(each)]


def _price_of(sides: Sequence[int], levels: int) -> float:
    """Price of a rule with one of so many sides on each axis, on one of so many level sets."""
    return SHARED * sum(log(max(count, 1)) for count in sides) + log(levels)


class _Search:
    """Quantised statistics of a half, and the sides of its axes."""

    def __init__(self, half: Half) -> None:
        self.half = half
        self.gaps, self.gap_step = _integers(half.gaps)
        self.noise, self.noise_step = _integers(half.noise)
        self.sides = [axis.sides.astype(np.float64) for axis in half.axes]
        self.everyone = _Everyone(np.zeros(len(half.level), np.uint8))

    def pair(self, i: int | None, j: int | None) -> Iterator[_FoundRule]:
        """Best rules of two axes; None is everyone."""
        first, left = self._axis(i)
        second, right = self._axis(j)
        if not len(left) or not len(right):
            return
        count, gap, noise = self._sums(first, left, second, right)
        eventful = np.maximum(noise, np.abs(gap)) >= LEAST_EVENTS
        usable = (count >= self.half.min_rows) & (noise > 0) & eventful
        score = np.where(usable, gap / np.sqrt(np.where(usable, noise, 1.0)), 0.0)
        for at in range(len(score) if self.half.levels > 1 else 1):
            level = at - 1
            price = _price_of([len(left), len(right)], 1 if level < 0 else self.half.levels)
            for sign in (1, -1):
                best = int(np.argmax(sign * score[at]))
                if sign * score[at].flat[best] >= LEAST_SCORE:
                    s, t = divmod(best, len(right))
                    parts = [(i, left[s]), (j, right[t])]
                    kept = tuple((axis, side > 0) for axis, side in parts if axis is not None)
                    sums = float(gap[at].flat[best]), float(noise[at].flat[best])
                    yield _FoundRule(Rule(kept, level), *sums, price)

    def sets(self, j: int) -> Iterator[_FoundRule]:
        """Best interval, or set of categories, of an axis on every level set and on all."""
        axis = self.half.axes[j]
        if axis.ordered is None:
            return
        codes = np.eye(axis.sides.shape[1]) if len(axis.sides) else np.ones((0, 1))
        if not len(codes):
            return
        sums = np.stack(self._sums(axis, codes, self.everyone, np.ones((1, 1))))[..., 0]
        for at in range(sums.shape[1] if self.half.levels > 1 else 1):
            for sign in (1.0, -1.0):
                yield from self._with_set(Rule((), at - 1), j, sums[:, at], sign)

    def sharpen(self, found: _FoundRule) -> Iterator[_FoundRule]:
        """The rule with sets of codes in place of its sides, in turn, while it gains."""
        for turn in range(2 * len(found.rule.parts)):
            place = turn % len(found.rule.parts)
            parts, level = found.rule.parts, found.rule.level
            others = Rule(parts[:place] + parts[place + 1 :], level)
            j, sign = parts[place][0], float(np.sign(found.gap))
            if self.half.axes[j].ordered is None or not others.parts:
                continue
            for better in self._with_set(others, j, self._by_code(others, j), sign):
                if better.evidence > found.evidence:
                    # In its place among the parts, so that the others have their turn.
                    moved = parts[:place] + better.rule.parts[-1:] + parts[place + 1 :]
                    found = replace(better, rule=Rule(moved, level))
                    yield found

    def _by_code(self, rule: Rule, j: int) -> Floats:
        """Rows, gap and noise of a rule's rows by code of an axis."""
        axis, half = self.half.axes[j], self.half
        held = np.flatnonzero(rule.rows(half.axes, half.level))
        size, codes = axis.sides.shape[1], axis.codes[held]
        sums = [np.bincount(codes, each, size) for each in (half.gaps[held], half.noise[held])]
        return np.stack([np.bincount(codes, minlength=size).astype(np.float64), *sums])

    def _with_set(self, others: Rule, j: int, sums: Floats, sign: float) -> Iterator[_FoundRule]:
        axis, half = self.half.axes[j], self.half
        least = half.min_rows, LEAST_EVENTS
        chosen = best_set(sums, sign, ordered=bool(axis.ordered), least=least)
        if chosen is None:
            return
        _, gap, noise = sums[:, chosen].sum(axis=1)
        parts = (*others.parts, (j, chosen))
        price = SHARED * sum(half.axes[k].choices(codes) for k, codes in parts)
        price += log(1 if others.level < 0 else half.levels)
        found = _FoundRule(Rule(parts, others.level), float(gap), float(noise), price)
        if found.score >= LEAST_SCORE:
            yield found

    def _axis(self, j: int | None) -> tuple[Axis, Floats]:
        if j is None:
            return self.everyone, np.ones((1, 1))
        return self.half.axes[j], self.sides[j]

    def _sums(
        self, first: Axis, left: Floats, second: Axis, right: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Rows, gap and noise of all rules, [level set (all first), left side, right side]."""
        shape = (self.half.levels, left.shape[1], right.shape[1], 3)
        cells = np.zeros(shape, np.int64)
        add_pair(first.codes, second.codes, self.half.level, self.gaps, self.noise, cells)
        cells = np.concatenate([cells.sum(axis=0, keepdims=True), cells])
        # [statistic, level set, left code, right code]
        stacked = np.moveaxis(cells, 3, 0).astype(np.float64)
        count, gap, noise = np.matmul(np.matmul(left, stacked), right.T)
        return count, gap * self.gap_step, noise * self.noise_step


def choose_candidates(half: Half, found: Sequence[_FoundRule]) -> list[tuple[_FoundRule, ...]]:
    """The rules to be tested, best first: each says something that those before it do not.

    One after the other the rule with most evidence is taken, and its mean gap is taken off its
    rows, as a round of boosting would; what the others still find counts from there. With every
    rule comes the best one inside of it: a gap of few rows shows in many, if less clearly.
    """
    best = sorted(found, key=lambda each: -each.evidence)[:MOST_RULES]
    if not best:
        return []
    inside = np.empty((len(best), len(half.level)), np.bool_)
    for k, each in enumerate(best):
        inside[k] = each.rule.rows(half.axes, half.level)
    weight, _ = _integers(half.weight)
    gap = np.array([each.gap for each in best])
    sign = np.sign(gap)
    spread = np.sqrt([each.noise for each in best])
    price = np.array([each.price for each in best])
    left = np.ones(len(best), np.bool_)
    mass = np.array([weight[own].sum() for own in inside])
    chosen: list[tuple[_FoundRule, ...]] = []
    while len(chosen) < MOST_CANDIDATES:
        score = sign * gap / spread
        evidence = np.where(left & (score >= LEAST_SCORE), score**2 / 2 - price, -np.inf)
        k = int(np.argmax(evidence))
        if evidence[k] == -np.inf:
            break
        left[k] = False
        shared = np.zeros(len(best), np.int64)
        add_overlaps(inside, np.flatnonzero(inside[k]), weight, shared)
        within = left & (shared >= MOSTLY * mass) & (sign == sign[k])
        sharper = np.flatnonzero(within)[:1]  # rules are in the order of evidence
        left[sharper] = False
        chosen.append((best[k], *(best[j] for j in sharper)))
        gap = gap - gap[k] * (shared / shared[k])
    return chosen


def _integers(values: Floats) -> tuple[NDArray[np.int64], float]:
    """Values in units whose sums over all rows stay below 2**52, and the unit."""
    _, exponent = np.frexp(float(np.abs(values).max()))
    bits = 52 - len(values).bit_length() - int(exponent)
    return np.rint(np.ldexp(values, bits)).astype(np.int64), float(np.ldexp(1.0, -bits))


def find_leaves(
    H: Trees, bins: Bins, half: Half, y: Floats, scores: Floats, levels: Levels
) -> list[_FoundRule]:
    """Leaves of one tree per level set, and of one for all, fitted to the residuals.

    ``levels`` are the level sets of ``scores``, which like ``y`` are scaled to [0, 1].
    """
    codes = np.column_stack([axis.codes for axis in half.axes])
    weight = None if (half.weight == half.weight[0]).all() else half.weight
    scale = make_scale(len(y), weight, newton=False)
    rows = Rows((codes,), y, scores, scale.quantise_weight(weight))
    learner = TreeLearner(replace(H, min_leaf_rows=max(H.min_leaf_rows, half.min_rows)), bins)
    start = Rounds("identity", None, (bins,))
    found: list[_FoundRule] = []
    with rows_in_memory(rows, scale) as source:
        for partition in (Levels.single(), levels):
            task = StepContext(
                source, PendingStep(start, partition), partition.count, 1.0, Penalty()
            )
            table = learner.learn(task).table
            if isinstance(table, TreeTable):
                level = partition.index(scores)
                found += _leaves(table, bins, half, codes, level, pooled=partition.count == 1)
    return found


def _leaves(
    table: TreeTable,
    bins: Bins,
    half: Half,
    codes: NDArray[np.unsignedinteger],
    level: NDArray[np.int32],
    *,
    pooled: bool,
) -> list[_FoundRule]:
    leaf = table.leaves(codes, level)
    count = len(table.child)
    gap = np.bincount(leaf, weights=half.gaps, minlength=count)
    noise = np.bincount(leaf, weights=half.noise, minlength=count)
    eventful = np.maximum(noise, np.abs(gap)) >= LEAST_EVENTS
    usable = (table.child < 0) & (noise > 0) & eventful
    score = np.where(usable, np.abs(gap) / np.sqrt(np.where(usable, noise, 1.0)), 0.0)
    paths = Paths(table, bins)
    sides = [len(axis.sides) for axis in half.axes]
    found = []
    for node in np.flatnonzero(score >= LEAST_SCORE):
        parts = paths.codes(int(node))
        root = paths.nodes(int(node))[0]
        own = -1 if pooled else int(np.flatnonzero(table.roots == root)[0])
        price = _price_of([sides[axis] for axis in parts], 1 if pooled else half.levels)
        rule = Rule(tuple(parts.items()), own)
        found.append(_FoundRule(rule, float(gap[node]), float(noise[node]), price))
    return found
