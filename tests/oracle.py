"""LSBoost again, slow and obvious: what the fast implementation has to equal, bit for bit.

Plain loops over level sets, rows, features and thresholds. Shared with the product is only what
*defines* the numbers: how rows are quantised (``Scale``, the encoders' codes, ``exp_negative``
for the gradient of a row, ``snap`` for a leaf), the thresholds of the level sets, and the one
linear solver; nothing that makes the product fast.

Sums are sums of Python integers, so they are exact, and gains come from them by the very
float64 formula of the product, operation by operation. Hence two splits tie here exactly when
they tie there.

What ties mean:

- Between splits of a node the first one wins: features in their order, thresholds from low to
  high (categories in the order of the table, for one-against-rest by code), missing values on
  the right before missing values on the left; only thresholds right after a bin that has rows.
- Between nodes of a tree with a limit on leaves: the queue hands out the largest gain, then the
  lower depth, then the node further to the left.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from recalibrate.classes.leastsquares import COLLINEAR
from recalibrate.classes.linear import UNIT, bits_to_cut
from recalibrate.classes.trees import Trees
from recalibrate.core.boost import Settings
from recalibrate.core.fixedpoint import Scale, snap
from recalibrate.core.learning import MARGIN_STEP_LIMIT
from recalibrate.core.levels import MARGIN_LIMIT, QUANTILE_CELLS, Levels
from recalibrate.data.bins import Bins
from recalibrate.kernels.gram import solve_level
from recalibrate.kernels.rows import exp_negative

RESIDUAL_LIMIT = 4.0
Predictor = Callable[[Sequence[int]], float]
Design = Callable[[Sequence[int]], list[int]]


@dataclass(frozen=True)
class Sums:
    """Rows, weight-like and gradient-like sum of some rows, in units of the scale."""

    count: int = 0
    s: int = 0
    g: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.count + other.count, self.s + other.s, self.g + other.g)

    def __sub__(self, other: Sums) -> Sums:
        return Sums(self.count - other.count, self.s - other.s, self.g - other.g)


@dataclass(frozen=True)
class Question:
    """One table to be fitted: the rows with their statistics, and the rules."""

    codes: list[list[int]]
    stats: list[Sums]
    level: list[int]
    levels: int
    values: list[float]  # score of every level set where tables replace it, else zeros
    scale: Scale
    settings: Settings

    def members(self, v: int) -> list[int]:
        return [i for i, at in enumerate(self.level) if at == v]

    def total(self, rows: Sequence[int]) -> Sums:
        return sum((self.stats[i] for i in rows), start=Sums())


Fitter = Callable[[Question], list[Predictor | None]]
"""One predictor per level set; None leaves the level set as it is."""


# ---- the loop


@dataclass
class Rows:
    """Rows that are trained on, or only scored: their codes and current scores."""

    codes: list[list[int]]
    f: list[float]
    level: list[int] = field(default_factory=list)

    def draw(self, levels: Levels) -> None:
        thresholds = levels.thresholds.tolist()
        self.level = [sum(threshold <= value for threshold in thresholds) for value in self.f]

    def update(self, models: list[Predictor | None], settings: Settings) -> None:
        for i, v in enumerate(self.level):
            model = models[v]
            if model is not None:
                value = model(self.codes[i])
                self.f[i] = value if settings.replaces else self.f[i] + value
        self.round(settings.grid)

    def round(self, grid: Levels | None) -> None:
        if grid is not None and grid.values is not None:
            self.draw(grid)
            self.f = [float(grid.values[v]) for v in self.level]


def lsboost(
    fit: Fitter,
    train: Rows,
    others: Rows,
    y: Sequence[float],
    weight: Sequence[int],
    scale: Scale,
    settings: Settings,
) -> Iterator[tuple[list[float], list[float]]]:
    """Scores of both sets of rows before the first and after every table."""
    for rows in (train, others):
        rows.round(settings.grid)
    mass = weight if len(weight) else [1] * len(y)
    yield list(train.f), list(others.f)
    for _ in range(settings.max_rounds):
        partition = draw(train.f, mass, settings)
        for rows in (train, others):
            rows.draw(partition)
        for _ in range(settings.tables_per_round):
            # Later tables of a round keep its level sets; where scores are rounded these are
            # the levels of the rounded score, and move with it.
            values = partition.values
            count = partition.count
            stats = [response(*row, scale, settings) for row in zip(y, train.f, mass, strict=True)]
            taken_off = [0.0] * count if values is None else values.tolist()
            models = fit(
                Question(train.codes, stats, train.level, count, taken_off, scale, settings)
            )
            if all(model is None for model in models):
                return
            for rows in (train, others):
                rows.update(models, settings)
            yield list(train.f), list(others.f)


def draw(f: Sequence[float], weight: Sequence[int], settings: Settings) -> Levels:
    """The round's level sets; quantiles count weight in 2**16 cells of the score's range."""
    if settings.grid is not None:
        return settings.grid
    if settings.levels == 1:
        return Levels(np.empty(0))
    if settings.level_kind == "uniform":
        return Levels(Levels.uniform(settings.levels, settings.link).thresholds)
    low, high = (0.0, 1.0) if settings.link == "identity" else (-MARGIN_LIMIT, MARGIN_LIMIT)
    cells = np.zeros(QUANTILE_CELLS, dtype=np.int64)
    for value, w in zip(f, weight, strict=True):
        at = (value - low) * (QUANTILE_CELLS / (high - low))
        cells[int(min(max(at, 0.0), QUANTILE_CELLS - 1.0))] += w
    return Levels.from_cells(cells, low, high, settings.levels)


def response(y: float, f: float, weight: int, scale: Scale, settings: Settings) -> Sums:
    """Statistics of one row: the label, the residual, or the logistic gradient and hessian."""
    h = 1.0
    if settings.replaces:
        r = y
    elif settings.link == "logit":
        e = float(exp_negative(-abs(f)))
        small = e / (1.0 + e)
        r = y - (1.0 - small if f >= 0 else small)
        h = small * (1.0 - small)
    else:
        r = min(max(y - f, -RESIDUAL_LIMIT), RESIDUAL_LIMIT)
    s = int(np.rint(float(weight) * h * 2.0**scale.hessian_bits))
    return Sums(1, s, int(np.rint(float(weight) * r * 2.0**scale.response_bits)))


# ---- trees


@dataclass(eq=False)
class Node:
    """A node with its rows, its best split and, once split, its children."""

    rows: list[int]
    sums: Sums
    depth: int
    place: int  # left to right, in the full binary tree of its depth
    gain: float = -1.0
    feature: int = -1
    goes_left: frozenset[int] = frozenset()
    missing_left: bool = False
    left: Node | None = None
    right: Node | None = None
    value: float = 0.0

    def sends_left(self, codes: Sequence[int]) -> bool:
        code = codes[self.feature]
        return self.missing_left if code == 0 else code in self.goes_left

    def __call__(self, codes: Sequence[int]) -> float:
        if self.left is None or self.right is None:
            return self.value
        return (self.left if self.sends_left(codes) else self.right)(codes)


class TreeFitter:
    """Grows one tree per level set, each on its own."""

    def __init__(self, spec: Trees, bins: Bins) -> None:
        self.spec, self.bins = spec, bins

    def __call__(self, question: Question) -> list[Predictor | None]:
        orders = [self._order(question, j) for j in range(len(self.bins.features))]
        penalty = question.settings.penalty
        models: list[Predictor | None] = []
        for v in range(question.levels):
            rows = question.members(v)
            root = Node(rows, question.total(rows), 0, 0)
            alone = len(rows) < penalty.min_level_rows or root.sums.s == 0
            models.append(None if alone else self._grow(question, root, orders))
        return models

    def _one_against_rest(self, j: int) -> bool:
        feature = self.bins.features[j]
        return feature.categorical and feature.count - 1 <= self.spec.one_vs_rest

    def _order(self, question: Question, j: int) -> list[int]:
        """Codes in the order of the scan: by smoothed residual mean over all level sets."""
        feature, scale = self.bins.features[j], question.scale
        codes = list(range(1, feature.count))
        if not feature.categorical or self._one_against_rest(j):
            return codes
        means = {}
        for code in codes:
            rows = [i for i in range(len(question.stats)) if question.codes[i][j] == code]
            sums = question.total(rows)
            residual = sums.g * scale.response_step
            if question.settings.replaces:
                # Rows carry labels, so the score of each level set is taken off here.
                for v, value in enumerate(question.values):
                    mass = sum(question.stats[i].s for i in rows if question.level[i] == v)
                    residual = residual - value * (mass * scale.weight_step)
            denominator = sums.s * scale.weight_step + self.spec.category_smoothing
            means[code] = residual / denominator if denominator > 0 else 0.0
        return sorted(codes, key=means.__getitem__)

    def _grow(self, question: Question, root: Node, orders: list[list[int]]) -> Node:
        """Best first: see the module's words on ties. Without a limit the order is idle."""
        most = float("inf") if self.spec.leaves is None else self.spec.leaves
        queue: list[tuple[float, int, int, Node]] = []
        leaves = 1

        def consider(node: Node) -> None:
            node.value = self._value(question, node)
            if node.depth == self.spec.depth:
                return
            self._find(question, node, orders)
            if node.gain > question.settings.penalty.min_gain:
                heapq.heappush(queue, (-node.gain, node.depth, node.place, node))

        consider(root)
        while queue and leaves < most:
            _, _, _, node = heapq.heappop(queue)
            sides: tuple[list[int], list[int]] = ([], [])
            for i in node.rows:
                sides[0 if node.sends_left(question.codes[i]) else 1].append(i)
            node.left, node.right = (
                Node(rows, question.total(rows), node.depth + 1, 2 * node.place + k)
                for k, rows in enumerate(sides)
            )
            leaves += 1
            consider(node.left)
            consider(node.right)
        return root

    def _find(self, question: Question, node: Node, orders: list[list[int]]) -> None:
        """Try every feature, every threshold, both sides for the missing values."""
        for j, order in enumerate(orders):
            by_code: dict[int, Sums] = {}
            for i in node.rows:
                code = question.codes[i][j]
                by_code[code] = by_code.get(code, Sums()) + question.stats[i]
            missing = by_code.pop(0, None)
            for b, last in enumerate(order):
                if last not in by_code:
                    continue
                inside = frozenset([last] if self._one_against_rest(j) else order[: b + 1])
                left = sum((by_code[c] for c in inside if c in by_code), start=Sums())
                # Without any, missing values of rows still to come go with the larger child.
                tries = [(left, missing is None and 2 * left.count >= node.sums.count)]
                if missing is not None:
                    tries.append((left + missing, True))
                for sums, missing_left in tries:
                    gain = self._gain(question, node.sums, sums)
                    if gain > node.gain:
                        node.gain, node.feature = gain, j
                        node.goes_left, node.missing_left = inside, missing_left

    def _gain(self, question: Question, whole: Sums, left: Sums) -> float:
        """Fall of the loss by a split; -1 where a child is too small."""

        def part(sums: Sums) -> float:
            total = sums.g * question.scale.response_step
            mass = sums.s * question.scale.weight_step + question.settings.penalty.l2
            return total * total / mass if mass > 0.0 else 0.0

        right = whole - left
        if min(left.count, right.count) < self.spec.min_leaf_rows:
            return -1.0
        return (part(left) + part(right)) - part(whole)

    def _value(self, question: Question, node: Node) -> float:
        """Mean label, or step times G / (S + l2), snapped."""
        settings = question.settings
        mass = node.sums.s * question.scale.weight_step + settings.penalty.l2
        mean = node.sums.g * question.scale.response_step / mass if mass > 0 else 0.0
        if not settings.replaces:
            if settings.link == "logit":
                mean = min(max(mean, -MARGIN_STEP_LIMIT), MARGIN_STEP_LIMIT)
            mean = settings.step * mean
        return float(snap(np.array([mean]))[0])


