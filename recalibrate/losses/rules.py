"""Actions as functions of a prediction: by thresholds, by a formula, or by costs of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lookup:
    """Actions that are constant between thresholds: ``values[number of thresholds <= p]``.

    Examples
    --------
    >>> Lookup(np.array([0.2]), np.array([0, 1])).best(np.array([0.1, 0.2, 0.3]))
    array([0, 1, 1])
    """

    thresholds: Float64
    values: NDArray[Any]

    def best(self, mean: Float64) -> NDArray[Any]:
        """Action for every predicted mean."""
        return np.asarray(self.values[np.searchsorted(self.thresholds, mean, side="right")])


@dataclass(frozen=True)
class Formula:
    """Actions that are a smooth function of the mean m.

    ``kind`` is "mean" (m), "log-odds" (log(m / (1 - m)) clipped at +-``limit``) or "ratio"
    (under m / (under m + over (1 - m))).

    Examples
    --------
    >>> Formula("ratio", over=1.0, under=3.0).best(np.array([0.5]))
    array([0.75])
    """

    kind: Literal["mean", "log-odds", "ratio"]
    limit: float = np.inf
    over: float = 1.0
    under: float = 1.0

    def best(self, mean: Float64) -> Float64:
        """Action for every predicted mean."""
        if self.kind == "mean":
            return mean
        if self.kind == "ratio":
            return np.asarray(self.under * mean / (self.under * mean + self.over * (1.0 - mean)))
        with np.errstate(divide="ignore"):
            margin = np.log(mean) - np.log1p(-mean)
        return np.asarray(np.clip(margin, -self.limit, self.limit))


@dataclass(frozen=True, eq=False)
class Cheapest:
    """The action that costs least on average, by the probabilities of several classes.

    Attributes
    ----------
    costs
        A row per class, a column per action.
    values
        The actions.

    Examples
    --------
    >>> rule = Cheapest(np.array([[0.0, 1.0], [4.0, 1.0], [9.0, 0.0]]), np.array([0, 1]))
    >>> rule.best(np.array([[0.8, 0.1, 0.1], [0.9, 0.1, 0.0]]))
    array([1, 0])
    """

    costs: Float64
    values: NDArray[Any]

    def best(self, mean: Float64) -> NDArray[Any]:
        """Action for the probabilities of every row; of equal ones the first."""
        return np.asarray(self.values[self.expected(mean).argmin(axis=1)])

    def expected(self, mean: Float64) -> Float64:
        """What every action costs on average, a column each."""
        return np.asarray(mean @ self.costs)


Rule = Lookup | Formula


def cheapest(zero: Float64, one: Float64, actions: NDArray[Any]) -> Lookup:
    """Best of finitely many actions, from their losses for label 0 and for label 1.

    The expected loss of an action is a line in p; the best ones are the lower envelope of these
    lines. Of equal lines the first action is taken.

    Examples
    --------
    >>> rule = cheapest(np.array([0.0, 1.0, 0.4]), np.array([5.0, 0.0, 1.0]), np.arange(3))
    >>> rule.thresholds.round(4), rule.values
    (array([0.0909, 0.375 ]), array([0, 2, 1]))
    """
    slope = one - zero
    order = np.lexsort((np.arange(len(zero)), zero, -slope))
    kept: list[int] = []
    cuts: list[float] = []  # where each kept line takes over from the one before
    for k in order.tolist():
        if kept and slope[k] == slope[kept[-1]]:
            continue  # parallel, and not below
        while kept:
            cut = (zero[k] - zero[kept[-1]]) / (slope[kept[-1]] - slope[k])
            if cut > cuts[-1]:
                break
            kept.pop()
            cuts.pop()
        kept.append(k)
        cuts.append(-np.inf if len(kept) == 1 else float(cut))
    first = max(j for j, cut in enumerate(cuts) if cut <= 0.0)
    last = max(j for j, cut in enumerate(cuts) if cut <= 1.0)
    thresholds = np.array(cuts[first + 1 : last + 1], dtype=np.float64)
    return Lookup(thresholds, actions[kept[first : last + 1]])
