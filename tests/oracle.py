"""LSBoost again, slow and obvious: what the fast implementation has to equal, bit for bit.

Plain loops over level sets, rows, features and thresholds. Shared with the product is only what
*defines* the numbers: how rows are quantised (``Scale``, the encoders' codes, ``exp_negative``
for the gradient of a row, ``snap`` for a leaf), the thresholds of the level sets, and the one
linear solver. Histograms, sibling subtraction, packed words, split search, growing all level
sets at once, walking trees, sums of products, parts and their caches are all done another way.

Sums are sums of Python integers, so they are exact, and gains come from them by the very
float64 formula of the product, operation by operation. Hence two splits tie here exactly when
they tie there (within rounding of the formula, not of the sums), and "the first one wins" means
the same.

What ties mean:

- Between splits of a node the first one wins: features in their order, thresholds from low to
  high (categories in the order of the table, for one-against-rest by code), missing values on
  the right before missing values on the left; only thresholds right after a bin that has rows.
- Between nodes of a tree with a limit on leaves: a node's key is the smallest gain on the way
  from the root to it. The queue hands out the largest key, then the lower depth, then the node
  further to the left. Two nodes below the same weak split often share its gain as their key, so
  such ties are no accident of rounding. A child never comes before its parent: its key is not
  larger and its depth is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from recalibrate.bins import Bins
from recalibrate.boost import Settings
from recalibrate.classes.base import MARGIN_STEP_LIMIT
from recalibrate.classes.leastsquares import COLLINEAR
from recalibrate.classes.linear import UNIT, bits_to_cut
from recalibrate.classes.trees import Trees
from recalibrate.fixedpoint import Scale, snap
from recalibrate.kernels.gram import solve_level
from recalibrate.kernels.rows import exp_negative
from recalibrate.levels import MARGIN_LIMIT, QUANTILE_CELLS, Levels

RESIDUAL_LIMIT = 4.0
Predictor = Callable[[Sequence[int]], float]
"""From a row of codes to the value that is added, or that replaces the score."""


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


def add_up(terms: Iterator[Sums] | Sequence[Sums]) -> Sums:
    return sum(terms, start=Sums())


@dataclass(frozen=True)
class Question:
    """One table to be fitted: the rows with their statistics, and the rules."""

    codes: list[list[int]]
    stats: list[Sums]
    level: list[int]
    levels: int
    values: list[float]
    """Score of every level set where tables replace it, else zeros."""
    scale: Scale
    settings: Settings

    def members(self, v: int) -> list[int]:
        return [i for i, at in enumerate(self.level) if at == v]


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
        self.level = [level_of(value, levels) for value in self.f]

    def update(self, models: list[Predictor | None], replaces: bool, grid: Levels | None) -> None:
        for i, v in enumerate(self.level):
            model = models[v]
            if model is not None:
                value = model(self.codes[i])
                self.f[i] = value if replaces else self.f[i] + value
        if grid is not None:
            self.round(grid)

    def round(self, grid: Levels) -> None:
        self.draw(grid)
        assert grid.values is not None
        self.f = [float(grid.values[v]) for v in self.level]


def level_of(value: float, levels: Levels) -> int:
    return sum(1 for threshold in levels.thresholds.tolist() if threshold <= value)


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
    grid = settings.grid
    for rows in (train, others):
        if grid is not None:
            rows.round(grid)
    yield list(train.f), list(others.f)
    for _ in range(settings.max_rounds):
        partition = draw(train.f, weight, settings)
        for rows in (train, others):
            rows.draw(partition)
        for k in range(settings.tables_per_round):
            # Later tables of a round keep its level sets; where scores are rounded these are
            # the levels of the rounded score, and move with it. Such a table does not know its
            # level sets' values: where it replaces, categories are ordered by their labels.
            values = partition.values if k == 0 else None
            question = Question(
                train.codes,
                [
                    response(y[i], train.f[i], weight[i] if len(weight) else 1, scale, settings)
                    for i in range(len(y))
                ],
                train.level,
                partition.count,
                [0.0] * partition.count if values is None else values.tolist(),
                scale,
                settings,
            )
            models = fit(question)
            if all(model is None for model in models):
                return
            for rows in (train, others):
                rows.update(models, settings.replaces, grid)
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
    for i, value in enumerate(f):
        at = (value - low) * (QUANTILE_CELLS / (high - low))
        cells[int(min(max(at, 0.0), QUANTILE_CELLS - 1.0))] += weight[i] if len(weight) else 1
    return Levels.from_cells(cells, low, high, settings.levels)


def response(y: float, f: float, weight: int, scale: Scale, settings: Settings) -> Sums:
    """Statistics of one row: the label, the residual, or the logistic gradient and hessian."""
    h = 1
    if settings.replaces:
        r = y
    elif settings.link == "logit":
        e = float(exp_negative(-abs(f)))
        small = e / (1.0 + e)
        r = y - (1.0 - small if f >= 0 else small)
        h = int(np.rint(small * (1.0 - small) * 2.0**scale.hessian_bits))
    else:
        r = min(max(y - f, -RESIDUAL_LIMIT), RESIDUAL_LIMIT)
    return Sums(1, weight * h, weight * int(np.rint(r * 2.0**scale.response_bits)))


# ---- trees


@dataclass(eq=False)
class Node:
    """A node with its rows, its best split and, once split, its children."""

    rows: list[int]
    sums: Sums
    depth: int
    place: int
    """Left to right, in the full binary tree of its depth."""
    gain: float = -1.0
    key: float = -1.0
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
        self.spec = spec
        self.bins = bins

    def __call__(self, question: Question) -> list[Predictor | None]:
        orders = [self._order(question, j) for j in range(len(self.bins.features))]
        penalty = question.settings.penalty
        models: list[Predictor | None] = []
        for v in range(question.levels):
            rows = question.members(v)
            sums = add_up([question.stats[i] for i in rows])
            if len(rows) < penalty.min_level_rows or sums.s == 0:
                models.append(None)
            else:
                models.append(self._grow(question, Node(rows, sums, 0, 0), orders))
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
            sums = add_up([question.stats[i] for i in rows])
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

        def consider(node: Node, above: float) -> None:
            node.value = self._value(question, node)
            if node.depth == self.spec.depth:
                return
            self._find(question, node, orders)
            if node.gain > question.settings.penalty.min_gain:
                node.key = min(node.gain, above)
                heapq.heappush(queue, (-node.key, node.depth, node.place, node))

        consider(root, float("inf"))
        while queue and leaves < most:
            node = heapq.heappop(queue)[-1]
            sides: tuple[list[int], list[int]] = ([], [])
            for i in node.rows:
                sides[0 if node.sends_left(question.codes[i]) else 1].append(i)
            node.left, node.right = (
                Node(
                    rows,
                    add_up([question.stats[i] for i in rows]),
                    node.depth + 1,
                    2 * node.place + k,
                )
                for k, rows in enumerate(sides)
            )
            leaves += 1
            consider(node.left, node.key)
            consider(node.right, node.key)
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
                left = add_up([by_code[code] for code in inside if code in by_code])
                if missing is None:
                    # Missing values of rows still to come go with the larger child.
                    self._try(question, node, j, inside, left, 2 * left.count >= node.sums.count)
                else:
                    self._try(question, node, j, inside, left, False)
                    self._try(question, node, j, inside, left + missing, True)

    def _try(
        self,
        question: Question,
        node: Node,
        j: int,
        inside: frozenset[int],
        left: Sums,
        missing_left: bool,
    ) -> None:
        """Take the split if it is better than the best so far."""
        right = node.sums - left
        if min(left.count, right.count) < self.spec.min_leaf_rows:
            return

        def part(sums: Sums) -> float:
            total = sums.g * question.scale.response_step
            mass = sums.s * question.scale.weight_step + question.settings.penalty.l2
            return total * total / mass if mass > 0.0 else 0.0

        gain = (part(left) + part(right)) - part(node.sums)
        if gain > node.gain:
            node.gain, node.feature, node.goes_left = gain, j, inside
            node.missing_left = missing_left

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


class LinearFitter:
    """One linear regression per level set on integer columns, the first one constant."""

    def __init__(self, terms: int, ridge: float) -> None:
        self.terms = terms
        self.ridge = ridge

    def __call__(self, question: Question) -> list[Predictor | None]:
        scale = question.scale
        s_cut, gram_cut, g_cut, cross_cut = bits_to_cut(scale)
        unit = scale.weight_step * 2.0 ** (s_cut + gram_cut) / UNIT**2
        cross_unit = scale.response_step * 2.0 ** (g_cut + cross_cut) / UNIT
        models: list[Predictor | None] = []
        for v in range(question.levels):
            rows = question.members(v)
            gram = [[0] * self.terms for _ in range(self.terms)]
            cross = [0] * self.terms
            for i in rows:
                x = question.codes[i]
                s, g = nearest(question.stats[i].s, s_cut), nearest(question.stats[i].g, g_cut)
                for a in range(self.terms):
                    cross[a] += nearest(g * x[a], cross_cut)
                    for b in range(self.terms):
                        gram[a][b] += nearest(s * x[a] * x[b], gram_cut)
            solved = solve(question, rows, gram, cross, unit, cross_unit, self.ridge)
            models.append(None if solved is None else linear(snap(solved / UNIT).tolist()))
        return models


class GroupFitter:
    """An intercept and one number per group, by level set."""

    def __init__(self, offsets: Sequence[int]) -> None:
        self.offsets = [int(offset) for offset in offsets]

    def _groups(self, codes: Sequence[int]) -> list[int]:
        """Numbers of a row's groups; 0 is everyone."""
        inside = [t for t, code in enumerate(codes) if code > 0]
        return [0] + [self.offsets[t] + codes[t] for t in inside]

    def __call__(self, question: Question) -> list[Predictor | None]:
        scale, count = question.scale, self.offsets[-1] + 1
        models: list[Predictor | None] = []
        for v in range(question.levels):
            rows = question.members(v)
            gram = [[0] * count for _ in range(count)]
            cross = [0] * count
            for i in rows:
                groups = self._groups(question.codes[i])
                for a in groups:
                    cross[a] += question.stats[i].g
                    for b in groups:
                        gram[a][b] += question.stats[i].s
            solved = solve(question, rows, gram, cross, scale.weight_step, scale.response_step, 0.0)
            models.append(None if solved is None else self._model(snap(solved).tolist()))
        return models

    def _model(self, coefficient: list[float]) -> Predictor:
        return lambda codes: one_by_one([coefficient[a] for a in self._groups(codes)])


