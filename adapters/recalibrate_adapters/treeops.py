"""Rewrites the tree operators of old ai.onnx.ml versions, which version 5 no longer has.

An ONNX file has one version of ai.onnx.ml. Our own trees need version 5 (``TreeEnsemble``), which
refuses ``TreeEnsembleRegressor`` and ``TreeEnsembleClassifier``; so these become ``TreeEnsemble``
nodes, in float64 and with exact sums. What cannot be rewritten raises `RewriteError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble import Ensemble, Tree, join_trees
from recalibrate.support.onnxgraph import GraphBuilder

if TYPE_CHECKING:
    import onnx

OLD_OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")


class RewriteError(Exception):
    """A tree operator uses a form that is not supported; the message says which."""


def rewrite_trees(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without old tree operators.

    Raises
    ------
    RewriteError
        If an operator uses a form that is not supported.
    """
    import onnx

    if not any(node.op_type in OLD_OPERATORS for node in model.graph.node):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    read = {name for node in model.graph.node for name in node.input}
    for number, node in enumerate(model.graph.node):
        if node.op_type not in OLD_OPERATORS:
            result.graph.node.append(node)
            continue
        label = node.output[0] if node.op_type == "TreeEnsembleClassifier" else ""
        if label in read:
            raise RewriteError("another node reads the label of a TreeEnsembleClassifier")
        builder = GraphBuilder(f"trees{number}/")
        _rewrite(builder, node)
        result.graph.node.extend(builder.nodes)
        result.graph.initializer.extend(builder.initializers)
    return result


def _rewrite(builder: GraphBuilder, node: onnx.NodeProto) -> None:
    from onnx import helper

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    classifier = node.op_type == "TreeEnsembleClassifier"
    weights = _Weights.read(attributes, "class" if classifier else "target")
    aggregate = attributes.get("aggregate_function", b"SUM")
    if aggregate not in (b"SUM", b"AVERAGE"):
        raise RewriteError(f"a tree operator aggregates by {aggregate.decode()}")
    labels = attributes.get("classlabels_int64s") or attributes.get("classlabels_strings") or ()
    n_outputs = len(labels) if classifier else int(attributes.get("n_targets", 1))
    single = classifier and n_outputs == 2 and len(set(weights.targets)) == 1
    base = list(_numbers(attributes, "base_values"))
    if base and len(base) != (1 if single else n_outputs):
        raise RewriteError(f"a tree operator has {len(base)} base values for {n_outputs} outputs")
    chosen = [weights.targets[0]] if single else list(range(n_outputs))
    trees = _read_trees(attributes)
    share = len(trees) if aggregate == b"AVERAGE" else 1
    ensembles = [
        _ensemble(trees, weights, target, share, base[i] if base else 0.0)
        for i, target in enumerate(chosen)
    ]
    wide = builder.cast(node.input[0], "float64")
    sums = builder.concat([builder.trees(ensemble, wide) for ensemble in ensembles])
    transform = attributes.get("post_transform", b"NONE").decode()
    positive = bool(np.all(weights.values >= 0))
    result = _transform(builder, transform, sums, single=single, positive=positive)
    builder.same(builder.cast(result, "float32"), node.output[-1])


def _transform(builder: GraphBuilder, kind: str, sums: str, *, single: bool, positive: bool) -> str:
    """From sums to the operator's second output, as onnxruntime computes it.

    Two classes with weights for only one of them are a case of their own: where all weights are
    positive, the sum is taken as a probability, whatever the transform says.
    """
    if single and positive:
        return builder.concat([builder.op("Sub", builder.number(1.0), sums), sums])
    if single:
        sums = builder.concat([builder.op("Neg", sums), sums])
    operators = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
    if kind not in operators or (single and kind == "SOFTMAX"):
        raise RewriteError(f"a tree operator has the post_transform {kind}")
    return builder.op(operators[kind], sums)


