"""What was fitted and what was decided, in words."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from recalibrate.support.notices import listed, printable

if TYPE_CHECKING:
    from recalibrate.data.labels import Labels
    from recalibrate.model import Recalibrated

_NAMES = 19  # letters of a line that name its fact


def _two_classes(labels: Labels) -> str:
    """What counts as 1, if that is not 1 itself."""
    if not labels.classes:
        return "binary labels"
    if labels.chosen is not None:
        return f"class {labels.chosen!r} against the rest"
    return f"probability of {labels.classes[1]!r} against {labels.classes[0]!r}"


class Summary(str):
    """Lines of facts that show themselves as they are, and as a table in notebooks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *lines = self.splitlines()
        rows = "".join(_row(line) for line in lines)
        return f"<div><p><strong>{escape(head)}</strong></p><table>{rows}</table></div>"


def _row(line: str) -> str:
    """A fact as a row of a table: its name, and the rest."""
    left = 'style="text-align: left"'
    name, value = line[:_NAMES].strip(), line[_NAMES:].strip()
    if not line.startswith("  ") or line[_NAMES - 1 : _NAMES].strip() or not value:
        return f'<tr><td colspan="2" {left}>{escape(line.strip())}</td></tr>'
    return f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>"


def _ended(model: Recalibrated) -> str:
    """What settled the number of rounds."""
    stopped, chosen = model.history_.stopped, bool(model.history_.held_out)
    if stopped == "max_rounds" and chosen and model.n_rounds_ < model.settings.max_rounds:
        return "chosen on held-out rows"
    return f"stopped by {stopped}"


def summarise(model: Recalibrated) -> Summary:
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
        f"  rounds           {model.n_rounds_} ({model.n_learners_} learners), {_ended(model)}",
    ]
    if history.errors:
        lines.append(f"  training error   {history.errors[0]:.6g} -> {history.final:.6g}")
    if history.held_out:
        lines.append(f"  held-out error   {history.held_out[0]:.6g} -> {min(history.held_out):.6g}")
    lines += [f"  note             {note}" for note in model.notes]
    if model.certificate_ is not None:
        lines += ["  " + line for line in str(model.certificate_).splitlines()]
    return Summary(printable("\n".join(lines)))
