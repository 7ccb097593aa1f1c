"""What was fitted and what was decided, a line per fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import isnan
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Self

from recalibrate.core.boost import History
from recalibrate.explain.notes import NamedLoss
from recalibrate.support.checks import require
from recalibrate.support.notices import counted, listed, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recalibrate.data.labels import Labels
    from recalibrate.model import Recalibrated


# --- Figures of a fitted model ------------------------------------------------------------------


SIZE = (6.0, 4.0)


def plot_errors(history: History, loss: NamedLoss) -> Figure:
    """Training and held-out loss by round.

    Parameters
    ----------
    history
        What happened; index 0 is before the first round.
    loss
        What was minimised.

    Raises
    ------
    ValueError
        If no error was recorded, because nothing was fitted.
    """
    curves = {"training": history.errors, "held out": history.held_out}
    if not any(curves.values()):
        raise ValueError("there are no losses to plot: nothing was fitted")
    figure: Figure = require("matplotlib.figure", "report").Figure(
        figsize=SIZE, layout="constrained"
    )
    axes = figure.add_subplot()
    for name, errors in curves.items():
        if errors:
            values = [loss.unit * error for error in errors]
            marker = "." if len(errors) < 30 else ""
            axes.plot(range(len(errors)), values, label=name, marker=marker)
    if history.held_out:
        best = min(range(len(history.held_out)), key=history.held_out.__getitem__)
        axes.axvline(best, color="0.6", linestyle=":", label=f"lowest held out ({best})")
    axes.set_xlabel("steps" if history.held_out else "rounds")
    axes.set_ylabel(loss.name)
    axes.set_title(f"{loss.name[0].upper()}{loss.name[1:]} by round")
    axes.legend()
    return figure


Fact = tuple[str, str]
WIDTH, MOST_NAME = 100, 28


class _Summary(str):
    """Facts by name: printed one a line, and a table in notebooks."""

    head: str
    facts: tuple[Fact, ...]

    def __new__(cls, head: str, facts: Sequence[Fact] = ()) -> Self:
        """A value of several lines goes below its name, as it is."""
        head = printable(head)
        facts = tuple((printable(name), printable(value)) for name, value in facts)
        names = min(MOST_NAME, max((len(name) for name, _ in facts), default=0))
        made = super().__new__(cls, "\n".join([head, *_lines(facts, names)]))
        made.head, made.facts = head, facts
        return made

    def __getnewargs__(self) -> tuple[str, tuple[Fact, ...]]:  # type: ignore[override]
        return self.head, self.facts

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = "".join(_row(name, value) for name, value in self.facts)
        return f"<div><p><strong>{escape(self.head)}</strong></p><table>{rows}</table></div>"


def _lines(facts: Sequence[Fact], names: int) -> Iterator[str]:
    for name, value in facts:
        first, _, rest = value.partition("\n")
        start = f"  {name:<{names}}  "
        yield from wrap(
            first,
            WIDTH,
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [start.rstrip()]
        if rest:
            yield indent(rest, "  ")


def _row(name: str, value: str) -> str:
    left = 'style="text-align: left; vertical-align: top"'
    first, _, rest = value.partition("\n")
    more = f"<pre>{escape(rest)}</pre>" if rest else ""
    return f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(first)}{more}</td></tr>"


def summarise(model: Recalibrated) -> _Summary:
    """What is predicted, losses, what was decided, the certificate."""
    history, loss = model.history_, NamedLoss.of(model.rounds.family, model.labels)
    noted = [_named(note) for note in model.notes]
    facts: list[Fact] = [("predicts", _predicts(model.labels)), ("H", model.H.described)]
    held_out = f"{loss.name} (held out)"
    if history.held_out and held_out not in dict(noted):
        # A model without folds has as many steps as its curve, or went back to the best of them.
        curve = history.held_out
        facts.append((held_out, loss.fall(curve[0], curve[: len(model.rounds.steps) + 1][-1])))
    facts += [fact for fact in noted if fact[0] == held_out]
    if history.errors and not isnan(history.final):
        facts.append((f"{loss.name} (training)", loss.fall(history.errors[0], history.final)))
    facts.append(("rounds", _rounds(model)))
    facts += [fact for fact in noted if fact[0] != held_out]
    if model.certificate_ is not None:
        facts += map(_named, str(model.certificate_).splitlines())
    rows = f", {counted(model.n_rows, 'calibration row')}" if model.n_rows else ""
    return _Summary(f"Recalibrated {model.base.name}{rows}", facts)


def _named(note: str) -> Fact:
    """The name of a note and what it says."""
    name, colon, said = note.partition(": ")
    return (name, said) if colon else ("note", note)


def _predicts(labels: Labels) -> str:
    """What a prediction is about."""
    mean = "mean of y per unit of exposure" if labels.exposed else "mean of y"
    if labels.kind == "regression":
        return f"{mean} ({_range(labels)})"
    if labels.kind == "soft" or labels.exposed:
        return f"{mean} (labels in [0, 1])"
    if labels.kind == "classes":
        return f"probabilities of {len(labels.classes)} classes ({listed(labels.columns, 10)})"
    if labels.chosen is not None:
        return f"probability of class {labels.chosen!r} against the rest"
    negative, positive = map(_class, labels.classes or (0, 1))
    return f"probability of {positive} (the other class is {negative})"


def _range(labels: Labels) -> str:
    """What is known of the range of y."""
    low, high = labels.bounds
    if low is None and high is None:
        return f"observed range {labels.low:g} to {labels.high:g}"
    if low is not None and high is not None:
        return f"possible range {low:g} to {high:g}"
    return f"{low:g} or more" if high is None else f"at most {high:g}"


def _class(label: object) -> str:
    return f"{label:g}" if isinstance(label, float) else repr(label)


_ENDS = {
    "tolerance": "stopped when a round lowered the training loss by less than the tolerance",
    "patience": "the best number on held-out rows",
    "nothing learned": "stopped because H found nothing more",
    "interrupted": "interrupted",
}


def _rounds(model: Recalibrated) -> str:
    """How many there are, and what settled it."""
    rounds, stopped = model.n_rounds_, model.history_.stopped
    if rounds == 0 and stopped != "interrupted":
        return "0 (predictions are those of the base model)"
    said = f"{rounds:,} ({counted(model.n_learners_, 'learner')})"
    if stopped != "max_rounds":
        return f"{said}, {_ENDS[stopped]}"
    if model.history_.held_out:
        return f"{said}, number chosen on held-out rows" if model.history_.errors else said
    return f"{said}, stopped at the limit of {counted(rounds, 'round')}"
