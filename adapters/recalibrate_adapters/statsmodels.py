"""Fitted statsmodels results as base models: the means that their ``predict`` gives.

- Results of a formula get the table with all its columns; others the columns of ``exog``, by name.
  A column ``const``, as ``add_constant`` makes it, is added where X has none.
- Logit, Probit and binomial models score the probability of label 1, MNLogit and OrderedModel those
  of all classes.
- Poisson, negative binomial, gamma and Tweedie models with a log link are recalibrated by factors,
  see ``deviance``. An offset or exposure of the fit is not part of a prediction: it is a rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.wrappers import column_names, select_columns
from recalibrate.scores import Link
from recalibrate.support.notices import listed, warn_user
from recalibrate_adapters.agreement import check_finite

CONSTANT = "const"
"""What ``statsmodels.api.add_constant`` calls its column."""
_COUNTS = ("Poisson", "NegativeBinomial", "NegativeBinomialP", "GeneralizedPoisson")
_BINARY = ("Logit", "Probit")
_SEVERAL = ("MNLogit", "OrderedModel")


class StatsmodelsBase:
    """Fitted statsmodels results as a base.

    Parameters
    ----------
    results
        What ``fit`` of a statsmodels model returned.
    link : {"identity"} or None
        Predictions are means, so it is only checked.
    target_class
        Of MNLogit and OrderedModel: the class whose probability is the score.

    Examples
    --------
    >>> import numpy as np
    >>> import statsmodels.api as sm  # doctest: +SKIP
    >>> results = sm.OLS([1.0, 2.0, 3.0], sm.add_constant([0.0, 1.0, 2.0])).fit()  # doctest: +SKIP
    >>> StatsmodelsBase(results).scores(np.array([[1.0, 3.0]]))  # doctest: +SKIP
    array([4.])
    """

    link: Link = "identity"
    exact = False
    why_no_graph = "statsmodels results are not written as ONNX graphs"

    def __init__(self, results: Any, *, link: Link | None = None, target_class: Any = None) -> None:
        model = getattr(results, "model", None)
        if model is None or not hasattr(results, "params"):
            raise TypeError(
                f"{type(results).__name__} of statsmodels is not fitted: pass what its fit() "
                "returns."
            )
        kind = type(model).__name__
        self.name = f"statsmodels {kind}"
        if link not in (None, "identity"):
            raise ValueError(
                f"link={link!r} was given, but predict of {self.name} gives means. Leave it out."
            )
        if np.ptp(getattr(model, "exog_infl", 0.0)) > 0.0:
            raise ValueError(
                f"{self.name} was fitted with exog_infl=, and only you know these columns of new "
                "rows. Pass a function that does: lambda X: results.predict(exog, exog_infl=...)."
            )
        if kind == "QuantReg":
            warn_user(
                "The base model (QuantReg) estimates a quantile, not the mean. It is taken as it "
                "is, but what comes out of recalibration estimates the mean."
            )
        self.target_class = target_class
        self._results = results
        self._names = _exog_names(model)
        self.deviance = _deviance(model, kind)
        self.classes = _classes(model, kind)
        several = kind in _SEVERAL
        choices = tuple(self.classes or ())
        if target_class is not None and target_class not in choices:
            told = f"; these are: {listed(choices)}." if choices else ", which has none."
            raise ValueError(f"target_class={target_class!r} is not a class of {self.name}{told}")
        self.outputs = len(choices) if several and target_class is None else 1

    def columns(self) -> tuple[str, ...] | None:
        """Columns of ``exog`` without the constant; None where X is taken as it is."""
        return None if self._names is None else tuple(n for n in self._names if n != CONSTANT)

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The mean, or the probability of label 1, or of every class."""
        X = X.to_pandas() if hasattr(X, "to_pandas") else X
        self._check_constant(X)
        rows = X if self._names is None else self._exog(X, self._names)
        found = np.asarray(self._results.predict(rows), dtype=np.float64)
        if len(found) != len(X):
            raise ValueError(
                f"predict of {self.name} gives {len(found)} numbers for {len(X)} rows: it leaves "
                "out rows with missing values. Fill them in first."
            )
        if self.target_class is not None:
            both = found if found.ndim == 2 else np.stack([1.0 - found, found], axis=1)
            found = both[:, list(self.classes or ()).index(self.target_class)]
        return check_finite(found, self.name)

    def _check_constant(self, X: Any) -> None:
        """Say so where an array lacks the column of ones that the fit had."""
        model = self._results.model
        if getattr(model, "formula", None) is not None or np.ndim(model.exog) != 2:
            return
        width, own = model.exog.shape[1], 0 if column_names(X) else np.shape(X)[-1]
        if getattr(model, "k_constant", 0) and own == width - 1:
            raise ValueError(
                f"X has {own} columns, but {self.name} was fitted to {width}, the constant among "
                "them. Pass statsmodels.api.add_constant(X, has_constant='add')."
            )

    @staticmethod
    def _exog(X: Any, names: Sequence[str]) -> Any:
        """The columns of the fit, in its order; arrays are taken as they are."""
        given = column_names(X)
        if given is None:
            return X
        if CONSTANT in names and CONSTANT not in given:
            X = X.assign(**{CONSTANT: 1.0})
        return select_columns(X, names)

    def graph(self) -> object | None:
        """There is none."""
        return None


def _exog_names(model: Any) -> tuple[str, ...] | None:
    """Names of the columns of ``exog``; None for formulas, and for arrays."""
    # The model's own exog_names also name parameters that no column belongs to: thresholds of an
    # OrderedModel, inflation; and they are made up where only the labels are a Series.
    given = column_names(getattr(getattr(model, "data", None), "orig_exog", None))
    if getattr(model, "formula", None) is not None or given is None:
        return None
    return tuple(given)


def _deviance(model: Any, kind: str) -> str:
    if kind in _COUNTS:
        return "poisson"
    family = getattr(model, "family", None)
    if family is None or type(family.link).__name__ != "Log":
        return ""
    power = getattr(family, "var_power", None)
    if type(family).__name__ == "Tweedie" and power is not None and 1 <= power <= 2:
        return f"tweedie-{power:g}"
    known = {"Poisson": "poisson", "NegativeBinomial": "poisson", "Gamma": "gamma"}
    return known.get(type(family).__name__, "")


def _classes(model: Any, kind: str) -> Sequence[Any] | None:
    """Classes by number, of an OrderedModel by name; None for models of numbers."""
    if kind == "MNLogit":
        return range(int(model.J))
    if kind == "OrderedModel":
        labels = np.asarray(model.labels).tolist()
        whole = all(isinstance(label, float) and label.is_integer() for label in labels)
        return tuple(int(label) for label in labels) if whole else tuple(labels)
    binomial = type(getattr(model, "family", None)).__name__ == "Binomial"
    return range(2) if kind in _BINARY or binomial else None
