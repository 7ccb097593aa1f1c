"""CatBoost: what the contract suite does not see."""

import cases_sklearn as models
import numpy as np
import pandas as pd
import pytest
from cases_catboost import classifier, regressor

from recalibrate.scores import as_base, predicted_mean

# Tolerances of 1e-9: catboost adds up its leaves in float64, in an order of its own.

pytestmark = pytest.mark.adapter


def on_borders(model, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose numbers are the model's borders, and the floats on both sides of them."""
    rng = np.random.default_rng(0)
    borders = model.get_borders()
    columns = {}
    for j, name in enumerate(frame.columns):
        at = np.array(borders.get(j, [0.0]), dtype=np.float32)
        sides = [np.nextafter(at, np.float32(side)) for side in (-1e30, 1e30)]
        columns[name] = rng.choice(np.concatenate([at, *sides]), len(frame)).astype(np.float64)
    return pd.DataFrame(columns)


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_rows_on_borders_and_missing_ones(policy, nan_mode):
    model = models.fitted(lambda: classifier(grow_policy=policy, nan_mode=nan_mode), missing=True)()
    frame = on_borders(model, models.numbers(500, 1))
    frame.loc[::7, "age"] = np.nan
    base = as_base(model)
    assert base.exact
    np.testing.assert_allclose(
        base.scores(frame), model.predict(frame, prediction_type="RawFormulaVal"), atol=1e-9
    )


def test_first_class_is_the_complement():
    model = models.fitted(classifier)()
    frame = models.numbers(50, 1)
    np.testing.assert_array_equal(
        as_base(model, target_class=0).scores(frame), -as_base(model).scores(frame)
    )


def test_one_against_all():
    model = models.fitted(lambda: classifier(loss_function="MultiClassOneVsAll"), kind="three")()
    frame = models.numbers(50, 1)
    base = as_base(model, target_class="low")
    assert base.link == "logit"
    np.testing.assert_allclose(predicted_mean(base, frame), model.predict_proba(frame)[:, 1])


def test_classes_are_named_in_the_error():
    model = models.fitted(classifier, kind="three")()
    with pytest.raises(ValueError, match=r"'upper' is not a class.*'high', 'low', 'middle'"):
        as_base(model, target_class="upper")


def test_uncertainty_predicts_the_mean_first():
    model = models.fitted(lambda: regressor(loss_function="RMSEWithUncertainty"), kind="numbers")()
    frame = models.numbers(50, 1)
    np.testing.assert_allclose(as_base(model).scores(frame), model.predict(frame)[:, 0], atol=1e-9)


def test_a_quantile_is_no_mean():
    model = models.fitted(lambda: regressor(loss_function="Quantile:alpha=0.9"))()
    with pytest.warns(UserWarning, match="a quantile, not the mean"):
        base = as_base(model)
    frame = models.numbers(50, 1)
    np.testing.assert_allclose(base.scores(frame), model.predict(frame), atol=1e-9)


def test_early_stopped():
    frame = models.numbers(400, 1)
    labels = models.outcome(frame, "binary")
    model = classifier(od_wait=2)
    model.fit(frame[:200], labels[:200], eval_set=(frame[200:], labels[200:]))
    np.testing.assert_allclose(
        predicted_mean(as_base(model), frame), model.predict_proba(frame)[:, 1]
    )


def test_categories_have_no_graph():
    model = models.fitted(lambda: classifier(cat_features=["town"]), models.mixed)()
    base = as_base(model)
    assert base.graph() is None
    assert "categorical" in base.why_no_graph
    frame = models.mixed(50, 1).assign(town="Brig")  # not seen in training
    np.testing.assert_allclose(predicted_mean(base, frame), model.predict_proba(frame)[:, 1])


@pytest.mark.parametrize(
    ("loss", "labels"), [("MultiRMSE", np.zeros((60, 2))), ("Cox", np.ones(60))]
)
def test_losses_without_a_mean_are_refused(loss, labels):
    frame = models.numbers(60, 1)
    labels = labels + np.arange(60).reshape(-1, *[1] * (labels.ndim - 1))
    model = regressor(loss_function=loss).fit(frame, labels)
    with pytest.raises(ValueError, match=f"{loss}.*Logloss"):
        as_base(model)


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        as_base(classifier())


def test_declared_link_is_checked():
    with pytest.raises(ValueError, match="'logit'"):
        as_base(models.fitted(classifier)(), link="identity")


@pytest.mark.slow
def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "broken.cbm"
    path.write_bytes(b"CBM1 but not really")
    with pytest.raises(ValueError, match=r"broken\.cbm"):
        as_base(path)
