"""What a fit decided, in the words of the summary: notes of the form "name: what happened"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.family import Family

if TYPE_CHECKING:
    from recalibrate.data.labels import Labels

MOST_SHOWN = 40
"""Groups of the table in the summary: those with the most significant gaps."""
UNCHANGED = "the base model's predictions are returned unchanged"
NO_CORRECTION = f"result: no significant correction; {UNCHANGED}"


@dataclass(frozen=True)
class NamedLoss:
    """A loss with its name, in the unit of the user's labels.

    Attributes
    ----------
    name
        What it is called.
    unit
        What it is multiplied by: the loop works on labels scaled to [0, 1].
    root
        Whether its root is in the unit of the labels, and is shown too.
    """

    name: str
    unit: float = 1.0
    root: bool = False

    @classmethod
    def of(cls, family: Family, labels: Labels) -> NamedLoss:
        """The loss that is minimised for these labels."""
        squared = family.link == "identity"
        name = "MSE" if squared else family.loss
        try:
            unit = labels.span ** (2.0 - family.power)
        except OverflowError:  # labels of 1e155 and more have no square
            return cls(f"{name} of labels scaled to [0, 1]")
        return cls(name, unit, squared and labels.kind == "regression")

    def fall(self, before: float, after: float) -> str:
        """A loss before and after.

        Examples
        --------
        >>> NamedLoss("log loss").fall(0.57991, 0.57054)
        '0.5799 -> 0.5705'
        >>> NamedLoss("MSE", 1e6, root=True).fall(0.08, 0.02)
        '80,000 -> 20,000 (RMSE 282.8 -> 141.4)'
        """
        both = f"{_short(self.unit * before)} -> {_short(self.unit * after)}"
        if not self.root:
            return both
        roots = (sqrt(self.unit * value) for value in (before, after))
        return f"{both} (RMSE {' -> '.join(map(_short, roots))})"

    def show(self, value: float) -> str:
        """A loss, in the unit of the user's labels."""
        return _short(self.unit * value)

    def held_out(self, before: float, after: float, cut: float = 0.0) -> str:
        """Note: the held-out loss of the base model and of what was chosen.

        ``cut`` is what cutting base scores took off, see `recalibrate.bases.problem.cut_losses`: a
        model that changes nothing predicts them as they were given.
        """
        after = after + cut if after == before else after
        return f"{self.name} (held out): {self.fall(before + cut, after)}"

    def change(self, gain: float, error: float) -> str:
        """How much the held-out loss changes where it falls by ``gain``, and the standard error.

        Examples
        --------
        >>> NamedLoss("log loss").change(0.0087, 0.0012)
        'held-out log loss -0.0087 +- 0.0012'
        """
        return f"held-out {self.name} {_with_error(0.0 - self.unit * gain, self.unit * error)}"

    def stage(self, name: str, done: str, gain: float, error: float) -> str:
        """Note: what a stage has done, if anything, and what it does to the held-out loss."""
        change = self.change(gain, error)
        said = f"{done}, {change}" if done else f"no significant gain ({change})"
        return f"{name}: {said}"


def say_shrinkage(score: float, boosting: float) -> str:
    """Note: what the scores were multiplied by at last, and what boosting had added to them.

    Examples
    --------
    >>> say_shrinkage(0.951, 0.951)
    'shrinkage: slope 0.951'
    """
    one, other = f"{score:.3g}", f"{boosting:.3g}"
    slopes = one if one == other else f"{one} (score), {other} (boosting)"
    return f"shrinkage: slope {slopes}"


def _short(value: float) -> str:
    """Four digits that count, or four behind the point."""
    if 0.01 <= value < 1:
        return f"{value:.4f}"
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:.4g}"


def _with_error(value: float, error: float) -> str:
    """A number and its standard error, with as many digits as the error has meaning."""
    if 1e-7 < error < 1e4:
        digits = max(0, 1 - floor(log10(error)))
        return f"{value:+.{digits}f} +- {error:.{digits}f}"
    return f"{value:+.3g} +- {error:.2g}"


def farthest(before: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.intp]:
    """Numbers of the groups that a note shows: those that are off by most standard errors."""
    far = np.argsort(-np.abs(before) / np.maximum(error, 1e-300), kind="stable")
    return np.sort(far[:MOST_SHOWN])


def show_groups(groups: Sequence[tuple[str, int, float, float, float]], others: int = 0) -> str:
    """Note: a table with name, rows, gap before, shift and standard error of every group.

    The mean gap of a group in new rows is ``before - shift`` with this standard error: of one that
    is corrected in full, 0 plus or minus the standard error. Correcting part of a gap leaves the
    other part, but the error of what is left is the same, because it is that of ``before``.
    ``others`` is the number of groups that are not given, because they are not shown.

    Examples
    --------
    >>> print(show_groups([("sex = F", 900, 0.05, 0.04, 0.01)]))
    gaps by group: mean label - mean prediction; left in new rows: before - shift +- std. error
      group    rows   before    shift  std. error
      sex = F   900  +0.0500  +0.0400      0.0100
    """
    shown = [groups[k] for k in farthest(*np.array([group[2::2] for group in groups]).T)]
    width = max([5, *(len(group[0]) for group in shown)])
    rows = max([5, *(len(f"{group[1]:,}") for group in shown)])
    largest = max([abs(value) for group in shown for value in group[2:]], default=0.0)
    digits = min(4, max(0, 3 - floor(log10(largest)))) if largest > 0 else 4
    lines = [
        "gaps by group: mean label - mean prediction; left in new rows: before - shift +- std. "
        "error",
        f"  {'group':<{width}} {'rows':>{rows}}   before    shift  std. error",
    ]
    for name, count, off, moved, error in shown:
        numbers = "".join(f" {value:>+8.{digits}f}" for value in (off, moved))
        lines.append(f"  {name:<{width}} {count:>{rows},}{numbers}{error:>12.{digits}f}")
    others += len(groups) - len(shown)
    if others:
        lines.append(f"  and {others} groups with less significant gaps")
    return "\n".join(lines)
