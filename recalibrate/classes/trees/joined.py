"""Trees of many steps as one, for predicting: steps that have one level set and only add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.rounds import Block, Scores
from recalibrate.kernels import masks as kernels
from recalibrate.kernels import routing
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
class Masks:
    """See ``kernels.masks``."""

    offsets: NDArray[np.uint64]
    masks: NDArray[np.unsignedinteger]
    values: NDArray[np.float64]
    magic: Any
    shift: Any


@dataclass(frozen=True, eq=False)
class JoinedTrees:
    """Nodes of all trees in one list, tree after tree.

    Tree t has the nodes ``starts[t]`` to ``starts[t + 1]`` and the root ``roots[t]``; the others
    are as in ``TreeTable``, with children and subsets numbered through.
    """

    bins: Bins
    roots: NDArray[np.int64]
    starts: NDArray[np.int64]
    feature: NDArray[np.int32]
    last_bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    subset: NDArray[np.int32]
    subsets: NDArray[np.bool_]
    child: NDArray[np.int32]
    value: NDArray[np.float64]
    packed: NDArray[np.uint64]
    depth: int
    _written: list[Masks] = field(default_factory=list)

    def add(self, block: Block, f: Scores) -> Scores:
        """Scores after all trees; the same as after one step at a time, to the last bit."""
        out = f.copy()
        pieces = cut(len(f), None, threads_for(len(f)))
        masks = self._masks(len(f))

        def work(rows: slice) -> None:
            if masks is None:
                self._walk(block[rows], out[rows])
            else:
                kernels.add_by_masks(
                    block[rows],
                    masks.offsets,
                    masks.masks,
                    masks.values,
                    len(self.roots),
                    masks.magic,
                    masks.shift,
                    out[rows],
                )

        share_out(work, pieces, len(pieces))
        return out

    def _walk(self, block: Block, f: Scores) -> None:
        routing.add_trees(
            block,
            self.roots,
            self.depth,
            self.packed,
            self.subset,
            self.subsets,
            self.value,
            f,
        )

    def _masks(self, n_rows: int) -> Masks | None:
        """Masks, once there are rows enough to write them for; None where they do not fit."""
        if not self._written and n_rows >= LEAST_ROWS:
            bits = self._bits()
            if bits:
                # Two threads may both write them; they write the same.
                self._written[:] = [self._write(bits)]
        return self._written[0] if self._written else None

    def _bits(self) -> int:
        """Bits of a mask, 0 where masks are no way to go."""
        leaves = kernels.most_leaves(self.child, self.starts)
        if leaves > MOST_LEAVES or len(self.roots) < LEAST_TREES:
            return 0
        bits = next(bits for bits in kernels.HASHES if leaves <= bits)
        chunks = -(-len(self.roots) // kernels.TREES)
        codes = int(self.bins.offsets[-1])
        fits = chunks * kernels.TREES * codes * bits // 8 <= MOST_MASK_BYTES
        return bits if fits else 0

    def _write(self, bits: int) -> Masks:
        kind = np.dtype(f"uint{bits}").type
        magic, shift = (kind(number) for number in kernels.HASHES[bits])
        chunks = -(-len(self.roots) // kernels.TREES)
        codes = int(self.bins.offsets[-1])
        masks = np.full((chunks, codes, kernels.TREES), np.iinfo(kind).max, kind)
        values = np.zeros((chunks, kernels.TREES, bits))
        kernels.fill_masks(
            self.roots,
            self.starts,
            self.feature,
            self.last_bin,
            self.missing_left,
            self.subset,
            self.subsets,
            self.child,
            self.value,
            self.bins.offsets,
            magic,
            shift,
            masks,
            values,
        )
        return Masks(self.bins.offsets.astype(np.uint64), masks, values, magic, shift)


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
    child, subset = child.astype(np.int32), subset.astype(np.int32)
    feature, last_bin = chain("feature", np.int32), chain("last_bin", np.int32)
    missing_left = chain("missing_left", np.bool_)
    packed = np.empty(len(child), np.uint64)
    routing.pack_nodes(feature, last_bin, missing_left, subset, child, 0, len(child), packed)
    return JoinedTrees(
        bins,
        starts[:-1] + np.array([table.roots[0] for table in kept], np.int64),
        starts,
        feature,
        last_bin,
        missing_left,
        subset,
        subsets,
        child,
        chain("value", np.float64),
        packed,
        routing.tree_depth(child),
    )


def _sums(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
