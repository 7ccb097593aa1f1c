"""Settings of the default fit, each with the reason why it is what it is.

"Cross-validated" stands for comparisons on halves of calibration rows (``benchmarks/halves.py``)
and on public tables that are not among those whose results the docs report.
"""

from __future__ import annotations

import numpy as np

from recalibrate.bases.problem import Problem
from recalibrate.classes.trees import DEFAULT_TREES, Trees
from recalibrate.core.boost import Settings
from recalibrate.core.learning import FunctionClass, Penalty
from recalibrate.data.bins import MOST_BINS
from recalibrate.support.hashing import total

DEFAULT_CLASS = DEFAULT_TREES
CERTAIN_CLASS = Trees(depth=1, one_vs_rest=MOST_BINS, min_leaf_rows=20, bare_roots=False)
"""One threshold or one category at a time: the groups that everybody would look at first."""
CERTAIN_GAIN = 16.0
"""A gap of four standard errors is no accident even among all of a table's groups."""
SCORE, LARGE_GAPS, COLUMN_SHIFTS, MAIN = range(4)
"""Numbers of the stages."""
SCORE_ENCODER, MAIN_ENCODER, CERTAIN_ENCODER = range(3)
"""Numbers of their encoders; the last is for fits without H of many rows. That of shifted columns
comes after those that there are."""
MOST_CERTAIN = 3
"""A base with more certain gaps than this is off everywhere, which boosting repairs better."""
STAGE_NAMES = ("score", "large group errors", "column shifts", "boosting")
"""As the summary calls them; the first has a name of its own (``score.Found``)."""
LEAST_ROWS, BOOSTED_ROWS, FEW_ROWS = 20, 200, 1000
"""With fewer rows than the first no standard error is worth the name: the score's function, which
has a likelihood, is all that is fitted. With fewer than the second nothing is boosted: held-out
rows are too few to tell what trees find from luck (draws of 100 rows of 22 pairs: no gain on
average, and on bases that are right half of all harm). With fewer than the last standard errors are
uncertain; where nothing has changed the base yet, so many `judging.effective_rows` are needed."""
PART_ERRORS, FEW_PART_ERRORS = 2.5, 3.5
"""Standard errors that a part of boosting has to be from zero, and with fewer than 1,000 rows.

More than two, because the same rows chose the number of steps.
"""
CHANCE_ERRORS = 2.0
"""So many standard errors are what chance makes of boosting that is worth nothing, at a number of
steps that was chosen on the same rows (cross-validated: on 1,000 rows a share that is shrunken by
them harms none of 24 draws by .5 %, one that is not three)."""
MOST_WEIGHT = 1.0
"""Most weight of what boosting added, apart from the line's.

The rows that chose to boost would, by the same accident, call for more of it.
"""
REFIT_RUNS = 2
"""Refits of trees that draw rows: their mean has the lower loss (cross-validated), and they are
done at the same time. Other classes draw nothing, and all runs would be the same."""
MANY_ROWS = 100_000
"""From here on trees see all rows, and there is one refit.

What a tree finds in so many rows is hardly an accident. On the simulated census with 100,000 and
300,000 rows, its codes as numbers and as categories, the expected loss is between 0.06 % below and
0.01 % above that of two refits with drawn rows; the model has less than half the trees, and the fit
takes a third to a half less time. With 3,000 to 30,000 rows of public tables one refit costs 0.1 to
0.3 %.
"""
UNDRAWN_PRIOR = 4.0
"""Times the prior of the leaves where trees see all rows: drawn rows need a weaker one (simulated
census: half as strong 0.01 to 0.08 % above the loss, twice as strong 0.00 to 0.10 %)."""
ROW_SHARE = 0.9
"""Share of the rows that each tree is grown on.

Trees that see other rows err in other ways, and their mean by less (cross-validated: .8 to .9 do
the same, but small groups that are far off want most of their rows; the same rows for all trees of
a run do not help).
"""
STEP_DOUBLES = 300
"""Trees after which the step has doubled.

What is left to find after hundreds of small steps is found by larger ones as well: tables that
want many trees take up to a third less of them (cross-validated: the same loss within .05 %).
"""
MANY_STEP_DOUBLES = 150
"""The same for `MANY_ROWS`; for more it falls with their cube root.

More rows support more boosting, not smaller steps. On seven simulated tables of 100,000 to a
million rows that nothing was chosen on, the expected loss is between 0.03 % below and 0.08 % above
that of five folds, two refits and small steps, 0.02 % above on average; without the fall it is the
same on average, and a million rows take a third more time.
"""
MORE_STEPS = 1.25
"""The refit has a quarter more rows than a fold and carries a quarter more steps.

Half more lowers the loss a little further (cross-validated: .1 %), but the last steps follow the
noise of small groups. Trees that see all of many rows carry no more: the loss is the same within
0.01 % (simulated census), and half more raise it by 0.1 %.
"""


