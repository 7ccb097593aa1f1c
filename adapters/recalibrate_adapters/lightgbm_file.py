"""LightGBM's text files, checked before LightGBM reads them.

Its own reader believes what it reads: a wrong number in a file ends the process, or never ends.
Here every count, index and number that it would follow is checked. What it gets is the text
without the parts that prediction does not need (sizes of the trees, importances, parameters of the
training), which LightGBM then reads tree by tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.errors import ModelFileError
from recalibrate.support.strictjson import parse
from recalibrate_adapters.filechecks import (
    MOST_COLUMNS,
    MOST_OUTPUTS,
    check_range,
    check_tree,
    require_that,
)

END = "\nend of trees"
CATEGORIES = "pandas_categorical:"
NUMBERS = re.compile(r"[-+0-9.einfa ]*", re.ASCII)
"""What LightGBM writes numbers with; also inf and nan."""
OBJECTIVE = re.compile(r"[a-z_0-9]+(?: [a-z_]+(?::[-+0-9.e]+)?)*", re.ASCII)
MOST_INT, MOST_WORD = 2**31 - 1, 2**32 - 1
BY_LEAF = ("leaf_weight", "leaf_count", "leaf_parent", "leaf_const")
BY_SPLIT = ("split_gain", "internal_value", "internal_weight", "internal_count")


def check_text(content: bytes) -> str:
    """The text of a model file that LightGBM can read; a `ModelFileError` if it is none."""
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"it is not text: {error}") from error
    require_that("\0" not in text, "it is not text: it holds a zero byte")
    body, end, rest = text.partition(END)
    require_that(bool(end), "it has no line 'end of trees': it is cut short, or of another kind")
    head, *blocks = body.split("\nTree=")
    facts = _lines(head.rstrip("\n"), "the head")
    columns, outputs = _check_head(facts)
    require_that(
        bool(blocks) and len(blocks) % outputs == 0,
        f"it has {len(blocks)} trees, which is no multiple of {outputs} a round",
    )
    for number, block in enumerate(blocks):
        facts = _lines(block.partition("\n")[2].rstrip("\n"), f"tree {number}")
        _Tree(facts, number).check(columns)
    return _rewritten(head, blocks, _read_categories(rest))


def _rewritten(head: str, blocks: list[str], categories: str) -> str:
    kept = [line for line in head.rstrip("\n").split("\n") if not line.startswith("tree_sizes=")]
    trees = [
        f"Tree={number}\n" + block.partition("\n")[2].rstrip("\n") + "\n\n\n"
        for number, block in enumerate(blocks)
    ]
    return "\n".join(kept) + "\n\n" + "".join(trees) + f"end of trees\n\n{categories}\n"


def _lines(text: str, where: str) -> dict[str, str]:
    """The values of a block's lines, by the text before "="."""
    facts: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition("=")
        require_that(bool(key) and key not in facts, f"{where} has the line {line[:40]!r} in it")
        facts[key] = value
    return facts


def _check_head(facts: Mapping[str, str]) -> tuple[int, int]:
    """Numbers of columns and of trees in a round."""
    require_that("tree" in facts, "it does not begin with the line 'tree'")
    columns = _one(facts, "max_feature_idx", 0, MOST_COLUMNS) + 1
    outputs = _one(facts, "num_tree_per_iteration", 1, MOST_OUTPUTS)
    classes = _one(facts, "num_class", 1, MOST_OUTPUTS)
    _one(facts, "label_index", 0, MOST_INT)
    require_that(
        classes == outputs, f"it has {classes} classes, but {outputs} trees in every round"
    )
    for key in ("feature_names", "feature_infos"):
        count = len(_value(facts, key).split(" "))
        require_that(count == columns, f"{key} are {count}, but there are {columns} columns")
    if "monotone_constraints" in facts:
        _whole(facts, "monotone_constraints", columns, -1, 1, "the head")
    objective = facts.get("objective", "custom")
    told = dict(re.findall(r"([a-z_]+):(\S+)", objective))
    require_that(
        bool(OBJECTIVE.fullmatch(objective))
        and len(objective) < 200
        and told.get("num_class", str(classes)) == str(classes)
        and _is_positive(told.get("sigmoid", "1")),
        f"the objective {objective[:80]!r} is none",
    )
    return columns, outputs


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < np.inf
    except ValueError:
        return False