@dataclass(frozen=True)
class _Weights:
    """Leaf weights: tree and node they belong to, output they add to."""

    trees: NDArray[np.int64]
    nodes: NDArray[np.int64]
    targets: NDArray[np.int64]
    values: NDArray[np.float64]

    @classmethod
    def read(cls, attributes: dict[str, Any], kind: str) -> _Weights:
        trees, nodes, targets = (
            np.asarray(attributes[f"{kind}_{part}"], dtype=np.int64)
            for part in ("treeids", "nodeids", "ids")
        )
        return cls(trees, nodes, targets, _numbers(attributes, f"{kind}_weights"))


@dataclass(frozen=True)
class _OldTree:
    """One tree, without its leaf values."""

    number: int
    ids: NDArray[np.int64]
    shape: Tree


def _read_trees(attributes: dict[str, Any]) -> list[_OldTree]:
    owners = np.asarray(attributes["nodes_treeids"], dtype=np.int64)
    modes = np.array([mode.decode() for mode in attributes["nodes_modes"]])
    values = _numbers(attributes, "nodes_values")
    missing = np.asarray(attributes.get("nodes_missing_value_tracks_true") or [0] * len(owners))
    columns = {
        name: np.asarray(attributes[f"nodes_{name}"], dtype=np.int64)
        for name in ("nodeids", "featureids", "truenodeids", "falsenodeids")
    }
    return [
        _read_tree(
            int(number),
            modes[owners == number],
            values[owners == number],
            missing[owners == number] != 0,
            {name: column[owners == number] for name, column in columns.items()},
        )
        for number in np.unique(owners)
    ]


def _read_tree(
    number: int,
    modes: NDArray[Any],
    values: NDArray[np.float64],
    missing_true: NDArray[np.bool_],
    columns: dict[str, NDArray[np.int64]],
) -> _OldTree:
    unknown = set(modes) - {"LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"}
    if unknown:
        raise RewriteError(f"a tree operator has splits of the kind {sorted(unknown)[0]}")
    leaf = modes == "LEAF"
    ids = columns["nodeids"]
    place = {int(node): position for position, node in enumerate(ids)}
    true, false = (
        np.array(
            [0 if end else place[int(node)] for end, node in zip(leaf, columns[name], strict=True)]
        )
        for name in ("truenodeids", "falsenodeids")
    )
    # x < t is x <= the float64 below t; x >= t and x > t are these with the sides exchanged.
    below = np.where(np.isin(modes, ["BRANCH_LT", "BRANCH_GTE"]), -np.inf, values)
    exchanged = np.isin(modes, ["BRANCH_GTE", "BRANCH_GT"])
    shape = Tree(
        feature=np.where(leaf, -1, columns["featureids"]),
        threshold=np.nextafter(values, below),
        missing_left=np.where(exchanged, ~missing_true, missing_true),
        left=np.where(exchanged, false, true),
        right=np.where(exchanged, true, false),
        value=np.zeros(len(ids)),
    )
    return _OldTree(number, ids, shape)


def _ensemble(
    trees: Sequence[_OldTree], weights: _Weights, target: int, share: int, bias: float
) -> Ensemble:
    """The trees with their weights for one output."""
    filled = []
    for tree in trees:
        mine = (weights.trees == tree.number) & (weights.targets == target)
        value = np.zeros(len(tree.ids))
        order = np.argsort(tree.ids)
        rows = order[np.searchsorted(tree.ids[order], weights.nodes[mine])]
        np.add.at(value, rows, weights.values[mine] / share)
        filled.append(tree.shape._replace(value=value))
    used = [int(tree.shape.feature.max()) for tree in trees]
    # The operator reads any matrix that has the columns it looks at.
    return join_trees(max(used, default=0) + 1, filled, bias=bias)


def _numbers(attributes: dict[str, Any], name: str) -> NDArray[np.float64]:
    """Floats of an attribute, or of its float64 form."""
    from onnx import numpy_helper

    tensor = attributes.get(f"{name}_as_tensor")
    if tensor is not None:
        return np.asarray(numpy_helper.to_array(tensor), dtype=np.float64).reshape(-1)
    return np.asarray(attributes.get(name, ()), dtype=np.float64).reshape(-1)