def certain_settings(problem: Problem) -> Settings:
    """Full steps for as long as there is a gap that no accident explains.

    On the log-odds Newton's first step overshoots a gap of .1 by about a tenth.
    """
    y, f, family = problem.labels.values, problem.base, problem.family
    noise = 1.0 if family.known_noise else float(np.mean((y - f) ** 2))
    if family.positive:
        noise = family.noise(y, f, problem.labels.weight)
    return Settings(
        link=problem.link,
        levels=1,
        step=0.9 if family.known_noise else 1.0,
        penalty=Penalty(min_gain=CERTAIN_GAIN * noise),
        max_rounds=MOST_CERTAIN + 1,
    )


def main_settings(problem: Problem, H: FunctionClass, seed: int) -> Settings:
    """Small penalised steps, as the class says.

    Of several classes trees draw rows however many there are: most have small residuals, and are
    left out more often.
    """
    pace = H.pace(problem.link)
    draws, l2, doubles = pace.draws, pace.l2 * _prior_unit(problem), STEP_DOUBLES
    if draws and problem.n_rows >= MANY_ROWS and problem.labels.outputs == 1:
        draws, l2, doubles = False, UNDRAWN_PRIOR * l2, _many_step_doubles(problem.n_rows)
    return Settings(
        link=problem.link,
        levels=pace.levels_for(problem.n_rows)[0],
        step=pace.step,
        penalty=Penalty(l2=l2),
        patience=pace.patience,
        max_rounds=2000,
        row_share=ROW_SHARE if draws else 1.0,
        step_doubles=doubles if pace.draws else None,
        seed=seed,
    )


def refit_steps(steps: int, settings: Settings) -> int:
    """Steps of the refit, where so many are best for folds; see `MORE_STEPS`."""
    see_all = settings.step_doubles is not None and settings.row_share == 1
    return steps if see_all else round(steps * MORE_STEPS)


def _many_step_doubles(n_rows: int) -> int:
    """Trees after which the step has doubled, see `MANY_STEP_DOUBLES`.

    Examples
    --------
    >>> [_many_step_doubles(n_rows) for n_rows in (100_000, 300_000, 1_000_000)]
    [150, 104, 70]
    """
    return round(MANY_STEP_DOUBLES * float((MANY_ROWS / n_rows) ** (1 / 3)))


def _prior_unit(problem: Problem) -> float:
    """What the penalty of a class is multiplied by.

    On the log-odds it is a prior of shifts of an ordinary size. On logarithms that holds too, in
    units of their noise; but means that a row or two would settle still take a few rows.
    """
    family, weight = problem.family, problem.labels.weight
    if not family.positive:
        return 1.0
    y, f = problem.labels.values, problem.base
    curvature = family.slopes(y, f)[1] * (1.0 if weight is None else weight)
    return max(family.noise(y, f, weight), 4.0 * total(curvature) / len(y))
