"""A recalibrated model and its audit in MLflow: logged, loaded, served.

pip install ".[mlflow]"; python examples/mlflow_model.py
"""

import os
import tempfile

import mlflow
import numpy as np
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
import recalibrate.mlflow
from recalibrate.simulate import census

train, calibration, test = (census(5000, seed=seed, categorical=True) for seed in (1, 2, 3))
seen = ["AGEP", "SCHL", "WKHP"]
base = LogisticRegression(max_iter=1000).fit(train.X[seen], train.y)
model = rc.fit(base, calibration.X, calibration.y, H=rc.Groups("SEX", "MAR"))
report = rc.audit(model, test.X, test.y, groups=["SEX", "MAR"])

# A folder keeps the example without a server; a tracking server is set in the same way.
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
with tempfile.TemporaryDirectory() as folder:
    mlflow.set_tracking_uri(f"file://{folder}")
    mlflow.set_experiment("recalibrate")
    with mlflow.start_run() as run:
        logged = recalibrate.mlflow.log_model(model, X_sample=test.X[:20], report=report)
    served = mlflow.pyfunc.load_model(logged.model_uri)
    same = np.array_equal(served.predict(test.X), model.predict_proba(test.X))
    print("flavors:", ", ".join(sorted(logged.flavors)))
    print("served predictions are the model's:", same)
    print({name: round(x, 4) for name, x in mlflow.get_run(run.info.run_id).data.metrics.items()})
