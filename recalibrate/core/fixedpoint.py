r"""Fixed point: how labels, weights, gradients and hessians become integers.

Sums of integers do not depend on the order of their terms, which is what makes a fitted model
identical for any number of threads, blocks or workers. One :class:`Scale` is made before the
first round, from the number of rows and the largest weight; it never changes afterwards, and
its bits are chosen so that no sum over the rows can leave the int64 range.

Per row three numbers are summed: a count (1), a weight-like number ``s = w * h`` (``h`` the
hessian, 1 for squared error) and a gradient-like number ``g = w * r`` (``r`` the residual, or
the label itself where a round replaces the prediction). Where the bits allow it they share
words, because a histogram update costs as much as it writes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INT64_BITS = 62
"""Bits for the magnitude of any sum; one bit for the sign and one in reserve."""

RESPONSE_LIMIT_BITS = 2
"""Residuals are cut at +-2**2 label ranges; labels and probabilities never get there."""

VALUE_STEP = 2.0**-40
"""Leaf values and coefficients are multiples of this, so that their float64 sums are exact."""

LEAST_WEIGHT_BITS = 7
"""Coarser weights than this are not accepted for the sake of many held-out rows."""

LEAST_RESPONSE_BITS = 20
"""Coarser responses than 2**-20 are not accepted for the sake of packing."""


def snap(values: NDArray[np.float64], step: float = VALUE_STEP) -> NDArray[np.float64]:
    """Nearest multiples of ``step``, a power of two (ties to even, as in ONNX ``Round``)."""
    return np.asarray(np.rint(values / step) * step, dtype=np.float64)


class Scale(NamedTuple):
    """Bits of the row statistics and how they share int64 words; kernels take it as it is.

    Attributes
    ----------
    row_bits
        Bits of the number of rows.
    weight_bits
        Bits of the largest quantised weight; 0 when every row weighs one.
    weight_factor
        ``w_q = rint(w * weight_factor)``, a power of two.
    hessian_bits
        ``h_q = rint(h * 2**hessian_bits)``; 0 for squared error (``h_q = 1``).
    response_bits
        ``r_q = rint(r * 2**response_bits)``.
    loss_bits
        Losses per row are summed in steps of ``2**-loss_bits``.
    words
        1: ``count << shift | g``; 2: ``[count << shift | s, g]``, or ``[count, g]`` when
        ``s`` is the count (``shift == 0``); 3: ``[count, s, g]``.
    shift
        Bits below the count in a shared word.
    """

    row_bits: int
    weight_bits: int
    weight_factor: float
    hessian_bits: int
    response_bits: int
    loss_bits: int
    words: int
    shift: int

    @property
    def weighted(self) -> bool:
        """Whether rows differ in weight; otherwise ``w_q = 1``."""
        return self.weight_bits > 0

    @property
    def plain(self) -> bool:
        """Whether ``s`` is the row count (squared error without weights)."""
        return not self.weighted and self.hessian_bits == 0

    @property
    def weight_step(self) -> float:
        """Real value of one unit of ``s``."""
        return float(2.0**-self.hessian_bits / self.weight_factor)

    @property
    def response_step(self) -> float:
        """Real value of one unit of ``g``."""
        return float(2.0**-self.response_bits / self.weight_factor)

    @property
    def loss_step(self) -> float:
        """Real value of one unit of a summed loss."""
        return float(2.0**-self.loss_bits / self.weight_factor)

    def quantise_weight(self, weight: NDArray[np.float64] | None) -> NDArray[np.int64]:
        """Integer weights; empty when every row weighs one."""
        if weight is None or not self.weighted:
            return np.empty(0, dtype=np.int64)
        return np.rint(weight * self.weight_factor).astype(np.int64)

    def held_out(self, n_rows: int, largest: float) -> Scale:
        """The scale that quantises weights of so many rows that only validate.

        Of these rows only means are taken, ratios in which the unit of the weights cancels. So a
        power of two brings the largest weight to the bits that the fitted rows' weights have,
        less the bits by which there are more rows than fitted ones.
        """
        if not self.weighted:
            return self
        more = max(0, n_rows.bit_length() - self.row_bits)
        bits = max(LEAST_WEIGHT_BITS, self.weight_bits - more)
        _, exponent = np.frexp(largest)
        return self._replace(weight_factor=float(2.0 ** (bits - int(exponent))))

    def unpack(
        self, words: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Counts, ``s`` and ``g`` of summed words (last axis: the words)."""
        if self.words == 3:
            return words[..., 0], words[..., 1], words[..., 2]
        if self.words == 2 and self.plain:
            return words[..., 0], words[..., 0], words[..., 1]
        if self.words == 2:
            count = words[..., 0] >> self.shift
            return count, words[..., 0] - (count << self.shift), words[..., 1]
        # The response may be negative: adding half a count's unit makes the shift round right.
        count = (words[..., 0] + (1 << (self.shift - 1))) >> self.shift
        return count, count, words[..., 0] - (count << self.shift)


def label_bits(labels: NDArray[np.float64]) -> int | None:
    """Bits after the point that hold every label exactly, if few are enough (0/1 labels: 0)."""
    for bits in (0, 1, 2, 4, 8):
        # The first rows settle it for most labels.
        for some in (labels[:1000], labels):
            scaled = some * 2.0**bits
            if not np.array_equal(scaled, np.floor(scaled)):
                break
        else:
            return bits
    return None


def make_scale(
    n_rows: int,
    weight: NDArray[np.float64] | None,
    *,
    newton: bool,
    exact_bits: int | None = None,
) -> Scale:
    """Choose the bits for ``n_rows`` rows.

    Parameters
    ----------
    n_rows
        All rows that will ever be summed together, over all blocks.
    weight
        Weights of these rows, or None when each weighs one. Only the largest matters.
    newton
        Whether hessians are summed (logit link).
    exact_bits
        Bits that hold every response exactly, when known (see :func:`label_bits`).
    """
    row_bits = int(n_rows).bit_length()
    weighted = weight is not None and not bool(np.all(weight == 1.0))
    weight_bits = min(20, (INT64_BITS - row_bits) // 2 - 8) if weighted else 0
    factor = 1.0
    if weighted and weight is not None:
        _, exponent = np.frexp(float(weight.max()))
        # Weights below 2**-1000 of nothing: the factor itself has to be a number.
        factor = float(2.0 ** min(weight_bits - int(exponent), 1023))
    room = INT64_BITS - row_bits - weight_bits - RESPONSE_LIMIT_BITS
    response_bits = min(30, room)
    hessian_bits = min(24, room) if newton else 0
    words, shift = 3, 0
    if not weighted and not newton:
        packed = INT64_BITS - 2 * row_bits - RESPONSE_LIMIT_BITS - 1
        wanted = LEAST_RESPONSE_BITS if exact_bits is None else exact_bits
        if packed >= wanted:
            response_bits = min(30, packed)
            words, shift = 1, row_bits + response_bits + RESPONSE_LIMIT_BITS + 1
        else:
            words = 2
    else:
        packed = INT64_BITS - 2 * row_bits - weight_bits
        if packed >= (12 if newton else 0):
            hessian_bits = min(hessian_bits, packed)
            words, shift = 2, row_bits + weight_bits + hessian_bits
    loss_bits = min(40, INT64_BITS - row_bits - weight_bits - 6)
    return Scale(
        row_bits, weight_bits, factor, hessian_bits, response_bits, loss_bits, words, shift
    )
