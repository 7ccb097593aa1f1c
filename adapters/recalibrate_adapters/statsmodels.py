"""Fitted statsmodels results as base models: the means that their ``predict`` gives.

- Results of a formula get the table with all its columns; others the columns of ``exog``, by name.
  A column ``const``, as ``add_constant`` makes it, is added where X has none.
- Logit, Probit and binomial models score the probability of label 1, MNLogit those of all classes.
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


class StatsmodelsBase:
    """Fitted statsmodels results as a base.

    Parameters
    ----------
    results
        What ``fit`` of a statsmodels model returned.
    link : {"identity"} or None
        Predictions are means, so it is only checked.
    target_class
        Of MNLogit: the class whose probability is the score.

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
        several = kind == "MNLogit"
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
    named = type(getattr(model, "data", None)).__name__ == "PandasData"
    if getattr(model, "formula", None) is not None or not named:
        return None
    return tuple(str(name) for name in model.exog_names)


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


def _classes(model: Any, kind: str) -> range | None:
    """Classes by number; None for models of numbers."""
    if kind == "MNLogit":
        return range(int(model.J))
    binomial = type(getattr(model, "family", None)).__name__ == "Binomial"
    return range(2) if kind in _BINARY or binomial else None
