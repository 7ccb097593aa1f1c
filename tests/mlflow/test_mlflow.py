"""Models and audits in MLflow, on a tracking store in a temporary folder."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import recalibrate as rc
import recalibrate.mlflow as flavor

mlflow = pytest.importorskip("mlflow")

pytestmark = [
    pytest.mark.adapter,
    # MLflow's own: hints about integer columns, deprecations inside.
    pytest.mark.filterwarnings("ignore:::mlflow"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than the tests do
        mlflow.set_tracking_uri(folder.as_uri())
        mlflow.set_experiment("recalibrate")
        yield folder
        mlflow.set_tracking_uri(None)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(20, 70, 2000), "sex": rng.choice(["F", "M"], 2000)})
    y = (rng.random(2000) < np.where(X["sex"] == "F", 0.3, 0.6)).astype(int)
    return X, y


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    return rc.fit(LogisticRegression().fit(X[["age"]], y), X, y, rc.Groups("sex"))


@pytest.mark.slow
def test_a_logged_model_is_served_in_three_flavors(model, rows):
    import onnxruntime

    X, _ = rows
    with mlflow.start_run():
        logged = flavor.log_model(model, X_sample=X[:20])
    assert set(logged.flavors) == {"recalibrate", "python_function", "onnx"}
    again = flavor.load_model(logged.model_uri)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    served = mlflow.pyfunc.load_model(logged.model_uri)
    np.testing.assert_array_equal(served.predict(X), model.predict_proba(X))
    assert served.metadata.get_input_schema().input_names() == ["age", "sex"]
    graph = mlflow.onnx.load_model(logged.model_uri)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    assert {value.name for value in session.get_outputs()} >= {"label", "probabilities"}


def test_an_audit_is_logged(model, rows):
    X, y = rows
    report = rc.audit(model, X, y, groups=["sex"])
    with mlflow.start_run() as run:
        flavor.log_model(model, report=report, onnx=False)
    found = mlflow.get_run(run.info.run_id).data.metrics
    assert found["audit_groups"] == 2
    assert found["audit_largest_gap"] == pytest.approx(report.table["gap"].abs()[1:].max())
    text = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/audit/audit.json")
    assert json.loads(text) == json.loads(report.to_json())
    assert "<html" in mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/audit/audit.html")


@pytest.mark.slow
def test_means_are_served_as_means(rows, tmp_path):
    X, y = rows
    income = 20.0 + 5 * y + X["age"]
    base = LinearRegression().fit(X[["age"]][:500], income[:500])
    model = rc.fit(base, X[500:], income[500:], rc.Groups("sex"))
    flavor.save_model(model, tmp_path / "saved", X_sample=X[:9])
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    np.testing.assert_array_equal(served.predict(X), model.predict(X))


def test_what_cannot_be_served_is_refused(rows, tmp_path):
    X, y = rows
    scores = rc.fit(np.full(2000, 0.4), X, y, rc.Groups("sex"))
    with pytest.raises(ValueError, match="fitted on an array of scores"):
        flavor.save_model(scores, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_fitted_estimator_is_its_model(rows, tmp_path):
    X, y = rows
    estimator = rc.LSBoostClassifier(rc.Groups("sex")).fit(X, y)
    flavor.save_model(estimator, tmp_path / "model", onnx=False)
    again = flavor.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))
    with pytest.raises(TypeError, match="got LogisticRegression"):
        flavor.save_model(LogisticRegression(), tmp_path / "other")
