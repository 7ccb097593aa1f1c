"""Many small trees at once: every row's leaf by logical ands instead of a walk.

The idea is QuickScorer's (Lucchese et al., 2015), turned by ninety degrees. Number a tree's
leaves from left to right and give each a bit. A test that sends a row to the right rules out the
leaves on its left; of those that no test rules out, the row is in the lowest. What the tests on
one feature rule out depends on the row's code alone, so it is worked out once per feature, code
and tree. A row then reads one line of masks per feature, for ``TREES`` trees side by side, which
the processor ands many at a time: about one nanosecond per row and tree, against 25 for a walk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.routing import Splits

TREES = 128
"""Trees whose masks lie side by side: a constant, so that the loop over them is unrolled."""
ROWS = 4
"""Rows whose scores grow side by side: sums wait for each other, and these do not."""

HASHES: dict[int, tuple[int, int]] = {
    16: (0x09AF, 12),
    32: (0x077CB531, 27),
    64: (0x03F79D71B4CB0A89, 58),
}
"""By bits of a mask: factor and shift that turn a single bit into a number of its own.

De Bruijn sequences: ``(bit * factor) >> shift`` differs for all bits. Values of leaves are stored
at that number, so that nobody has to count zeros.
"""
NARROW_CODES = 256
"""Codes of a feature that are stored in a byte."""


class Masks(NamedTuple):
    """Masks of many trees, and the values of their leaves.

    ``masks`` are [tree // T, code over all features, tree % T], T trees side by side: the leaves
    that the tests on a feature leave over for a code, whose feature begins at ``offsets``.
    ``values`` are [tree // T, tree % T, hash of the leaf's bit], the hash by ``magic`` and
    ``shift``.
    """

    offsets: NDArray[np.uint64]
    masks: NDArray[np.unsignedinteger]
    values: NDArray[np.float64]
    magic: Any
    shift: Any


def make_masks(
    roots: NDArray[np.int64],
    starts: NDArray[np.int64],
    splits: Splits,
    value: NDArray[np.float64],
    leaves: int,
    offsets: NDArray[np.int64],
    side: int = TREES,
) -> Masks:
    """Masks of trees with at most so many ``leaves``, ``side`` of them side by side.

    Tree t has the nodes starts[t]..starts[t + 1].
    """
    bits = next(bits for bits in HASHES if leaves <= bits)
    kind = np.dtype(f"uint{bits}").type
    magic, shift = (kind(number) for number in HASHES[bits])
    chunks = -(-len(roots) // side)
    made = Masks(
        offsets.astype(np.uint64),
        np.full((chunks, int(offsets[-1]), side), np.iinfo(kind).max, kind),
        np.zeros((chunks, side, bits)),
        magic,
        shift,
    )
    nodes = np.empty(len(splits.child), np.int64)
    _fill(roots, starts, *splits, value, nodes, nodes.copy(), *made)
    return made


@kernel
def _fill(
    roots: NDArray[np.int64],
    starts: NDArray[np.int64],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    child: NDArray[np.int32],
    value: NDArray[np.float64],
    leaves: NDArray[np.int64],
    first: NDArray[np.int64],
    offsets: NDArray[np.uint64],
    masks: NDArray[np.unsignedinteger],
    values: NDArray[np.float64],
    magic: Any,
    shift: Any,
) -> None:
    """Write masks, which come filled with ones, and values of leaves.

    ``leaves`` gets the number of leaves below each node, ``first`` that of the first of them from
    left to right, -1 for nodes that the root does not lead to. Children come after their parents.
    """
    one, kind, side = np.uint64(1), masks.dtype.type, masks.shape[2]
    for t in range(starts.shape[0] - 1):
        chunk, place = t // side, t % side
        root, stop = roots[t], starts[t + 1]
        for k in range(stop - 1, root - 1, -1):
            leaves[k] = 1 if child[k] < 0 else leaves[child[k]] + leaves[child[k] + 1]
            first[k] = -1
        first[root] = 0
        for k in range(root, stop):
            if first[k] < 0:
                continue
            begin = np.uint64(first[k])
            if child[k] < 0:
                values[chunk, place, kind(kind(one << begin) * magic) >> shift] = value[k]
                continue
            first[child[k]] = first[k]
            first[child[k] + 1] = first[k] + leaves[child[k]]
            # The leaves on the left are taken out for all codes that the split sends right.
            keeps = kind(~(((one << np.uint64(leaves[child[k]])) - one) << begin))
            j = feature[k]
            line = masks[chunk, offsets[j] : offsets[j + 1], place]
            by_set = subset[k] >= 0
            for code in range(line.shape[0]):
                if by_set:
                    left = code >= subsets.shape[1] or subsets[subset[k], code]
                elif code == 0:
                    left = missing_left[k]
                else:
                    left = code <= last_bin[k]
                if not left:
                    line[code] &= keeps


@kernel
def add_by_masks(
    codes: NDArray[np.unsignedinteger],
    trees: int,
    leaf: NDArray[np.unsignedinteger],
    f: NDArray[np.float64],
    offsets: NDArray[np.uint64],
    masks: NDArray[np.unsignedinteger],
    values: NDArray[np.float64],
    magic: Any,
    shift: Any,
) -> None:
    """Add every row's leaf values to its score in ``f``, tree after tree in their order.

    ``leaf`` has room for [ROWS, TREES] masks.
    """
    width = np.uint64(codes.shape[1])
    count = f.shape[0]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for chunk in range(masks.shape[0]):
        lines, own = masks[chunk], values[chunk]
        last = trees - chunk * TREES
        if last > TREES:
            last = TREES
        for start in range(0, count, ROWS):
            rows = count - start
            if rows > ROWS:
                rows = ROWS
            for r in range(rows):
                i = np.uint64(start + r)
                left = leaf[r]
                at = offsets[0] + np.uint64(codes[i, 0])
                for t in range(TREES):
                    left[t] = lines[at, t]
                for j in range(np.uint64(1), width):
                    at = offsets[j] + np.uint64(codes[i, j])
                    for t in range(TREES):
                        left[t] = left[t] & lines[at, t]
                for t in range(TREES):
                    lowest = masks.dtype.type(left[t] & -left[t])
                    left[t] = masks.dtype.type(lowest * magic) >> shift
            if rows < ROWS:
                for r in range(rows):
                    total = f[start + r]
                    for t in range(last):
                        total += own[t, leaf[r, t]]
                    f[start + r] = total
                continue
            i = np.uint64(start)
            a, b, c, d = f[i], f[i + one], f[i + two], f[i + three]
            for place in range(last):
                tree = np.uint64(place)
                a += own[tree, np.uint64(leaf[0, tree])]
                b += own[tree, np.uint64(leaf[1, tree])]
                c += own[tree, np.uint64(leaf[2, tree])]
                d += own[tree, np.uint64(leaf[3, tree])]
            f[i], f[i + one], f[i + two], f[i + three] = a, b, c, d


def leaves_of_one(
    codes: NDArray[np.uint8], root: int, splits: Splits, out: NDArray[np.int32]
) -> None:
    """Leaf of every row in a single tree of at most 64 leaves, by masks of its features alone."""
    count = len(splits.child)
    tested = np.zeros(codes.shape[1], np.bool_)
    tested[splits.feature[splits.child >= 0]] = True
    used, place = np.flatnonzero(tested), np.cumsum(tested, dtype=np.int32) - 1
    own = splits._replace(feature=place[splits.feature])  # leaves have any
    ends, offsets = np.array([root, count]), NARROW_CODES * np.arange(len(used) + 1)
    number = np.arange(count, dtype=np.float64)
    made = make_masks(ends[:1], ends, own, number, (count + 1) // 2, offsets, side=1)
    masks, values = made.masks.ravel(), made.values.ravel()
    _find(codes, used.astype(np.uint64), made.offsets, masks, values, made.magic, made.shift, out)


@kernel
def _find(
    codes: NDArray[np.uint8],
    used: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    masks: NDArray[np.unsignedinteger],
    values: NDArray[np.float64],
    magic: Any,
    shift: Any,
    out: NDArray[np.int32],
) -> None:
    kind = masks.dtype.type
    for i in range(out.shape[0]):
        reached = ~np.uint64(0)
        for at in range(np.uint64(used.shape[0])):
            reached &= np.uint64(masks[offsets[at] + np.uint64(codes[i, used[at]])])
        out[i] = values[kind(kind(reached & -reached) * magic) >> shift]
