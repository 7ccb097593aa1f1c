"""What ``fit`` does when nobody turns its knobs.

A function of the base score alone comes first (``score``), judged by its evidence. Then

- without H: what can be found in all columns (``boosting``);
- with named groups: shifts of all groups at once, on everyone and on level sets (``named_groups``);
- with any other H: steps of H on level sets, as many as held-out rows support (``boosting``).

With H given no stage looks at a column that H does not name: every correction is a function in H on
level sets of the score, or a function of the score alone.

A stage of few numbers is judged by its likelihood, a flexible one by held-out rows; what points
the right way but does not pay in full is taken in part. Folds decide, then everything is refitted
on all rows. Deciding needs no more than a sample of them (``sample``), and refitting does not care
where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan

from recalibrate.core.boost import Boosted, History, Settings
from recalibrate.core.learning import FunctionClass
from recalibrate.core.rounds import Rounds
from recalibrate.explain.notes import NO_CORRECTION
from recalibrate.fitting.default.boosting import BoostedStages
from recalibrate.fitting.default.named_groups import GroupStages
from recalibrate.fitting.default.sample import Sample
from recalibrate.fitting.default.settings import DEFAULT_CLASS
from recalibrate.rows.store import Fold


def follow_recipe(
    sample: Sample,
    H: FunctionClass,
    folds: Sequence[Fold],
    *,
    threads: int,
    seed: int,
    progress: bool | None = False,
) -> tuple[Boosted, Settings, tuple[str, ...]]:
    """All stages on all rows, settings of the main one, and in words what was decided.

    ``folds`` number the rows of the sample; H is `DEFAULT_CLASS` where the user named none.
    """
    stages: GroupStages | BoostedStages
    if H.terms:
        stages = GroupStages(sample, H, folds, threads)
    else:
        stages = BoostedStages(sample, H, folds, threads, seed, free=H is DEFAULT_CLASS)
    log, history, notes = stages.follow(progress)
    if not log.steps:
        notes = (*notes, NO_CORRECTION)
    return finish(log, history), stages.settings, notes


def finish(log: Rounds, history: History) -> Boosted:
    """A model without the encoders that no step looks at.

    Its history is that of boosting, one stage of several: where that ended is not the model's loss.
    """
    return Boosted(log.pruned(), replace(history, final=nan), None, replace(log))
