"""What was fitted and what was decided, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.support.notices import listed

if TYPE_CHECKING:
    from recalibrate.data.labels import Labels
    from recalibrate.model import Recalibrated


def _two_classes(labels: Labels) -> str:
    """What counts as 1, if that is not 1 itself."""
    if not labels.classes:
        return "binary labels"
    if labels.chosen is not None:
        return f"class {labels.chosen!r} against the rest"
    return f"probability of {labels.classes[1]!r} against {labels.classes[0]!r}"


def summarise(model: Recalibrated) -> str:
    """A line per fact: base, class, rounds, errors, decisions, certificate."""
    labels, history = model.labels, model.history_
    kind = {
        "binary": _two_classes(labels),
        "soft": "labels in [0, 1]",
        "classes": f"{len(labels.classes)} classes ({listed(labels.classes, 10)})",
        "regression": f"labels from {labels.low:g} to {labels.high:g}",
    }[labels.kind]
    lines = [
        f"Recalibrated model on {model.base.name}, {kind}",
        f"  H                {model.H!r}",
        f"  rounds           {model.n_rounds_} ({model.n_learners_} learners), "
        f"stopped by {history.stopped}",
    ]
    if history.errors:
        lines.append(f"  training error   {history.errors[0]:.6g} -> {history.final:.6g}")
    if history.held_out:
        lines.append(f"  held-out error   {history.held_out[0]:.6g} -> {min(history.held_out):.6g}")
    lines += [f"  note             {note}" for note in model.notes]
    if model.certificate_ is not None:
        lines += ["  " + line for line in str(model.certificate_).splitlines()]
    return "\n".join(lines)
