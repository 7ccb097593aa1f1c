"""Trees: one regression tree per level set, all grown in the same passes over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.tree_growth import grow
from recalibrate.core.family import family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import (
    SCORE_COLUMN,
    BoostingDefaults,
    FitResult,
    Floats,
    FunctionClass,
    Learner,
    Reasons,
    StepContext,
    choose_columns,
    is_score,
)
from recalibrate.core.levels import Compact
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.bins import DEFAULT_BINS, MOST_BINS, Bins, FeatureBins, bin_columns
from recalibrate.data.columns import Columns
from recalibrate.data.table import Column, Schema
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, are_scores, find_column
from recalibrate.groups.conditions import condition_of, said
from recalibrate.kernels import masks as kernels
from recalibrate.kernels import routing
from recalibrate.kernels.growing import Candidates, Rules
from recalibrate.kernels.routing import (
    MOST_DEPTH,
    PackedTrees,
    Splits,
    add_trees,
    pack_trees,
    tree_depth,
)
from recalibrate.support.checks import ModelFileError, check_number, check_whole
from recalibrate.support.hashing import mix
from recalibrate.support.threads import cut, share_out, threads_for

# --- What the way to a node of a tree says about every feature ----------------------------------


class Paths:
    """Ways from the roots of a step's trees to their nodes."""

    def __init__(self, table: TreeTable, bins: Bins) -> None:
        self.table = table
        self.bins = bins

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Parent of every node, -1 of roots."""
        child = self.table.child
        parent = np.full(len(child), -1, np.int32)
        inner = np.flatnonzero(child >= 0)
        parent[child[inner]] = inner
        parent[child[inner] + 1] = inner
        return parent

    def nodes(self, node: int) -> list[int]:
        """Nodes from the root to ``node``, both included."""
        way = [node]
        while self.parent[way[-1]] >= 0:
            way.append(int(self.parent[way[-1]]))
        return way[::-1]

    def codes(self, node: int) -> dict[int, NDArray[np.bool_]]:
        """Codes that lead to ``node``, by feature in the order of the splits."""
        way = self.nodes(node)
        found: dict[int, NDArray[np.bool_]] = {}
        for above, below in pairwise(way):
            feature = int(self.table.feature[above])
            left = self._left(above, feature)
            side = left if below == self.table.child[above] else ~left
            found[feature] = found[feature] & side if feature in found else side
        return found

    def _left(self, node: int, feature: int) -> NDArray[np.bool_]:
        """Codes that go to the left child."""
        table, count = self.table, self.bins.features[feature].count
        if table.subset[node] >= 0:
            return np.array(table.subsets[table.subset[node], :count])
        left = np.asarray(np.arange(count) <= table.last_bin[node])
        left[0] = table.missing_left[node]
        return left


# --- Trees of many steps as one, for predicting: steps that have one level set and only add -----


LEAST_ROWS = 512
"""Fewer rows are sent down the trees before the masks are written."""
LEAST_TREES = 8
"""Masks are read for many trees at a time, needed or not: fewer trees are walked."""
MOST_MASK_BYTES = 1 << 25
MOST_LEAVES = 64


@dataclass(frozen=True, eq=False)
class _JoinedTrees:
    """Nodes of all trees in one list, tree after tree.

    Tree t has the nodes ``starts[t]`` to ``starts[t + 1]`` and the root ``roots[t]``; children
    and subsets are numbered through.
    """

    bins: Bins
    roots: NDArray[np.int64]
    starts: NDArray[np.int64]
    splits: Splits
    value: NDArray[np.float64]
    packed: PackedTrees
    depth: int
    _written: list[kernels.Masks] = field(default_factory=list)

    def add(self, block: Block, f: Scores) -> Scores:
        """Scores after all trees; the same as after one step at a time, to the last bit."""
        out = f.copy()
        pieces = cut(len(f), None, threads_for(len(f)))
        masks = self._masks(len(f))

        def work(rows: slice) -> None:
            if masks is None:
                add_trees(block[rows], self.roots, self.depth, *self.packed, self.value, out[rows])
            else:
                leaf = np.empty((kernels.ROWS, kernels.TREES), masks.masks.dtype)
                kernels.add_by_masks(block[rows], len(self.roots), leaf, out[rows], *masks)

        share_out(work, pieces, len(pieces))
        return out

    def _masks(self, n_rows: int) -> kernels.Masks | None:
        """Masks, once there are rows enough to write them for; None where they do not fit."""
        if not self._written and n_rows >= LEAST_ROWS and len(self.roots) >= LEAST_TREES:
            # A tree has one leaf more than splits.
            inner = np.add.reduceat(self.splits.child >= 0, self.starts[:-1], dtype=int)
            leaves, offsets = 1 + int(inner.max()), self.bins.offsets
            if leaves <= MOST_LEAVES and self._mask_bytes(leaves) <= MOST_MASK_BYTES:
                # Two threads may both write them; they write the same.
                each = (self.roots, self.starts, self.splits, self.value)
                self._written[:] = [kernels.make_masks(*each, leaves, offsets)]
        return self._written[0] if self._written else None

    def _mask_bytes(self, leaves: int) -> int:
        trees = -(-len(self.roots) // kernels.TREES) * kernels.TREES
        bits = next(bits for bits in kernels.HASHES if leaves <= bits)
        return trees * int(self.bins.offsets[-1]) * bits // 8


def _join_trees(tables: Sequence[TreeTable], bins: Bins) -> _JoinedTrees:
    """Tables of steps with one level set each; those without a tree change nothing."""
    kept = [table for table in tables if table.roots[0] >= 0]

    def chain(name: str, kind: Any) -> NDArray[Any]:
        parts = [getattr(table, name) for table in kept]
        return np.concatenate(parts).astype(kind) if parts else np.empty(0, kind)

    starts = _sums([len(table.child) for table in kept])
    used = _sums([len(table.subsets) for table in kept])
    child, subset = chain("child", np.int32), chain("subset", np.int32)
    child = np.where(child >= 0, child + np.repeat(starts[:-1], np.diff(starts)), -1)
    subset = np.where(subset >= 0, subset + np.repeat(used[:-1], np.diff(starts)), -1)
    widest = max((table.subsets.shape[1] for table in kept), default=1)
    subsets = np.zeros((int(used[-1]), widest), np.bool_)
    for table, at in zip(kept, used, strict=False):
        subsets[at : at + len(table.subsets), : table.subsets.shape[1]] = table.subsets
    splits = Splits(
        feature=chain("feature", np.int32),
        last_bin=chain("last_bin", np.int32),
        missing_left=chain("missing_left", np.bool_),
        subset=subset.astype(np.int32),
        subsets=subsets,
        child=child.astype(np.int32),
    )
    return _JoinedTrees(
        bins,
        starts[:-1] + np.array([table.roots[0] for table in kept], np.int64),
        starts,
        splits,
        chain("value", np.float64),
        pack_trees(splits),
        tree_depth(splits.child),
    )


def _sums(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


MAX_DEPTH = 6
MOST_REMEMBERED = 100
"""Steps whose features are remembered; folds are at most a few turns apart."""
ROWS_FOR_MASKS = 256
"""From here on a single tree is quicker by masks than by a walk."""

TREE_PRIOR = 20.0
"""Ridge on the leaves in a default fit, in rows: a leaf is shrunk as if so many rows in it had
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

    def pace(self, link: str) -> BoostingDefaults:
        """Trees that split on the score need no level sets; those that draw columns draw rows."""
        l2 = TREE_PRIOR / 4 if family(link).newton else TREE_PRIOR
        draws = self.base_score and self.feature_share < 1
        return BoostingDefaults(l2, levels=(1,) if self.base_score else (1, 3), draws=draws)

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
            kernels.leaves_of_one(block, int(self.roots[0]), self.splits, leaf)
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

    join = staticmethod(_join_trees)


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

    def learn(self, task: StepContext) -> FitResult:
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
        return FitResult(table, grown.skipped)

    def _rules(self, task: StepContext) -> Rules:
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

    def _candidates(self, task: StepContext) -> Candidates:
        """Features drawn for a step. Remembered, because every fold draws the same ones."""
        draws = self.spec.feature_share < 1
        key = (task.seed, len(task.draft.model.steps)) if draws else (0, 0)
        known = self._drawn.get(key)
        if known is not None:
            return known
        count = len(self.encoder.features) if self.among is None else len(self.among)
        features = _draw_features(count, self.spec.feature_share, *key)
        features = features if self.among is None else self.among[features]
        sizes = np.diff(self.encoder.offsets)[features]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        codes = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        found = Candidates(features, offsets, self._style[features], codes, self._widest)
        if len(self._drawn) >= MOST_REMEMBERED:
            self._drawn.clear()
        self._drawn[key] = found
        return found


