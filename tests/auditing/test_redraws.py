"""Labels drawn under calibration: the critical value does not depend on how rows came in."""

import numpy as np
import pandas as pd
import pytest

from recalibrate.auditing import audit
from recalibrate.auditing.measure.redraws import critical_score


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
    scores = np.repeat([1.0, 2.0, 3.0], [50, 46, 4])
    assert critical_score(scores, 0.05) == 2.5
    assert critical_score(np.ones(100), 0.05) == 1.0
