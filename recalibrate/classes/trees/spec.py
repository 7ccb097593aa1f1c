"""Trees: one regression tree per level set, all grown in the same passes over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.trees.growth import grow
from recalibrate.classes.trees.joined import join_trees
from recalibrate.core.family import family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import (
    SCORE_COLUMN,
    FunctionClass,
    Learner,
    Lesson,
    Pace,
    Task,
    choose_columns,
    is_score,
)
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.bins import DEFAULT_BINS, MOST_BINS, Bins, bin_columns
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema
from recalibrate.kernels import masks, routing
from recalibrate.kernels.growing import Candidates, Rules
from recalibrate.support.checks import check_number, check_whole
from recalibrate.support.compact import Compact
from recalibrate.support.hashing import mix

MAX_DEPTH = 6
MOST_REMEMBERED = 100
"""Steps whose features are remembered; folds are at most a few turns apart."""
ROWS_FOR_MASKS = 256
"""From here on a single tree is quicker by masks than by a walk."""

TREE_PRIOR = 20.0
"""Ridge on the leaves in a default fit, in rows: a leaf is believed as if so many rows in it had
no gap.

On the log-odds a row has a weight of p (1 - p), a quarter at most, and so have these. With drawn
rows less is needed than without, and small groups that are far off are reached sooner
(cross-validated: half and twice as many differ little).
"""

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Trees(FunctionClass):
    """Regression trees of limited depth.

    Numeric features split at thresholds, categories by the order of their residual means (one
    order per feature and tree, from all level sets), missing values and unseen categories go to
    whichever side fits better. Depth 1 (stumps) over binned features is solved exactly; deeper
    trees are grown greedily.

    Parameters
    ----------
    depth
        Depth of every tree, 1 to 6.
    leaves
        At most this many leaves, grown best-first; None leaves it to the depth.
    features
        Columns that the trees may look at; None means all.
    base_score
        Whether the base model's score is a feature too.
    bins
        Bins per numeric feature, at most 65,535; "exact" gives every distinct value its own.
    min_leaf_rows
        Least number of rows in a leaf.
    feature_share
        Share of the features that each tree may use, drawn anew for each.
    one_vs_rest
        Categorical features with at most this many categories split one category off instead.
    score_order
        Categorical features with more than this many categories can also be split in the order
        of their mean base score, which knows nothing of the labels and cannot follow their
        noise; None: never.
    category_smoothing
        Rows of residual zero added to every category before ordering by residual.
    bare_roots
        Whether a level set in which no split is worth making still gets its mean; otherwise it
        is left alone.

    Examples
    --------
    >>> from recalibrate import Trees
    >>> Trees(depth=2, features=["age", "sex"])
    Trees(depth=2, features=('age', 'sex'))
    """

    kind = "trees"
    shorthand = ("trees", "trees(depth=2, features=[age, sex])")
    has_rules = True
    depth: int = 2
    leaves: int | None = None
    features: Sequence[str] | None = None
    base_score: bool = False
    bins: int | Literal["exact"] = DEFAULT_BINS
    min_leaf_rows: int = 1
    feature_share: float = 1.0
    one_vs_rest: int = 0
    score_order: int | None = None
    category_smoothing: float = 10.0
    bare_roots: bool = True

    def __repr__(self) -> str:
        default = Trees.__dataclass_fields__
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name, about in default.items()
            if name == "depth" or getattr(self, name) != about.default
        ]
        return f"Trees({', '.join(shown)})"

    @property
    def described(self) -> str:
        """How the summary shows it."""
        given = self != DEFAULT_TREES
        return repr(self) if given else "not given: boosted trees on all columns"

    def pace(self, link: str) -> Pace:
        """Trees that split on the score need no level sets; those that draw columns draw rows."""
        l2 = TREE_PRIOR / 4 if family(link).newton else TREE_PRIOR
        draws = self.base_score and self.feature_share < 1
        return Pace(l2, levels=(1,) if self.base_score else (1, 3), draws=draws)

    def richer(self) -> Trees:
        """Trees that are one deeper."""
        return replace(self, depth=min(self.depth + 1, MAX_DEPTH), leaves=None)

    def on_bins_of(self, learner: Learner, index: int) -> TreeLearner | None:
        """The class on bins that another learner has already; None if it has none that fit."""
        if self.features and isinstance(learner, TreeLearner) and learner.spec.bins == self.bins:
            return TreeLearner(self, learner.encoder.of(self.features), index)
        return None

    def bind(self, columns: Columns, *, index: int = 0) -> TreeLearner:
        """The class on some columns."""
        self._check()
        names = choose_columns(columns.schema, self.features, self.base_score)
        if not names:
            raise ValueError(
                "Trees(features=[]) leaves no column to split on; name one, or set base_score=True"
            )
        most = MOST_BINS if self.bins == "exact" else int(self.bins)
        ordered = self._ordered(columns.schema, names)
        score = next(filter(is_score, columns.schema.names), SCORE_COLUMN)
        bins = bin_columns(columns, names, most=most, ordered=ordered, score=score)
        return TreeLearner(self, bins, index)

    def _ordered(self, schema: Schema, names: Sequence[str]) -> list[str]:
        """Columns whose categories are put in order of their mean base score."""
        if self.score_order is None:
            return []
        columns = [schema.columns[schema.index(name)] for name in names]
        return [column.name for column in columns if len(column.categories) > self.score_order]

    def _check(self) -> None:
        if not _is_whole(self.depth, 1, MAX_DEPTH):
            raise ValueError(f"Trees(depth=...) must be 1 to {MAX_DEPTH}, got {self.depth!r}")
        if self.bins != "exact" and not _is_whole(self.bins, 2, MOST_BINS):
            raise ValueError(
                f"Trees(bins=...) must be 2 to {MOST_BINS} or 'exact', got {self.bins!r}"
            )
        check_whole("leaves of Trees", self.leaves, least=2)
        check_whole("min_leaf_rows of Trees", self.min_leaf_rows, least=1)
        check_whole("one_vs_rest of Trees", self.one_vs_rest, least=0)
        check_whole("score_order of Trees", self.score_order, least=0)
        check_number("feature_share of Trees", self.feature_share, above=0.0, most=1.0)
        check_number("category_smoothing of Trees", self.category_smoothing, least=0.0)


def _is_whole(value: object, least: int, most: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(least <= value <= most)  # type: ignore[operator]  # checked above


DEFAULT_TREES = Trees(
    depth=6,
    leaves=15,
    base_score=True,
    min_leaf_rows=10,
    feature_share=0.7,
    one_vs_rest=DEFAULT_BINS,
    score_order=8,
)
"""The class of a fit without H.

