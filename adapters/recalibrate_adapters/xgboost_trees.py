"""Trees and weights of an xgboost model, read from its JSON form.

Numbers in there are float32, written as decimals. A row goes left if ``x < threshold``, which is
``x <=`` the float32 below it; in a categorical split members of the set go right and everything
else, unseen categories included, goes left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble import Tree
from recalibrate_adapters.boosted import NotConvertedError


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
        n_quantiles = len(_numbers(alphas)) if alphas else 1
        return max(int(self._parameters["num_class"]), targets, n_quantiles, 1)

    @property
    def base_scores(self) -> NDArray[np.float32]:
        """One per output, on the scale of predictions."""
        scores = _numbers(self._parameters["base_score"])
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


def _numbers(text: str) -> NDArray[np.float32]:
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