def _draw_features(count: int, share: float, seed: int, step: int) -> Ints:
    """A share of ``count`` features, by a hash of the seed and the number of steps so far."""
    if share >= 1:
        return np.arange(count, dtype=np.int32)
    kept = max(1, round(share * count))
    draw = mix(np.arange(count, dtype=np.uint64), seed, step)
    return np.sort(np.argsort(draw, kind="stable")[:kept]).astype(np.int32)


def _values(task: StepContext, s: NDArray[np.int64], g: NDArray[np.int64]) -> NDArray[np.float64]:
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
    limit = task.penalty.step_limit if task.draft.model.family.newton else inf
    step = np.minimum(np.maximum(task.draft.model.family.step(mean), -limit), limit)
    return snap(task.step * step)


CLASS = Trees


# --- Trees in a file, and the rules that keep the kernels inside of them ------------------------
#
# Kernels follow indices without a check, so everything they could follow out of an array, or round
# in a circle, is refused here.


MOST_FEATURES = 1 << 18
"""A packed tree node has 19 bits for the feature."""
MOST_NODES = 1 << 26
"""A packed tree node has 26 bits for the child."""

BINS = codec.Value(
    f"2 to {MOST_BINS} or 'exact'",
    lambda data: data == "exact" or (type(data) is int and 2 <= data <= MOST_BINS),
    lambda bins: bins if bins == "exact" else int(bins),
)

