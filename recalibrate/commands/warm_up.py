"""recalibrate warm-up: compile now what a first fit, prediction or audit would compile.

The loops over rows are compiled when they are first used and kept on disk: in the folder
NUMBA_CACHE_DIR, beside the package, or in the user's cache. This command fills that folder, by
small fits, predictions and audits of simulated rows, so that no process of a container image or of
a CI job has to.

  recalibrate warm-up --quiet
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

import numpy as np

from recalibrate.commands.console import Console

SUMMARY = "compile everything now, for container images and CI"
ROWS = 3000
FEW_ROWS = 500


def add_arguments(parser: ArgumentParser) -> None:
    """It has no options of its own."""


def run(args: Namespace, console: Console) -> int:
    """Compile, and say where to."""
    started = time.monotonic()
    console.step("compiling")
    count, folder = warm_up()
    if folder is None:
        raise OSError("there is no folder to keep compiled code in: set NUMBA_CACHE_DIR")
    seconds = time.monotonic() - started
    console.say(f"{count} functions are ready in {folder} (it took {seconds:.0f} seconds).")
    return 0


def warm_up() -> tuple[int, str | None]:
    """Compile what fits, predictions and audits of the usual kinds use.

    Returns
    -------
    tuple of int and str or None
        How many functions are compiled, and the folder where they are kept, if there is one.

    Examples
    --------
    >>> from recalibrate.commands.warm_up import warm_up
    >>> count, folder = warm_up()
    >>> count > 20
    True
    """
    from recalibrate import Groups, Linear, audit, fit
    from recalibrate.kernels.compiler import compiled_so_far
    from recalibrate.simulate import census

    groups = Groups("SEX*RAC1P", "AGEP < 25")
    for task in ("binary", "income"):
        data = census(ROWS, gap=0.1, task=task, categorical=True)
        for H in (None, groups, Linear(features=["AGEP"])):
            for count in (FEW_ROWS, ROWS):  # few rows go through other loops than many
                rows = data.X[:count], data.y[:count]
                model = fit(data.scores[:count], *rows, H=H, progress=False)
                model.predict(rows[0], base=data.scores[:count])
        for shown in (groups, None):
            audit(model, data.X, data.y, groups=shown, base=data.scores)
    thirds = np.digitize(data.y, [1 / 3, 2 / 3])
    model = fit(np.full((ROWS, 3), 1 / 3), data.X, thirds, classes=[0, 1, 2], progress=False)
    model.predict(data.X, base=np.full((ROWS, 3), 1 / 3))
    return compiled_so_far()
