"""LightGBM models and their ``.txt`` files as base models.

Trees are read from the model's own text form and evaluated exactly, see
`recalibrate_adapters.lightgbm_trees`. Scores are log-odds for binary and cross-entropy
objectives, otherwise means or probabilities.

- The trees are those that ``predict`` uses: up to ``best_iteration`` after early stopping.
- Categorical columns of a DataFrame are found again by their training categories, which LightGBM
  stores; an unseen category counts as missing, as in LightGBM. Other categorical columns take
  codes from 0 as numbers.
- LightGBM replaces spaces in column names by underscores; columns are found by either name.
- Models with ``linear_tree`` or ``reg_sqrt`` are scored by LightGBM itself and have no graph.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.data.splitting import find_columns
from recalibrate.ensemble import join_trees
from recalibrate.scores import Link
from recalibrate.support.optional import require
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
from recalibrate_adapters.edits import CategoryCodes, Edit, MissingNumbers
from recalibrate_adapters.filechecks import read_base
from recalibrate_adapters.forest import Forest, make_schema
from recalibrate_adapters.lightgbm_file import check_text
from recalibrate_adapters.lightgbm_trees import ZERO, Model

if TYPE_CHECKING:
    import pandas as pd

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
        lambda content: lightgbm.Booster(model_str=check_text(content)),
        lambda model: LightGBMBase(model, link=link, target_class=target_class),
    )