SPEC = codec.Record(
    Trees,
    {
        "depth": codec.whole(1),
        "leaves": codec.Optional(codec.whole(2)),
        "bins": BINS,
        "min_leaf_rows": codec.whole(1),
        "feature_share": codec.number(0.0, 1.0),
        "category_smoothing": codec.number(0.0),
    },
    since={"score_order": (2, None)},
)

FEATURE = codec.Record(FeatureBins, since={"ordered": (2, False)})

TABLE = codec.Record(TreeTable, {"subsets": codec.Array(np.bool_, 2)})
PER_NODE = TABLE.fields.keys() - {"roots", "subsets"}


def _check_bins(bins: Bins, schema: Schema) -> None:
    """Refuse bins that do not fit the columns."""
    count = len(bins.features)
    if not 1 <= count <= MOST_FEATURES:
        raise ModelFileError(f"trees look at 1 to {MOST_FEATURES} columns, not {count}")
    for k, feature in enumerate(bins.features):
        with codec.located(f"features[{k}]"):
            _check_feature(feature, find_column(schema, feature.name))


def _check_feature(feature: FeatureBins, column: Column) -> None:
    edges, lookup = feature.edges, feature.lookup
    if np.isnan(edges).any() or not (edges[:-1] < edges[1:]).all():
        raise ModelFileError("edges must be numbers that ascend")
    if (lookup is not None) != (column.kind == "categorical"):
        raise ModelFileError(f"column {column.name!r} is {column.kind}, its bins are not")
    if lookup is None:
        if len(edges) + 1 > MOST_BINS:
            raise ModelFileError(f"there are more than {MOST_BINS} bins")
        if feature.ordered:
            raise ModelFileError(f"column {column.name!r} has no categories to be in order")
    elif (
        len(edges)
        or len(lookup) != len(column.categories) + 1
        or lookup[0] != 0
        or not ((lookup >= 0) & (lookup <= MOST_BINS)).all()
    ):
        raise ModelFileError(f"the bins of column {column.name!r} do not fit its categories")


def _check_trees(table: TreeTable, bins: Bins, levels: int) -> None:
    """Refuse trees unless a walk through them ends in a leaf, whatever the row."""
    count = len(table.child)
    per_node = [part for name, part in vars(table).items() if name in PER_NODE]
    if len(table.roots) != levels:
        raise ModelFileError(f"there are {len(table.roots)} roots for {levels} level sets")
    if count >= MOST_NODES or any(len(part) != count for part in per_node):
        raise ModelFileError(f"the {count} nodes are not described alike")
    if not are_scores(table.value) or np.isnan(table.gain).any():
        raise ModelFileError("values must be finite numbers")
    _check_shape(table, count)
    _check_splits(table, bins)


