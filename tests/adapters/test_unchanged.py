"""A model without steps returns its base unchanged: the same numbers everywhere, bit for bit."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.scores import predicted_mean

pytestmark = pytest.mark.adapter

ROWS = 2000
MODELS = {
    "log-odds": lambda: lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1),
    "float32": lambda: xgboost.XGBClassifier(n_estimators=20, n_jobs=1),
    "means": lambda: RandomForestClassifier(10, max_depth=4, random_state=0),
    "foreign": LogisticRegression,
}


def rows(seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(size=ROWS), "sex": rng.choice(["F", "M"], ROWS)}), rng


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("name", MODELS)
def test_unchanged_is_the_same_everywhere(name, tmp_path):
    X, rng = rows(0)
    base = MODELS[name]().fit(X[["a"]], rng.random(ROWS) < 1 / (1 + np.exp(-X["a"])))
    X, rng = rows(1)
    # Labels of the base's own making leave nothing to correct.
    y = (rng.random(ROWS) < base.predict_proba(X[["a"]])[:, 1]).astype(int)
    model = rc.fit(base, X, y, H=rc.Groups("sex"))
    assert model.n_rounds_ == 0
    own = predicted_mean(model.base, X)
    np.testing.assert_array_equal(model.predict(X), own)

    found = rc.audit(model, X, y, groups=["sex"], baseline=True).changes
    assert (found.changed_share, found.largest_shift) == (0.0, 0.0)

    model.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal")
    graph = model.to_onnx(tmp_path / "model.onnx", X[:100])
    assert graph is not None
    served = rc.load(tmp_path / "model.onnx")
    if model.base.exact:
        np.testing.assert_array_equal(loaded.predict(X), own)
        # The graph's output is float32.
        np.testing.assert_array_equal(served.predict(X), own.astype(np.float32))
    else:  # the runtime's products of matrices depend on the size of the batch
        np.testing.assert_allclose(loaded.predict(X), own, rtol=0, atol=1e-15)
        np.testing.assert_allclose(served.predict(X), own, rtol=0, atol=6e-8)
