"""What a scikit-learn model predicts: which method gives its score, and on which scale."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import deviance_of
from recalibrate.core.levels import from_margin, to_class_scores, to_margin
from recalibrate.scores import Link, as_base
from recalibrate_adapters.classes import EVERY, choose_class

Method = Literal["predict_proba", "decision_function", "predict"]

_CALLABLE = "pass a function of X that returns one score per row"


@dataclass(frozen=True)
class Task:
    """How a model is asked for its score.

    Attributes
    ----------
    method
        Method of the model.
    position
        Of a classifier, the class; None for a regressor.
    link
        Scale of the score.
    classes
        Of a classifier, its classes.
    """

    method: Method
    position: int | None
    link: Link
    classes: tuple[Any, ...] | None = None

    def on_link(self, link: Link) -> Task:
        """The same on another scale."""
        return replace(self, link=link)

    def ask(self, model: Any, X: Any) -> NDArray[np.float64]:
        """The number that the model's method gives for the class, one per row."""
        with np.errstate(invalid="ignore"):  # its search for infinities may subtract them
            result = np.asarray(getattr(model, self.method)(X), dtype=np.float64)
        if self.position == EVERY and result.ndim == 2:
            return result
        if self.method == "predict_proba":
            return result[:, self.position]
        if self.method == "decision_function" and self.position is not None:
            if result.ndim == 2:
                return result[:, self.position]
            return result if self.position == 1 else -result
        if result.ndim == 2 and result.shape[1] != 1:
            raise ValueError(
                f"The base model predicts {result.shape[1]} numbers per row, not one. "
                f"Choose one: {_CALLABLE}."
            )
        return result.reshape(-1)

    def scores(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Scores on the scale of the link."""
        asked = self.ask(model, X)
        on_probabilities = self.method == "predict_proba" and self.link == "logit"
        if on_probabilities and self.position == EVERY:
            return to_class_scores(asked, "identity")
        return to_margin(asked, "logit") if on_probabilities else asked

    def means(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Means or probabilities."""
        asked = self.ask(model, X)
        on_margins = self.method != "predict_proba" and self.link == "logit"
        return from_margin(asked, "logit") if on_margins else asked


def read_task(model: Any, link: Link | None, target_class: Any) -> Task:
    """What to ask of a fitted model.

    Raises
    ------
    ValueError
        If the model has several classes and none was chosen, or no probabilities and no link was
        declared, or is neither classifier nor regressor.
    """
    from sklearn.base import is_classifier, is_regressor

    name = type(model).__name__
    if is_classifier(model) or hasattr(model, "predict_proba"):
        return _classifier_task(model, name, link, target_class)
    if not is_regressor(model) or not hasattr(model, "predict"):
        raise ValueError(
            f"{name} is neither a classifier nor a regressor, so it has no prediction of the "
            f"label to recalibrate. If one can be computed from it, {_CALLABLE}."
        )
    if target_class is not None:
        raise ValueError(f"target_class={target_class!r} was given, but {name} is a regressor.")
    return Task("predict", None, link or "identity")


def read_deviance(model: Any) -> str:
    """The deviance that a regressor of counts, amounts or rates was trained by; "" for others."""
    from sklearn.pipeline import Pipeline

    last = model[-1] if isinstance(model, Pipeline) else model
    losses = {"poisson": "poisson", "gamma": "gamma"}
    kinds = {"PoissonRegressor": "poisson", "GammaRegressor": "gamma"}
    if type(last).__name__ == "HistGradientBoostingRegressor":
        return losses.get(last.loss, "")
    if type(last).__name__ == "TweedieRegressor":
        logarithm = last.link == "log" or (last.link == "auto" and last.power > 0)
        return f"tweedie-{last.power:g}" if logarithm and 1 <= last.power <= 2 else ""
    if last is not model and not type(last).__module__.startswith("sklearn."):
        with suppress(TypeError, ValueError):
            return deviance_of(as_base(last))
    return kinds.get(type(last).__name__, "")


def _classifier_task(model: Any, name: str, link: Link | None, target_class: Any) -> Task:
    classes = getattr(model, "classes_", None)
    if classes is None or isinstance(classes, list) or np.ndim(classes) != 1:
        raise ValueError(
            f"{name} has several outputs (or does not tell its classes). Choose one: {_CALLABLE}, "
            "for example lambda X: model.predict_proba(X)[0][:, 1]."
        )
    classes = tuple(np.asarray(classes).tolist())
    position = choose_class(classes, target_class, name)
    if link == "logit" and hasattr(model, "decision_function"):
        return Task("decision_function", position, "logit", classes)
    if hasattr(model, "predict_proba"):
        if link == "logit":
            raise ValueError(
                f"link='logit' was declared, but {name} gives probabilities and has no "
                "decision_function. Leave the link out."
            )
        return Task("predict_proba", position, "identity", classes)
    if not hasattr(model, "decision_function"):
        raise ValueError(
            f"{name} gives labels only: it has neither predict_proba nor decision_function, so "
            f"there is no score to recalibrate. Choose a classifier with probabilities (a vote: "
            f"voting='soft'), or {_CALLABLE}."
        )
    raise ValueError(
        f"{name} gives no probabilities (it has no predict_proba). Either declare the link "
        "'logit' (base_link of fit), so that its decision_function is read as log-odds, or "
        "calibrate it first with sklearn.calibration.CalibratedClassifierCV."
    )
