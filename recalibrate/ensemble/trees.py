"""The trees themselves: their arrays, checked, and their meaning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.threads import cut, share_out, threads_for

if TYPE_CHECKING:
    import onnx

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

LEAF = -1
"""In place of a feature."""

NOT_ONE_PARENT = "not a tree ensemble: a node does not have exactly one parent"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees over the columns of a matrix; the prediction is ``bias`` plus one leaf of each.

    Parameters
    ----------
    n_columns : int
        Columns of the matrix.
    roots : int32 array of shape (T,)
        Root node of every tree.
    feature : int32 array of shape (n,)
        Column that a node looks at; -1 for a leaf.
    threshold : float64 array of shape (n,)
        A row goes left if its value is <= the threshold.
    missing_left : bool array of shape (n,)
        Whether NaN goes left.
    subset : int32 array of shape (n,)
        -1, or which of ``subsets`` decides instead of the threshold: its members go left.
    subsets : tuple of float64 arrays
        Whole numbers from 1; a set may be empty. Columns split by sets must hold whole numbers
        from 1 or NaN.
    left, right : int32 arrays of shape (n,)
        Children; not looked at in leaves.
    value : float64 array of shape (n,)
        Values of the leaves, multiples of a power of two (see `snap_step`).
    bias : float
        A multiple of the same power of two.

    Raises
    ------
    ValueError
        If the arrays are not trees.

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.ensemble import Tree, join_trees
    >>> stump = Tree(feature=[0, -1, -1], threshold=[0.5, 0, 0], missing_left=[True, False, False],
    ...              left=[1, 0, 0], right=[2, 0, 0], value=[0.0, -0.25, 0.5])
    >>> ensemble = join_trees(1, [stump, stump], bias=1.0)
    >>> ensemble.evaluate(np.array([[0.5], [0.6], [np.nan]], dtype=np.float32))
    array([0.5, 2. , 0.5])
    """

    n_columns: int
    roots: Ints
    feature: Ints
    threshold: Floats
    missing_left: NDArray[np.bool_]
    subset: Ints
    subsets: tuple[Floats, ...]
    left: Ints
    right: Ints
    value: Floats
    bias: float = 0.0

    def __post_init__(self) -> None:
        _check_trees(self)

    def evaluate(self, X: NDArray[np.floating[Any]], *, threads: int | None = None) -> Floats:
        """Predictions for a float32 or float64 matrix; the number of threads changes no bit.

        Parameters
        ----------
        X : float32 or float64 array of shape (n, n_columns)
        threads : int, optional
            By default as many as there are cores, for large matrices.

        Returns
        -------
        float64 array of shape (n,)
        """
        from recalibrate.kernels.ensemble import add_leaves

        if X.ndim != 2 or X.shape[1] != self.n_columns or X.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"expected a float32 or float64 matrix with {self.n_columns} columns, got "
                f"{X.dtype} of shape {X.shape}"
            )
        matrix = np.ascontiguousarray(X)
        out = np.full(len(matrix), self.bias)
        nodes: Any = self._packed

        def walk(rows: slice) -> None:
            add_leaves(*(matrix[rows], *nodes, out[rows]))

        parts = cut(len(matrix), threads, threads_for(len(matrix)))
        share_out(walk, parts, len(parts))
        return out

    def node(self, input_name: str, output_name: str, name: str = "") -> onnx.NodeProto:
        """The same as a ``TreeEnsemble`` operator of ai.onnx.ml 5, in float64.

        Parameters
        ----------
        input_name : str
            A double tensor of shape [N, n_columns].
        output_name : str
            Gets a double tensor of shape [N, 1].
        name : str
            Name of the node.

        Returns
        -------
        onnx.NodeProto
        """
        from recalibrate.ensemble.operator import make_operator

        return make_operator(self, input_name, output_name, name)

    @cached_property
    def _packed(self) -> tuple[NDArray[Any], ...]:
        """Arrays for the kernel: everything but the rows."""
        from recalibrate.kernels.ensemble import IS_SUBSET, LEFT_IF_MISSING

        flags = LEFT_IF_MISSING * self.missing_left + IS_SUBSET * (self.subset >= 0)
        children = np.stack([self.right, self.left], axis=1).ravel()
        sizes = [int(members.max(initial=-1)) // 64 + 1 for members in self.subsets]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        words = np.zeros(int(offsets[-1]), dtype=np.uint64)
        for start, members in zip(offsets, self.subsets, strict=False):
            codes = members.astype(np.uint64)
            bits = np.uint64(1) << (codes & np.uint64(63))
            np.bitwise_or.at(words, start + (codes >> np.uint64(6)).astype(np.int64), bits)
        return (
            self.roots,
            self.feature,
            self.threshold,
            flags.astype(np.uint8),
            children,
            self.subset,
            offsets,
            words,
            self.value,
        )


def _check_trees(ensemble: Ensemble) -> None:
    """Refuse arrays that a kernel could not walk safely: damaged files end here."""
    e = ensemble
    n = len(e.feature)
    fields = (e.threshold, e.missing_left, e.subset, e.left, e.right, e.value)
    if any(len(field) != n for field in fields):
        raise ValueError("not a tree ensemble: its arrays have different lengths")
    check_links(e.n_columns, e.feature, e.left, e.right)
    if n and not (e.subset.min() >= -1 and e.subset.max() < len(e.subsets)):
        raise ValueError("not a tree ensemble: a split uses a set that does not exist")
    for members in e.subsets:
        if len(members) and not (members.min() >= 1 and np.all(members == np.floor(members))):
            raise ValueError("not a tree ensemble: sets must hold whole numbers from 1")
    if not (np.isfinite(e.bias) and np.isfinite(e.value[e.feature == LEAF]).all()):
        raise ValueError("not a tree ensemble: leaf values must be finite")
    if np.isnan(e.threshold[e.feature != LEAF]).any():
        raise ValueError("not a tree ensemble: a threshold is not a number")
    inner = e.feature != LEAF
    parents = np.bincount(np.concatenate([e.roots, e.left[inner], e.right[inner]]), minlength=n)
    if len(parents) > n or not (parents == 1).all():
        raise ValueError(NOT_ONE_PARENT)
    if (e.feature[e.roots] == LEAF).any():
        raise ValueError("not a tree ensemble: a tree without a split belongs into the bias")


def check_links(n_columns: int, feature: Ints, left: Ints, right: Ints) -> None:
    """Refuse splits on columns, or children, that do not exist."""
    if len(feature) and not (feature.min() >= LEAF and feature.max() < n_columns):
        raise ValueError(f"not a tree ensemble of {n_columns} columns: a split uses another one")
    children = np.concatenate([left[feature != LEAF], right[feature != LEAF]])
    if len(children) and not (children.min() >= 0 and children.max() < len(feature)):
        raise ValueError("not a tree ensemble: a child is not among the nodes")
