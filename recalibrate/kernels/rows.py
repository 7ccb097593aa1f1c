"""Loops over rows alone: levels, responses, losses.

What only some kinds of labels need is in kernels of its own, so that nobody else compiles it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel

if TYPE_CHECKING:
    from recalibrate.core.family import Curve
    from recalibrate.core.fixedpoint import Scale


# --- A row's count, s and g in one to three int64 words, laid out as ``fixedpoint.Scale`` says --


@helper
def _write_words(i: Any, s: Any, g: Any, scale: Scale, words: NDArray[np.int64]) -> None:
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


LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
INVERSE_LN2 = 1.4426950408889634
NEGATIVE_POWERS_OF_2 = 2.0 ** -np.arange(1024.0)
BATCH = 256
"""Rows whose real numbers are worked out before any becomes an integer: the processor can then
take several at a time, which more than halves the time."""
UNSIGNED_BATCH = np.uint64(BATCH)
"""Indices are unsigned, because a test for negative ones makes the processor gather the rows one by
one: 4 times slower for a logistic response."""
IDENTITY, LOGIT = 0, 1
"""Numbers of links; the third is the log link."""
LARGEST_LOG = 1.3862943611198906
"""Means above four times the largest label count as that, in responses."""
FEW_THRESHOLDS = 32
"""So few are compared with one and all: quicker than a search, which branches by the data."""


@helper
def exp_negative(x: float) -> float:
    """exp(x) for x <= 0 from additions and multiplications alone.

    Not ``math.exp``: a vector library may round it differently in the body and in the tail of
    a loop, and then a row's gradient would depend on its place among the rows.
    """
    # No branch and a short integer: loops over rows then run on many at a time.
    inside = x if x > -700.0 else -700.0
    k = np.int32(0.5 - inside * INVERSE_LN2)
    r = (inside + k * LN2_HIGH) + k * LN2_LOW
    total = 1.0 / 6227020800.0
    total = total * r + 1.0 / 479001600.0
    total = total * r + 1.0 / 39916800.0
    total = total * r + 1.0 / 3628800.0
    total = total * r + 1.0 / 362880.0
    total = total * r + 1.0 / 40320.0
    total = total * r + 1.0 / 5040.0
    total = total * r + 1.0 / 720.0
    total = total * r + 1.0 / 120.0
    total = total * r + 1.0 / 24.0
    total = total * r + 1.0 / 6.0
    total = total * r + 0.5
    total = total * r + 1.0
    total = total * r + 1.0
    power: float = NEGATIVE_POWERS_OF_2[np.uint32(k)]
    return total * power if x >= -700.0 else 0.0


@helper
def log1p_unit(t: float) -> float:
    """log(1 + t) for 0 <= t <= 1, as 2 artanh(t / (2 + t)); for the reason of exp_negative."""
    z = t / (2.0 + t)
    square = z * z
    total = 1.0 / 31.0
    total = total * square + 1.0 / 29.0
    total = total * square + 1.0 / 27.0
    total = total * square + 1.0 / 25.0
    total = total * square + 1.0 / 23.0
    total = total * square + 1.0 / 21.0
    total = total * square + 1.0 / 19.0
    total = total * square + 1.0 / 17.0
    total = total * square + 1.0 / 15.0
    total = total * square + 1.0 / 13.0
    total = total * square + 1.0 / 11.0
    total = total * square + 1.0 / 9.0
    total = total * square + 1.0 / 7.0
    total = total * square + 1.0 / 5.0
    total = total * square + 1.0 / 3.0
    total = total * square + 1.0 / 1.0
    return 2.0 * z * total


@helper
def _exp_any(x: float) -> float:
    """exp(x), likewise."""
    e = exp_negative(-abs(x))
    return e if x <= 0.0 else 1.0 / e


@helper
def log_positive(x: float) -> float:
    """log(x) for x > 0, likewise."""
    mantissa, exponent = math.frexp(x)  # from 1/2 to 1
    return exponent * LN2_HIGH + (exponent * LN2_LOW - log1p_unit((1.0 - mantissa) / mantissa))


def level_index(
    f: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    steps: int,
    out: NDArray[np.int32],
) -> None:
    """Level = number of thresholds <= f (ties go up).

    ``steps`` > 0 says that the thresholds are those of the grid {0, 1/steps, ..., 1}: the level
    is then guessed by arithmetic and corrected by comparing, which gives the same answer.
    """
    if len(thresholds) <= FEW_THRESHOLDS:
        _count_below(f, thresholds, out)
    elif steps > 0:
        _correct_guess(f, thresholds, steps, out)
    else:
        out[:] = np.searchsorted(thresholds, f, side="right")


@kernel
def _count_below(
    f: NDArray[np.float64], thresholds: NDArray[np.float64], out: NDArray[np.int32]
) -> None:
    for i in range(f.shape[0]):
        below = 0
        for k in range(thresholds.shape[0]):
            below += thresholds[k] <= f[i]
        out[i] = below


@kernel
def _correct_guess(
    f: NDArray[np.float64], thresholds: NDArray[np.float64], steps: int, out: NDArray[np.int32]
) -> None:
    count = thresholds.shape[0]
    for i in range(f.shape[0]):
        value = f[i]
        guess = value * steps + 0.5
        k = 0 if guess < 0.0 else (count if guess >= count else np.int64(guess))
        while k > 0 and thresholds[k - 1] > value:
            k -= 1
        while k < count and thresholds[k] <= value:
            k += 1
        out[i] = k


def respond(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    curve: Curve,
    replace: bool,
    limit: float,
    scale: Scale,
    words: NDArray[np.int64],
) -> None:
    """Words of every row: the label itself (replace), y - f, or another response with its hessian.

    Residuals are cut at +-``limit``. See ``core.family`` about the others.
    """
    if replace or curve.kind == IDENTITY:
        _respond_plainly(y, f, weight, replace, limit, scale, words)
    elif curve.kind == LOGIT:
        _respond_logit(y, f, weight, scale, np.empty(BATCH), np.empty(BATCH), words)
    else:
        some = np.empty(BATCH), np.empty(BATCH)
        _respond_log(y, f, weight, curve.power, limit, scale, *some, words)


@kernel
def _respond_plainly(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    replace: bool,
    limit: float,
    scale: Scale,
    words: NDArray[np.int64],
) -> None:
    unit = weight.shape[0] == 0
    response_scale, hessian_scale = 2.0**scale.response_bits, 2.0**scale.hessian_bits
    for i in range(y.shape[0]):
        r = y[i] if replace else min(max(y[i] - f[i], -limit), limit)
        w = 1.0 if unit else float(weight[i])
        g = np.int64(np.rint(w * r * response_scale))
        s = 1 if unit else np.int64(np.rint(w * hessian_scale))
        _write_words(i, s, g, scale, words)


@kernel
def _respond_logit(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    scale: Scale,
    response: NDArray[np.float64],
    hessian: NDArray[np.float64],
    words: NDArray[np.int64],
) -> None:
    """Responses y - p and hessians p (1 - p), p = sigmoid(f)."""
    for start in range(np.uint64(0), np.uint64(y.shape[0]), UNSIGNED_BATCH):
        count = min(np.uint64(y.shape[0]) - start, UNSIGNED_BATCH)
        for k in range(count):
            score = f[start + k]
            e = exp_negative(-abs(score))
            small = e / (1.0 + e)
            p = 1.0 - small if score >= 0 else small
            response[k] = y[start + k] - p
            hessian[k] = small * (1.0 - small)
        _write_batch(response, hessian, start, count, weight, scale, words)


@kernel
def _respond_log(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    power: float,
    limit: float,
    scale: Scale,
    response: NDArray[np.float64],
    hessian: NDArray[np.float64],
    words: NDArray[np.int64],
) -> None:
    first, second = 1.0 - power, 2.0 - power
    for start in range(np.uint64(0), np.uint64(y.shape[0]), UNSIGNED_BATCH):
        count = min(np.uint64(y.shape[0]) - start, UNSIGNED_BATCH)
        for k in range(count):
            score = min(f[start + k], LARGEST_LOG)
            size = _exp_any(second * score)
            pull = y[start + k] * _exp_any(first * score) - size
            response[k] = min(max(pull, -limit), limit)
            hessian[k] = size
        _write_batch(response, hessian, start, count, weight, scale, words)


@helper
def _write_batch(
    response: NDArray[np.float64],
    hessian: NDArray[np.float64],
    start: Any,
    count: Any,
    weight: NDArray[np.int64],
    scale: Scale,
    words: NDArray[np.int64],
) -> None:
    """Quantise the responses and hessians of the rows from ``start`` on."""
    unit = weight.shape[0] == 0
    response_scale, hessian_scale = 2.0**scale.response_bits, 2.0**scale.hessian_bits
    for k in range(count):
        w = 1.0 if unit else float(weight[start + k])
        s = np.int64(np.rint(w * hessian[k] * hessian_scale))
        g = np.int64(np.rint(w * response[k] * response_scale))
        _write_words(start + k, s, g, scale, words)


@helper
def _drawn_at(key: np.uint64, salt: np.uint64) -> float:
    """A number in [0, 1) by hash and salt: the last two steps of splitmix64."""
    x = key ^ salt
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return float(x >> np.uint64(11)) * 2.0**-53


@kernel
def leave_out(
    hashes: NDArray[np.uint64], salt: np.uint64, share: float, words: NDArray[np.int64]
) -> None:
    """Set the words of rows to zero that a share of them, drawn by hash and salt, leaves out."""
    for i in range(hashes.shape[0]):
        if _drawn_at(hashes[i], salt) >= share:
            for k in range(words.shape[1]):
                words[i, k] = 0


def thin_out(
    hashes: NDArray[np.uint64],
    salt: np.uint64,
    share: float,
    least: float,
    weight: NDArray[np.int64],
    scale: Scale,
    words: NDArray[np.int64],
) -> None:
    """The same, and of rows whose residual and hessian are below ``least`` the fewer the smaller.

    Those that stay stand for the others: no sum changes but by chance.
    """
    _thin_out(hashes, salt, share, least, weight, scale, words.ravel(), words)


@kernel
def _thin_out(
    hashes: NDArray[np.uint64],
    salt: np.uint64,
    share: float,
    least: float,
    weight: NDArray[np.int64],
    scale: Scale,
    flat: NDArray[np.int64],
    words: NDArray[np.int64],
) -> None:
    unit = weight.shape[0] == 0
    response_step, hessian_step = 2.0**-scale.response_bits, 2.0**-scale.hessian_bits
    for i in range(hashes.shape[0]):
        at = _drawn_at(hashes[i], salt)
        _, s, g = read_words(flat, i, scale)
        w = 1.0 if unit else max(float(weight[i]), 1.0)
        size = max(abs(g) * response_step, s * hessian_step) / w
        if at >= share or at * least >= share * size:
            for k in range(words.shape[1]):
                words[i, k] = 0
        elif size < least:
            factor = least / size
            _write_words(i, int(np.rint(factor * s)), int(np.rint(factor * g)), scale, words)


def add_losses(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    at: NDArray[np.int32],
    weight: NDArray[np.int64],
    level: NDArray[np.int32],
    curve: Curve,
    scale: float,
    limit: float,
    out: NDArray[np.int64],
) -> None:
    """Add every row's quantised loss to its level's sum.

    The score of row i is ``f[at[i]]``, or ``f[i]`` with an empty ``at``; an empty ``level`` puts
    all rows together.
    """
    if curve.kind == IDENTITY:
        _add_squares(y, f, at, weight, level, scale, limit, out)
        return
    f = f[at] if len(at) else f
    if curve.kind == LOGIT:
        _add_log_losses(y, f, weight, level, scale, limit, np.empty(BATCH), out)
    else:
        _add_deviances(y, f, weight, level, curve.power, scale, limit, np.empty(BATCH), out)


@kernel
def _add_squares(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    at: NDArray[np.int32],
    weight: NDArray[np.int64],
    level: NDArray[np.int32],
    scale: float,
    limit: float,
    out: NDArray[np.int64],
) -> None:
    unit = weight.shape[0] == 0
    together = level.shape[0] == 0
    straight = at.shape[0] == 0
    for i in range(y.shape[0]):
        score = f[i] if straight else f[np.uint64(at[i])]
        w = 1.0 if unit else float(weight[i])
        loss = min((y[i] - score) * (y[i] - score), limit)
        out[0 if together else level[i]] += np.int64(np.rint(w * loss * scale))


@kernel
def _add_log_losses(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    level: NDArray[np.int32],
    scale: float,
    limit: float,
    losses: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    for start in range(np.uint64(0), np.uint64(y.shape[0]), UNSIGNED_BATCH):
        count = min(np.uint64(y.shape[0]) - start, UNSIGNED_BATCH)
        for k in range(count):
            score = f[start + k]
            smooth = log1p_unit(exp_negative(-abs(score)))
            losses[k] = smooth + max(score, 0.0) - y[start + k] * score
        _add_batch(losses, start, count, weight, level, scale, limit, out)


@kernel
def _add_deviances(
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    level: NDArray[np.int32],
    power: float,
    scale: float,
    limit: float,
    losses: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    """Unit deviances; scores are logarithms."""
    first, second = 1.0 - power, 2.0 - power
    for start in range(np.uint64(0), np.uint64(y.shape[0]), UNSIGNED_BATCH):
        count = min(np.uint64(y.shape[0]) - start, UNSIGNED_BATCH)
        for k in range(count):
            label, score = y[start + k], f[start + k]
            own = log_positive(label) if label > 0.0 else 0.0
            if power == 1.0:
                half = label * (own - score) - label + _exp_any(score)
            elif power == 2.0:
                half = score - own + label * _exp_any(-score) - 1.0
            else:
                best = _exp_any(second * own) / (first * second) if label > 0.0 else 0.0
                half = best - label * _exp_any(first * score) / first
                half = half + _exp_any(second * score) / second
            losses[k] = max(2.0 * half, 0.0)
        _add_batch(losses, start, count, weight, level, scale, limit, out)


@helper
def _add_batch(
    losses: NDArray[np.float64],
    start: Any,
    count: Any,
    weight: NDArray[np.int64],
    level: NDArray[np.int32],
    scale: float,
    limit: float,
    out: NDArray[np.int64],
) -> None:
    """Quantise the losses of the rows from ``start`` on, and add them."""
    unit = weight.shape[0] == 0
    together = level.shape[0] == 0
    for k in range(count):
        w = 1.0 if unit else float(weight[start + k])
        q = np.int64(np.rint(w * min(losses[k], limit) * scale))
        out[0 if together else level[start + k]] += q


@kernel
def count_cells(
    f: NDArray[np.float64],
    weight: NDArray[np.int64],
    low: float,
    scale: float,
    out: NDArray[np.int64],
) -> None:
    """Weight of the rows in equal cells of f, those outside going to the end cells."""
    unit = weight.shape[0] == 0
    last = out.shape[0] - 1
    for i in range(f.shape[0]):
        at = (f[i] - low) * scale
        k = 0 if at < 0.0 else (last if at >= last else int(at))
        out[k] += 1 if unit else weight[i]


def label_cells(
    column: NDArray[np.int32],
    y: NDArray[np.float64],
    weight: NDArray[np.int64],
    label_scale: float,
    out: NDArray[np.int64],
) -> None:
    """Weight and quantised labels of the rows by a column's value from -c to c, c = len // 2."""
    cell = np.clip(column.astype(np.int64) + len(out) // 2, 0, len(out) - 1)
    w = weight if len(weight) else np.ones(len(y), np.int64)
    np.add.at(out[:, 0], cell, w)
    np.add.at(out[:, 1], cell, np.rint(w * y * label_scale).astype(np.int64))
