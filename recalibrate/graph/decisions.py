"""The best action for every prediction, as nodes; and whether an action is the right one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.graph.base import constant_margin
from recalibrate.graph.inputs import ExportError
from recalibrate.graph.trees import Leaf, flatten, search
from recalibrate.losses import Cheapest, Formula, Lookup, Rule
from recalibrate.support.notices import listed
from recalibrate.support.onnxgraph import GraphBuilder

if TYPE_CHECKING:
    from recalibrate.deciding import ClassDecision, Decision

ACTION = "action"
"""Name of the output."""


def write_action(builder: GraphBuilder, rule: Rule | Cheapest, mean: str) -> str:
    """The rule's action for a column of predictions, or one for every class; float64."""
    if isinstance(rule, Cheapest):
        costs = builder.op("MatMul", mean, builder.constant(rule.costs))
        place = builder.op("ArgMin", costs, axis=1, keepdims=1)
        return builder.op("Gather", builder.constant(_action_numbers(rule)), place)
    if isinstance(rule, Lookup):
        return _lookup(builder, rule, mean)
    if rule.kind == "mean":
        return mean
    other = builder.op("Sub", builder.number(1.0), mean)
    if rule.kind == "ratio":
        gain = builder.op("Mul", builder.number(rule.under), mean)
        loss = builder.op("Mul", builder.number(rule.over), other)
        return builder.op("Div", gain, builder.op("Add", gain, loss))
    margin = builder.op("Sub", builder.op("Log", mean), builder.op("Log", other))
    return builder.clip(margin, -rule.limit, rule.limit)


def _lookup(builder: GraphBuilder, rule: Lookup, mean: str) -> str:
    """One tree finds the place among the thresholds; a prediction at one belongs above it."""
    values = _action_numbers(rule)
    if not len(rule.thresholds):
        return constant_margin(float(values[0]), mean, builder)
    below = np.nextafter(rule.thresholds, -np.inf)
    places = [Leaf(float(k)) for k in range(len(values))]
    tree = search(0, below.tolist(), places)
    place = builder.cast(builder.trees(flatten([tree], 1, lambda column: column), mean), "int64")
    return builder.op("Gather", builder.constant(values), place)


def _action_numbers(rule: Lookup | Cheapest) -> NDArray[np.float64]:
    """The actions as numbers that a tensor can hold, or an `ExportError`."""
    try:
        values = np.asarray(rule.values, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if rule.values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise ExportError(
            f"the actions {listed(rule.values.tolist(), 5)} are not all numbers, which the graph's "
            "output has to be; number them (actions=[0, 1, ...]) and name them when serving"
        )
    return values


def describe_decision(decision: Decision | ClassDecision) -> str:
    """The decision as JSON, for the metadata."""
    rule = decision.rule
    if isinstance(rule, Cheapest):
        return json.dumps({"costs": rule.costs.tolist(), "actions": rule.values.tolist()})
    facts: dict[str, Any] = {"loss": repr(getattr(decision, "loss", None))}
    if isinstance(rule, Formula):
        facts["formula"] = rule.kind
    else:
        facts |= {"thresholds": rule.thresholds.tolist(), "actions": rule.values.tolist()}
    return json.dumps(facts)


def is_best(
    rule: Rule | Cheapest,
    action: NDArray[np.float32],
    mean: NDArray[np.float64],
    tolerance: float,
) -> NDArray[np.bool_]:
    """Whether an action is the best one for a prediction that is off by at most the tolerance.

    Examples
    --------
    >>> rule = Lookup(np.array([0.5]), np.array([0.0, 1.0]))
    >>> is_best(rule, np.zeros(3, np.float32), np.array([0.4, 0.5, 0.6]), 1e-9)
    array([ True,  True, False])
    """
    if isinstance(rule, Cheapest):
        costs = rule.expected(mean)
        room = tolerance * np.abs(rule.costs).sum(axis=0).max()
        near = costs <= costs.min(axis=1, keepdims=True) + 2.0 * room
        same = action[:, None] == rule.values.astype(np.float32)
        return np.asarray((near & same).any(axis=1))
    low, high = mean - tolerance, mean + tolerance
    if isinstance(rule, Lookup):
        fits = [action == rule.best(m).astype(np.float32) for m in (low, mean, high)]
        return np.asarray(np.logical_or.reduce(fits))
    if rule.kind != "mean":
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    # All formulas increase with the mean; a float32 is off by less than its spacing.
    least, most = rule.best(low).astype(np.float32), rule.best(high).astype(np.float32)
    return np.asarray(
        (action >= least - np.spacing(np.abs(least))) & (action <= most + np.spacing(np.abs(most)))
    )
