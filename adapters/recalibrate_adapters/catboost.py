"""CatBoost models and ``.cbm`` files as base models.

Models of numeric features are read tree by tree: exact, and with a graph. Models with
categorical, text or embedding features are scored by CatBoost itself and have no graph.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.scores import Link
from recalibrate.support.optional import require
from recalibrate_adapters.boosted import (
    BoostedBase,
    Floats,
    Form,
    Goal,
    read_goal,
    with_response,
)
from recalibrate_adapters.catboost_trees import read_ensembles
from recalibrate_adapters.filechecks import read_base, try_in_child
from recalibrate_adapters.forest import Forest, make_schema

if TYPE_CHECKING:
    import pandas as pd

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
        ensembles = read_ensembles(self._model, self._n_columns, self._sign)
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
