from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalibrate.data.columns import quantile_edges


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.floats(1e-3, 1e3)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_edges_do_not_depend_on_row_order_for_any_weights(rows, bins, random):
    shuffled = random.sample(rows, len(rows))
    found = [
        quantile_edges(np.array([v for v, _ in r], float), bins, np.array([w for _, w in r]))
        for r in (rows, shuffled)
    ]
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.slow
@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(1, 8))
def test_edges_are_the_nearest_cuts(values, bins):
    edges = quantile_edges(np.array(values, float), bins)
    distinct = sorted(set(values))
    wanted = set()
    for j in range(1, bins):
        cuts = [(sum(v < d for v in values), d) for d in distinct[1:]]
        if cuts:
            wanted.add(
                min(cuts, key=lambda c: (abs(c[0] - Fraction(j * len(values), bins)), c[1]))[1]
            )
    assert edges.tolist() == sorted(wanted)


def test_edges_survive_extreme_weights():
    values = np.arange(8.0)
    for scale in (1e-300, 1.0, 1e300):
        assert quantile_edges(values, 2, np.full(8, scale)).tolist() == [4.0]
