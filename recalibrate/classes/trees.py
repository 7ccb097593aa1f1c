"""Trees: one regression tree per level set, all grown in the same passes over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.bins import DEFAULT_BINS, MOST_BINS, Bins, make_bins
from recalibrate.classes.base import MARGIN_STEP_LIMIT, Lesson, Task, choose_columns
from recalibrate.classes.growth import Forest, Rules, grow
from recalibrate.fixedpoint import snap
from recalibrate.hashing import mix
from recalibrate.kernels import forest, walk
from recalibrate.levels import Levels
from recalibrate.rounds import Block, Scores
from recalibrate.table import Table

MAX_DEPTH = 6

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Trees:
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
    category_smoothing
        Rows of residual zero added to every category before ordering.

    Examples
    --------
    >>> from recalibrate import Trees
    >>> Trees(depth=2, features=["age", "sex"])
    Trees(depth=2, features=('age', 'sex'))
    """

    depth: int = 2
    leaves: int | None = None
    features: Sequence[str] | None = None
    base_score: bool = False
    bins: int | Literal["exact"] = DEFAULT_BINS
    min_leaf_rows: int = 1
    feature_share: float = 1.0
    one_vs_rest: int = 0
    category_smoothing: float = 10.0

    def __post_init__(self) -> None:
        if self.features is not None:
            if isinstance(self.features, str):
                raise TypeError(
                    f"features must be a list of column names, got the string {self.features!r}; "
                    f"write features=[{self.features!r}]"
                )
            object.__setattr__(self, "features", tuple(self.features))

    def __repr__(self) -> str:
        default = Trees.__dataclass_fields__
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name, about in default.items()
            if name == "depth" or getattr(self, name) != about.default
        ]
        return f"Trees({', '.join(shown)})"

    def bind(
        self, table: Table, weight: NDArray[np.int64], *, threads: int = 1, index: int = 0
    ) -> TreeLearner:
        """The class on the columns of a table."""
        self._check()
        names = choose_columns(table, _as_tuple(self.features), self.base_score)
        most = MOST_BINS if self.bins == "exact" else int(self.bins)
        bins = make_bins(
            table, names, weight=weight if len(weight) else None, most=most, threads=threads
        )
        return TreeLearner(self, bins, index)

    def _check(self) -> None:
        if self.depth not in range(1, MAX_DEPTH + 1):
            raise ValueError(f"Trees(depth=...) must be 1 to {MAX_DEPTH}, got {self.depth!r}")
        if self.leaves is not None and self.leaves < 2:
            raise ValueError(f"Trees(leaves=...) must be at least 2, got {self.leaves!r}")
        if self.bins != "exact" and not 2 <= int(self.bins) <= MOST_BINS:
            raise ValueError(
                f"Trees(bins=...) must be 2 to {MOST_BINS} or 'exact', got {self.bins!r}"
            )
        if self.min_leaf_rows < 1:
            raise ValueError(f"min_leaf_rows must be at least 1, got {self.min_leaf_rows!r}")
        if not 0 < self.feature_share <= 1:
            raise ValueError(f"feature_share must be in (0, 1], got {self.feature_share!r}")
        if self.category_smoothing < 0:
            raise ValueError(
                f"category_smoothing must not be negative, got {self.category_smoothing!r}"
            )


