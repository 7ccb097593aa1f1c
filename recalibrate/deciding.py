r"""From predictions to actions: one model, any loss (omniprediction).

For binary labels and a model f that is alpha-multicalibrated for H, acting on f alone is, for
every convex loss that is L-Lipschitz in its action, about as good as the best h in H trained for
that loss [1]_:

.. math:: E\, l(y, a^*(f)) \le \min_{h \in H_B} E\, l(y, h) + 2 L \sqrt\alpha (1 + \sqrt B),
    \quad B \ge 1, \text{ actions in } [-\sqrt B, \sqrt B].

A predicted mean says nothing about other properties of a label that is not binary (two
distributions with one mean may have different medians), so for those only squared loss is
allowed.

References
----------
.. [1] P. Gopalan, A. T. Kalai, O. Reingold, V. Sharan, U. Wieder, "Omnipredictors", ITCS 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.losses import (
    Cheapest,
    Formula,
    Lookup,
    Loss,
    Rule,
    Squared,
    cheapest,
    losses_of,
    read_loss,
)
from recalibrate.support.checks import check_number, check_range

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated

GRID_POINTS = 1001
"""Actions that stand for a range: the loss is off by at most L (high - low) / 2000."""
SHOWN_STEPS = 6


@dataclass(frozen=True, eq=False)
class Decision:
    """The best action for every prediction of a model; made by ``model.decide(loss)``.

    Attributes
    ----------
    model
        The model.
    loss
        What the actions minimise: ``loss(y, action)``.
    rule
        The action as a function of the prediction, with all that another runtime needs to
        compute it: a :class:`recalibrate.losses.Lookup` (``thresholds``, ``values``) or a
        :class:`recalibrate.losses.Formula` (``kind`` and parameters).
    """

    model: Recalibrated
    loss: Callable[[Any, Any], Any]
    rule: Rule

    def actions(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[Any]:
        """Best action for every row; the arguments are those of ``model.predict``.

        Examples
        --------
        >>> import numpy as np, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.integers(0, 2, (4000, 1))
        >>> y = rng.random(4000) < np.where(X[:, 0], 0.6, 0.2)
        >>> model = rc.fit(np.full(4000, 0.4), X, y, H=rc.Groups("x0"))
        >>> decision = model.decide([[0, 1], [2, 0]])  # a missed case costs twice a false alarm
        >>> decision.actions([[0], [1]], base=[0.4, 0.4])
        array([0, 1])
        """
        return self.best(self.model.predict(X, base=base, Z=Z))

    def best(self, mean: Any) -> NDArray[Any]:
        """Best action for given predictions."""
        return self.rule.best(np.asarray(mean, dtype=np.float64))

    def expected_loss(self, mean: Any) -> NDArray[np.float64]:
        """Loss that the best action has on average, if the (binary) predictions are right."""
        p = np.asarray(mean, dtype=np.float64)
        if self.model.labels.kind != "binary":
            raise ValueError("the expected loss follows from the mean for labels 0 and 1 only")
        action = self.best(p)
        return np.asarray(p * self._losses(1.0, action) + (1.0 - p) * self._losses(0.0, action))

    def excess_bound(self, alpha: float | None = None, B: float = 1.0) -> float:
        """How much worse than the best h in H with h^2 <= B the actions can be.

        Parameters
        ----------
        alpha
            Multicalibration error of the model (K2) for that class; default: what the model's
            own certificate proves on the fitted rows.
        B
            At least 1; actions are in [-sqrt(B), sqrt(B)].

        Returns
        -------
        float
            2 L sqrt(alpha) (1 + sqrt(B)).

        Examples
        --------
        >>> import numpy as np, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> model = rc.fit(np.full(999, 0.5), rng.normal(size=(999, 1)), rng.random(999) < 0.5)
        >>> model.decide("absolute").excess_bound(alpha=0.01)
        0.4
        """
        check_number("B", B, least=1.0)
        known = self.loss.lipschitz(sqrt(B)) if isinstance(self.loss, Loss) else None
        if known is None:
            raise ValueError(
                f"the bound is for convex losses with a known Lipschitz constant, not for "
                f"{self.loss!r}"
            )
        self._check_actions(sqrt(B))
        if alpha is None:
            alpha = self._proven_alpha(B)
        check_number("alpha", alpha, least=0.0)
        return 2.0 * known * sqrt(alpha) * (1.0 + sqrt(B))

    def _check_actions(self, most: float) -> None:
        """Refuse actions that the theorem does not speak of."""
        if self.model.labels.kind != "binary":
            raise ValueError("the bound is for labels 0 and 1")
        ends = self.best([0.0, 1.0]) if isinstance(self.rule, Formula) else self.rule.values
        reach = float(np.max(np.abs(np.asarray(ends, dtype=np.float64))))
        if reach > most:
            raise ValueError(
                f"the bound is for actions between -sqrt(B) and sqrt(B) = {most:g}, but those of "
                f"{self.loss!r} reach {reach:g}: decide with between=(-{most:g}, {most:g}), or "
                f"pass a B of at least {reach**2:g} and the multicalibration error for that class"
            )

    def _proven_alpha(self, B: float) -> float:
        certificate = self.model.certificate_
        if certificate is None or not certificate.exact or certificate.B < B:
            raise ValueError(
                "the model proves no multicalibration error: pass alpha=, for example an audit's "
                f"K2, or fit with alpha= and B={B:g} and a class that is solved exactly"
            )
        return max(certificate.bound, 0.0)

    def _losses(self, y: float, action: NDArray[Any]) -> NDArray[np.float64]:
        if isinstance(self.loss, Loss):
            return self.loss(y, action)
        return np.array([float(self.loss(y, a)) for a in action.tolist()], dtype=np.float64)

    def __repr__(self) -> str:
        if isinstance(self.rule, Formula):
            return f"<Decision: {self.loss!r}, action = {self.rule.kind} of the prediction>"
        values, cuts = self.rule.values.tolist(), self.rule.thresholds.tolist()
        steps = [f"{values[0]!r}"]
        steps += [f"{v!r} from {t:.4g}" for v, t in zip(values[1:], cuts, strict=True)]
        shown = ", ".join(steps[:SHOWN_STEPS])
        more = f" and {len(steps) - SHOWN_STEPS} more" if len(steps) > SHOWN_STEPS else ""
        return f"<Decision: {self.loss!r}, action {shown}{more}>"


@dataclass(frozen=True, eq=False)
class ClassDecision:
    """The best of finitely many actions for the probabilities of several classes.

    Attributes
    ----------
    model
        The model.
    rule
        The actions, and what each costs, a row per class in the order of ``model.classes_``.
    """

    model: Recalibrated
    rule: Cheapest

    @classmethod
    def of(cls, model: Recalibrated, loss: Any, actions: Any, between: Any) -> ClassDecision:
        """Costs from a matrix, or from a function of class and action."""
        classes = model.classes_.tolist()
        if between is not None or isinstance(loss, str | Loss):
            raise ValueError(
                f"loss={loss!r} is about two classes, and this model has {len(classes)}: pass a "
                "cost matrix (a row per class, a column per action), a function loss(label, "
                "action) with actions=, or fit one class against the rest with target_class="
            )
        if callable(loss):
            if actions is None:
                raise ValueError("say which actions there are: actions=[...]")
            costs = np.array([[float(loss(c, a)) for a in actions] for c in classes])
        else:
            costs = np.asarray(loss, dtype=np.float64)
        if costs.ndim != 2 or len(costs) != len(classes) or not np.isfinite(costs).all():
            raise ValueError(
                f"the cost matrix needs a row of finite numbers for each of {len(classes)} classes "
                f"and a column per action, but has shape {costs.shape}"
            )
        values = np.arange(costs.shape[1]) if actions is None else np.array(list(actions))
        if len(values) != costs.shape[1]:
            raise ValueError(f"{len(values)} actions were named, but costs has {costs.shape[1]}")
        return cls(model, Cheapest(costs, values))

    def actions(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[Any]:
        """Best action for every row; the arguments are those of ``model.predict``."""
        return self.best(self.model.predict(X, base=base, Z=Z))

    def best(self, p: Any) -> NDArray[Any]:
        """Best action for given probabilities, shape (n, K); of equal ones the first."""
        return self.rule.best(self._shares(p))

    def expected_loss(self, p: Any) -> NDArray[np.float64]:
        """Cost that the best action has on average, if the probabilities are right."""
        return np.asarray(self.rule.expected(self._shares(p)).min(axis=1))

    def excess_bound(self, alpha: float | None = None, B: float = 1.0) -> float:
        """Raise: the theorem is about two classes."""
        raise ValueError("the bound is for labels 0 and 1; costs of several classes have none")

    def _shares(self, p: Any) -> NDArray[np.float64]:
        shares, count = np.asarray(p, dtype=np.float64), len(self.rule.costs)
        if shares.ndim != 2 or shares.shape[1] != count:
            raise ValueError(
                f"probabilities of {count} classes are needed, got shape {shares.shape}"
            )
        return shares

    def __repr__(self) -> str:
        shape = "{} classes x {} actions".format(*self.rule.costs.shape)
        return f"<ClassDecision: costs of {shape}>"


def make_decision(
    model: Recalibrated,
    loss: Any,
    *,
    actions: Sequence[Any] | None = None,
    between: tuple[float, float] | None = None,
) -> Decision:
    """The decision of a model; see :meth:`recalibrate.Recalibrated.decide`."""
    if model.labels.kind == "classes":
        return ClassDecision.of(model, loss, actions, between)  # type: ignore[return-value]
    read = read_loss(loss)
    if model.labels.kind != "binary" and not isinstance(read, Squared):
        raise ValueError(
            f"loss={loss!r} cannot be decided for labels that are not 0 and 1: the model predicts "
            "their mean, and two distributions with one mean may ask for different actions (a "
            "mean does not determine a quantile). Only squared loss, whose best action is the "
            "mean itself, is possible; for a quantile train a model of the quantile."
        )
    return Decision(model, read, _rule(read, actions, between))


def read_decision(model: Recalibrated, decide: Any) -> Decision | ClassDecision:
    """A decision of the model, from a loss or from what its ``decide`` returned."""
    if not isinstance(decide, Decision | ClassDecision):
        return make_decision(model, decide)
    if decide.model is not model:
        raise ValueError(
            "decide= is a decision of another model; pass the loss, or what this model's own "
            "decide(loss) returns"
        )
    return decide


def _rule(
    loss: Loss | Callable[[Any, Any], Any],
    actions: Sequence[Any] | None,
    between: tuple[float, float] | None,
) -> Rule:
    if actions is not None and between is not None:
        raise ValueError("give either actions= or between=, not both")
    if between is not None:
        low, high = check_range("between", between)
        actions = np.linspace(low, high, GRID_POINTS).tolist()
    if actions is None:
        if not isinstance(loss, Loss):
            raise ValueError(
                f"for a loss of your own say which actions there are: actions=[...] lists them, "
                f"between=(low, high) gives their range (got the loss {loss!r})"
            )
        return loss.rule()
    chosen = list(actions)
    if not chosen:
        raise ValueError("actions=[] leaves nothing to decide; list at least one action")
    if isinstance(loss, Squared):
        return _nearest(np.asarray(chosen, dtype=np.float64))
    zero, one = losses_of(loss, chosen)
    return cheapest(zero, one, np.asarray(chosen))


def _nearest(actions: NDArray[np.float64]) -> Lookup:
    """Squared loss among given actions, of any label: the one nearest to the mean."""
    if not np.isfinite(actions).all():
        raise ValueError("actions must be finite numbers")
    values = np.unique(actions)
    return Lookup((values[:-1] + values[1:]) / 2.0, values)
