r"""Losses to decide by, and the best action for a probability.

For a label that is 1 with probability p, the best action under a loss is

.. math:: a^*(p) = \arg\min_a \; p \, l(1, a) + (1 - p) \, l(0, a),

which is a formula in p, or constant between thresholds of p. Ties go up: at a threshold the
action above it is taken. :meth:`recalibrate.Recalibrated.decide` applies it to predictions.

============================  ========================================  =========================
loss                          l(y, a)                                   a*(p)
============================  ========================================  =========================
``Squared()``                 (y - a)^2                                 p
``Absolute()``                abs(y - a)                                1 if p >= 1/2, else 0
``Pinball(tau)``              tau (y - a)+ + (1 - tau) (a - y)+         1 if p >= 1 - tau, else 0
``Hinge()``                   (1 - (2 y - 1) a)+                        1 if p >= 1/2, else -1
``Logistic(limit)``           log(1 + exp(-(2 y - 1) a))                log(p / (1 - p)), clipped
``Asymmetric(over, under)``   over (a - y)+^2 + under (y - a)+^2        under p / (under p +
                                                                        over (1 - p))
``CostMatrix(costs)``         costs[y][a]                               by thresholds
============================  ========================================  =========================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.support.checks import check_number

__all__ = [
    "Absolute",
    "Asymmetric",
    "CostMatrix",
    "Formula",
    "Hinge",
    "Logistic",
    "Lookup",
    "Loss",
    "Pinball",
    "Squared",
    "read_loss",
]


# --- Actions as functions of a prediction: by thresholds, by a formula, or by costs of classes --


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


@runtime_checkable
class Loss(Protocol):
    """A loss of labels 0 and 1, with its best action."""

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        """Loss of every label and action."""

    def rule(self) -> Rule:
        """Best action as a function of the probability."""

    def lipschitz(self, radius: float) -> float | None:
        """Lipschitz constant in actions of [-radius, radius]; None if the loss is not convex."""


@dataclass(frozen=True)
class Squared:
    """(y - a)^2; the best action is the mean itself."""

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        return np.asarray((np.asarray(y, float) - np.asarray(action, float)) ** 2)

    def rule(self) -> Rule:
        return Formula("mean")

    def lipschitz(self, radius: float) -> float | None:
        return 2.0 * (1.0 + radius)


@dataclass(frozen=True)
class Pinball:
    """Cost ``tau`` per unit below the label and ``1 - tau`` above it: asks for a quantile.

    Examples
    --------
    >>> Pinball(0.9).rule().thresholds
    array([0.1])
    """

    tau: float

    def __post_init__(self) -> None:
        check_number("tau of Pinball", self.tau, above=0.0)
        if not self.tau < 1:
            raise ValueError(f"tau of Pinball must lie between 0 and 1, got {self.tau!r}")

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        below = np.asarray(y, float) - np.asarray(action, float)
        return np.asarray(np.maximum(self.tau * below, (self.tau - 1.0) * below))

    def rule(self) -> Rule:
        # round: 1 - 0.9 is not the float 0.1, at which a user would expect the tie
        return Lookup(np.array([round(1.0 - self.tau, 15)]), np.array([0.0, 1.0]))

    def lipschitz(self, radius: float) -> float | None:
        return max(self.tau, 1.0 - self.tau)


@dataclass(frozen=True)
class Absolute:
    """abs(y - a); the best action is the likelier label."""

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        return np.asarray(np.abs(np.asarray(y, float) - np.asarray(action, float)))

    def rule(self) -> Rule:
        return Lookup(np.array([0.5]), np.array([0.0, 1.0]))

    def lipschitz(self, radius: float) -> float | None:
        return 1.0


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - s a) with s = -1 for label 0 and s = 1 for label 1."""

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        sign = 2.0 * np.asarray(y, float) - 1.0
        return np.asarray(np.maximum(0.0, 1.0 - sign * np.asarray(action, float)))

    def rule(self) -> Rule:
        return Lookup(np.array([0.5]), np.array([-1.0, 1.0]))

    def lipschitz(self, radius: float) -> float | None:
        return 1.0


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(-s a)) with s as in :class:`Hinge`; the action is a log-odds.

    ``limit`` bounds the action, because a probability of 0 or 1 asks for an infinite one.
    """

    limit: float = 16.0

    def __post_init__(self) -> None:
        check_number("limit of Logistic", self.limit, above=0.0)

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        sign = 2.0 * np.asarray(y, float) - 1.0
        return np.asarray(np.logaddexp(0.0, -sign * np.asarray(action, float)))

    def rule(self) -> Rule:
        return Formula("log-odds", limit=float(self.limit))

    def lipschitz(self, radius: float) -> float | None:
        return 1.0


@dataclass(frozen=True)
class Asymmetric:
    """Squared error that weighs predictions above the label by ``over``, below by ``under``.

    Examples
    --------
    >>> Asymmetric(over=1, under=4).rule().best(np.array([0.2, 0.5]))
    array([0.5, 0.8])
    """

    over: float
    under: float

    def __post_init__(self) -> None:
        check_number("over of Asymmetric", self.over, above=0.0)
        check_number("under of Asymmetric", self.under, above=0.0)

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        gap = np.asarray(action, float) - np.asarray(y, float)
        return np.asarray(np.where(gap > 0, self.over, self.under) * gap**2)

    def rule(self) -> Rule:
        return Formula("ratio", over=float(self.over), under=float(self.under))

    def lipschitz(self, radius: float) -> float | None:
        return 2.0 * max(self.over, self.under) * (1.0 + radius)


@dataclass(frozen=True, init=False)
class CostMatrix:
    """Cost of every action for label 0 (first row) and label 1 (second row).

    Useful, but outside of the theorem on omniprediction, which is about convex losses.

    Parameters
    ----------
    costs
        Two rows, one column per action.
    actions
        Names of the actions; default 0, 1, ...

    Examples
    --------
    >>> CostMatrix([[0, 1], [5, 0]], actions=["wait", "treat"]).rule().best(np.array([0.1, 0.3]))
    array(['wait', 'treat'], dtype='<U5')
    """

    costs: tuple[tuple[float, ...], tuple[float, ...]]
    actions: tuple[Any, ...]

    def __init__(self, costs: Any, actions: Sequence[Any] | None = None) -> None:
        matrix = np.asarray(costs, dtype=np.float64)
        if matrix.ndim != 2 or len(matrix) != 2 or not matrix.shape[1]:
            raise ValueError(
                "a cost matrix has two rows (label 0, label 1) and a column per action, got "
                f"shape {matrix.shape}"
            )
        if not np.isfinite(matrix).all():
            raise ValueError("the costs must be finite numbers")
        names = tuple(range(matrix.shape[1]) if actions is None else actions)
        if len(names) != matrix.shape[1]:
            raise ValueError(f"{len(names)} names were given for {matrix.shape[1]} actions")
        object.__setattr__(self, "costs", tuple(tuple(row) for row in matrix.tolist()))
        object.__setattr__(self, "actions", names)

    def __call__(self, y: ArrayLike, action: ArrayLike) -> Float64:
        place = {name: k for k, name in enumerate(self.actions)}
        taken, label = np.broadcast_arrays(np.asarray(action), np.asarray(y, float))
        column = np.array([place[a] for a in taken.ravel().tolist()], dtype=np.intp)
        low, high = np.array(self.costs)
        chosen = label.ravel()
        return np.asarray((1 - chosen) * low[column] + chosen * high[column]).reshape(taken.shape)

    def rule(self) -> Rule:
        low, high = np.array(self.costs)
        return cheapest(low, high, np.asarray(self.actions))

    def lipschitz(self, radius: float) -> float | None:
        return None


_BY_NAME: dict[str, Callable[..., Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "pinball": Pinball,
    "hinge": Hinge,
    "logistic": Logistic,
    "asymmetric": Asymmetric,
}


def read_loss(loss: Any) -> Loss | Callable[[float, float], float]:
    """A loss as given: an object, a short text, a cost matrix, or a callable.

    Texts are a name, with numbers in brackets where the loss has parameters: "squared",
    "pinball(0.9)", "asymmetric(1, 4)"; "cost_matrix(0, 1, 5, 0)" lists the costs of all
    actions for label 0, then those for label 1.

    Examples
    --------
    >>> read_loss("pinball(0.9)")
    Pinball(tau=0.9)
    """
    if isinstance(loss, str):
        return _parse(loss)
    if isinstance(loss, type):
        raise TypeError(f"loss={loss.__name__} is the class itself; make one: {loss.__name__}(...)")
    if isinstance(loss, Loss) or callable(loss):
        return loss  # type: ignore[no-any-return]
    if isinstance(loss, list | tuple | np.ndarray):
        return CostMatrix(loss)
    raise TypeError(
        f"loss={loss!r} is not a loss; use a name ({', '.join(_BY_NAME)}), an object of "
        "recalibrate.losses, a cost matrix, or a function loss(y, action)"
    )


def _parse(text: str) -> Loss:
    found = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name, inside = (found[1], found[2] or "") if found else (text, "")
    if name not in _BY_NAME and name != "cost_matrix":
        raise ValueError(
            f"there is no loss {text!r}; use {', '.join(_BY_NAME)} or cost_matrix, with numbers "
            "in brackets where needed: pinball(0.9), asymmetric(1, 4), cost_matrix(0, 1, 5, 0)"
        )
    try:
        numbers = [float(part) for part in inside.split(",")] if inside.strip() else []
        if name == "cost_matrix":
            if not numbers or len(numbers) % 2:
                raise ValueError("it takes as many costs for label 0 as for label 1")
            half = len(numbers) // 2
            return CostMatrix([numbers[:half], numbers[half:]])
        return _BY_NAME[name](*numbers)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the loss {text!r} cannot be read: {error}") from error


def losses_of(loss: Callable[[Any, Any], Any], actions: Sequence[Any]) -> tuple[Float64, Float64]:
    """Losses of all actions for label 0 and for label 1, by calling the loss for each."""
    rows = []
    for y in (0.0, 1.0):
        costs = [loss(y, action) for action in actions]
        try:
            row = np.array([float(np.asarray(cost).reshape(())) for cost in costs])
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"loss({y:g}, action) must return one number, got {costs[0]!r} for the action "
                f"{actions[0]!r}"
            ) from error
        bad = [a for a, cost in zip(actions, row.tolist(), strict=True) if not isfinite(cost)]
        if bad:
            raise ValueError(f"loss({y:g}, {bad[0]!r}) is not finite")
        rows.append(row)
    return rows[0], rows[1]
