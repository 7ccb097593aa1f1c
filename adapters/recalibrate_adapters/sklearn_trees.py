"""scikit-learn's tree models, read from their nodes: exact, where converters are often wrong.

Thresholds are float64. HistGradientBoosting compares float64 features with them, all others round
features to float32 first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Column, Schema
from recalibrate.data.values import Taken, plain_value
from recalibrate.ensemble import Ensemble, Tree, join_trees
from recalibrate.scores import Link
from recalibrate_adapters.classes import EVERY
from recalibrate_adapters.forest import Forest, make_schema

Reader = Callable[[Any, int | None, Sequence[str] | None], Forest | None]

_BITS_PER_WORD = 32


def read_forest(model: Any, position: int | None, names: Sequence[str] | None) -> Forest | None:
    """The trees of a model of scikit-learn's own tree classes; None for all other models.

    Parameters
    ----------
    model
        A fitted model.
    position : int or None
        Of a classifier, the class whose score is wanted.
    names : sequence of str or None
        Names of the model's columns, if it knows them.

    Returns
    -------
    Forest or None
        Scores are log-odds for boosted binary classifiers, means or probabilities otherwise
        (see `forest_link`).
    """
    reader = tree_readers().get(predicting_class(model))
    return None if reader is None else reader(model, position, names)


def predicting_class(model: Any) -> type:
    """The class that a model predicts like.

    A derived class may predict otherwise than its parent. Those of imbalanced-learn do not: they
    draw other rows to be fitted to, which says nothing about new ones.
    """
    kind = type(model)
    if not kind.__module__.startswith("imblearn."):
        return kind
    own = (each for each in kind.__mro__ if each.__module__.startswith("sklearn."))
    return next((each for each in own if hasattr(each, "fit")), kind)


def tree_readers() -> dict[type, Reader]:
    """The classes that `read_forest` reads, each with its reader."""
    from sklearn import ensemble, tree

    return {
        tree.DecisionTreeClassifier: _single,
        tree.DecisionTreeRegressor: _single,
        tree.ExtraTreeClassifier: _single,
        tree.ExtraTreeRegressor: _single,
        ensemble.RandomForestClassifier: _averaged,
        ensemble.RandomForestRegressor: _averaged,
        ensemble.ExtraTreesClassifier: _averaged,
        ensemble.ExtraTreesRegressor: _averaged,
        ensemble.GradientBoostingClassifier: _boosted,
        ensemble.GradientBoostingRegressor: _boosted,
        ensemble.HistGradientBoostingClassifier: _histogram,
        ensemble.HistGradientBoostingRegressor: _histogram,
    }


def forest_link(model: Any, position: int | None) -> Link:
    """The scale of the scores of `read_forest`."""
    boosted = hasattr(model, "decision_function")
    margins = boosted and (len(model.classes_) == 2 or position == EVERY)
    return "logit" if margins else "identity"


def _single(model: Any, position: int | None, names: Sequence[str] | None) -> Forest | None:
    return _mean_of([model], model, position, names)


def _averaged(model: Any, position: int | None, names: Sequence[str] | None) -> Forest | None:
    return _mean_of(model.estimators_, model, position, names)


def _mean_of(
    trees: Sequence[Any], model: Any, position: int | None, names: Sequence[str] | None
) -> Forest | None:
    if model.n_outputs_ != 1:
        return None
    wanted = range(len(model.classes_)) if position == EVERY else [position]
    ensembles = []
    for k in wanted:
        parts = []
        for tree in trees:
            values = tree.tree_.value[:, 0, :]
            leaves = values[:, 0] if k is None else values[:, k] / values.sum(axis=1)
            parts.append(_cart(tree.tree_, leaves))
        ensembles.append(join_trees(model.n_features_in_, parts))
    schema, taken = make_schema(names, model.n_features_in_), _values_taken(model)
    return Forest(schema, tuple(ensembles), values=taken, divisor=float(len(trees)))


def _boosted(model: Any, position: int | None, names: Sequence[str] | None) -> Forest | None:
    from sklearn.dummy import DummyClassifier, DummyRegressor

    constant = isinstance(model.init_, DummyRegressor) or (
        isinstance(model.init_, DummyClassifier) and model.init_.strategy == "prior"
    )
    if not constant and not isinstance(model.init_, str):  # the text says "zero"
        return None
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    doubled = 2.0 if model.loss == "exponential" else 1.0  # its margin is half the log-odds
    ensembles = []
    for k, trees in enumerate(model.estimators_.T):
        factor = doubled * _sign(position, model)
        parts = [
            _cart(tree.tree_, tree.tree_.value[:, 0, 0] * model.learning_rate * factor)
            for tree in trees
        ]
        ensembles.append(join_trees(model.n_features_in_, parts, bias=float(start[k]) * factor))
    schema = make_schema(names, model.n_features_in_)
    return _with_response(schema, ensembles, position, _values_taken(model))


def _histogram(model: Any, position: int | None, names: Sequence[str] | None) -> Forest | None:
    schema, order = _histogram_schema(model, names)
    factor = _sign(position, model)
    known = [np.arange(len(column.categories)) for column in schema.columns]
    ensembles = []
    for k, bias in enumerate(np.asarray(model._baseline_prediction).reshape(-1)):
        parts = [
            _histogram_tree(round_[k], order, known, factor)  #
            for round_ in model._predictors
        ]
        ensembles.append(join_trees(len(order), parts, bias=float(bias) * factor))
    if position is None and model._loss.link.__class__.__name__ == "LogLink":
        return Forest(schema, tuple(ensembles), "exp", wide=True)
    return replace(_with_response(schema, ensembles, position, "any"), wide=True)


def _with_response(
    schema: Schema, ensembles: list[Ensemble], position: int | None, values: Taken
) -> Forest:
    if len(ensembles) == 1 or position == EVERY:
        return Forest(schema, tuple(ensembles), values=values)
    return Forest(schema, tuple(ensembles), "softmax", position or 0, values)


def _sign(position: int | None, model: Any) -> float:
    """Margins of a binary classifier are those of its second class."""
    return -1.0 if position == 0 and len(model.classes_) == 2 else 1.0


def _cart(tree: Any, leaves: NDArray[np.float64]) -> Tree:
    """A tree of scikit-learn's own tree classes."""
    leaf = tree.children_left < 0
    return Tree(
        feature=np.where(leaf, -1, tree.feature),
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left != 0,
        left=np.where(leaf, 0, tree.children_left),
        right=np.where(leaf, 0, tree.children_right),
        value=leaves,
    )