class _Tree:
    """The lines of a tree."""

    def __init__(self, facts: Mapping[str, str], number: int) -> None:
        self.facts, self.where = facts, f"tree {number}"
        self.leaves = _one(facts, "num_leaves", 1, MOST_INT // 2, self.where)
        self.sets = _one(facts, "num_cat", 0, MOST_INT, self.where)

    def check(self, columns: int) -> None:
        """Refuse lines that do not describe a tree."""
        require_that(
            np.isfinite(self.numbers("leaf_value", self.leaves)).all(),
            f"{self.where}: a leaf has no finite value",
        )
        for key in BY_LEAF:
            if self.facts.get(key):  # a tree of one leaf leaves them empty
                self.numbers(key, self.leaves)
        self.check_shrinkage()
        self.check_linear(columns)
        if self.leaves > 1:
            self.check_splits(columns)

    def check_shrinkage(self) -> None:
        if "shrinkage" in self.facts:
            self.numbers("shrinkage", 1)

    def check_splits(self, columns: int) -> None:
        splits = self.leaves - 1
        for key in BY_SPLIT:
            if self.facts.get(key):
                self.numbers(key, splits)
        self.whole("split_feature", splits, 0, columns - 1)
        kinds = self.whole("decision_type", splits, 0, 11)
        left, right = (
            self.whole(key, splits, -self.leaves, splits - 1)
            for key in ("left_child", "right_child")
        )
        # as one list of nodes: the splits, then the leaves, whose numbers are negative
        left, right = (np.where(child >= 0, child, splits + ~child) for child in (left, right))
        fill = np.zeros(self.leaves, dtype=np.int64)
        leaf = np.arange(splits + self.leaves) >= splits
        met = check_tree(np.append(left, fill), np.append(right, fill), leaf, self.where)
        require_that(len(met) == len(leaf), f"{self.where}: a node has no parent")
        cuts = self.numbers("threshold", splits)
        require_that(not np.isnan(cuts).any(), f"{self.where}: a threshold is no number")
        self.check_sets(cuts[(kinds & 1) != 0])

    def check_sets(self, numbers: NDArray[np.float64]) -> None:
        """Sets of categories: words of 32 bits, cut where the boundaries say."""
        if not self.sets:
            require_that(not len(numbers), f"{self.where}: a set of categories is missing")
            return
        check_range(numbers, 0, self.sets - 1, f"{self.where}: a set of categories")
        require_that(
            bool((numbers == np.floor(numbers)).all()), f"{self.where}: a set has no whole number"
        )
        ends = self.whole("cat_boundaries", self.sets + 1, 0, MOST_INT)
        words = len(_value(self.facts, "cat_threshold", self.where).split())
        self.whole("cat_threshold", words, 0, MOST_WORD)
        require_that(
            ends[0] == 0 and ends[-1] == words and bool((np.diff(ends) > 0).all()),
            f"{self.where}: cat_boundaries do not cut {words} words",
        )

    def check_linear(self, columns: int) -> None:
        """Linear models in the leaves."""
        if _one({"is_linear": "0", **self.facts}, "is_linear", 0, 1, self.where) == 0:
            return
        self.numbers("leaf_const", self.leaves)
        total = int(self.whole("num_features", self.leaves, 0, columns).sum())
        self.whole("leaf_features", total, 0, columns - 1)
        self.numbers("leaf_coeff", total)

    def numbers(self, key: str, count: int) -> NDArray[np.float64]:
        return _numbers(self.facts, key, count, self.where)

    def whole(self, key: str, count: int, low: int, high: int) -> NDArray[np.int64]:
        return _whole(self.facts, key, count, low, high, self.where)


def _value(facts: Mapping[str, str], key: str, where: str = "the head") -> str:
    require_that(key in facts, f"{where} has no line {key}=")
    return facts[key]


def _numbers(facts: Mapping[str, str], key: str, count: int, where: str) -> NDArray[np.float64]:
    text = _value(facts, key, where)
    words = text.split()
    require_that(
        len(words) == count, f"{where}: {key} should have {count} numbers, not {len(words)}"
    )
    require_that(bool(NUMBERS.fullmatch(text)), f"{where}: {key} holds something else than numbers")
    try:
        return np.array(words, dtype=np.float64)
    except ValueError as error:
        raise ModelFileError(f"{where}: {key}: {error}") from error


def _whole(
    facts: Mapping[str, str], key: str, count: int, low: int, high: int, where: str
) -> NDArray[np.int64]:
    numbers = _numbers(facts, key, count, where)
    check_range(numbers, low, high, f"{where}: {key}")
    whole = numbers.astype(np.int64)
    plain = not set("ein.fa").intersection(facts[key])  # LightGBM reads 1e5 as 1
    require_that(plain and bool((whole == numbers).all()), f"{where}: {key} must be whole numbers")
    return whole


def _one(facts: Mapping[str, str], key: str, low: int, high: int, where: str = "the head") -> int:
    return int(_whole(facts, key, 1, low, high, where)[0])


def _read_categories(rest: str) -> str:
    """The last line, in which the Python package keeps the categories of DataFrames."""
    lines = [line for line in rest.split("\n") if line.startswith(CATEGORIES)]
    if not lines:
        return ""
    known: Any = parse(lines[-1].removeprefix(CATEGORIES).encode())
    fine = known is None or (
        isinstance(known, list)
        and all(isinstance(values, list) and all(map(_is_plain, values)) for values in known)
    )
    require_that(fine, f"{CATEGORIES} is not a list of lists of categories")
    return lines[-1]


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)
