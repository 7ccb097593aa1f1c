"""Trees in a file, and the rules that keep the kernels inside of them.

Kernels follow indices without a check, so everything they could follow out of an array, or round
in a circle, is refused here.
"""

from __future__ import annotations

import numpy as np

from recalibrate.classes.trees.spec import Trees, TreeTable
from recalibrate.data.bins import MOST_BINS, Bins, FeatureBins
from recalibrate.data.table import Column, Schema
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, are_scores, find_column
from recalibrate.kernels.routing import MOST_DEPTH, tree_depth
from recalibrate.support.errors import ModelFileError

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


def check_bins(bins: Bins, schema: Schema) -> None:
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


def check_trees(table: TreeTable, bins: Bins, levels: int) -> None:
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
    check_encoder=check_bins,
    table=TABLE,
    check_table=check_trees,
)
