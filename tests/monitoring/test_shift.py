"""Fisher's exact test against enumeration, and how often hints come by chance."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from recalibrate.monitoring.watched import Shift, exact_p


def test_p_values_are_those_of_the_hypergeometric_law():
    rng = np.random.default_rng(0)
    for _ in range(100):
        n, m = rng.integers(1, 80, 2)
        a, b = rng.integers(0, n + 1), rng.integers(0, m + 1)
        (p,) = exact_p(*(np.array([float(v)]) for v in (a, n, b, m)))
        law = hypergeom(n + m, a + b, n)
        expected = min(1.0, 2 * min(law.cdf(a), law.sf(a - 1)))
        if a * m == b * n:  # in the middle either tail may be the smaller one
            assert p > 0.5
        else:
            assert p == pytest.approx(expected)


def test_empty_samples_say_nothing():
    values = [np.array(v, dtype=float) for v in ([0, 0, 5], [0, 5, 5], [3, 0, 5], [9, 5, 5])]
    assert exact_p(*values).tolist() == [1.0, 1.0, 1.0]


def test_a_shift_is_seen_and_dated():
    cuts = (np.array([0.3, 0.6]),)
    same = np.full((1, 3, 2), 300.0)
    moved = same.copy()
    moved[0, :, 1] = [100, 300, 500]
    shift = Shift.none(1, 2).look_again(same, same, cuts, alpha=0.05, time=1.0)
    assert (shift.p == 1.0).all()
    shift = shift.look_again(moved, same, cuts, alpha=0.05, time=2.0)
    assert shift.p[0, 0] == 1.0
    assert shift.p[0, 1] < 1e-10
    assert np.isnan(shift.first[0, 0])
    assert (shift.first[0, 1], shift.look) == (2.0, 2)
    assert (shift.before[0, 1], shift.now[0, 1]) == (1 / 3, 1 / 9)


def test_later_looks_have_a_smaller_share():
    cuts = (np.array([0.5]),)
    reference, now = np.array([[[50.0], [50.0]]]), np.array([[[40.0], [60.0]]])
    first = Shift.none(1, 1).look_again(now, reference, cuts, alpha=0.05, time=1.0)
    again = first.look_again(now, reference, cuts, alpha=0.05, time=2.0)
    assert first.p[0, 0] == pytest.approx(
        2 * exact_p(*map(np.atleast_1d, (40.0, 100.0, 50.0, 100.0)))[0]
    )
    assert again.p[0, 0] == 1.0


def test_equal_scores_are_no_shift():
    counts = np.array([[[10.0]]])
    shift = Shift.none(1, 1).look_again(counts, counts, (np.empty(0),), alpha=0.05, time=1.0)
    assert shift.p[0, 0] == 1.0
