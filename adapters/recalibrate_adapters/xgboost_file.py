"""xgboost's ``.json`` and ``.ubj`` files, checked before xgboost reads them.

Its own reader believes most of what it reads: a wrong count or child in a file can end the
process. Here every count, index and number that it would follow is checked, and what it gets is
the model written anew, as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support import strictjson
from recalibrate.support.errors import ModelFileError
from recalibrate_adapters import ubjson
from recalibrate_adapters.filechecks import (
    MOST_COLUMNS,
    MOST_OUTPUTS,
    check_range,
    check_tree,
    require_that,
)

MOST_INT = 2**31 - 1
NO_NODE = (-1, MOST_INT)
BOOSTERS = ("gbtree", "dart", "gblinear")
STATISTICS = ("loss_changes", "sum_hessian")
"""Numbers by node; trees with several numbers a leaf have them since xgboost 3.2."""
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?", re.ASCII)


def check_model(content: bytes) -> bytearray:
    """JSON of a model file that xgboost can read; a `ModelFileError` if it is none."""
    # A key follows at once in JSON, the length of one in UBJSON: not all of it is text.
    binary = content[:1] == b"{" and content[1:2] in (b"i", b"U", b"I", b"l", b"L")
    model = ubjson.parse(content) if binary else strictjson.parse(content, "it", finite=False)
    version = _numbers(_part(_dict(model, "the model"), "version", list), "version")
    require_that(len(version) == 3, f"the version {version[:4].tolist()} is none")
    learner = _dict(_part(model, "learner", dict), "learner")
    _check_learner(learner)
    return bytearray(json.dumps(model).encode())


def _check_learner(learner: dict[str, Any]) -> None:
    facts = _part(learner, "learner_model_param", dict)
    columns = _whole(facts, "num_feature", 0, MOST_COLUMNS)
    classes = _whole(facts, "num_class", 0, MOST_OUTPUTS)
    targets = _whole({"num_target": "1", **facts}, "num_target", 0, MOST_OUTPUTS)
    outputs = max(classes, targets, 1)
    scores = _part(facts, "base_score", str).strip("[]").split(",")
    numbers = all(map(NUMBER.fullmatch, scores)) and _fits(np.array(scores, dtype=np.float64))
    require_that(
        len(scores) in (1, outputs) and numbers,
        f"base_score {str(scores)[:80]} is not one number, or {outputs}",
    )
    for key in ("feature_names", "feature_types"):
        names = learner.get(key, [])
        require_that(
            isinstance(names, list) and len(names) in (0, columns) and all(map(_is_text, names)),
            f"{key} must be {columns} texts",
        )
    _check_texts(learner)
    _check_booster(_part(learner, "gradient_booster", dict), columns, outputs)


def _check_texts(learner: dict[str, Any]) -> None:
    """The objective and its settings, and what the Python package keeps with a model."""
    objective, attributes = _part(learner, "objective", dict), learner.get("attributes", {})
    _part(objective, "name", str)
    for key, value in {**objective, **_dict(attributes, "attributes")}.items():
        texts = value.values() if isinstance(value, dict) else [value]
        require_that(all(map(_is_text, texts)), f"{key[:80]!r} must hold texts")
    best = attributes.get("best_iteration", "0")
    require_that(bool(re.fullmatch("[0-9]{1,9}", best)), f"best_iteration {best[:80]!r} is none")


def _check_booster(booster: dict[str, Any], columns: int, outputs: int) -> None:
    name = _part(booster, "name", str)
    require_that(name in BOOSTERS, f"the booster {name[:80]!r} is none of {', '.join(BOOSTERS)}")
    if name == "gblinear":
        weights = _numbers(_part(_part(booster, "model", dict), "weights", list), "weights")
        count = (columns + 1) * outputs
        require_that(len(weights) == count, f"there are {len(weights)} weights, not {count}")
        require_that(_fits(weights), "a weight is not finite")
        return
    model = _part(_part(booster, "gbtree", dict) if name == "dart" else booster, "model", dict)
    _check_trees(model, columns, outputs)
    for holder in (booster, model):
        if name == "dart" or "weight_drop" in holder:
            dropped = _numbers(
                holder.get("weight_drop", [1.0] * len(model["trees"])), "weight_drop"
            )
            sound = len(dropped) == len(model["trees"]) and _fits(dropped)
            require_that(bool(sound), "weight_drop must have a number for every tree")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check_trees(model: dict[str, Any], columns: int, outputs: int) -> None:
    facts, trees = _part(model, "gbtree_model_param", dict), _part(model, "trees", list)
    count = _whole(facts, "num_trees", 0, MOST_INT)
    require_that(count == len(trees), f"there are {len(trees)} trees, not {count}")
    _whole({"num_parallel_tree": "1", **facts}, "num_parallel_tree", 0, MOST_INT)
    owners = _integers(_part(model, "tree_info", list), "tree_info", 0, outputs - 1)
    require_that(len(owners) == count, f"tree_info must have {count} numbers, not {len(owners)}")
    if "iteration_indptr" in model:
        ends = _integers(_part(model, "iteration_indptr", list), "iteration_indptr", 0, count)
        sound = len(ends) > 0 and ends[0] == 0 and ends[-1] == count and (np.diff(ends) >= 0).all()
        require_that(bool(sound), f"iteration_indptr does not cut {count} trees")
    _check_categories(model.get("cats", {}), columns)
    numbers = _integers([_dict(tree, "a tree").get("id") for tree in trees], "id", 0, count - 1)
    require_that(len(np.unique(numbers)) == count, "two trees have the same id")
    for number, tree in enumerate(trees):
        _Tree(_dict(tree, f"tree {number}"), number).check(columns, outputs)


def _check_categories(cats: Any, columns: int) -> None:
    """Training categories: numbers, or bytes of texts and where each begins."""
    encodings = _dict(cats, "cats").get("enc", [])
    require_that(
        isinstance(encodings, list) and len(encodings) in (0, columns),
        f"categories are not those of {columns} columns",
    )
    segments = _integers(cats.get("feature_segments", []), "feature_segments", 0, MOST_INT)
    sizes = []
    for number, encoding in enumerate(encodings):
        where = f"categories of column {number}"
        values = _part(_dict(encoding, where), "values", list)
        if "offsets" in encoding:
            ends = _integers(_part(encoding, "offsets", list), where, 0, len(values))
            _integers(values, where, -128, 255)
            sound = not len(ends) or (ends[0] == 0 and ends[-1] == len(values))
            require_that(bool(sound) and bool((np.diff(ends) >= 0).all()), f"{where}: offsets")
            sizes.append(max(len(ends) - 1, 0))
        else:
            _numbers(values, where)
            sizes.append(len(values))
        _integers([encoding.get("type", 0)], where, 0, 255)
    if len(segments):
        require_that(
            segments.tolist() == np.cumsum([0, *sizes]).tolist(), "feature_segments are not sound"
        )
    order = _integers(cats.get("sorted_idx", []), "sorted_idx", 0, max(sum(sizes) - 1, 0))
    require_that(len(order) in (0, sum(sizes)), "sorted_idx is not an order of the categories")


class _Tree:
    """The arrays of a tree."""

    def __init__(self, tree: dict[str, Any], number: int) -> None:
        self.tree, self.where = tree, f"tree {number}"
        facts = _part(tree, "tree_param", dict, self.where)
        self.nodes = _whole(facts, "num_nodes", 1, MOST_INT, self.where)
        self.width = max(
            1, _whole({"size_leaf_vector": "1", **facts}, "size_leaf_vector", 0, MOST_OUTPUTS)
        )
        self.columns = _whole({"num_feature": "0", **facts}, "num_feature", 0, MOST_COLUMNS)
        self.deleted = _whole({"num_deleted": "0", **facts}, "num_deleted", 0, MOST_INT)

    def check(self, columns: int, outputs: int) -> None:
        """Refuse arrays that do not describe a tree."""
        require_that(
            self.columns in (0, columns),
            f"{self.where} is for {self.columns} columns, not {columns}",
        )
        require_that(self.width in (1, outputs), f"{self.where} has leaves of {self.width} numbers")
        left, right, parents = (
            self.integers(key, -1, MOST_INT)
            for key in ("left_children", "right_children", "parents")
        )
        leaf = left == -1
        met = check_tree(left, right, leaf, self.where)
        inner = met[~leaf[met]]
        upward = (parents[left[inner]] == inner) & (parents[right[inner]] == inner)
        require_that(bool(upward.all()) and parents[0] in NO_NODE, f"{self.where}: parents")
        features = self.integers("split_indices", 0, 2**32 - 1)
        check_range(features[inner], 0, columns - 1, f"{self.where}: split_indices")
        require_that(
            len(met) + self.deleted == self.nodes, f"{self.where}: {self.deleted} nodes are deleted"
        )
        for key in STATISTICS:
            if self.width == 1 or key in self.tree:
                self.numbers(key)
        # xgboost before 3.0 writes NaN for splits on sets of categories.
        conditions = self.numbers("split_conditions")[met[~np.isin(met, self.set_nodes())]]
        require_that(_fits(conditions), f"{self.where}: split_conditions must be finite numbers")
        self.integers("default_left", 0, 1)
        self.check_leaves(leaf, right)
        self.check_sets(inner)

    def check_leaves(self, leaf: NDArray[np.bool_], right: NDArray[np.int64]) -> None:
        weights = _numbers(_part(self.tree, "base_weights", list, self.where), self.where)
        sizes = (
            (self.nodes * self.width,)
            if "leaf_weights" not in self.tree
            else (self.nodes * self.width, 0)
        )
        require_that(len(weights) in sizes, f"{self.where}: base_weights are {len(weights)}")
        if "leaf_weights" in self.tree:
            own = _numbers(_part(self.tree, "leaf_weights", list, self.where), self.where)
            require_that(
                _fits(own) and len(own) == int(leaf.sum()) * self.width,
                f"{self.where}: leaf_weights are {len(own)}",
            )
            check_range(right[leaf], -1, leaf.sum() - 1, f"{self.where}: a leaf")

    def set_nodes(self) -> NDArray[np.int64]:
        """Nodes that split on a set of categories."""
        key = "categories_nodes"
        return _integers(self.tree.get(key, []), f"{self.where}: {key}", 0, MOST_INT)

    def check_sets(self, inner: NDArray[np.int64]) -> None:
        """Sets of categories, each a piece of one list."""
        kinds = np.zeros(self.nodes, dtype=np.int64)
        if "split_type" in self.tree:
            kinds = self.integers("split_type", 0, 1)
        nodes = self.set_nodes()
        starts, sizes, members = (
            _integers(self.tree.get(key, []), f"{self.where}: {key}", 0, MOST_INT)
            for key in ("categories_segments", "categories_sizes", "categories")
        )
        sound = len(nodes) == len(starts) == len(sizes) and len(np.unique(nodes)) == len(nodes)
        require_that(sound, f"{self.where}: sets of categories are not described alike")
        expected = inner[kinds[inner] == 1]
        require_that(
            np.array_equal(np.sort(nodes), np.sort(expected)), f"{self.where}: a set of categories"
        )
        check_range(starts + sizes, 0, len(members), f"{self.where}: the end of a set")
        check_range(members, 0, 2**24, f"{self.where}: a category")

    def numbers(self, key: str) -> NDArray[np.float64]:
        values = _numbers(_part(self.tree, key, list, self.where), f"{self.where}: {key}")
        require_that(len(values) == self.nodes, f"{self.where}: {key} has {len(values)} numbers")
        return values

    def integers(self, key: str, low: int, high: int) -> NDArray[np.int64]:
        self.numbers(key)
        return _integers(self.tree[key], f"{self.where}: {key}", low, high)


def _dict(value: Any, where: str) -> dict[str, Any]:
    require_that(isinstance(value, dict), f"{where} must be an object with fields")
    found: dict[str, Any] = value
    return found


def _part(holder: Mapping[str, Any], key: str, kind: type, where: str = "the model") -> Any:
    require_that(
        isinstance(holder.get(key), kind), f"{where} has no {key}, or it is no {kind.__name__}"
    )
    return holder[key]


def _numbers(values: Any, where: str) -> NDArray[np.float64]:
    """Numbers of a list; flags count as such, texts do not."""
    require_that(isinstance(values, list), f"{where} must be a list of numbers")
    require_that(set(map(type, values)) <= {int, float, bool}, f"{where} must hold numbers")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise ModelFileError(f"{where} holds a number that is too large") from error


def _fits(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers are finite as xgboost reads them, in float32."""
    return bool((np.abs(numbers) <= np.finfo(np.float32).max).all())


def _integers(values: Any, where: str, low: int, high: int) -> NDArray[np.int64]:
    numbers = _numbers(values, where)
    require_that(set(map(type, values)) <= {int, bool}, f"{where} must hold whole numbers")
    check_range(numbers, low, high, where)
    return numbers.astype(np.int64)


def _whole(
    facts: Mapping[str, Any], key: str, low: int, high: int, where: str = "the model"
) -> int:
    """A whole number, which xgboost writes as text."""
    text = _part(facts, key, str, where)
    require_that(bool(re.fullmatch("[0-9]{1,10}", text)), f"{where}: {key} is {text[:80]!r}")
    check_range(np.array([int(text)]), low, high, f"{where}: {key}")
    return int(text)
