"""Recalibration inside scikit-learn: cross-validated, searched, compared with sklearn's own.

python examples/sklearn_cross_validation.py
"""

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline

import recalibrate as rc
from recalibrate.simulate import census

data = census(6000, seed=1, categorical=False)
# The model sees age, schooling and hours only; the groups may be of any column.
forest = make_pipeline(
    make_column_transformer(("passthrough", ["AGEP", "SCHL", "WKHP"])),
    RandomForestClassifier(n_estimators=50, min_samples_leaf=5, random_state=0, n_jobs=2),
)
groups = rc.Groups("SEX", "MAR", "SEX*MAR", min_rows=200)
models = {
    "forest": forest,
    "sklearn": CalibratedClassifierCV(forest, cv=3),
    "recalibrate": rc.RecalibratedClassifier(forest, groups, cv=3, random_state=0),
}

# Every row is predicted by models that have not seen it: such predictions can be audited.
for name, model in models.items():
    p = cross_val_predict(model, data.X, data.y, cv=3, method="predict_proba")[:, 1]
    report = rc.audit(p, data.X, data.y, groups=groups)
    loss = -np.mean(np.log(np.where(data.y == 1, p, 1 - p).clip(1e-12)))
    print(f"{name:12} log loss {loss:.4f}, {report.verdict.split('(')[0].strip()}")

# H and its fields are parameters like any others.
search = GridSearchCV(
    rc.RecalibratedClassifier(forest, rc.Trees(depth=1), cv=3, random_state=0),
    {"H__depth": [1, 2]},
    scoring="neg_log_loss",
    cv=2,
).fit(data.X, data.y)
print("best", search.best_params_)
print(search.best_estimator_.model_.summary().splitlines()[0])
