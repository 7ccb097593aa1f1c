"""Leaves of trees deeper than a search over all rules can go, as rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.search.axes import Rule
from recalibrate.auditing.search.scan import LEAST_EVENTS, LEAST_SCORE, Found, Half, price_of
from recalibrate.classes.trees.paths import Paths
from recalibrate.classes.trees.spec import TreeLearner, Trees, TreeTable
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.learning import Penalty, Task
from recalibrate.core.levels import Levels
from recalibrate.core.part import Draft, Rows
from recalibrate.core.rounds import Rounds
from recalibrate.data.bins import Bins
from recalibrate.rows.memory import rows_in_memory

Floats = NDArray[np.float64]


def find_leaves(
    H: Trees, bins: Bins, half: Half, y: Floats, scores: Floats, levels: Levels
) -> list[Found]:
    """Leaves of one tree per level set, and of one for all, fitted to the residuals.

    ``levels`` are the level sets of ``scores``, which like ``y`` are scaled to [0, 1].
    """
    codes = np.column_stack([axis.codes for axis in half.axes])
    weight = None if (half.weight == half.weight[0]).all() else half.weight
    scale = make_scale(len(y), weight, newton=False)
    rows = Rows((codes,), y, scores, scale.quantise_weight(weight))
    learner = TreeLearner(replace(H, min_leaf_rows=max(H.min_leaf_rows, half.min_rows)), bins)
    start = Rounds("identity", None, (bins,))
    found: list[Found] = []
    with rows_in_memory(rows, scale) as source:
        for partition in (Levels.single(), levels):
            task = Task(source, Draft(start, partition), partition.count, 1.0, Penalty())
            table = learner.learn(task).table
            if isinstance(table, TreeTable):
                level = partition.index(scores)
                found += _leaves(table, bins, half, codes, level, pooled=partition.count == 1)
    return found


def _leaves(
    table: TreeTable,
    bins: Bins,
    half: Half,
    codes: NDArray[np.unsignedinteger],
    level: NDArray[np.int32],
    *,
    pooled: bool,
) -> list[Found]:
    leaf = table.leaves(codes, level)
    count = len(table.child)
    gap = np.bincount(leaf, weights=half.gaps, minlength=count)
    noise = np.bincount(leaf, weights=half.noise, minlength=count)
    eventful = np.maximum(noise, np.abs(gap)) >= LEAST_EVENTS
    usable = (table.child < 0) & (noise > 0) & eventful
    score = np.where(usable, np.abs(gap) / np.sqrt(np.where(usable, noise, 1.0)), 0.0)
    paths = Paths(table, bins)
    sides = [len(axis.sides) for axis in half.axes]
    found = []
    for node in np.flatnonzero(score >= LEAST_SCORE):
        parts = paths.codes(int(node))
        root = paths.nodes(int(node))[0]
        own = -1 if pooled else int(np.flatnonzero(table.roots == root)[0])
        price = price_of([sides[axis] for axis in parts], 1 if pooled else half.levels)
        rule = Rule(tuple(parts.items()), own)
        found.append(Found(rule, float(gap[node]), float(noise[node]), price))
    return found