def _histogram_schema(model: Any, names: Sequence[str] | None) -> tuple[Schema, NDArray[np.intp]]:
    """Columns with their categories, and the column behind each position in the trees.

    With categorical features the model puts these first and encodes them by their rank.
    """
    import pandas as pd

    schema = make_schema(names, model.n_features_in_)
    if model._preprocessor is None:
        return schema, np.arange(model.n_features_in_)
    categorical = np.asarray(model.is_categorical_)
    order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
    encoder = model._preprocessor.named_transformers_["encoder"]
    columns = list(schema.columns)
    for j, categories in zip(order, encoder.categories_, strict=False):
        present = tuple(plain_value(v) for v in categories if not pd.isna(v))
        columns[j] = Column(columns[j].name, "categorical", present)
    return Schema(tuple(columns), schema.named), order


def _histogram_tree(
    predictor: Any, order: NDArray[np.intp], known: list[NDArray[np.int_]], factor: float
) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"] != 0
    feature = np.where(leaf, -1, order[nodes["feature_idx"]])
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    missing_left = nodes["missing_go_to_left"] != 0
    subsets = {}
    for i in np.flatnonzero((nodes["is_categorical"] != 0) & ~leaf):
        codes = known[feature[i]]
        members = _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][i]], codes)
        if missing_left[i]:
            # Unknown categories go where missing ones go: the set must be the other side.
            members = np.setdiff1d(codes, members)
            left[i], right[i] = right[i], left[i]
            missing_left[i] = False
        subsets[int(i)] = members + 1.0
    return Tree(
        feature=feature,
        threshold=nodes["num_threshold"],
        missing_left=missing_left,
        left=np.where(leaf, 0, left),
        right=np.where(leaf, 0, right),
        value=nodes["value"] * factor,
        subsets=subsets,
    )


def _members(bitset: NDArray[np.uint32], codes: NDArray[np.int_]) -> NDArray[np.int_]:
    bits = (bitset[codes // _BITS_PER_WORD] >> (codes % _BITS_PER_WORD).astype(np.uint32)) & 1
    return np.asarray(codes[bits != 0])


def _values_taken(model: Any) -> Taken:
    from sklearn.utils import get_tags

    return "no infinities" if get_tags(model).input_tags.allow_nan else "finite"
