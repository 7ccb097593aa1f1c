"""Predictions of an audit: from a model, a callable or an array, on the scale of the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from recalibrate.bases.protocol import (
    CallableBase,
    ScoreColumn,
    as_base,
    class_of,
    classes_of,
    has_unnamed_outputs,
    numbers_classes,
    predicted_mean,
    takes_base,
)
from recalibrate.core.levels import from_margin
from recalibrate.data.classes import NOTHING_KNOWN, Known, read_class_names
from recalibrate.data.labels import Float64, Labels, read_scores
from recalibrate.support.notices import listed, warn_user


def count_rows(X: Any, y: Any) -> int:
    """Rows of X, which labels, scores and masks must match; of y where X does not say."""
    for thing in (X, y):
        shape = getattr(thing, "shape", None)
        if isinstance(shape, Sequence) and len(shape) > 0:
            return int(shape[0])
        if isinstance(thing, (list, tuple)):
            return len(thing)
    raise TypeError(f"y must be an array or a list with one label per row, got {type(y).__name__}.")


def open_model(model: Any, *, files: bool = False) -> Any:
    """A model as a `Base`; what is no model, or has a `predict` of ours, as it is.

    A text is the name of a column, unless it is one of ``files``.
    """
    plain = model is None or isinstance(model, bool | list | tuple)
    if (
        plain
        or (isinstance(model, str) and not files)
        or hasattr(model, "__array__")
        or takes_base(model)
    ):
        return model
    base = as_base(model)
    return model if isinstance(base, ScoreColumn | CallableBase) else base


def raw_predictions(model: Any, X: Any, base: Any, Z: Any) -> Any:
    """Predicted means, not yet checked: one per row, or a column of them for every class."""
    if takes_base(model):
        return model.predict(X, base=base, Z=Z)
    source = as_base(model)
    return source.values if isinstance(source, ScoreColumn) else predicted_mean(source, X)


def audited_classes(model: Any, classes: Sequence[Any] | None = None, outputs: int = 1) -> Known:
    """What a model's predictions are about; ``classes`` for one that does not say."""
    if takes_base(model):
        labels = getattr(model, "labels", None)
        known: Known = getattr(model, "known", NOTHING_KNOWN)
        known = labels.audited if isinstance(labels, Labels) else known
    else:
        known = _scored_classes(model, outputs)
    if known.told or classes is None:
        return known
    return Known(read_class_names(classes), outputs)


def _scored_classes(model: Any, outputs: int) -> Known:
    """The classes of a base model, and which of them its scores are about."""
    names = (model,) if isinstance(model, str) else model
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return Known(outputs=outputs)  # columns of scores
    base = as_base(model)
    classes, scored = classes_of(base), class_of(base)
    if classes is None or isinstance(classes, range):
        own = classes if classes is None or outputs == 1 else range(outputs)
        unnamed, numbered = has_unnamed_outputs(base), numbers_classes(base)
        return Known(own, outputs, scored, unnamed=unnamed, numbered=numbered)
    if len(classes) == 2 and scored == classes[0] and scored is not None:
        return Known((classes[1], classes[0]))
    return Known(classes, outputs, scored if len(classes) > 2 and outputs == 1 else None)


def choose_positive(known: Known, positive: Any) -> Known:
    """The same, with the class that counts as 1."""
    if positive is None or positive == known.chosen:
        return known
    scored = known.classes if known.chosen is None else (known.chosen,)
    if known.told and known.outputs == 1 and positive not in (scored or ()):
        raise ValueError(
            f"positive={positive!r}, but the predictions are about {listed(scored or ())}."
        )
    return replace(known, chosen=positive)


def classes_of_labels(labels: Labels, known: Known) -> Known:
    """What the labels are about, read by ``known``: shares are those of the predicted class."""
    if labels.kind == "soft":
        return known
    if labels.kind == "regression":
        return NOTHING_KNOWN
    return replace(labels.known, classes=labels.classes or (0, 1))


def align(predicted: Any, own: Known, about: Known, argument: str) -> Any:
    """Predictions about the classes ``own`` as predictions ``about`` those of the labels.

    Of two classes the model may predict the other one; of more, the columns may have another
    order.
    """
    if about.outputs == 1:
        return _turned(predicted, own, about, argument)
    mine, classes = list(own.classes or ()), tuple(about.classes or ())
    if own.told and set(mine) == set(classes):
        places = [mine.index(label) for label in classes]
        return predicted if places == sorted(places) else np.asarray(predicted)[:, places]
    if own.told or any(isinstance(label, str) for label in classes):
        whose = f"are {listed(mine)}" if own.told else "have no names"
        raise ValueError(
            f"The columns of {argument} {whose}, but the labels are {listed(classes)}. "
            "Name the classes in the order of the columns with classes=."
        )
    return predicted


def _turned(predicted: Any, own: Known, about: Known, argument: str) -> Any:
    """Predictions about one class, or of two about the other one."""
    mine, event = own.event, about.event
    if own.outputs > 1 or mine is None or event is None or mine == event:
        return predicted
    names, labels = set(own.classes or ()), set(about.classes or ())
    if names == labels and len(names) == 2:
        return 1.0 - np.asarray(predicted, dtype=np.float64)
    # Of 0 and 1 the latter can stand for any event.
    if {0, 1} in (names, labels):
        return predicted
    raise ValueError(
        f"The predictions of {argument} are about {mine!r} of the classes "
        f"{listed(own.classes or ())}, but the labels are about {event!r} of "
        f"{listed(about.classes or ())}. Compare models of the same class."
    )


def baseline_classes(
    baseline: Any, model: Any, classes: Sequence[Any] | None, outputs: int
) -> Known:
    """What the predictions to compare with are about, see `raw_baseline`."""
    if baseline is None or baseline is False:
        return NOTHING_KNOWN
    if baseline is not True:
        return audited_classes(baseline, classes, outputs)
    labels = getattr(model, "labels", None)
    return labels.known if isinstance(labels, Labels) else NOTHING_KNOWN


def raw_baseline(baseline: Any, model: Any, X: Any, base: Any, Z: Any, labels: Labels) -> Any:
    """Predictions to compare with, not yet checked; True asks for those of the model's own base."""
    if baseline is not True:
        return raw_predictions(baseline, X, base, Z)
    own = getattr(model, "base", None)
    if own is None or not takes_base(model):
        raise TypeError(
            "baseline=True compares a recalibrated model with its own base, but model_or_scores "
            f"is {type(model).__name__}. Pass the scores or the model to compare with."
        )
    if base is None:
        return predicted_mean(own, X)
    n_rows, outputs = len(labels.values), labels.outputs
    scores = read_scores(base, n_rows=n_rows, probability=False, outputs=outputs)
    return from_margin(scores, own.link)


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
