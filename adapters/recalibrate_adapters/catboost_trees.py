"""CatBoost's trees, read from its JSON format: exact sums over numeric columns."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble import Ensemble, Tree, join_trees
from recalibrate_adapters.boosted import NotConvertedError

# Above this a graph would be hundreds of megabytes; symmetric trees are written out in full.
MOST_LEAVES = 4_000_000


def read_ensembles(model: Any, n_columns: int, factor: float = 1.0) -> list[Ensemble]:
    """One ensemble per number that the model predicts, its values times a factor.

    Raises
    ------
    NotConvertedError
        If the trees look at anything but numbers, or are too large.
    """
    if model.get_cat_feature_indices() or _other_features(model):
        raise NotConvertedError(
            "the model has categorical, text or embedding features, which CatBoost keeps as "
            "hashes and statistics that have no ONNX form"
        )
    content = _as_json(model)
    columns, missing_right = _columns(content["features_info"]["float_features"])
    scale, bias = content["scale_and_bias"]
    oblivious = content.get("oblivious_trees")
    if oblivious is not None and sum(len(t["leaf_values"]) for t in oblivious) > MOST_LEAVES:
        raise NotConvertedError(f"the model has more than {MOST_LEAVES:,} leaves")
    ensembles = []
    for k, start in enumerate(bias):
        if oblivious is not None:
            trees = [_symmetric(t, columns, missing_right, k, len(bias)) for t in oblivious]
        else:
            trees = [_free(t, columns, missing_right, k) for t in content["trees"]]
        scaled = [tree._replace(value=tree.value * (scale * factor)) for tree in trees]
        ensembles.append(join_trees(n_columns, scaled, bias=float(start) * factor))
    return ensembles


def _as_json(model: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _other_features(model: Any) -> bool:
    return bool(model.get_text_feature_indices() or model.get_embedding_feature_indices())


def _columns(features: Sequence[dict[str, Any]]) -> tuple[dict[int, int], set[int]]:
    """Column of every numeric feature, and the columns whose missing values count as large."""
    columns = {f["feature_index"]: f["flat_feature_index"] for f in features}
    large = {f["flat_feature_index"] for f in features if f["nan_value_treatment"] == "AsTrue"}
    return columns, large


def _split(split: dict[str, Any], columns: dict[int, int]) -> tuple[int, float]:
    if split["split_type"] != "FloatFeature":
        raise NotConvertedError(f"the model has splits of the kind {split['split_type']}")
    return columns[split["float_feature_index"]], float(np.float32(split["border"]))


def _symmetric(
    tree: dict[str, Any], columns: dict[int, int], missing_right: set[int], k: int, n_outputs: int
) -> Tree:
    """A tree with the same split at all nodes of a level; bit i of a leaf is split i's answer."""
    splits = [_split(split, columns) for split in reversed(tree.get("splits") or [])]
    leaves = np.asarray(tree["leaf_values"], dtype=np.float64).reshape(-1, n_outputs)[:, k]
    depth = len(splits)
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    feature = np.array([column for column, _ in splits], dtype=np.int64)[level]
    inner, n_leaves = len(level), len(leaves)
    children = 2 * np.arange(inner) + 1
    return Tree(
        feature=_padded(feature, n_leaves, -1),
        threshold=_padded(np.array([border for _, border in splits])[level], n_leaves, 0.0),
        missing_left=_padded(~np.isin(feature, list(missing_right)), n_leaves, False),
        left=_padded(children, n_leaves, 0),
        right=_padded(children + 1, n_leaves, 0),
        value=np.concatenate([np.zeros(inner), leaves]),
    )


def _padded(values: NDArray[Any], count: int, filler: Any) -> NDArray[Any]:
    return np.concatenate([values, np.full(count, filler, dtype=values.dtype)])


def _free(root: dict[str, Any], columns: dict[int, int], missing_right: set[int], k: int) -> Tree:
    """A tree whose nodes have splits of their own."""
    nodes: list[dict[str, Any]] = [root]
    left, right = [0], [0]
    for i, node in enumerate(nodes):  # grows while it is walked
        if "split" in node:
            left[i], right[i] = len(nodes), len(nodes) + 1
            nodes += [node["left"], node["right"]]
            left += [0, 0]
            right += [0, 0]
    splits = [_split(node["split"], columns) if "split" in node else (-1, 0.0) for node in nodes]
    feature = np.array([column for column, _ in splits])
    return Tree(
        feature=feature,
        threshold=np.array([border for _, border in splits]),
        missing_left=~np.isin(feature, list(missing_right)),
        left=np.array(left),
        right=np.array(right),
        value=np.array([_leaf_value(node, k) for node in nodes]),
    )


def _leaf_value(node: dict[str, Any], k: int) -> float:
    value = node.get("value", 0.0)
    return float(value[k] if isinstance(value, list) else value)
