"""Trees of many steps as one, for predicting: steps that have one level set and only add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.rounds import Block, Scores
from recalibrate.kernels import masks as kernels
from recalibrate.kernels.routing import PackedTrees, Splits, add_trees, pack_trees, tree_depth
from recalibrate.support.threads import cut, share_out, threads_for

if TYPE_CHECKING:
    from recalibrate.classes.trees.spec import TreeTable
    from recalibrate.data.bins import Bins

LEAST_ROWS = 512
"""Fewer rows are sent down the trees before the masks are written."""
LEAST_TREES = 8
"""Masks are read for many trees at a time, needed or not: fewer trees are walked."""
MOST_MASK_BYTES = 1 << 25
MOST_LEAVES = 64


@dataclass(frozen=True, eq=False)
class JoinedTrees:
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


def join_trees(tables: Sequence[TreeTable], bins: Bins) -> JoinedTrees:
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
    return JoinedTrees(
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
