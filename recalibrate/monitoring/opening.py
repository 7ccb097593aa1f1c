"""What a monitor checks before it begins, and before it takes a batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from recalibrate.bases.protocol import predicts_rates
from recalibrate.data.labels import Labels
from recalibrate.graph.facts import Facts
from recalibrate.graph.served import ServedModel
from recalibrate.model import Recalibrated
from recalibrate.monitoring.batches import Batch, Scale
from recalibrate.monitoring.state import State
from recalibrate.monitoring.times import show_time
from recalibrate.support.checks import check_range


def fingerprint(model: Any) -> str:
    """What tells one recalibrated model from another; empty for all other models."""
    if not isinstance(model, Recalibrated):
        return ""
    from recalibrate.files import to_bytes

    return hashlib.blake2b(to_bytes(model)[0], digest_size=16).hexdigest()


def read_scale(model: Any, bounds: Any, classes: Sequence[Any] | None) -> Scale:
    """What labels and scores are, as far as it is known before the first batch."""
    if classes is not None:
        if bounds is not None:
            raise ValueError("bounds= is for a regression, but there are classes=.")
        return _with_classes(classes)
    exposed = predicts_rates(model)
    if bounds is not None:
        return Scale(*check_range("bounds", bounds), exposed=exposed)
    labels = model.facts if isinstance(model, ServedModel) else getattr(model, "labels", None)
    if isinstance(labels, Labels | Facts):
        if labels.kind == "regression":
            return Scale(labels.low, labels.high, exposed=exposed)
        known = labels.audited if isinstance(labels, Labels) else labels.known
        return Scale(
            classes=tuple(known.classes or ()) if labels.classes else (), chosen=known.chosen
        )
    named = getattr(model, "classes_", None)
    return Scale(exposed=exposed) if named is None else _with_classes(named)


def _with_classes(classes: Sequence[Any]) -> Scale:
    labels = tuple(np.asarray(classes).tolist() if hasattr(classes, "dtype") else classes)
    if len(labels) < 2:
        raise ValueError(f"classes must name two classes or more, got {list(labels)!r}.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"classes has a label more than once: {list(labels)!r}.")
    return Scale(classes=() if set(labels) == {0, 1} else labels)


def check_time(state: State, batch: Batch, late: bool) -> None:
    """Refuse times of another kind, and times that go backwards."""
    kind = batch.kind
    words = {"batch": "had no time", "number": "had numbers as time", "date": "had dates as time"}
    if state.time_kind is not None and state.time_kind != kind:
        raise ValueError(
            f"Earlier batches {words[state.time_kind]}, this one {words[kind]}: give the same kind."
        )
    first = float(batch.time.min())
    if batch.target is not None and first < state.timeline.frontier and not late:
        raise ValueError(
            f"time goes backwards: the batch begins at {show_time(first, kind)}, but rows up to "
            f"{show_time(state.timeline.frontier, kind)} were added before. Nothing was added; "
            "pass late=True if these are labels that arrived late."
        )


def check_new(state: State, digest: str) -> None:
    """Refuse a batch that was added before."""
    if digest in state.seen:
        raise ValueError(
            "The same rows were added before: labels, scores, groups and weights are all equal. "
            "Nothing was added; pass force=True if these are other rows."
        )
