"""imbalanced-learn: its samplers change what is fitted, and nothing at prediction."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

pytestmark = [pytest.mark.external, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(2000, 3)), columns=list("abc"))
    return X, (rng.random(2000) < 1 / (1 + np.exp(2 - 4 * X["a"]))).astype(int)


def pipelines():
    imblearn = pytest.importorskip("imblearn")
    from imblearn.pipeline import make_pipeline

    over, under = imblearn.over_sampling, imblearn.under_sampling.RandomUnderSampler
    logistic = LogisticRegression()
    return {
        "over": make_pipeline(over.RandomOverSampler(random_state=0), logistic),
        "SMOTE": make_pipeline(StandardScaler(), over.SMOTE(random_state=0), logistic),
        "under": make_pipeline(under(random_state=0), StandardScaler(), logistic),
        "trees": make_pipeline(under(random_state=0), DecisionTreeClassifier(max_depth=3)),
        "function": make_pipeline(imblearn.FunctionSampler(), logistic),
        "forest": imblearn.ensemble.BalancedRandomForestClassifier(n_estimators=5, random_state=0),
        "bag": imblearn.ensemble.BalancedBaggingClassifier(n_estimators=3, random_state=0),
        "easy": imblearn.ensemble.EasyEnsembleClassifier(n_estimators=2, random_state=0),
        "boosting": imblearn.ensemble.RUSBoostClassifier(n_estimators=3, random_state=0),
    }


KINDS = ("over", "SMOTE", "under", "trees", "function", "forest", "bag", "easy", "boosting")


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_the_models_own_and_can_be_exported(kind, rows):
    X, y = rows
    model = pipelines()[kind].fit(X[:1000], y[:1000])
    base, new = as_base(model), X[1000:]
    expected = model.predict_proba(new)[:, 1]
    # Some parts compute in float32.
    np.testing.assert_allclose(predicted_mean(base, new), expected, rtol=1e-5, atol=1e-7)
    assert base.columns() == ("a", "b", "c")
    fitted = rc.fit(model, new, y[1000:], ["a > 0"])
    served = fitted.to_onnx(None, new)
    assert served.graph.node
