"""Predictions of an audit: from a model, a callable or an array, on the scale of the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recalibrate.bases.protocol import ScoreColumn, as_base, classes_of, predicted_mean, takes_base
from recalibrate.core.levels import from_margin
from recalibrate.data.classes import Known
from recalibrate.data.labels import Labels
from recalibrate.data.scores import read_scores
from recalibrate.data.vectors import Float64
from recalibrate.support.notices import warn_user


def count_rows(X: Any, y: Any) -> int:
    """Rows of X, which labels, scores and masks must match; of y where X does not say."""
    for thing in (X, y):
        shape = getattr(thing, "shape", None)
        if isinstance(shape, Sequence) and len(shape) > 0:
            return int(shape[0])
        if isinstance(thing, (list, tuple)):
            return len(thing)
    raise TypeError(f"y must be an array or a list with one label per row, got {type(y).__name__}.")


def raw_predictions(model: Any, X: Any, base: Any, Z: Any) -> Any:
    """Predicted means, not yet checked: one per row, or a column of them for every class."""
    if takes_base(model):
        return model.predict(X, base=base, Z=Z)
    source = as_base(model)
    return source.values if isinstance(source, ScoreColumn) else predicted_mean(source, X)


def audited_classes(model: Any, positive: Any, outputs: int = 1) -> Known:
    """How labels are to be read: as those that the audited model is about."""
    if takes_base(model):
        labels = getattr(model, "labels", None)
        if isinstance(labels, Labels):
            return labels.known if positive is None else replace(labels.known, chosen=positive)
        return Known(chosen=positive)
    classes = None
    if not isinstance(model, str):
        classes = classes_of(as_base(model))
    if outputs > 1 and isinstance(classes, range):
        classes = range(outputs)
    return Known(classes, outputs, positive)


def read_predictions(
    model: Any, X: Any, base: Any, Z: Any, labels: Labels, argument: str
) -> Float64:
    """Predicted means, checked; ``argument`` names them in messages."""
    return checked_predictions(raw_predictions(model, X, base, Z), labels, argument)


def read_baseline(
    baseline: Any, model: Any, X: Any, base: Any, Z: Any, labels: Labels
) -> Float64 | None:
    """Predictions to compare with; True asks for those of the model's own base."""
    if baseline is None or baseline is False:
        return None
    if baseline is not True:
        return read_predictions(baseline, X, base, Z, labels, "baseline")
    own = getattr(model, "base", None)
    if own is None or not takes_base(model):
        raise TypeError(
            "baseline=True compares a recalibrated model with its own base, but model_or_scores "
            f"is {type(model).__name__}. Pass the scores or the model to compare with."
        )
    if base is None:
        return checked_predictions(predicted_mean(own, X), labels, "baseline")
    n_rows, outputs = len(labels.values), labels.outputs
    scores = read_scores(base, n_rows=n_rows, probability=False, outputs=outputs)
    return checked_predictions(from_margin(scores, own.link), labels, "baseline")


def checked_predictions(predicted: Any, labels: Labels, argument: str) -> Float64:
    """Predicted means, checked; ``argument`` names them in messages."""
    from recalibrate.bases.problem import are_labels  # it loads numba

    n_rows, outputs = len(labels.values), labels.outputs
    probability = labels.kind == "classes"
    try:
        values = read_scores(predicted, n_rows=n_rows, probability=probability, outputs=outputs)
    except ValueError as error:
        raise ValueError(f"Predictions of {argument}: {error}") from error
    outside = (values < 0.0) | (values > 1.0)
    if labels.kind == "binary" and outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"Predictions of {argument} must be probabilities for 0/1 labels, but "
            f"{int(outside.sum())} of {n_rows} are not in [0, 1]; the first is {values[row]} in "
            f"row {row} (from 0). Turn log-odds into probabilities with 1 / (1 + exp(-score))."
        )
    if labels.kind == "binary" and are_labels(values):
        warn_user(
            f"all predictions of {argument} are exactly 0 or 1. Are they predicted labels? Pass "
            "probabilities (predict_proba)."
        )
    return values