def nearest(value: int, bits: int) -> int:
    """value / 2**bits to the nearest integer, halves up."""
    return value if bits == 0 else (value + 2 ** (bits - 1)) // 2**bits


def linear(coefficient: list[float]) -> Predictor:
    return lambda x: one_by_one([c * value for c, value in zip(coefficient, x, strict=True)])


def one_by_one(terms: Sequence[float]) -> float:
    """Sum from left to right; since Python 3.12 ``sum`` compensates its rounding."""
    total = 0.0
    for term in terms:
        total = total + term
    return total


def solve(
    question: Question,
    rows: Sequence[int],
    gram: list[list[int]],
    cross: list[int],
    unit: float,
    cross_unit: float,
    ridge: float,
) -> np.ndarray | None:
    """Coefficients from integer sums; the intercept is not penalised."""
    settings = question.settings
    if len(rows) < settings.penalty.min_level_rows or gram[0][0] <= 0:
        return None
    matrix = np.array([[value * unit for value in line] for line in gram])
    for a in range(1, len(cross)):
        matrix[a, a] += ridge + settings.penalty.l2
    out = np.empty(len(cross))
    solve_level(matrix, np.array([value * cross_unit for value in cross]), COLLINEAR, out)
    return out if settings.replaces else out * settings.step
