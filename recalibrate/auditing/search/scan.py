"""The search for subgroups on which residuals are not zero on average.

Every pair of axes is a table of cells (level set x code x code), filled in one pass over the
rows. The sums of all rules (one side of each axis, on one level set or on all) follow from it by
two matrix products. They are sums of integers below 2**52, so that neither the order of rows nor
the threads of a BLAS can change the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.search.axes import Axis, Everyone, Rule
from recalibrate.auditing.search.sets import best_set
from recalibrate.kernels.search import add_overlaps, add_pair

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

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
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


def find_rules(half: Half, *, pairs: bool) -> list[Found]:
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


def price_of(sides: Sequence[int], levels: int) -> float:
    """Price of a rule with one of so many sides on each axis, on one of so many level sets."""
    return SHARED * sum(log(max(count, 1)) for count in sides) + log(levels)


class _Search:
    """Quantised statistics of a half, and the sides of its axes."""

    def __init__(self, half: Half) -> None:
        self.half = half
        self.gaps, self.gap_step = _integers(half.gaps)
        self.noise, self.noise_step = _integers(half.noise)
        self.sides = [axis.sides.astype(np.float64) for axis in half.axes]
        self.everyone = Everyone(np.zeros(len(half.level), np.uint8))

    def pair(self, i: int | None, j: int | None) -> Iterator[Found]:
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
            price = price_of([len(left), len(right)], 1 if level < 0 else self.half.levels)
            for sign in (1, -1):
                best = int(np.argmax(sign * score[at]))
                if sign * score[at].flat[best] >= LEAST_SCORE:
                    s, t = divmod(best, len(right))
                    parts = [(i, left[s]), (j, right[t])]
                    kept = tuple((axis, side > 0) for axis, side in parts if axis is not None)
                    sums = float(gap[at].flat[best]), float(noise[at].flat[best])
                    yield Found(Rule(kept, level), *sums, price)

    def sets(self, j: int) -> Iterator[Found]:
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

    def sharpen(self, found: Found) -> Iterator[Found]:
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

    def _with_set(self, others: Rule, j: int, sums: Floats, sign: float) -> Iterator[Found]:
        axis, half = self.half.axes[j], self.half
        least = half.min_rows, LEAST_EVENTS
        chosen = best_set(sums, sign, ordered=bool(axis.ordered), least=least)
        if chosen is None:
            return
        _, gap, noise = sums[:, chosen].sum(axis=1)
        parts = (*others.parts, (j, chosen))
        price = SHARED * sum(half.axes[k].choices(codes) for k, codes in parts)
        price += log(1 if others.level < 0 else half.levels)
        found = Found(Rule(parts, others.level), float(gap), float(noise), price)
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


def choose_candidates(half: Half, found: Sequence[Found]) -> list[tuple[Found, ...]]:
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
    chosen: list[tuple[Found, ...]] = []
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
