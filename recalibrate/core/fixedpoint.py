r"""Fixed point: how labels, weights, gradients and hessians become integers.

Sums of integers do not depend on the order of their terms, which is what makes a fitted model
identical for any number of threads, blocks or workers. One :class:`Scale` is made before the
first round, from the number of rows and their weights; it never changes afterwards, and its bits
are chosen so that no sum over the rows can leave the int64 range.

Per row three numbers are summed: a count (1), a weight-like number ``s = w * h`` (``h`` the
hessian, 1 for squared error) and a gradient-like number ``g = w * r`` (``r`` the residual, or
the label itself where a round replaces the prediction). Where the bits allow it they share
words, because a histogram update costs as much as it writes.

Weights are shares of all rows' weight in steps of about 2**-60, and products with them are
rounded once, as a whole: rows a billion times lighter than others keep their residuals. Where
even that is too coarse for the lightest row, the weights are refused.
"""

from __future__ import annotations

from math import frexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INT64_BITS = 62
"""Bits for the magnitude of any sum; one bit for the sign and one in reserve."""

RESPONSE_LIMIT_BITS = 2
"""Residuals are cut at +-2**2 label ranges; labels and probabilities never get there."""

LOSS_LIMIT_BITS = 6
"""Losses are cut at 2**5, see ``core.part``; one bit in reserve."""

VALUE_STEP = 2.0**-40
"""Leaf values and coefficients are multiples of this, so that their float64 sums are exact."""

MASS_BITS = 60
"""Bits of all quantised weights together."""

COLUMN_BITS = 36
"""Bits of all weights together in statistics of columns, which are multiplied by more."""

LEAST_WEIGHT_BITS = 7
"""Coarser weights than this are not accepted, be it for the sake of heavier ones."""

LEAST_HESSIAN_BITS = 12
"""Coarser hessians than this, of a row that weighs one, are not accepted for sharing a word."""

MOST_BITS = 40
"""Finer responses, hessians and losses than 2**-40 tell nothing that values could."""

LEAST_RESPONSE_BITS = 20
"""Coarser responses than 2**-20 are not accepted for the sake of packing."""


def snap(values: NDArray[np.float64], step: float = VALUE_STEP) -> NDArray[np.float64]:
    """Nearest multiples of ``step``, a power of two (ties to even, as in ONNX ``Round``)."""
    return np.asarray(np.rint(values / step) * step, dtype=np.float64)


class Weights(NamedTuple):
    """Weights of rows, as far as a scale has to know them: the same for any order and cut.

    Attributes
    ----------
    smallest, largest
        The extremes of those above zero.
    octaves, squares
        Sum of the next larger powers of two, in units of 2**-1074, and of their squares: at least
        the summed weight and at most twice that, and exact numbers.
    """

    smallest: float
    largest: float
    octaves: int
    squares: int

    @classmethod
    def of(cls, weight: NDArray[np.float64]) -> Weights:
        """Look at some weights."""
        some = weight[weight > 0]
        if not len(some):
            return cls(float("inf"), 0.0, 0, 0)
        exponents, counts = np.unique(np.frexp(some)[1], return_counts=True)
        powers = [(1 << (int(e) + 1074), int(c)) for e, c in zip(exponents, counts, strict=True)]
        octaves = sum(c * p for p, c in powers)
        return cls(float(some.min()), float(some.max()), octaves, sum(c * p * p for p, c in powers))

    def __or__(self, other: Weights) -> Weights:
        """Weights of both."""
        return Weights(
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            self.octaves + other.octaves,
            self.squares + other.squares,
        )

    @property
    def effective(self) -> int:
        """About as many rows of equal weight say as much."""
        return self.octaves**2 // self.squares

    @property
    def exponent(self) -> int:
        """Of a power of two that the summed weight does not exceed."""
        return self.octaves.bit_length() - 1074

    def factor(self, bits: int) -> float:
        """The power of two that brings the summed weight to so many bits; refuses what it loses."""
        shift = bits - self.exponent
        if shift > 1023:
            raise ValueError(
                f"sample_weight is too small to be added up (the largest is {self.largest:g}): "
                "multiply all weights by the same factor"
            )
        if frexp(self.smallest)[1] + shift <= LEAST_WEIGHT_BITS:
            raise ValueError(
                f"sample_weight ranges from {self.smallest:g} to {self.largest:g}, a ratio of "
                f"{self.largest / self.smallest:.2g}: the smallest would be lost beside the sum of "
                f"all weights (less than 2^-{bits - LEAST_WEIGHT_BITS} of it). Give such rows "
                "weight 0 to leave them out, or a larger weight."
            )
        return float(2.0**shift)


