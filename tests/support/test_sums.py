"""Sums that do not depend on the order of their terms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.support.hashing import average, total

some = st.floats(-1e300, 1e300, allow_subnormal=False)
numbers = hnp.arrays(float, st.integers(0, 50), elements=some)


@given(numbers, st.randoms())
def test_any_order_gives_the_same_bits(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    assert total(values[order]).hex() == total(values).hex()
    # Every number is rounded to 2**-54 of the largest at most.
    largest = np.abs(values).max(initial=0.0)
    assert total(values) == pytest.approx(math.fsum(values / 64) * 64, abs=largest * 1e-13 + 1e-290)


def test_weighted_mean():
    values, weight = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0])
    assert average(values, weight) == 11 / 4
    assert average(values) == pytest.approx(7 / 3)


def test_what_is_not_finite_stays_so():
    assert math.isnan(total(np.array([np.nan, 1.0])))
    assert total(np.array([np.inf, 1.0])) == np.inf
