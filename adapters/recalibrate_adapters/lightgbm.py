"""LightGBM models and their ``.txt`` files as base models.

Trees are read from the model's own text form and evaluated exactly. Scores are log-odds for
binary and cross-entropy objectives, otherwise means or probabilities.

- The trees are those that ``predict`` uses: up to ``best_iteration`` after early stopping.
- Categorical columns of a DataFrame are found again by their training categories, which LightGBM
  stores; an unseen category counts as missing, as in LightGBM. Other categorical columns take
  codes from 0 as numbers.
- LightGBM replaces spaces in column names by underscores; columns are found by either name.
- Models with ``linear_tree`` or ``reg_sqrt`` are scored by LightGBM itself and have no graph.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import find_columns
from recalibrate.ensemble import Tree, join_trees
from recalibrate.scores import Link
from recalibrate.support.checks import ModelFileError, require
from recalibrate.support.strictjson import parse
from recalibrate_adapters.boosted import (
    BoostedBase,
    Floats,
    Form,
    Goal,
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
from recalibrate_adapters.forest import (
    CODES,
    CategoryCodes,
    Edit,
    Forest,
    MissingNumbers,
    make_schema,
)

if TYPE_CHECKING:
    import pandas as pd


# --- LightGBM's text files, checked before LightGBM reads them ----------------------------------
#
# Its own reader believes what it reads: a wrong number in a file ends the process, or never
# ends. Here every count, index and number that it would follow is checked. What it gets is the
# text without the parts that prediction does not need (sizes of the trees, importances,
# parameters of the training), which LightGBM then reads tree by tree.


END = "\nend of trees"
CATEGORIES = "pandas_categorical:"
NUMBERS = re.compile(r"[-+0-9.einfa ]*", re.ASCII)
"""What LightGBM writes numbers with; also inf and nan."""
OBJECTIVE = re.compile(r"[a-z_0-9]+(?: [a-z_]+(?::[-+0-9.e]+)?)*", re.ASCII)
MOST_INT, MOST_WORD = 2**31 - 1, 2**32 - 1
BY_LEAF = ("leaf_weight", "leaf_count", "leaf_parent", "leaf_const")
BY_SPLIT = ("split_gain", "internal_value", "internal_weight", "internal_count")


def _check_text(content: bytes) -> str:
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


# --- Trees of a LightGBM model, read from its text form -----------------------------------------
#
# LightGBM compares in float64. Numbers up to 1e-35 are zero to it. What NaN means is up to the
# node: zero, missing, or missing like zero itself. In a categorical split members of the set go
# left, and everything else goes right: other categories, negative numbers and NaN.


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
        return cls(_block_lines(head), [_block_lines(block) for block in blocks])

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


def _block_lines(block: str) -> dict[str, str]:
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


# --- LightGBM models and their ``.txt`` files as base models ------------------------------------


_GOALS = {
    "binary": Goal("log-odds"),
    "cross_entropy": Goal("log-odds"),
    "regression": Goal("mean"),
    "poisson": Goal("log of the mean", deviance="poisson"),
    "gamma": Goal("log of the mean", deviance="gamma"),
    "tweedie": Goal("log of the mean", deviance="tweedie"),
    "multiclass": Goal("one per class"),
    "multiclassova": Goal("log-odds per class"),
    "regression_l1": Goal("mean", "the median"),
    "quantile": Goal("mean", "a quantile"),
    "mape": Goal("mean", "a weighted median"),
    "huber": Goal("mean", "a value between median and mean"),
    "fair": Goal("mean", "a value between median and mean"),
}
_REFUSED = {
    "lambdarank": "ranks rows, which says nothing about the size of the label",
    "rank_xendcg": "ranks rows, which says nothing about the size of the label",
    "cross_entropy_lambda": "predicts the intensity of events, not their probability",
}
# Numbers above -1 are cut to 0, and then are a category.
_LOWEST_CODE = float(np.nextafter(-1.0, 0.0))


class LightGBMBase(BoostedBase):
    """A fitted LightGBM model as a base.

    Parameters
    ----------
    model : lightgbm.LGBMModel (LGBMClassifier, LGBMRegressor, ...) or lightgbm.Booster
        A fitted model.
    link : {"identity", "logit"}, optional
        Scale of the scores. The objective tells it, so it is only checked; needed for custom
        objectives.
    target_class : optional
        Class whose probability is the score; needed where there are more than two.

    Raises
    ------
    ValueError
        If the objective gives no mean or probability.

    Examples
    --------
    >>> import numpy as np
    >>> from lightgbm import LGBMRegressor
    >>> X, y = np.repeat([[0.0], [1.0]], 20, axis=0), np.repeat([0.0, 1.0], 20)
    >>> model = LGBMRegressor(n_estimators=1, learning_rate=1.0, verbose=-1).fit(X, y)
    >>> LightGBMBase(model).scores(X[[0, 20]])
    array([0., 1.])
    """

    wide = True

    def __init__(self, model: Any, *, link: Link | None = None, target_class: Any = None) -> None:
        if type(model).__name__ == "CVBooster":
            raise ValueError(
                "A CVBooster holds one model per fold. Pass one of them (model.boosters[0]), or a "
                "function that averages their predictions: lambda X: numpy.mean("
                "[b.predict(X) for b in model.boosters], axis=0)."
            )
        # The property raises LightGBM's own error if the model is not fitted.
        self._booster = model.booster_ if hasattr(type(model), "booster_") else model
        self._model = Model.read(self._booster)
        self._known: dict[int, tuple[Any, ...]] = {}
        self._categorical: list[int] | None = None
        objective = self._model.objective
        if objective:
            goal = read_goal("LightGBM", objective, _GOALS, _REFUSED)
            goal = goal.of_power(self._booster.params.get("tweedie_variance_power"))
        else:
            goal = custom_goal("LightGBM", link)
        names = self._model.names
        invented = names == tuple(f"Column_{j}" for j in range(len(names)))
        super().__init__(
            f"LightGBM {type(model).__name__}",
            goal,
            read_classes(model, goal, self._model.n_outputs),
            None if invented else names,
            len(names),
            link,
            target_class,
        )

    def scores(self, X: Any) -> Floats:
        """One score per row of X."""
        X = self._with_own_names(X)
        if self._form is None and self._learns_categories(X):
            self._why_not = ""
            self._form = self._converted()
        return super().scores(X)

    def _learns_categories(self, X: Any) -> bool:
        """Whether X tells which columns the training categories belong to, as LightGBM reads it."""
        if self._categorical is not None or not hasattr(X, "dtypes"):
            return False
        given = [str(name) for name in X.columns]
        own = range(self._n_columns) if self._names is None else find_columns(self._names, given)
        found = [j for j, k in enumerate(own) if X.dtypes.iloc[k].name == "category"]
        if len(found) == len(self._booster.pandas_categorical or []):
            self._categorical = found
        return self._categorical is not None

    def _with_own_names(self, X: Any) -> Any:
        """X with the names of the model's columns.

        LightGBM replaces spaces by underscores; the names are the user's once they were seen, so
        that files and graphs have them too.
        """
        columns = getattr(X, "columns", None)
        if self._names is None or columns is None or not hasattr(X, "rename"):
            return X
        given = {str(name) for name in columns}
        spaced = {name.replace(" ", "_"): name for name in given if " " in name}
        names = tuple(n if n in given else spaced.get(n, n) for n in self._names)
        if names != self._names:
            self._names = names
            if isinstance(self._form, Forest):
                schema = make_schema(names, self._n_columns, self._known)
                self._form = replace(self._form, schema=schema)
        absent = {n.replace(" ", "_"): n for n in self._names if n not in given}
        changes = {n: absent[str(n)] for n in columns if str(n) in absent}
        return X.rename(columns=changes) if changes else X

    def _convert(self) -> Form:
        if "sqrt" in self._model.settings:
            raise NotConvertedError("its predictions are squares (reg_sqrt)")
        if self._model.n_outputs > 1 and "per class" not in self._meaning:
            raise NotConvertedError(f"it has {self._model.n_outputs} outputs")
        self._known = self._categories()
        schema = make_schema(self._names, self._n_columns, self._known)
        encoded = list(self._known)
        zero = self._model.zero_is_missing
        if zero[encoded].any():
            raise NotConvertedError("zero means missing in columns of ordered categories")
        factor = self._sign * float(self._model.settings.get("sigmoid", "1"))
        ensembles = [
            join_trees(self._n_columns, trees) for trees in self._model.trees(factor, encoded)
        ]
        forest = Forest(
            schema,
            tuple(ensembles),
            divisor=self._model.divisor,
            edits=self._edits(),
            wide=self.wide,
        )
        return with_response(forest, self._meaning, self._position)

    def _categories(self) -> dict[int, tuple[Any, ...]]:
        """Training categories by column.

        LightGBM lists them without saying whose they are: those of the columns of a DataFrame
        that were Categorical, in order. They are the categorical columns, if all of these came
        out as such; else (ordered categories are numbers to it) rows with Categorical columns
        tell.
        """
        lists = self._booster.pandas_categorical or []
        columns = self._categorical or self._model.categorical
        if len(lists) != len(columns) and lists:
            columns = sorted([*columns, *self._model.unused])
        if len(lists) != len(columns) and lists:
            raise NotConvertedError(
                "it was trained on Categorical columns that are ordered or constant, and does not "
                "tell which of its columns these are: score rows whose columns are Categorical, "
                "as in training"
            )
        return {j: tuple(values) for j, values in zip(columns, lists, strict=False)}

    def _edits(self) -> tuple[Edit, ...]:
        edits: list[Edit] = []
        zero = self._model.zero_is_missing
        if zero.any():
            edits.append(MissingNumbers(zero, -ZERO, ZERO))
        codes = np.zeros(self._n_columns, dtype=bool)
        codes[[j for j in self._model.categorical if j not in self._known]] = True
        if codes.any():
            edits.append(CategoryCodes(codes, low=_LOWEST_CODE))
        return tuple(edits)

    def _raw(self, frame: pd.DataFrame) -> Floats:
        rows: Any = with_categories(
            frame, {str(frame.columns[j]): v for j, v in self._known.items()}
        )
        if not self._booster.pandas_categorical:
            rows = frame.to_numpy(dtype=np.float64)
        raw = np.asarray(self._booster.predict(rows, raw_score=True), dtype=np.float64)
        raw = raw.reshape(len(frame), -1) / self._model.divisor
        raw *= float(self._model.settings.get("sigmoid", "1"))
        if "sqrt" in self._model.settings:
            raw = np.sign(raw) * raw**2
        return raw


def read_file(
    path: str | os.PathLike[str], *, link: Link | None = None, target_class: Any = None
) -> LightGBMBase:
    """A ``.txt`` file of LightGBM as a base; see `LightGBMBase`."""
    lightgbm = require("lightgbm", "lightgbm")
    return read_base(
        "LightGBM",
        path,
        lambda content: lightgbm.Booster(model_str=_check_text(content)),
        lambda model: LightGBMBase(model, link=link, target_class=target_class),
    )
