"""An xgboost model with early stopping and categories, recalibrated for groups unknown to it.

    python examples/xgboost_model.py

The census is simulated. The model sees age, schooling, hours and the class of work, but neither
sex nor race: the table that recalibrates it may have more columns than the model was trained on.
"""

from xgboost import XGBClassifier

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP", "COW"]
GROUPS = rc.Groups("SEX", "RAC1P", "AGEP < 25", min_rows=100)


def main() -> None:
    train, stop, calibration, test = (
        census(10_000, seed=seed, categorical=True) for seed in (1, 2, 3, 4)
    )
    for rows in (train, stop):
        rows.X["COW"] = rows.X["COW"].astype("category")
    base = XGBClassifier(
        n_estimators=300, max_depth=4, learning_rate=0.1, early_stopping_rounds=10,
        enable_categorical=True,
    )  # fmt: skip
    base.fit(train.X[SEEN], train.y, eval_set=[(stop.X[SEEN], stop.y)], verbose=False)

    # Plain text is enough here: the model knows its training categories.
    model = rc.fit(base, calibration.X, calibration.y, H=GROUPS)

    before = base.predict_proba(test.X[SEEN].astype({"COW": "category"}))[:, 1]
    report = rc.audit(model, test.X, test.y, groups=GROUPS, baseline=before)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap"]]
    print("Mean outcome minus mean prediction on 10,000 new rows, before and after:\n")
    print(table.round(3).to_string())
    print(
        f"\nTrees used: {base.best_iteration + 1}. ONNX graph: {model.base.why_no_graph or 'yes'}"
    )


if __name__ == "__main__":
    main()