Categories are split off one by one, or in the order of their mean base score: an order learned
from residuals follows their noise (cross-validated, most of all where categories are many)."""


@dataclass(frozen=True, eq=False)
class TreeTable(Compact):
    """Trees of one step: one per level set, all nodes in one list.

    ``roots[v]`` is the first node of level set v (-1: left alone); ``child`` is the left child
    (the right one follows it), -1 for a leaf. ``subset`` picks the row of ``subsets`` with the
    codes that go left at a categorical split. ``rows`` and ``gain`` are for explanations.
    """

    kind, exact = "trees", True
    roots: Ints
    feature: Ints
    last_bin: Ints
    missing_left: NDArray[np.bool_]
    subset: Ints
    subsets: NDArray[np.bool_]
    child: Ints
    value: NDArray[np.float64]
    rows: NDArray[np.int64]
    gain: NDArray[np.float64]

    @property
    def n_learners(self) -> int:
        return int(np.count_nonzero(self.roots >= 0))

    def keep(self, levels: NDArray[np.bool_]) -> TreeTable:
        """The same trees on some level sets only."""
        return replace(self, roots=np.where(levels, self.roots, -1).astype(np.int32))

    def scaled(self, factor: float) -> TreeTable:
        """The same trees with values multiplied."""
        return replace(self, value=snap(factor * self.value))

    def leaves(self, block: Block, level: Ints) -> Ints:
        """Leaf of every row, -1 where its level set has no tree."""
        leaf = np.empty(len(level), np.int32)
        if self._is_small and block.dtype == np.uint8 and len(level) >= ROWS_FOR_MASKS:
            masks.leaves_of_one(block, int(self.roots[0]), self.splits, leaf)
            return leaf
        packed, depth = routing.pack_trees(self.splits), routing.tree_depth(self.child)
        routing.find_leaves(block, level, self.roots, depth, *packed, leaf)
        return leaf

    @property
    def splits(self) -> routing.Splits:
        """The nodes as kernels take them."""
        return routing.Splits(*(getattr(self, name) for name in routing.Splits._fields))

    @property
    def looks_at(self) -> set[int]:
        """Columns of the block that the trees look at."""
        return set(self.feature[self.child >= 0].tolist())

    @property
    def _is_small(self) -> bool:
        """Whether there is one tree, of at most 64 leaves."""
        return len(self.roots) == 1 and bool(self.roots[0] >= 0) and len(self.child) < 128

    def update(self, block: Block, level: Ints, f: Scores, replaces: bool) -> Scores:
        return routing.add_values(self.leaves(block, level), self.value, f, replaces)

    join = staticmethod(join_trees)


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """:class:`Trees` bound to the bins of a table."""

    spec: Trees
    encoder: Bins
    index: int = field(default=0)
    """Number of the encoder in the model."""
    among: Ints | None = None
    """Features that trees may split on; None: all."""
    _drawn: dict[tuple[int, int], Candidates] = field(default_factory=dict, init=False)

    @property
    def looks_at(self) -> tuple[str, ...]:
        """Columns that trees may split on, each once."""
        features = self.encoder.features
        some = range(len(features)) if self.among is None else self.among.tolist()
        return tuple(dict.fromkeys(features[k].name for k in some))

    @property
    def inexact(self) -> str:
        reasons = []
        if self.spec.depth > 1:
            reasons.append(f"trees of depth {self.spec.depth} are grown greedily")
        if self.spec.feature_share < 1:
            reasons.append(f"each tree sees {self.spec.feature_share:.0%} of the features")
        if self.spec.min_leaf_rows > 1:
            reasons.append(f"leaves of fewer than {self.spec.min_leaf_rows} rows are not made")
        if any(feature.count > 3 for feature in self.encoder.features if feature.by_sets):
            reasons.append("categories are split by one learned order, not over all subsets")
        if not self.encoder.exact:
            reasons.append("features with more distinct values than bins are binned")
        return "; ".join(reasons)

    @cached_property
    def _style(self) -> NDArray[np.int8]:
        style = np.zeros(len(self.encoder.features), np.int8)
        for j, feature in enumerate(self.encoder.features):
            if feature.by_sets:
                style[j] = 2 if feature.count - 1 <= self.spec.one_vs_rest else 1
        return style

    @cached_property
    def _widest(self) -> int:
        by_sets = (feature.count for feature in self.encoder.features if feature.by_sets)
        return max(by_sets, default=0)

    def learn(self, task: Task) -> Lesson:
        trees = grow(task, self.index, self._rules(task), self._candidates(task))
        grown = trees.grown
        records, kept = grown.records, grown.records["kept"]
        table = trees.learned = TreeTable(
            roots=grown.roots,
            feature=grown.feature,
            last_bin=np.where(kept, records["last_bin"], np.int32(0)),
            missing_left=kept & records["missing_left"],
            subset=grown.subset,
            subsets=grown.subsets,
            child=records["final_child"].copy(),
            value=_values(task, records["s"], records["g"]),
            rows=records["count"].copy(),
            gain=np.where(kept, records["gain"], 0.0),
        )
        return Lesson(table, grown.skipped)

    def _rules(self, task: Task) -> Rules:
        spec, penalty, scale = self.spec, task.penalty, task.source.scale
        return Rules(
            levels=task.levels,
            depth=spec.depth,
            leaves=spec.leaves or 0,
            min_leaf_rows=spec.min_leaf_rows,
            min_level_rows=penalty.min_level_rows,
            min_gain=penalty.min_gain,
            l2=penalty.l2,
            smoothing=spec.category_smoothing,
            bare_roots=spec.bare_roots,
            weight_step=scale.weight_step,
            response_step=scale.response_step,
            every=task.source.only_part is None,
        )

    def _candidates(self, task: Task) -> Candidates:
        """Features drawn for a step. Remembered, because every fold draws the same ones."""
        draws = self.spec.feature_share < 1
        key = (task.seed, len(task.draft.log.steps)) if draws else (0, 0)
        known = self._drawn.get(key)
        if known is not None:
            return known
        count = len(self.encoder.features) if self.among is None else len(self.among)
        features = draw_features(count, self.spec.feature_share, *key)
        features = features if self.among is None else self.among[features]
        sizes = np.diff(self.encoder.offsets)[features]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        codes = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        found = Candidates(features, offsets, self._style[features], codes, self._widest)
        if len(self._drawn) >= MOST_REMEMBERED:
            self._drawn.clear()
        self._drawn[key] = found
        return found


def draw_features(count: int, share: float, seed: int, step: int) -> Ints:
    """A share of ``count`` features, by a hash of the seed and the number of steps so far."""
    if share >= 1:
        return np.arange(count, dtype=np.int32)
    kept = max(1, round(share * count))
    draw = mix(np.arange(count, dtype=np.uint64), seed, step)
    return np.sort(np.argsort(draw, kind="stable")[:kept]).astype(np.int32)


def _values(task: Task, s: NDArray[np.int64], g: NDArray[np.int64]) -> NDArray[np.float64]:
    """Step times G / (S + l2), or the mean label where rounds replace; snapped."""
    scale = task.source.scale
    mass = s * scale.weight_step + task.penalty.l2
    response = g * scale.response_step
    if task.penalty.l2 > 0:
        mean = response / mass
    else:
        mean = np.divide(response, mass, out=np.zeros(len(mass)), where=mass > 0)
    if task.draft.replace:
        return snap(mean)
    limit = task.penalty.step_limit if task.draft.log.family.newton else inf
    step = np.minimum(np.maximum(task.draft.log.family.step(mean), -limit), limit)
    return snap(task.step * step)


CLASS = Trees
