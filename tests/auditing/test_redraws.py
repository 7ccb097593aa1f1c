"""Labels drawn under calibration: the critical value does not depend on how rows came in."""

import numpy as np
import pandas as pd
import pytest

from recalibrate.auditing import audit
from recalibrate.auditing.measure.limits import LargestScore


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "soft", "clusters"])
def test_the_order_of_rows_does_not_matter(kind):
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame({"a": rng.choice(list("xyz"), n), "b": rng.choice(list("pq"), n)})
    f = rng.uniform(0.1, 0.9, n)
    y = rng.beta(3 * f, 3 * (1 - f)) if kind == "soft" else (rng.random(n) < f).astype(float)
    cluster = np.arange(n) // 3 if kind == "clusters" else None
    first = audit(f, X, y, ["a", "b"], depth=2, cluster=cluster)
    order = rng.permutation(n)
    moved = None if cluster is None else cluster[order]
    second = audit(f[order], X.iloc[order], y[order], ["a", "b"], depth=2, cluster=moved)
    # Sums in another order may differ in the last bits.
    assert second.critical == pytest.approx(first.critical, rel=1e-9)


def test_a_score_that_many_draws_have_is_inside():
    scores = np.repeat([1.0, 2.0, 3.0], [100, 870, 30])
    law = LargestScore.of_draws(scores, 5)
    assert 2.0 < law.critical(0.05) < 3.0
    assert LargestScore.of_draws(np.ones(100), 5).critical(0.05) > 1.0
    # The chance of the largest score being at least that of a group: all equal ones count.
    assert law.p_value(np.array([2.0, 3.0])) == pytest.approx(np.array([901, 31]) / 1001)


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.01, 1e-3, 1e-6])
@pytest.mark.parametrize("draws", ["normal", "few values", "none"])
def test_critical_values_and_adjusted_p_values_are_inverse(draws, alpha):
    rng = np.random.default_rng(0)
    largest = np.abs(rng.normal(size=(2000, 8))).max(axis=1)
    law = {
        "normal": LargestScore.of_draws(largest, 8),
        "few values": LargestScore.of_draws(largest.round(1), 8),
        "none": LargestScore.independent(8),
    }[draws]
    critical = law.critical(alpha)
    assert law.p_value(np.array([critical])) == pytest.approx([alpha], rel=1e-9)
    around = law.p_value(critical + np.array([-0.5, -1e-6, 1e-6, 0.5]))
    assert (around[:2] > alpha).all()
    assert (around[2:] < alpha).all()
    assert (np.diff(law.p_value(np.linspace(0, 9, 1000))) <= 0).all()
    assert np.isnan(law.p_value(np.array([np.nan]))).all()
