"""Small samples for measures, and a slow loop over their level sets."""

import numpy as np
from hypothesis import strategies as st

# Sums over rows are rounded differently in another order or grouping; values are of order 1.
CLOSE = {"rel": 1e-9, "abs": 1e-12}

grid = st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0])
unit = st.floats(0, 1)
signed = st.floats(-1, 1)
row = st.tuples(grid, unit, signed, st.integers(0, 3))


@st.composite
def samples(draw):
    """Columns f, y, h in [-1, 1], w (whole numbers, not all zero)."""
    f, y, h, w = (
        np.array(c, float) for c in zip(*draw(st.lists(row, min_size=1, max_size=30)), strict=True)
    )
    w[0] = max(w[0], 1)
    return f, y, h, w


def slow(f, y, h, w, levels):
    """(mass, mean of h (y - f), covariance of h and y) per level set, row by row."""
    total = sum(w)
    for level in sorted(set(levels)):
        inside = [i for i in range(len(f)) if levels[i] == level]
        mass = sum(w[i] for i in inside)
        if not mass:
            continue

        def mean(values, inside=inside, mass=mass):
            return sum(w[i] * values(i) for i in inside) / mass

        moment = mean(lambda i: h[i] * (y[i] - f[i]))
        covariance = mean(lambda i: h[i] * y[i]) - mean(lambda i: h[i]) * mean(lambda i: y[i])
        yield mass / total, moment, covariance