def _as_tuple(features: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if features is None else tuple(features)


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Trees of one step: one per level set, all nodes in one list.

    ``roots[v]`` is the first node of level set v (-1: left alone); ``child`` is the left child
    (the right one follows it), -1 for a leaf. ``subset`` picks the row of ``subsets`` with the
    codes that go left at a categorical split. ``rows`` and ``gain`` are for explanations.
    """

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

    def update(self, block: Block, level: Ints, f: Scores, replaces: bool) -> Scores:
        out = np.empty(len(f))
        walk.walk_trees(block, level, *self._nodes, self.value, f, replaces, out)
        return out

    def update_on_grid(
        self, block: Block, level: Ints, f: Scores, grid: Levels
    ) -> tuple[Scores, Ints]:
        """Replaced and rounded scores with their levels: rounds the leaves, not the rows."""
        node_level = grid.index(self.value)
        out, out_level = np.empty(len(f)), np.empty(len(f), dtype=np.int32)
        value = grid.round(self.value)
        walk.walk_to_grid(block, level, *self._nodes, value, node_level, f, out, out_level)
        alone = np.flatnonzero(out_level < 0) if (self.roots < 0).any() else ()
        if len(alone):
            out[alone] = grid.round(f[alone])
            out_level[alone] = grid.index(f[alone])
        return out, out_level

    @property
    def _nodes(
        self,
    ) -> tuple[Ints, Ints, Ints, NDArray[np.bool_], Ints, NDArray[np.bool_], Ints]:
        return (
            self.roots,
            self.feature,
            self.last_bin,
            self.missing_left,
            self.subset,
            self.subsets,
            self.child,
        )


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """:class:`Trees` bound to the bins of a table."""

    spec: Trees
    bins: Bins
    index: int = field(default=0)
    """Number of the encoder in the model."""

    @property
    def encoder(self) -> Bins:
        return self.bins

    @property
    def inexact(self) -> str:
        reasons = []
        if self.spec.depth > 1:
            reasons.append(f"trees of depth {self.spec.depth} are grown greedily")
        if self.spec.feature_share < 1:
            reasons.append(f"each tree sees {self.spec.feature_share:.0%} of the features")
        if self.spec.min_leaf_rows > 1:
            reasons.append(f"leaves of fewer than {self.spec.min_leaf_rows} rows are not made")
        if any(feature.count > 3 for feature in self.bins.features if feature.categorical):
            reasons.append("categories are split by one learned order, not over all subsets")
        if not self.bins.exact:
            reasons.append("features with more distinct values than bins are binned")
        return "; ".join(reasons)

    @cached_property
    def _style(self) -> NDArray[np.int8]:
        style = np.zeros(len(self.bins.features), np.int8)
        for j, feature in enumerate(self.bins.features):
            if feature.categorical:
                style[j] = 2 if feature.count - 1 <= self.spec.one_vs_rest else 1
        return style

    def learn(self, task: Task) -> Lesson:
        spec = self.spec
        rules = Rules(
            spec.depth,
            spec.leaves,
            spec.min_leaf_rows,
            spec.category_smoothing,
            self._draw_features(task),
            self._style,
        )
        trees = grow(task, self.bins, self.index, rules)
        table = _compact(task, trees, rules)
        skipped = int(trees.totals[: task.levels][table.roots < 0, 1].sum())
        return Lesson(table, skipped)

    def _draw_features(self, task: Task) -> Ints:
        """A share of the features, by a hash of the seed and the number of steps so far."""
        count = len(self.bins.features)
        if self.spec.feature_share >= 1:
            return np.arange(count, dtype=np.int32)
        kept = max(1, round(self.spec.feature_share * count))
        draw = mix(np.arange(count, dtype=np.uint64), task.seed, len(task.draft.log.steps))
        return np.sort(np.argsort(draw, kind="stable")[:kept]).astype(np.int32)


def _compact(task: Task, trees: Forest, rules: Rules) -> TreeTable:
    """The nodes that are reached, in their order: siblings stay side by side."""
    last, levels = trees.last, task.levels
    if rules.leaves is not None:
        forest.keep_best(trees.owner, trees.key, last, levels, rules.leaves, trees.kept)
    number = np.empty(last, np.int32)
    count = forest.number_nodes(
        last,
        levels,
        task.penalty.min_level_rows,
        trees.parent,
        trees.totals,
        trees.child,
        trees.kept,
        number,
    )
    at = np.flatnonzero(number >= 0) if count < last else np.arange(last)
    inner = trees.kept[at]
    child = np.where(inner, number[np.where(inner, trees.child[at], 0)], -1)
    return TreeTable(
        number[:levels],
        np.where(inner, trees.feature[at], -1).astype(np.int32),
        np.where(inner, trees.position[at], 0).astype(np.int32),
        trees.missing_left[at] & inner,
        np.where(inner, trees.subset[at], -1).astype(np.int32),
        trees.subsets[: trees.used],
        child.astype(np.int32),
        _values(task, trees.totals[at]),
        trees.totals[at, 0],
        np.where(inner, trees.gain[at], 0.0),
    )


def _values(task: Task, totals: NDArray[np.int64]) -> NDArray[np.float64]:
    """Step times G / (S + l2), or the mean label where rounds replace; snapped."""
    scale = task.source.scale
    mass = totals[:, 1] * scale.weight_step + task.penalty.l2
    response = totals[:, 2] * scale.response_step
    mean = np.divide(response, mass, out=np.zeros(len(mass)), where=mass > 0)
    if task.draft.replace:
        return snap(mean)
    if task.draft.log.link == "logit":
        mean = np.clip(mean, -MARGIN_STEP_LIMIT, MARGIN_STEP_LIMIT)
    return snap(task.step * mean)
