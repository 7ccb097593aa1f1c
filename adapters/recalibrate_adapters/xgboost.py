"""xgboost models and their ``.json`` and ``.ubj`` files as base models.

Trees are read from the model's own JSON form and evaluated exactly, see
`recalibrate_adapters.xgboost_trees`. Scores are log-odds for logistic objectives, otherwise means
or probabilities.

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

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.ensemble import join_trees
from recalibrate.scores import Link
from recalibrate.support.optional import require
from recalibrate_adapters.boosted import (
    BoostedBase,
    Floats,
    Form,
    Goal,
    custom_goal,
    read_classes,
    read_goal,
    with_categories,
    with_response,
)
from recalibrate_adapters.edits import CategoryCodes, Edit, MissingNumbers
from recalibrate_adapters.filechecks import read_base
from recalibrate_adapters.forest import Forest, make_schema
from recalibrate_adapters.linear import LinearSum
from recalibrate_adapters.xgboost_file import check_model
from recalibrate_adapters.xgboost_trees import Model

if TYPE_CHECKING:
    import pandas as pd

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
