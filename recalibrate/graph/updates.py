"""Rounds as a short list of updates of the score: what a graph computes, before any node.

Steps are joined where nothing comes between them: trees that are added one after another, on
level sets that do not depend on what was added, are one sum. Where scores are rounded, a level
set says what the score is, so the new score itself stands in the leaves and rounding is done.
"""

from __future__ import annotations

from math import inf

import numpy as np

from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Encoder, Rounds, Step
from recalibrate.data.table import Schema
from recalibrate.graph.composing import compose_adding, compose_replacing
from recalibrate.graph.errors import ExportError
from recalibrate.graph.features import FeatureList
from recalibrate.graph.forms import AddTrees, Draw, Place, SetTrees, Turn, Update, form_of
from recalibrate.graph.trees import rounding


def plan_updates(rounds: Rounds, schema: Schema, features: FeatureList) -> list[Update]:
    """All steps in order; the features that their trees look at are added to the list."""
    planner = _Planner(schema, features)
    if rounds.start is not None:
        planner.round_to(rounds.start)
    for step in rounds.by_class:
        planner.add(step, rounds.encoders[step.encoder])
    joined = _joined(planner.updates)
    # Log-odds of a class are rounded anew at every step, which one tree for two would not do.
    return _composed(joined) if rounds.outputs == 1 else joined


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
        self.output = 0

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
        if step.output != self.output:
            self.updates.append(Turn(step.output))
            self.output, self.partition = step.output, None
        levels = self._draw(step.partition)
        known = levels.values if self.on_grid else None
        if step.replace and known is None:
            raise ExportError("a step replaces scores that are not on a grid")
        place = Place(step, levels, known, self.schema, self.features)
        update = form_of(step.table.kind).update(step.table, encoder, place)
        self.updates.append(update)
        if step.grid is None:
            self.on_grid = False
        elif update.rounded:
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
