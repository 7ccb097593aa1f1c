"""Sets of codes of one axis that no single split can tell: intervals, and several categories.

Which set of codes is off by the most standard errors is known from the sums of the codes alone.
Of categories it is one of the first k in the order of gap per noise [1]_, of numbers an interval;
all of those are looked at.

References
----------
.. [1] D. B. Neill, "Fast subset scan for spatial pattern detection", JRSS B 2012.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_CATEGORIES = 6
"""Of a set: a longer list is no name that anybody could use."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def best_set(sums: Floats, sign: float, *, ordered: bool, least: tuple[int, float]) -> Bools | None:
    """The set of codes with the largest score of a sign; None if none is large enough.

    Parameters
    ----------
    sums : ndarray of shape (3, codes)
        Rows, gap and noise of every code; code 0 (missing) is never in the set.
    sign : float
        +1 or -1.
    ordered : bool
        Whether sets are intervals of the codes.
    least : (int, float)
        Fewest rows, and least noise or gap.

    Examples
    --------
    >>> sums = np.array([[0, 50, 50, 50, 50], [0, 1, 9, 8, -5], [0, 4, 4, 4, 4.0]])
    >>> best_set(sums, 1.0, ordered=True, least=(1, 1.0)).astype(int)
    array([0, 0, 1, 1, 0])
    """
    used = np.flatnonzero(sums[0, 1:] > 0) + 1
    if len(used) < 2:
        return None
    if not ordered:
        rate = sign * sums[1, used] / np.where(sums[2, used] > 0, sums[2, used], np.inf)
        used = used[np.argsort(-rate, kind="stable")]
    total = np.concatenate([np.zeros((3, 1)), np.cumsum(sums[:, used], axis=1)], axis=1)
    starts = np.arange(len(used)) if ordered else np.zeros(1, dtype=np.intp)
    stops = np.arange(1, len(used) + 1 if ordered else min(len(used), MOST_CATEGORIES) + 1)
    count, gap, noise = total[:, None, stops] - total[:, starts, None]
    wide = (stops[None] > starts[:, None]) & (stops[None] - starts[:, None] < len(used))
    eventful = np.maximum(noise, np.abs(gap)) >= least[1]
    usable = wide & (count >= least[0]) & (noise > 0) & eventful
    score = np.where(usable, sign * gap / np.sqrt(np.where(usable, noise, 1.0)), -np.inf)
    start, stop = np.unravel_index(int(score.argmax()), score.shape)
    if score[start, stop] <= 0:
        return None
    chosen = np.zeros(sums.shape[1], dtype=np.bool_)
    if ordered:
        chosen[used[start] : used[stop] + 1] = True  # with the codes between that do not occur
    else:
        chosen[used[: stop + 1]] = True
    return chosen
