"""Rounds as a short list of updates of the score: what a graph computes, before any node.

Steps are joined where nothing comes between them: trees that are added one after another, on
level sets that do not depend on what was added, are one sum. Where scores are rounded, a level
set says what the score is, so the new score itself stands in the leaves and rounding is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.estimator.spec import EstimatorTable
from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.classes.linear.spec import UNIT, LinearTable, Quantiser
from recalibrate.classes.trees.spec import TreeTable
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Encoder, Rounds, Step
from recalibrate.data.bins import Bins
from recalibrate.data.table import Schema
from recalibrate.graph.composing import compose_adding, compose_replacing
from recalibrate.graph.errors import ExportError
from recalibrate.graph.features import FeatureList, feature_of
from recalibrate.graph.groups import term_tree
from recalibrate.graph.trees import (
    Leaf,
    Node,
    by_level,
    relabelled,
    rounding,
    value_range,
)
from recalibrate.graph.treetables import level_trees


@dataclass(frozen=True)
class Draw:
    """From here on, level sets are those of the score as it is now."""


@dataclass(frozen=True)
class AddTrees:
    """The score plus a sum of trees, which is cut at +-limit."""

    trees: tuple[Node, ...]
    limit: float = inf


@dataclass(frozen=True)
class SetTrees:
    """The sum of trees in place of the score."""

    trees: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class UseLinear:
    """A linear function per level set, added to the score (cut at +-limit) or in its place."""

    encoder: Quantiser
    levels: Levels
    coefficient: NDArray[np.float64]
    replaces: bool
    limit: float = inf


@dataclass(frozen=True, eq=False)
class UseEstimators:
    """A foreign regressor per level set; those without one keep their score."""

    names: tuple[str, ...]
    levels: Levels
    table: EstimatorTable
    replaces: bool


Update = Draw | AddTrees | SetTrees | UseLinear | UseEstimators


def plan_updates(rounds: Rounds, schema: Schema, features: FeatureList) -> list[Update]:
    """All steps in order; the features that their trees look at are added to the list."""
    planner = _Planner(schema, features)
    if rounds.start is not None:
        planner.round_to(rounds.start)
    for step in rounds.steps:
        planner.add(step, rounds.encoders[step.encoder])
    return _composed(_joined(planner.updates))


def _joined(updates: list[Update]) -> list[Update]:
    """Sums of trees that follow each other as one, and no drawing that nothing looks at."""
    joined: list[Update] = []
    for update in updates:
        last = joined[-1] if joined else None
        if isinstance(update, Draw) and isinstance(last, Draw):
            continue
        if (
            isinstance(update, AddTrees)
            and isinstance(last, AddTrees)
            and update.limit == last.limit == inf
        ):
            joined[-1] = AddTrees(last.trees + update.trees)
            continue
        joined.append(update)
    return joined


def _composed(updates: list[Update]) -> list[Update]:
    """Single trees that look at the score after one another as one tree, where that is small."""
    found: list[Update] = []
    for update, then in zip(updates, [*updates[1:], Draw()], strict=False):
        # Whatever else looks at the level sets in between needs them to be drawn.
        both = _pair(found, update) if isinstance(then, Draw) else None
        if both is not None:
            del found[-2:]
        found.append(update if both is None else both)
    return found


def _pair(before: list[Update], update: Update) -> Update | None:
    """One update that does what the last one, a drawing of level sets and this one do."""
    if len(before) < 3 or not isinstance(before[-1], Draw) or not isinstance(before[-3], Draw):
        return None
    first = before[-2]
    if isinstance(first, SetTrees) and isinstance(update, SetTrees):
        if len(first.trees) != 1 or len(update.trees) != 1:
            return None
        both = compose_replacing(first.trees[0], update.trees[0])
        return None if both is None else SetTrees((both,))
    if isinstance(first, AddTrees) and isinstance(update, AddTrees):
        if len(first.trees) != 1 or len(update.trees) != 1 or first.limit != inf:
            return None
        both = compose_adding(first.trees[0], update.trees[0])
        return None if both is None or update.limit != inf else AddTrees((both,))
    return None


class _Planner:
    """Follows the list of steps the way `recalibrate.core.rounds.State` does."""

    def __init__(self, schema: Schema, features: FeatureList) -> None:
        self.schema = schema
        self.features = features
        self.updates: list[Update] = []
        self.partition: Levels | None = None
        self.on_grid = False

    def round_to(self, grid: Levels) -> None:
        """Round the score as it is."""
        self.updates += [Draw(), SetTrees((rounding(grid),))]
        self._rounded(grid)

    def _rounded(self, grid: Levels) -> None:
        if grid.values is None or not np.array_equal(
            grid.index(grid.values), np.arange(grid.count)
        ):
            raise ExportError("scores are rounded to a grid whose values are not in their levels")
        self.updates.append(Draw())
        self.partition, self.on_grid = grid, True

    def add(self, step: Step, encoder: Encoder) -> None:
        """One more step."""
        levels = self._draw(step.partition)
        known = levels.values if self.on_grid else None
        if step.replace and known is None:
            raise ExportError("a step replaces scores that are not on a grid")
        place = _Place(step, levels, known)
        table: Any = step.table
        rounded = False
        if isinstance(table, TreeTable) and isinstance(encoder, Bins):
            trees = level_trees(table, encoder, self.schema, self.features)
            rounded = self._one_tree(place, trees)
        elif isinstance(table, GroupTable) and isinstance(encoder, GroupEncoder):
            rounded = self._groups(place, table, encoder)
        elif isinstance(table, LinearTable) and isinstance(encoder, Quantiser):
            self._linear(place, table, encoder)
        elif isinstance(table, EstimatorTable):
            self.updates.append(UseEstimators(encoder.names, levels, table, step.replace))
        else:
            raise ExportError(
                f"learners of type {type(table).__name__} have no translation to ONNX; "
                "Trees, Linear, Groups and Estimator have"
            )
        if step.grid is None:
            self.on_grid = False
        elif rounded:
            self._rounded(step.grid)
        else:
            self.round_to(step.grid)

    def _draw(self, partition: Levels | None) -> Levels:
        """Level sets of a step; those of rounded scores are drawn already."""
        if partition is not None and not self._is_drawn(partition):
            if partition.count > 1:
                self.updates.append(Draw())
            self.partition, self.on_grid = partition, False
        if self.partition is None:
            raise ExportError("the first step of the model draws no level sets")
        return self.partition

    def _is_drawn(self, partition: Levels) -> bool:
        now = self.partition
        if now is partition:
            return True
        return (
            self.on_grid
            and now is not None
            and partition.values is not None
            and np.array_equal(now.thresholds, partition.thresholds)
            and np.array_equal(np.asarray(now.values), partition.values)
        )

    def _one_tree(self, place: _Place, trees: list[Node | None]) -> bool:
        """One tree per level set (None: left alone); True if its leaves are rounded already."""
        if place.known is None:
            zero = Leaf(0.0)
            tree = by_level(place.levels, [zero if t is None else t for t in trees])
            self.updates.append(AddTrees((tree,)))
            return False
        new = [
            Leaf(place.finish(score)) if own is None else relabelled(own, place.new_score(score))
            for score, own in zip(place.known.tolist(), trees, strict=True)
        ]
        self.updates.append(SetTrees((by_level(place.levels, new),)))
        return place.step.grid is not None

    def _groups(self, place: _Place, table: GroupTable, encoder: GroupEncoder) -> bool:
        limit = inf if place.step.replace else table.limit
        present, intercept = table.present, table.coefficient[:, 0]
        if len(table.columns) == 1:
            trees = self._term_trees(table, encoder, 0, intercept)
            cut = [relabelled(tree, lambda value: min(max(value, -limit), limit)) for tree in trees]
            return self._one_tree(
                place, [tree if here else None for tree, here in zip(cut, present, strict=True)]
            )
        alone = np.zeros(len(present)) if place.known is None else place.known
        intercept = np.where(present, intercept, alone if place.step.replace else 0.0)
        table = replace(table, coefficient=np.where(present[:, None], table.coefficient, 0.0))
        more = [intercept, *[np.zeros(len(present))] * (len(table.columns) - 1)]
        sums = tuple(
            by_level(place.levels, self._term_trees(table, encoder, t, more[t]))
            for t in range(len(table.columns))
        )
        if place.step.replace:
            self.updates.append(SetTrees(sums))
            return False
        ranges = [value_range(tree) for tree in sums]
        inside = -limit <= sum(low for low, _ in ranges) and sum(h for _, h in ranges) <= limit
        self.updates.append(AddTrees(sums, inf if inside else limit))
        return False

    def _term_trees(
        self, table: GroupTable, encoder: GroupEncoder, t: int, more: NDArray[np.float64]
    ) -> list[Node]:
        """Trees of one term, one per level set, with a number added to all of its values."""
        groups = encoder.groups
        term = groups.terms[int(table.columns[t])]
        own = slice(int(table.offsets[t]) + 1, int(table.offsets[t + 1]) + 1)
        return [
            term_tree(term, groups.schema, row[own] + extra, float(extra), self.features)
            for row, extra in zip(table.coefficient, more, strict=True)
        ]

    def _linear(self, place: _Place, table: LinearTable, encoder: Quantiser) -> None:
        coefficient = np.where(table.present[:, None], table.coefficient, 0.0)
        if place.step.replace and place.known is not None:
            # The constant term counts in units of a power of two: exact.
            alone = place.known / UNIT
            coefficient[:, 0] = np.where(table.present, coefficient[:, 0], alone)
        for term in encoder.terms[1:]:
            self.features.number(feature_of(term.name, self.schema))
        limit = inf if place.step.replace else table.limit
        self.updates.append(
            UseLinear(encoder, place.levels, coefficient, place.step.replace, limit)
        )


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a step stands: its level sets, and their scores if these are rounded."""

    step: Step
    levels: Levels
    known: NDArray[np.float64] | None

    def finish(self, score: float) -> float:
        """A new score, rounded if the step does so."""
        grid = self.step.grid
        return score if grid is None else float(grid.round(np.array([score]))[0])

    def new_score(self, score: float) -> Callable[[float], float]:
        """From a learner's value to the new score of a row that had ``score``."""
        if self.step.replace:
            return self.finish
        return lambda value: self.finish(score + value)
