"""A row's count, s and g in one to three int64 words, laid out as ``fixedpoint.Scale`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper

if TYPE_CHECKING:
    from recalibrate.core.fixedpoint import Scale


@helper
def write_words(i: Any, s: Any, g: Any, scale: Scale, words: NDArray[np.int64]) -> None:
    """Store what row ``i`` adds to sums; where s is the count it is not stored again."""
    if scale.words == 1:
        words[i, 0] = (1 << scale.shift) + g
    elif scale.words == 2:
        words[i, 0] = 1 if scale.shift == 0 else (1 << scale.shift) + s
        words[i, 1] = g
    else:
        words[i, 0] = 1
        words[i, 1] = s
        words[i, 2] = g


@helper
def read_words(words: NDArray[np.int64], at: int, scale: Scale) -> tuple[int, int, int]:
    """Count, s and g of one row, or of one cell of a histogram, in a flat array of words."""
    if scale.words == 1:
        word = words[at]
        count = (word + (1 << (scale.shift - 1))) >> scale.shift
        return count, count, word - (count << scale.shift)
    if scale.words == 2:
        word = words[2 * at]
        if scale.shift == 0:
            return word, word, words[2 * at + 1]
        count = word >> scale.shift
        return count, word - (count << scale.shift), words[2 * at + 1]
    return words[3 * at], words[3 * at + 1], words[3 * at + 2]
