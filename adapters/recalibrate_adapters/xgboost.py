"""xgboost models and their ``.json`` and ``.ubj`` files as base models.

Trees are read from the model's own JSON form and evaluated exactly. Scores are log-odds for
logistic objectives, otherwise means or probabilities.

- The scikit-learn classes stop at ``best_iteration`` after early stopping, a Booster does not:
  the same as their own ``predict``. A file does what the object did that wrote it.
- Categorical columns of a DataFrame are found again by their training categories, which xgboost
  stores since version 3.1; an unseen category counts as missing (xgboost itself refuses it). A
  model that stores none (older, or trained on codes) takes codes from 0 as numbers, and unseen
  ones go where xgboost sends them.
- ``missing=`` of the scikit-learn classes is honoured; it is not part of a file.
- ``booster="gblinear"`` is a weighted sum of the columns, in float64.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble import Tree, join_trees
from recalibrate.scores import Link
from recalibrate.support import strictjson
from recalibrate.support.checks import ModelFileError, require
from recalibrate.support.strictjson import MOST_NESTING, MOST_PARTS
from recalibrate_adapters.boosted import (
    BoostedBase,
    Floats,
    Form,
    Goal,
    LinearSum,
    NotConvertedError,
    custom_goal,
    read_classes,
    read_goal,
    with_categories,
    with_response,
)
from recalibrate_adapters.filechecks import (
    MOST_COLUMNS,
    MOST_OUTPUTS,
    check_range,
    check_tree,
    read_base,
    require_that,
)
from recalibrate_adapters.forest import CategoryCodes, Edit, Forest, MissingNumbers, make_schema

if TYPE_CHECKING:
    import pandas as pd


# --- UBJSON, the binary form of JSON in which xgboost writes ``.ubj`` files, read with care -----
#
# Lengths are compared with what is left of the file before anything is allocated, and nesting
# has an end. Arrays of numbers come as lists, whatever their form.


NUMBERS = {
    "i": ">i1", "U": ">u1", "I": ">i2", "u": ">u2", "l": ">i4", "m": ">u4", "L": ">i8", "M": ">u8",
    "d": ">f4", "D": ">f8",
}  # fmt: skip
CONSTANTS = {"T": True, "F": False, "Z": None}
_SIZES = {marker: np.dtype(kind).itemsize for marker, kind in NUMBERS.items()}
_FORMS = {
    marker: struct.Struct(">" + form) for marker, form in zip(NUMBERS, "bBhHiIqQfd", strict=True)
}


def parse(data: bytes) -> Any:
    r"""The value of a file; a `ModelFileError` if it has none, or something behind it.

    Examples
    --------
    >>> parse(b"{U\x01a[$d#U\x02" + struct.pack(">ff", 0.5, 2.0) + b"}")
    {'a': [0.5, 2.0]}
    """
    reader = _Reader(data)
    value = reader.value(reader.marker(), 0)
    if reader.at != len(data):
        raise ModelFileError(f"{len(data) - reader.at} bytes follow its end")
    return value


class _Reader:
    """A place in the file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.containers = data, 0, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ModelFileError(f"it ends before {size} bytes at {self.at} that it should have")
        self.at += size
        return self.data[self.at - size : self.at]

    def marker(self) -> str:
        marker = self.take(1).decode("latin-1")
        while marker == "N":  # nothing, by definition
            marker = self.take(1).decode("latin-1")
        return marker

    def number(self, marker: str) -> Any:
        if marker not in NUMBERS:
            raise ModelFileError(f"byte {self.at}: {marker!r} is no number")
        return _FORMS[marker].unpack(self.take(_SIZES[marker]))[0]

    def count(self) -> int:
        marker = self.marker()
        if marker in "dD":
            raise ModelFileError(f"byte {self.at}: a length must be a whole number")
        return int(self.number(marker))

    def text(self) -> str:
        try:
            return self.take(self.count()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(f"a text is not UTF-8: {error}") from error

    def value(self, marker: str, depth: int) -> Any:
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == "S":
            return self.text()
        if marker == "C":
            return self.take(1).decode("latin-1")
        if marker not in "[{":
            return self.number(marker)
        self.containers += 1
        if depth >= MOST_NESTING or self.containers > MOST_PARTS:
            raise ModelFileError("it has too many lists and objects, or too many in each other")
        return self.array(depth + 1) if marker == "[" else self.object(depth + 1)

    def array(self, depth: int) -> list[Any]:
        marker, kind = self.marker(), ""
        if marker == "$":
            kind, marker = self.marker(), self.marker()
            if kind not in NUMBERS or marker != "#":
                raise ModelFileError(f"byte {self.at}: an array of {kind!r} is not supported")
        if kind:
            content = self.take(self.count() * _SIZES[kind])
            numbers: list[Any] = np.frombuffer(content, NUMBERS[kind]).tolist()
            return numbers
        if marker == "#":
            size = self.count()
            if not 0 <= size <= len(self.data) - self.at:  # a value takes a byte at least
                raise ModelFileError(f"byte {self.at}: an array of {size} values is too long")
            return [self.value(self.marker(), depth) for _ in range(size)]
        values = []
        while marker != "]":
            values.append(self.value(marker, depth))
            marker = self.marker()
        return values

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            if key in found:
                raise ModelFileError(f"it repeats the key {key[:80]!r}")
            found[key] = self.value(self.marker(), depth)
        self.at += 1
        return found


# --- xgboost's ``.json`` and ``.ubj`` files, checked before xgboost reads them ------------------
#
# Its own reader believes most of what it reads: a wrong count or child in a file can end the
# process. Here every count, index and number that it would follow is checked, and what it gets is
# the model written anew, as JSON.


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
    model = parse(content) if binary else strictjson.parse(content, "it", finite=False)
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


# --- Trees and weights of an xgboost model, read from its JSON form -----------------------------
#
# Numbers in there are float32, written as decimals. A row goes left if ``x < threshold``, which is
# ``x <=`` the float32 below it; in a categorical split members of the set go right and everything
# else, unseen categories included, goes left.


@dataclass(frozen=True, eq=False)
class Model:
    """The JSON form of a model: what adapters look up in it.

    Attributes
    ----------
    learner : dict
        Its part "learner".
    """

    learner: dict[str, Any]

    @classmethod
    def read(cls, booster: Any) -> Model:
        """Ask a Booster for its JSON form."""
        return cls(json.loads(bytes(booster.save_raw(raw_format="json")))["learner"])

    @property
    def objective(self) -> str:
        """Name of the objective."""
        return str(self.learner["objective"]["name"])

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return int(self._parameters["num_feature"])

    @property
    def n_outputs(self) -> int:
        """Sums of leaves per row: classes, or targets."""
        targets = int(self._parameters.get("num_target", "1"))
        alphas = self.learner["objective"].get("quantile_loss_param", {}).get("quantile_alpha", "")
        n_quantiles = len(_float32_numbers(alphas)) if alphas else 1
        return max(int(self._parameters["num_class"]), targets, n_quantiles, 1)

    @property
    def base_scores(self) -> NDArray[np.float32]:
        """One per output, on the scale of predictions."""
        scores = _float32_numbers(self._parameters["base_score"])
        return np.broadcast_to(scores, self.n_outputs) if len(scores) == 1 else scores

    @property
    def booster(self) -> str:
        """One of gbtree, dart and gblinear."""
        return str(self.learner["gradient_booster"]["name"])

    @property
    def attributes(self) -> dict[str, str]:
        """Strings that the Python package stores with the model."""
        return dict(self.learner.get("attributes", {}))

    @cached_property
    def categories(self) -> dict[int, tuple[Any, ...]]:
        """Training categories by column; empty if the model was trained on codes."""
        if self.booster == "gblinear":
            return {}
        encodings = self._trees_part.get("cats", {}).get("enc", [])
        decoded = {j: _decode(encoding) for j, encoding in enumerate(encodings)}
        return {j: values for j, values in decoded.items() if values}

    def weights(self) -> NDArray[np.float32]:
        """Weights of a linear model: one row per column, the bias last; one column per output."""
        flat = np.asarray(self.learner["gradient_booster"]["model"]["weights"], dtype=np.float32)
        return flat.reshape(self.n_columns + 1, self.n_outputs)

    def count_trees(self, iterations: int | None) -> int:
        """Trees of the first iterations; of all of them if None."""
        trees = self._trees_part["trees"]
        if iterations is None:
            return len(trees)
        ends = self._trees_part.get("iteration_indptr")
        if ends is None:  # xgboost before 2.0
            each = int(self._trees_part["gbtree_model_param"]["num_parallel_tree"])
            return min(iterations * each * self.n_outputs, len(trees))
        return int(ends[min(iterations, len(ends) - 1)])

    def trees(self, iterations: int | None, factor: float) -> list[list[Tree]]:
        """The trees of each output, their leaves multiplied by a factor."""
        part = self._trees_part
        count = self.count_trees(iterations)
        # Beside the trees since xgboost 3.4, which calls a booster with dropped trees gbtree too.
        dropped = part.get("weight_drop") or self.learner["gradient_booster"].get("weight_drop")
        weights = dropped or [1.0] * count
        found: list[list[Tree]] = [[] for _ in range(self.n_outputs)]
        for tree, output, weight in zip(
            part["trees"][:count], part["tree_info"], weights, strict=False
        ):
            found[output].append(_read_tree(tree, factor * float(np.float32(weight))))
        return found

    @property
    def _parameters(self) -> dict[str, str]:
        return dict(self.learner["learner_model_param"])

    @property
    def _trees_part(self) -> dict[str, Any]:
        booster = self.learner["gradient_booster"]
        inner = booster["gbtree"] if self.booster == "dart" else booster
        return dict(inner["model"])


def _float32_numbers(text: str) -> NDArray[np.float32]:
    """Numbers from "5E-1" or, since xgboost 3.1, "[5E-1,2E-1]"."""
    return np.array([float(part) for part in text.strip("[]").split(",")], dtype=np.float32)


def _decode(encoding: dict[str, Any]) -> tuple[Any, ...]:
    """Categories of one column: text as bytes with offsets, or whole numbers."""
    values = encoding["values"]
    if "offsets" not in encoding:
        return tuple(int(value) for value in values)
    text = bytes(value % 256 for value in values)  # signed in some versions
    return tuple(text[a:b].decode() for a, b in pairwise(encoding["offsets"]))


def _read_tree(tree: dict[str, Any], weight: float) -> Tree:
    if int(tree["tree_param"].get("size_leaf_vector", "1")) > 1:
        raise NotConvertedError("its trees have several outputs (multi_output_tree)")
    left, right = np.asarray(tree["left_children"]), np.asarray(tree["right_children"])
    numbers = np.asarray(tree["split_conditions"], dtype=np.float32)
    default_left = np.asarray(tree["default_left"], dtype=bool)
    leaf = left == -1
    sets = _read_sets(tree)
    is_set = np.isin(np.arange(len(left)), list(sets))
    # A split on categories has no threshold; xgboost before 3.0 writes NaN there.
    thresholds = np.where(is_set, np.float32(0), numbers)
    return Tree(
        feature=np.where(leaf, -1, tree["split_indices"]),
        threshold=np.nextafter(thresholds, np.float32(-np.inf)).astype(np.float64),
        missing_left=default_left ^ is_set,
        left=np.where(is_set, right, left),
        right=np.where(is_set, left, right),
        value=numbers.astype(np.float64) * weight,
        subsets=sets,
    )


def _read_sets(tree: dict[str, Any]) -> dict[int, NDArray[np.float64]]:
    """Codes from 1 of the categories that go right, by node."""
    values = np.asarray(tree.get("categories", []), dtype=np.float64)
    return {
        node: values[start : start + size] + 1
        for node, start, size in zip(
            tree.get("categories_nodes", []),
            tree.get("categories_segments", []),
            tree.get("categories_sizes", []),
            strict=True,
        )
    }


# --- xgboost models and their ``.json`` and ``.ubj`` files as base models -----------------------


_GOALS = {
    "binary:logistic": Goal("log-odds"),
    "binary:logitraw": Goal("log-odds"),
    "reg:logistic": Goal("log-odds"),
    "reg:squarederror": Goal("mean"),
    "reg:linear": Goal("mean"),
    "count:poisson": Goal("log of the mean", deviance="poisson"),
    "reg:gamma": Goal("log of the mean", deviance="gamma"),
    "reg:tweedie": Goal("log of the mean", deviance="tweedie"),
    "multi:softprob": Goal("one per class"),
    "multi:softmax": Goal("one per class"),
    "reg:absoluteerror": Goal("mean", "the median"),
    "reg:quantileerror": Goal("mean", "a quantile"),
    "reg:expectileerror": Goal("mean", "an expectile"),
    "reg:pseudohubererror": Goal("mean", "a value between median and mean"),
    "reg:squaredlogerror": Goal("mean", "the mean of logarithms, taken back"),
}
_REFUSED = {
    "rank:": "ranks rows, which says nothing about the size of the label",
    "survival:": "predicts survival times or risks of censored labels",
    "binary:hinge": "predicts 0 or 1 without a probability",
}
_PROBABILITIES = ("binary:logistic", "reg:logistic")


class XGBoostBase(BoostedBase):
    """A fitted xgboost model as a base.

    Parameters
    ----------
    model : xgboost.XGBModel (XGBClassifier, XGBRegressor, ...) or xgboost.Booster
        A fitted model.
    link : {"identity", "logit"}, optional
        Scale of the scores. The objective tells it, so it is only checked; needed for custom
        objectives.
    target_class : optional
        Class whose probability is the score; needed where there are more than two.

    Raises
    ------
    ValueError
        If the objective gives no mean or probability, or there are several outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from xgboost import XGBRegressor
    >>> X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    >>> model = XGBRegressor(n_estimators=1, learning_rate=1.0, reg_lambda=0.0).fit(X, y)
    >>> XGBoostBase(model).scores(X)
    array([0., 0., 1., 1.])
    """

    absent = np.nan
    adds_float32 = True

    def __init__(self, model: Any, *, link: Link | None = None, target_class: Any = None) -> None:
        wrapper = hasattr(model, "get_booster")
        self._booster = model.get_booster() if wrapper else model
        self._model = Model.read(self._booster)
        self._missing = float(getattr(model, "missing", np.nan)) if wrapper else np.nan
        # Files that the scikit-learn classes wrote say so.
        stops_early = wrapper or "scikit_learn" in self._model.attributes
        best = self._model.attributes.get("best_iteration")
        self._iterations = int(best) + 1 if stops_early and best is not None else None
        # A Booster does not keep a custom objective and calls it by the default's name.
        told = not wrapper and self._model.objective == "reg:squarederror" and link == "logit"
        custom = told or (wrapper and callable(getattr(model, "objective", None)))
        goal = custom_goal("xgboost", link) if custom else self._goal()
        super().__init__(
            f"xgboost {type(model).__name__}",
            goal,
            read_classes(model, goal, self._model.n_outputs),
            tuple(self._model.learner.get("feature_names") or ()) or None,
            self._model.n_columns,
            link,
            target_class,
        )

    def _goal(self) -> Goal:
        goal = read_goal("xgboost", self._model.objective, _GOALS, _REFUSED)
        told = self._model.learner["objective"].get("tweedie_regression_param", {})
        goal = goal.of_power(told.get("tweedie_variance_power"))
        if goal.meaning != "one per class" and self._model.n_outputs > 1:
            raise ValueError(
                f"This xgboost model predicts {self._model.n_outputs} numbers per row, not one. "
                "Choose one: pass a function of X that returns one score per row."
            )
        return goal

    def _convert(self) -> Form:
        margins = self._base_margins()
        if self._model.booster == "gblinear":
            return self._linear(margins)
        ensembles = [
            join_trees(self._n_columns, trees, bias=margin)
            for trees, margin in zip(
                self._model.trees(self._iterations, self._sign), self._sign * margins, strict=True
            )
        ]
        schema = make_schema(self._names, self._n_columns, self._model.categories)
        forest = Forest(schema, tuple(ensembles), edits=self._edits())
        return with_response(forest, self._meaning, self._position)

    def _edits(self) -> tuple[Edit, ...]:
        edits: list[Edit] = []
        categories = self._model.categories
        if not np.isnan(self._missing):
            numeric = np.array([j not in categories for j in range(self._n_columns)])
            value = float(np.float32(self._missing))
            edits.append(MissingNumbers(numeric, value, value))
        types = self._model.learner.get("feature_types") or [""] * self._n_columns
        codes = np.array([kind == "c" and j not in categories for j, kind in enumerate(types)])
        if codes.any():
            edits.append(CategoryCodes(codes, low=0.0))
        return tuple(edits)

    def _base_margins(self) -> Floats:
        """Base scores on the scale of sums."""
        scores = self._model.base_scores.astype(np.float64)
        if self._model.objective in _PROBABILITIES:
            scores = np.log(scores / (1.0 - scores))
        elif self._meaning == "log of the mean":
            scores = np.log(scores)
        return scores.astype(np.float32).astype(np.float64)

    def _linear(self, margins: Floats) -> Form:
        weights = self._model.weights().astype(np.float64) * self._sign
        # xgboost adds the first class's base score to all of them.
        bias = weights[-1] + self._sign * margins[0]
        schema = make_schema(self._names, self._n_columns)
        return with_response(LinearSum(schema, weights[:-1], bias), self._meaning, self._position)

    def _raw(self, frame: pd.DataFrame) -> Floats:
        xgboost = require("xgboost", "xgboost")
        categories = {str(frame.columns[j]): v for j, v in self._model.categories.items()}
        rows: Any = with_categories(frame, categories)
        if self._names is None and not categories:
            rows = frame.to_numpy(dtype=np.float32)
        ends = (0, self._iterations or 0)
        if self._model.booster == "gblinear":
            data = xgboost.DMatrix(rows, missing=self._missing)
            raw = self._booster.predict(data, output_margin=True, iteration_range=ends)
        else:
            raw = self._booster.inplace_predict(
                rows,
                iteration_range=ends,
                predict_type="margin",
                missing=self._missing,
                validate_features=False,
            )
        return np.asarray(raw, dtype=np.float64).reshape(len(frame), -1)


def read_file(
    path: str | os.PathLike[str], *, link: Link | None = None, target_class: Any = None
) -> XGBoostBase:
    """A ``.json`` or ``.ubj`` file of xgboost as a base; see `XGBoostBase`."""
    xgboost = require("xgboost", "xgboost")
    return read_base(
        "xgboost",
        path,
        lambda content: xgboost.Booster(model_file=check_model(content)),
        lambda model: XGBoostBase(model, link=link, target_class=target_class),
    )
