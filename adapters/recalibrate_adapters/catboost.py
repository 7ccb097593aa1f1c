"""CatBoost models and ``.cbm`` files as base models.

Models of numeric features are read tree by tree: exact, and with a graph. Models with
categorical, text or embedding features are scored by CatBoost itself and have no graph.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble import Ensemble, Tree, join_trees
from recalibrate.scores import Link
from recalibrate.support.checks import require
from recalibrate_adapters.boosted import (
    BoostedBase,
    Floats,
    Form,
    Goal,
    NotConvertedError,
    read_goal,
    with_response,
)
from recalibrate_adapters.filechecks import read_base, try_in_child
from recalibrate_adapters.forest import Forest, make_schema

if TYPE_CHECKING:
    import pandas as pd


# --- CatBoost's trees, read from its JSON format: exact sums over numeric columns ---------------


# Above this a graph would be hundreds of megabytes; symmetric trees are written out in full.
MOST_LEAVES = 4_000_000


def _read_ensembles(model: Any, n_columns: int, factor: float = 1.0) -> list[Ensemble]:
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


_GOALS = {
    "Logloss": Goal("log-odds"),
    "CrossEntropy": Goal("log-odds"),
    "Focal": Goal("log-odds"),
    "MultiClass": Goal("one per class"),
    "MultiClassOneVsAll": Goal("log-odds per class"),
    "RMSE": Goal("mean"),
    "RMSEWithUncertainty": Goal("mean"),
    "Poisson": Goal("log of the mean", deviance="poisson"),
    "Tweedie": Goal("log of the mean", deviance="tweedie"),
    "MAE": Goal("mean", "the median"),
    "MAPE": Goal("mean", "a weighted median"),
    "Quantile": Goal("mean", "a quantile"),
    "LogLinQuantile": Goal("log of the mean", "a quantile"),
    "Expectile": Goal("mean", "an expectile"),
    "Huber": Goal("mean", "a value between median and mean"),
    "LogCosh": Goal("mean", "a value between median and mean"),
    "Lq": Goal("mean", "a value that depends on q"),
}
# What is done with a file, for the first time in a process that may come to harm.
_TRIAL = """
import sys
import catboost, numpy
model = catboost.CatBoost().load_model(blob=sys.stdin.buffer.read())
try:
    model.get_all_params()
    model.predict(numpy.zeros((2, len(model.feature_names_))), prediction_type="RawFormulaVal")
except (catboost.CatBoostError, ValueError):
    pass  # to be said where the model is used
"""
_SEVERAL = "predicts several labels at once"
_RANKS = "ranks rows, which says nothing about the size of the label"
_SURVIVAL = "predicts survival times or risks of censored labels"
_REFUSED = {
    "MultiRMSE": _SEVERAL,
    "MultiLogloss": _SEVERAL,
    "MultiCrossEntropy": _SEVERAL,
    "MultiQuantile": "predicts several quantiles at once",
    "Query": _RANKS,
    "Yeti": _RANKS,
    "Pair": _RANKS,
    "Lambda": _RANKS,
    "Stochastic": _RANKS,
    "Cox": _SURVIVAL,
    "Survival": _SURVIVAL,
}


class CatBoostBase(BoostedBase):
    """A fitted CatBoost model as a base.

    Parameters
    ----------
    model : catboost.CatBoostClassifier, CatBoostRegressor or CatBoost
        A fitted model.
    link : {"identity", "logit"}, optional
        Scale of the scores; the loss function tells it, so it is only checked.
    target_class : optional
        Class whose probability is the score; needed where there are more than two.

    Raises
    ------
    ValueError
        If the model is not fitted, or its loss function gives no mean or probability.

    Examples
    --------
    >>> from catboost import CatBoostRegressor
    >>> model = CatBoostRegressor(iterations=1, depth=1, learning_rate=1, l2_leaf_reg=0,
    ...                           verbose=0, allow_writing_files=False)
    >>> model = model.fit([[0.0], [0.0], [1.0], [1.0]], [0.0, 0.0, 1.0, 1.0])
    >>> CatBoostBase(model).scores([[0.0], [1.0]])
    array([0., 1.])
    """

    def __init__(self, model: Any, *, link: Link | None = None, target_class: Any = None) -> None:
        kind = type(model).__name__
        if not model.is_fitted():
            raise ValueError(
                f"This {kind} is not fitted yet. Fit it on rows other than the calibration rows."
            )
        self._model = model
        loss, _, told = str(model.get_all_params()["loss_function"]).partition(":")
        power = dict(each.split("=") for each in told.split(";") if "=" in each)
        names = tuple(str(name) for name in model.feature_names_)
        # Columns without names are called by their numbers.
        numbered = names == tuple(str(j) for j in range(len(names)))
        super().__init__(
            f"CatBoost {kind}",
            read_goal("CatBoost", loss, _GOALS, _REFUSED).of_power(power.get("variance_power")),
            np.asarray(model.classes_).tolist() or None,
            None if numbered else names,
            len(names),
            link,
            target_class,
        )

    def _convert(self) -> Form:
        ensembles = _read_ensembles(self._model, self._n_columns, self._sign)
        schema = make_schema(self._names, self._n_columns)
        return with_response(Forest(schema, tuple(ensembles)), self._meaning, self._position)

    def _raw(self, frame: pd.DataFrame) -> Floats:
        rows = frame if self._names is not None else frame.to_numpy()
        raw = self._model.predict(rows, prediction_type="RawFormulaVal")
        return np.asarray(raw, dtype=np.float64).reshape(len(frame), -1)


def read_file(
    path: str | os.PathLike[str], *, link: Link | None = None, target_class: Any = None
) -> CatBoostBase:
    """A ``.cbm`` file as a base; see `CatBoostBase`."""
    catboost = require("catboost", "catboost")

    def read(content: bytes) -> Any:
        try_in_child(_TRIAL, content)
        return catboost.CatBoost().load_model(blob=content)

    return read_base(
        "CatBoost",
        path,
        read,
        lambda model: CatBoostBase(model, link=link, target_class=target_class),
    )
