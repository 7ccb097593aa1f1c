"""Least squares: sums of products per level set, and one deterministic solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel
from recalibrate.kernels.rows import read_words

if TYPE_CHECKING:
    from recalibrate.core.fixedpoint import Scale


@helper
def shifted(value: int, bits: int) -> int:
    """Divide by 2**bits, rounded; part of how a row is quantised, hence before any sum."""
    return value if bits == 0 else (value + (1 << (bits - 1))) >> bits


@helper
def scaled(value: float, unit: float) -> int:
    """The same for products with weights or means, which have too many bits for an integer."""
    return int(np.rint(value * unit))


@kernel
def add_products(
    design: NDArray[np.int32],
    level: NDArray[np.int32],
    words: NDArray[np.int64],
    scale: Scale,
    cut: NDArray[np.int64],
    rows: NDArray[np.int64],
    gram: NDArray[np.int64],
    cross: NDArray[np.int64],
) -> None:
    """Per level set: rows, sum s x x' (lower triangle) and sum g x of integer features.

    ``cut`` holds the bits taken off s x x' and g x (see ``classes.linear``).
    """
    count = design.shape[1]
    gram_unit, cross_unit = 2.0 ** -cut[0], 2.0 ** -cut[1]
    for i in range(design.shape[0]):
        v = level[i]
        _, s, g = read_words(words, i, scale)
        rows[v] += 1
        for a in range(count):
            x = design[i, a]
            if x == 0:
                continue
            if scale.weighted or scale.hessian_limit > 0:
                cross[v, a] += scaled(float(g) * x, cross_unit)
                part = float(s) * x
                for b in range(a + 1):
                    gram[v, a, b] += scaled(part * design[i, b], gram_unit)
            else:
                cross[v, a] += shifted(g * x, cut[1])
                for b in range(a + 1):
                    gram[v, a, b] += shifted(s * x * design[i, b], cut[0])


@kernel
def add_group_products(
    codes: NDArray[np.integer],
    offsets: NDArray[np.int64],
    level: NDArray[np.int32],
    words: NDArray[np.int64],
    scale: Scale,
    rows: NDArray[np.int64],
    gram: NDArray[np.int64],
    cross: NDArray[np.int64],
) -> None:
    """The same for indicators: index 0 is the intercept, ``offsets[t] + code`` a term's group."""
    terms = codes.shape[1]
    for i in range(codes.shape[0]):
        v = level[i]
        _, s, g = read_words(words, i, scale)
        rows[v] += 1
        gram[v, 0, 0] += s
        cross[v, 0] += g
        for t in range(terms):
            if codes[i, t] == 0:
                continue
            a = offsets[t] + codes[i, t]
            gram[v, a, 0] += s
            cross[v, a] += g
            for u in range(t + 1):
                if codes[i, u] > 0:
                    gram[v, a, offsets[u] + codes[i, u]] += s


def solve_level(
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    tolerance: float,
    out: NDArray[np.float64],
) -> int:
    """Solve a symmetric positive semidefinite system in place; returns the rank.

    Cholesky in the given order. A column that its predecessors explain up to ``tolerance`` of
    its own square is left out (coefficient 0), so collinear columns are safe: the fitted values
    are those of least squares whichever column is left out. No BLAS: its threads and blocking
    would change last bits.
    """
    return _solve(gram, cross, tolerance, np.zeros(len(gram), np.bool_), out)


@kernel
def _solve(
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    tolerance: float,
    used: NDArray[np.bool_],
    out: NDArray[np.float64],
) -> int:
    count = gram.shape[0]
    rank = 0
    for j in range(count):
        pivot = gram[j, j]
        for k in range(j):
            if used[k]:
                pivot -= gram[j, k] * gram[j, k]
        if pivot <= tolerance * gram[j, j] or gram[j, j] <= 0.0:
            continue
        used[j] = True
        rank += 1
        root = np.sqrt(pivot)
        gram[j, j] = root
        for i in range(j + 1, count):
            value = gram[i, j]
            for k in range(j):
                if used[k]:
                    value -= gram[i, k] * gram[j, k]
            gram[i, j] = value / root
    for j in range(count):
        out[j] = 0.0
        if used[j]:
            value = cross[j]
            for k in range(j):
                if used[k]:
                    value -= gram[j, k] * out[k]
            out[j] = value / gram[j, j]
    for j in range(count - 1, -1, -1):
        if used[j]:
            value = out[j]
            for i in range(j + 1, count):
                if used[i]:
                    value -= gram[i, j] * out[i]
            out[j] = value / gram[j, j]
    return rank


@kernel
def linear_update(
    design: NDArray[np.int32],
    level: NDArray[np.int32],
    present: NDArray[np.bool_],
    coefficient: NDArray[np.float64],
    f: NDArray[np.float64],
    replace: bool,
    limit: float,
    out: NDArray[np.float64],
) -> None:
    """New scores by one linear function per level set; an added value is cut at +-``limit``."""
    for i in range(level.shape[0]):
        v = level[i]
        if not present[v]:
            out[i] = f[i]
            continue
        value = 0.0
        for j in range(design.shape[1]):
            value += coefficient[v, j] * design[i, j]
        out[i] = value if replace else f[i] + min(max(value, -limit), limit)


@kernel
def group_update(
    codes: NDArray[np.integer],
    columns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    level: NDArray[np.int32],
    present: NDArray[np.bool_],
    coefficient: NDArray[np.float64],
    f: NDArray[np.float64],
    replace: bool,
    limit: float,
    out: NDArray[np.float64],
) -> None:
    """The same by an intercept and one number per group (of some columns) and level set."""
    for i in range(level.shape[0]):
        v = level[i]
        if not present[v]:
            out[i] = f[i]
            continue
        value = coefficient[v, 0]
        for t in range(columns.shape[0]):
            code = codes[i, columns[t]]
            if code > 0:
                value += coefficient[v, offsets[t] + code]
        out[i] = value if replace else f[i] + min(max(value, -limit), limit)
