"""Sparse rows: to xgboost an entry that is not stored is missing, to the others it is zero."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost
from catboost import CatBoostClassifier
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

pytestmark = pytest.mark.adapter

ROWS = 1500
MODELS = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=20, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1),
    "catboost": lambda: CatBoostClassifier(
        iterations=20, verbose=0, allow_writing_files=False, thread_count=1
    ),
    "sklearn": LogisticRegression,
}


def rows(seed):
    rng = np.random.default_rng(seed)
    S = scipy.sparse.random(ROWS, 20, 0.15, format="csr", random_state=seed)
    S.data[::7] = 0.0  # stored zeros are numbers to all of them
    total = np.asarray(S.sum(axis=1)).ravel()
    return S, (rng.random(ROWS) < 1 / (1 + np.exp(1.5 - total))).astype(int)


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_sparse_rows_are_those_of_the_framework(name):
    model = MODELS[name]().fit(*rows(0))
    S, y = rows(1)
    native = model.predict_proba(S)[:, 1]
    # The frameworks' own sums are float32; a row on a wrong side is off by .01 and more.
    np.testing.assert_allclose(predicted_mean(as_base(model), S), native, atol=1e-6)
    Z = pd.DataFrame({"group": np.random.default_rng(2).choice(["a", "b"], ROWS)})
    fitted = rc.fit(model, S, y, Z=Z, H=rc.Groups("group"), loop=rc.Loop(levels=2, max_rounds=2))
    assert np.isfinite(fitted.predict(S, Z=Z)).all()


def test_without_a_table_of_its_own_h_says_what_can_be_done():
    model = MODELS["xgboost"]().fit(*rows(0))
    S, y = rows(1)
    with pytest.raises(TypeError, match=r"Z=.*to xgboost .* missing \(numpy.nan\)"):
        rc.fit(model, S, y)
    dense = np.full(S.shape, np.nan)
    found = S.tocoo()
    dense[found.row, found.col] = found.data
    fitted = rc.fit(model, dense, y, H=rc.Groups("x0 > 0.5"), loop=rc.Loop(levels=2, max_rounds=2))
    np.testing.assert_array_equal(fitted.base.scores(dense), as_base(model).scores(S))
