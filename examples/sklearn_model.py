"""A scikit-learn pipeline with text columns, recalibrated for groups that it does not know.

    python examples/sklearn_model.py

The census is simulated. The pipeline sees age, schooling, hours and the class of work, but neither
sex nor race: the table that recalibrates it may have more columns than the model was trained on.
"""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP", "COW"]


def main() -> None:
    train, calibration, test = (census(15_000, seed=seed, categorical=True) for seed in (1, 2, 3))

    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["COW"]),
        (StandardScaler(), ["AGEP", "SCHL", "WKHP"]),
    )
    base = make_pipeline(columns, LogisticRegression())
    base.fit(train.X[SEEN], train.y)

    groups = rc.Groups("SEX", "RAC1P", "AGEP < 25", min_rows=100)
    model = rc.fit(base, calibration.X, calibration.y, H=groups)

    report = rc.audit(model, test.X, test.y, groups=groups, baseline=base)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap"]]
    print("Mean outcome minus mean prediction on 15,000 new rows, before and after:\n")
    print(table.round(3).to_string())
    worst = np.abs(report.table[["before_gap", "gap"]]).max()
    print(f"\nLargest gap of any group: {worst['before_gap']:.3f} -> {worst['gap']:.3f}")
    print(f"The model runs in onnxruntime as well: {model.base.why_no_graph or 'yes'}")


if __name__ == "__main__":
    main()