# ---- least squares


class LeastSquaresFitter:
    """One regression per level set; ``design``: codes to integer columns, the first constant."""

    def __init__(self, design: Design, unit: int, ridge: float) -> None:
        self.design, self.unit, self.ridge = design, unit, ridge

    def __call__(self, question: Question) -> list[Predictor | None]:
        return [self._fit(question, question.members(v)) for v in range(question.levels)]

    def _fit(self, question: Question, rows: list[int]) -> Predictor | None:
        """Normal equations from integer sums; the intercept is not penalised."""
        scale, settings = question.scale, question.settings
        # Columns of many bits leave fewer to the weights and responses of long tables.
        gram_cut, cross_cut = bits_to_cut(scale) if self.unit > 1 else (0, 0)
        terms = range(len(self.design(question.codes[0])))
        gram, cross = [[0 for _ in terms] for _ in terms], [0 for _ in terms]
        for i in rows:
            x = self.design(question.codes[i])
            s, g = question.stats[i].s, question.stats[i].g
            inside = [a for a in terms if x[a] != 0]
            for a in inside:
                cross[a] += cut_off(g, x[a], 1, cross_cut, scale)
                for b in inside:
                    later, earlier = max(a, b), min(a, b)  # products of floats have an order
                    gram[a][b] += cut_off(s, x[later], x[earlier], gram_cut, scale)
        if len(rows) < settings.penalty.min_level_rows or gram[0][0] <= 0:
            return None
        gram_step = scale.weight_step * 2.0**gram_cut / self.unit**2
        cross_step = scale.response_step * 2.0**cross_cut / self.unit
        matrix = np.array([[value * gram_step for value in line] for line in gram])
        for a in terms[1:]:
            matrix[a, a] += self.ridge + settings.penalty.l2
        solved = np.empty(len(terms))
        solve_level(matrix, np.array([value * cross_step for value in cross]), COLLINEAR, solved)
        if not settings.replaces:
            solved *= settings.step
        coefficient = snap(solved / self.unit).tolist()
        # The limit of a Newton step, of which a share is taken.
        newton = settings.link == "logit"
        limit = float(snap(np.array(settings.step * MARGIN_STEP_LIMIT))) if newton else inf

        def predict(codes: Sequence[int]) -> float:
            total = 0.0
            # Not sum(): it compensates its rounding since Python 3.12.
            for c, x in zip(coefficient, self.design(codes), strict=True):
                total += c * x
            return min(max(total, -limit), limit)

        return predict


def cut_off(value: int, x: int, z: int, bits: int, scale: Scale) -> int:
    """value * x * z / 2**bits, rounded once; with weights there are too many bits for integers."""
    if scale.weighted:
        return int(np.rint(float(value) * x * z * 2.0**-bits))
    return nearest(value * x * z, bits)


def nearest(value: int, bits: int) -> int:
    """value / 2**bits to the nearest integer, halves up."""
    return value if bits == 0 else (value + 2 ** (bits - 1)) // 2**bits


def linear_fitter(ridge: float) -> Fitter:
    """Codes are the columns themselves, in units of 2**-15."""
    return LeastSquaresFitter(list, UNIT, ridge)


def group_fitter(offsets: Sequence[int]) -> Fitter:
    """Columns are everyone, then each term's groups; a code of 0 is in none of them."""

    def design(codes: Sequence[int]) -> list[int]:
        row = [1] + [0] * offsets[-1]
        for t, code in enumerate(codes):
            if code > 0:
                row[offsets[t] + code] = 1
        return row

    return LeastSquaresFitter(design, 1, 0.0)