class Scale(NamedTuple):
    """Bits of the row statistics and how they share int64 words; kernels take it as it is.

    Attributes
    ----------
    row_bits
        Bits of the number of rows.
    mass_bits
        Bits of the sum of all quantised weights, that of ``row_bits`` if every row weighs one.
    weighted
        Whether rows differ in weight; otherwise ``w_q = 1``.
    weight_factor
        ``w_q = rint(w * weight_factor)``, a power of two.
    hessian_bits
        ``s = rint(w_q * h * 2**hessian_bits)``; below 0 where weights have bits to spare.
    response_bits
        ``g = rint(w_q * r * 2**response_bits)``.
    loss_bits
        Losses are summed in steps of ``2**-loss_bits``, times ``w_q``.
    words
        1: ``count << shift | g``; 2: ``[count << shift | s, g]``, or ``[count, g]`` when
        ``s`` is the count (``shift == 0``); 3: ``[count, s, g]``.
    shift
        Bits below the count in a shared word.
    square_bits
        Bits of the sum of all squared quantised weights.
    response_limit, hessian_limit
        Bits before the point of the largest response and hessian.
    """

    row_bits: int
    mass_bits: int
    weighted: bool
    weight_factor: float
    hessian_bits: int
    response_bits: int
    loss_bits: int
    words: int
    shift: int
    square_bits: int
    response_limit: int = RESPONSE_LIMIT_BITS
    hessian_limit: int = 0

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

    def quantise_for_columns(self, weight: NDArray[np.float64] | None) -> NDArray[np.int64]:
        """Coarser ones for statistics of columns, where no row that counts weighs nothing."""
        if weight is None or not self.weighted:
            return np.empty(0, dtype=np.int64)
        factor = self.weight_factor * 2.0 ** (COLUMN_BITS - self.mass_bits)
        return np.maximum(np.rint(weight * factor), weight > 0).astype(np.int64)

    def held_out(self, weights: Weights) -> Scale:
        """The scale that quantises weights of rows that only validate.

        Of these rows only means are taken, ratios in which the unit of the weights cancels. So a
        power of two brings their sum to the bits that the fitted rows' weights have.
        """
        if not self.weighted:
            return self
        return self._replace(weight_factor=weights.factor(self.mass_bits))

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


def _log_scale(row_bits: int, extra_bits: int) -> Scale:
    """Scale of rows that weigh one each, for a log link: see `make_scale` about ``extra_bits``."""
    room = INT64_BITS - row_bits - RESPONSE_LIMIT_BITS
    loss_bits = min(MOST_BITS, INT64_BITS - row_bits - LOSS_LIMIT_BITS - 1 - extra_bits)
    hessian_bits, response_bits = min(MOST_BITS, room), min(MOST_BITS, room - extra_bits)
    return Scale(
        row_bits, row_bits, False, 1.0, hessian_bits, response_bits, loss_bits, 3, 0, row_bits,
        RESPONSE_LIMIT_BITS + extra_bits, RESPONSE_LIMIT_BITS,
    )  # fmt: skip


def make_scale(
    n_rows: int,
    weight: NDArray[np.float64] | Weights | None,
    *,
    newton: bool,
    exact_bits: int | None = None,
    extra_bits: int | None = None,
) -> Scale:
    """Choose the bits for ``n_rows`` rows.

    Parameters
    ----------
    n_rows
        All rows that will ever be summed together, over all blocks.
    weight
        Weights of these rows, or None when each weighs one.
    newton
        Whether hessians are summed.
    exact_bits
        Bits that hold every response exactly, when known (see :func:`label_bits`).
    extra_bits
        Of hessians that may be as large as responses (log link): further bits of these. Means may
        then be far below the largest label, so that no word is shared and all bits are used.
    """
    row_bits = int(n_rows).bit_length()
    if isinstance(weight, np.ndarray):
        weight = None if bool(np.all(weight == 1.0)) else Weights.of(weight)
    if weight is not None:
        return _weighted_scale(row_bits, weight, newton, extra_bits)
    if extra_bits is not None:
        return _log_scale(row_bits, extra_bits)
    room = INT64_BITS - row_bits - RESPONSE_LIMIT_BITS
    response_bits = min(30, room)
    hessian_bits = min(24, room) if newton else 0
    words, shift = 3, 0
    if newton:
        packed = INT64_BITS - 2 * row_bits
        if packed >= LEAST_HESSIAN_BITS:
            hessian_bits = min(hessian_bits, packed)
            words, shift = 2, row_bits + hessian_bits
    else:
        packed = INT64_BITS - 2 * row_bits - RESPONSE_LIMIT_BITS - 1
        wanted = LEAST_RESPONSE_BITS if exact_bits is None else exact_bits
        if packed >= wanted:
            response_bits = min(30, packed)
            words, shift = 1, row_bits + response_bits + RESPONSE_LIMIT_BITS + 1
        else:
            words = 2
    loss_bits = min(MOST_BITS, INT64_BITS - row_bits - LOSS_LIMIT_BITS)
    return Scale(
        row_bits,
        row_bits,
        False,
        1.0,
        hessian_bits,
        response_bits,
        loss_bits,
        words,
        shift,
        row_bits,
    )


def _weighted_scale(row_bits: int, weights: Weights, newton: bool, extra_bits: int | None) -> Scale:
    """The scale of rows that differ in weight: all together have `MASS_BITS`."""
    factor = weights.factor(MASS_BITS)
    response_bits = INT64_BITS - RESPONSE_LIMIT_BITS - MASS_BITS
    loss_bits = INT64_BITS - LOSS_LIMIT_BITS - MASS_BITS
    hessian_bits = INT64_BITS - MASS_BITS if newton else 0
    words, shift = 3, 0
    # With the count in its word, the lightest row's s must still be fine enough.
    shared = INT64_BITS - row_bits - 1 - MASS_BITS
    light = frexp(weights.smallest * factor)[1] + shared
    if extra_bits is not None:
        hessian_bits, response_bits = response_bits, response_bits - extra_bits
        loss_bits -= 1 + extra_bits
    elif light >= (LEAST_HESSIAN_BITS if newton else LEAST_WEIGHT_BITS):
        hessian_bits = min(hessian_bits, shared)
        words, shift = 2, MASS_BITS + hessian_bits + 1
    square_bits = weights.squares.bit_length() - 2 * 1074 + 2 * (frexp(factor)[1] - 1)
    return Scale(
        row_bits,
        MASS_BITS,
        True,
        factor,
        hessian_bits,
        response_bits,
        loss_bits,
        words,
        shift,
        square_bits,
        RESPONSE_LIMIT_BITS + (extra_bits or 0),
        0 if extra_bits is None else RESPONSE_LIMIT_BITS,
    )