def _check_shape(table: TreeTable, count: int) -> None:
    roots = table.roots[table.roots >= 0]
    inner = np.flatnonzero(table.child >= 0)
    left = table.child[inner].astype(np.int64)
    if (table.roots < -1).any() or (roots >= count).any():
        raise ModelFileError("a root is not a node")
    if (table.child < -1).any() or (left <= inner).any() or (left + 1 >= count).any():
        raise ModelFileError("children must come after their parents")
    owned = np.concatenate([roots, left, left + 1])
    if len(np.unique(owned)) < len(owned):
        raise ModelFileError("a node belongs to two parents")
    if tree_depth(table.child) > MOST_DEPTH:
        raise ModelFileError(f"a tree is deeper than {MOST_DEPTH}")


def _check_splits(table: TreeTable, bins: Bins) -> None:
    inner = table.child >= 0
    feature = table.feature[inner]
    if ((feature < 0) | (feature >= len(bins.features))).any():
        raise ModelFileError("a split is on a column that does not exist")
    by_sets = np.array([f.by_sets for f in bins.features])[feature]
    codes = np.array([f.count for f in bins.features], dtype=np.int64)[feature]
    subset, last_bin = table.subset[inner], table.last_bin[inner]
    if ((subset >= 0) != by_sets).any() or (subset >= len(table.subsets)).any():
        raise ModelFileError("categorical splits, and only they, have a set of categories")
    if (codes[by_sets] > table.subsets.shape[1]).any():
        raise ModelFileError("a set of categories is too small for its column")
    least = np.where(table.missing_left[inner], 0, 1)
    outside = (last_bin < least) | (last_bin > codes)
    if outside[~by_sets].any():
        raise ModelFileError("a split is beyond the bins of its column")


FILES = ClassFiles(
    spec=SPEC,
    encoder_kind="bins",
    encoder=codec.Record(Bins, {"features": codec.Items(FEATURE)}),
    check_encoder=_check_bins,
    table=TABLE,
    check_table=_check_trees,
)


# --- Why a tree moved a row, in words -----------------------------------------------------------


class _TreeReasons(Reasons[TreeTable, Bins]):
    """A row's way through its tree.

    A feature is credited with what its splits change: the value of the node below minus that of
    the node above.
    """

    @cached_property
    def _paths(self) -> Paths:
        return Paths(self.table, self.encoder)

    @cached_property
    def _leaf(self) -> Ints:
        return self.table.leaves(self.block, self.level)

    @cached_property
    def _said(self) -> dict[tuple[int, tuple[int, ...]], str]:
        """Rules said so far, by leaf and columns whose value is missing."""
        return {}

    def words(self, row: int) -> str:
        leaf = int(self._leaf[row])
        if leaf < 0:
            return ""
        codes = self._paths.codes(leaf)
        missing = tuple(j for j in codes if self.block[row, j] == 0)
        if (leaf, missing) not in self._said:
            self._said[leaf, missing] = self._say(codes, missing)
        return self._said[leaf, missing]

    def _say(self, codes: dict[int, NDArray[np.bool_]], missing: tuple[int, ...]) -> str:
        """The way's conditions, of missing values only that they are missing."""
        conditions = []
        for j, some in codes.items():
            feature = self.encoder.features[j]
            column = self.schema.columns[self.schema.index(feature.name)]
            held = np.zeros_like(some) if j in missing else some.copy()
            held[0] = j in missing
            condition = condition_of(feature, column, held, missing=j in missing)
            if condition is not None:
                conditions.append(condition)
        return said(conditions)

    def parts(self) -> dict[str, Floats]:
        features = self.encoder.features
        added = np.zeros((len(features), len(self._leaf)))
        every = np.arange(len(self._leaf))
        node = self._leaf.copy()
        value, parent, feature = self.table.value, self._paths.parent, self.table.feature
        while True:
            above = np.where(node >= 0, parent[node], -1)
            moving = every[above >= 0]
            if not len(moving):
                break
            up = above[moving]
            added[feature[up], moving] += value[node[moving]] - value[up]
            node = above
        parts: dict[str, Floats] = {}
        for own, values in zip(features, added, strict=True):
            if values.any():
                parts[own.name] = parts.get(own.name, 0.0) + values
        return parts


REASONS = _TreeReasons
