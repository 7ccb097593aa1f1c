"""Trees of a LightGBM model, read from its text form.

LightGBM compares in float64. Numbers up to 1e-35 are zero to it. What NaN means is up to the node:
zero, missing, or missing like zero itself. In a categorical split members of the set go left, and
everything else goes right: other categories, negative numbers and NaN.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble import Tree
from recalibrate_adapters.boosted import NotConvertedError
from recalibrate_adapters.edits import CODES

ZERO = float(np.float32(1e-35))
"""Numbers of at most this size are zero."""

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type; the next two are the meaning of NaN
_NAN_IS_ZERO, _ZERO_IS_MISSING, _NAN_IS_MISSING = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Model:
    """The text form of a model: what adapters look up in it.

    Attributes
    ----------
    head : dict
        Lines before the trees, by the text before "=".
    blocks : list of dict
        The same for each tree.
    """

    head: dict[str, str]
    blocks: list[dict[str, str]]

    @classmethod
    def read(cls, booster: Any) -> Model:
        """Ask a Booster for its text form: the trees that its ``predict`` uses."""
        text = booster.model_to_string(num_iteration=None)
        trees = text.partition("\nend of trees")[0]
        head, *blocks = trees.split("\nTree=")
        return cls(_lines(head), [_lines(block) for block in blocks])

    @property
    def objective(self) -> str:
        """Name of the objective; empty for a custom one."""
        return self.head.get("objective", "").partition(" ")[0]

    @property
    def settings(self) -> dict[str, str]:
        """What the objective says about itself, such as sigmoid."""
        words = self.head.get("objective", "").split()[1:]
        return {word.partition(":")[0]: word.partition(":")[2] for word in words}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, invented ones included."""
        return tuple(self.head["feature_names"].split(" "))

    @property
    def n_outputs(self) -> int:
        """Sums of leaves per row."""
        return int(self.head["num_tree_per_iteration"])

    @property
    def divisor(self) -> float:
        """What sums are divided by: the number of iterations of a random forest, else 1."""
        averaged = "average_output" in self.head
        return len(self.blocks) / self.n_outputs if averaged and self.blocks else 1.0

    @cached_property
    def categorical(self) -> list[int]:
        """Columns with categories, as far as the model tells: not if they were constant."""
        return [j for j, info in enumerate(self._infos) if info != "none" and info[0] != "["]

    @cached_property
    def unused(self) -> list[int]:
        """Columns that were constant in training."""
        return [j for j, info in enumerate(self._infos) if info == "none"]

    @cached_property
    def zero_is_missing(self) -> NDArray[np.bool_]:
        """For every column whether zero means missing."""
        kinds: list[set[int]] = [set() for _ in self.names]
        for block in self.blocks:
            if "split_feature" in block:
                types = _ints(block["decision_type"])
                for j, kind in zip(_ints(block["split_feature"]), types, strict=True):
                    if not kind & _CATEGORICAL:
                        kinds[j].add(int(kind >> 2))
        zero = np.array([_ZERO_IS_MISSING in kind for kind in kinds])
        if any(_ZERO_IS_MISSING in kind and len(kind) > 1 for kind in kinds):
            raise NotConvertedError("zero means missing in some of its trees, but not in others")
        return zero

    def trees(self, factor: float, encoded: Collection[int]) -> list[list[Tree]]:
        """The trees of each output.

        Parameters
        ----------
        factor
            Leaves are multiplied by it.
        encoded
            Columns that come as codes from 1; LightGBM's own start at 0.
        """
        found: list[list[Tree]] = [[] for _ in range(self.n_outputs)]
        shift = np.isin(np.arange(len(self.names)), list(encoded)).astype(np.float64)
        for number, block in enumerate(self.blocks):
            found[number % self.n_outputs].append(_read_tree(block, factor, shift))
        return found

    @property
    def _infos(self) -> list[str]:
        return self.head["feature_infos"].split(" ")


def _lines(block: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.splitlines())
    return {key: value for key, _, value in pairs}


def _ints(text: str) -> NDArray[np.int64]:
    return np.array(text.split(), dtype=np.int64)


def _floats(text: str) -> NDArray[np.float64]:
    return np.array(text.split(), dtype=np.float64)


def _read_tree(block: dict[str, str], factor: float, shift: NDArray[np.float64]) -> Tree:
    if block.get("is_linear", "0") == "1":
        raise NotConvertedError("it has linear models in its leaves (linear_tree)")
    leaves = _floats(block["leaf_value"]) * factor
    if len(leaves) == 1:
        return Tree([-1], [0.0], [False], [0], [0], leaves)
    feature, kind = _ints(block["split_feature"]), _ints(block["decision_type"])
    raw = _floats(block["threshold"])
    is_set, nan = (kind & _CATEGORICAL) != 0, kind >> 2
    thresholds = _around_zero(raw)
    default_left = (kind & _DEFAULT_LEFT) != 0
    missing_left = np.where(nan == _NAN_IS_ZERO, thresholds >= 0, default_left) & ~is_set
    inner, outer = len(feature), np.zeros(len(leaves))
    left, right = (
        np.where(child >= 0, child, inner + ~child)
        for child in (_ints(block["left_child"]), _ints(block["right_child"]))
    )
    return Tree(
        feature=np.append(feature, np.full(len(leaves), -1)),
        threshold=np.append(thresholds + shift[feature], outer),
        missing_left=np.append(missing_left, outer != 0),
        left=np.append(left, outer),
        right=np.append(right, outer),
        value=np.append(np.zeros(inner), leaves),
        subsets=_read_sets(block, np.flatnonzero(is_set), raw),
    )


def _around_zero(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds among the numbers that are zero to LightGBM, moved to where these end."""
    below, above = np.nextafter(-ZERO, -np.inf), ZERO
    inside = np.abs(thresholds) <= ZERO
    return np.where(inside, np.where(thresholds < 0, below, above), thresholds)


def _read_sets(
    block: dict[str, str], nodes: NDArray[np.intp], numbers: NDArray[np.float64]
) -> dict[int, NDArray[np.float64]]:
    """Codes from 1 of the categories that go left, by node; they are stored as bits."""
    if not len(nodes):
        return {}
    words, ends = _ints(block["cat_threshold"]), _ints(block["cat_boundaries"])
    sets = {}
    for node in nodes:
        number = int(numbers[node])
        own = words[ends[number] : ends[number + 1]].astype(np.uint32)
        bits = np.unpackbits(own.view(np.uint8), bitorder="little")
        members = np.flatnonzero(bits)
        if len(members) and members[-1] >= CODES:
            raise NotConvertedError(f"it has categories with numbers of {CODES} and more")
        sets[int(node)] = (members + 1).astype(np.float64)
    return sets
