"""Cells: one group term at a time, chosen by a test, on every level set.

The last stage of a default fit. Where a booster has stopped gaining, what is left are small gaps
inside cells (group x level). Each step tests every candidate term for more variation of its
cells' summed residuals G than noise explains: the sum of G^2 / V over its m cells (V the variance
of G for a calibrated model) is chi-square with m degrees of freedom, and Wilson and Hilferty's
cube root makes it a normal z. The term that exceeds its threshold most has its cells moved by a
shrunken share of their gaps. When no term exceeds its own nothing is learned, which ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.base import Lesson, Task
from recalibrate.classes.groups import GroupEncoder, GroupTable
from recalibrate.engines.memory import total
from recalibrate.engines.part import Answer, Draft, Part
from recalibrate.fixedpoint import snap
from recalibrate.kernels.histogram import count_one_word, count_words

LEAST_CELL_ROWS = 25
"""Smaller cells have no usable normal approximation; they are neither tested nor moved."""


@dataclass(frozen=True, eq=False)
class CellSums:
    """Question: words summed by level set, term and group; and squared responses by level."""

    draft: Draft
    encoder: int
    levels: int
    offsets: NDArray[np.uint64]

    def ask(self, part: Part) -> Answer:
        codes = part.blocks[self.encoder]
        words = part.words(self.draft)
        level = part.levels(self.draft)
        size = int(self.offsets[-1])
        out = np.zeros(self.levels * size * words.shape[1], dtype=np.int64)
        count = count_one_word if words.shape[1] == 1 else count_words
        features = np.arange(codes.shape[1], dtype=np.uint64)
        slot = np.arange(self.levels, dtype=np.int32)
        count(codes, features, self.offsets, words, level, slot, size, out)
        f = part.scores(self.draft.log)
        squares = part.losses(f, False, level, self.levels)
        return out, squares


@dataclass(frozen=True, eq=False)
class CellLearner:
    """Candidate terms on the groups of an encoder.

    Attributes
    ----------
    encoder
        All candidate terms, one column each.
    thresholds
        Smallest z of every term that counts as more than noise.
    weight_spread
        Sum of squared weights over sum of weights: the variance that weights add.
    """

    encoder: GroupEncoder
    thresholds: NDArray[np.float64]
    weight_spread: float = 1.0
    index: int = field(default=0)

    @property
    def inexact(self) -> str:
        return "one term at a time, chosen by a test"

    def statistics(
        self, task: Task
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """z of every term, and per level set and group: rows, weight-like and response sums."""
        scale = task.source.scale
        sizes = np.diff(self.encoder.offsets) + 1
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        question = CellSums(task.draft, self.index, task.levels, offsets.astype(np.uint64))
        words, squares = total(task.source, question)
        shape = (task.levels, int(offsets[-1]), scale.words)
        rows, mass, response = scale.unpack(words.reshape(shape))
        s = mass * scale.weight_step
        g = response * scale.response_step
        usable = rows >= LEAST_CELL_ROWS
        usable[:, offsets[:-1]] = False  # code 0: in none of the term's groups
        variance = s * self._noise(task, squares, s[:, offsets[0] : offsets[1]].sum(axis=1))
        variance = variance * self.weight_spread
        usable &= variance > 0
        z2 = np.where(usable, g**2 / np.where(usable, variance, 1.0), 0.0)
        cells = np.add.reduceat(usable.sum(axis=0), offsets[:-1])
        sums = np.add.reduceat(z2.sum(axis=0), offsets[:-1])
        return _normal_score(sums, cells), np.where(usable, rows, 0), s, g

    @staticmethod
    def _noise(
        task: Task, squares: NDArray[np.int64], mass: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Residual variance per unit of s: 1 under the logit link (s is p (1 - p)), else by level."""
        if task.draft.log.link == "logit":
            return np.ones((task.levels, 1))
        scale = task.source.scale
        mean = squares * scale.loss_step / np.where(mass > 0, mass, 1.0)
        return np.asarray(mean[:, None])

    def learn(self, task: Task) -> Lesson:
        z, rows, s, g = self.statistics(task)
        best = int(np.argmax(z - self.thresholds))
        offsets = self.encoder.offsets
        size = int(offsets[best + 1] - offsets[best])
        begin = int(offsets[best]) + best
        cells = slice(begin + 1, begin + 1 + size)
        coefficient = np.zeros((task.levels, size + 1))
        present = np.zeros(task.levels, np.bool_)
        if z[best] > self.thresholds[best]:
            moved = rows[:, cells] > 0
            shrunk = g[:, cells] / (s[:, cells] + task.penalty.l2)
            coefficient[:, 1:] = snap(np.where(moved, task.step * shrunk, 0.0))
            present = moved.any(axis=1)
        table = GroupTable(
            present, coefficient, np.array([best]), np.array([0, size], dtype=np.int64)
        )
        return Lesson(table)


def _normal_score(sums: NDArray[np.float64], cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Wilson-Hilferty: chi-square sums with ``cells`` degrees of freedom to normal scores."""
    m = np.maximum(cells, 1)
    spread = 2.0 / (9.0 * m)
    z = (np.cbrt(sums / m) - (1.0 - spread)) / np.sqrt(spread)
    return np.where(cells > 0, z, -np.inf)
