"""A trained model, wrong for some groups of people; recalibrated, and checked on new rows.

    python examples/census_gaps.py

The census is simulated. The base model is an ordinary logistic regression that sees age,
schooling and hours but neither sex nor race, and is therefore too low for some groups and too
high for others, although it is right on average.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]


def main() -> None:
    train, calibration, test = (census(30_000, seed=seed, categorical=True) for seed in (1, 2, 3))

    base = make_pipeline(StandardScaler(), LogisticRegression())
    base.fit(train.X[SEEN], train.y)

    def score(X):
        return base.predict_proba(X[SEEN])[:, 1]

    groups = rc.Groups("SEX", "RAC1P", "AGEP < 25", "SEX*MAR", min_rows=100)
    model = rc.fit(score, calibration.X, calibration.y, H=groups)

    report = rc.audit(model, test.X, test.y, groups=groups, baseline=score)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap", "gap_se"]]
    print("Mean outcome minus mean prediction on 30,000 new rows, before and after:\n")
    print(table.round(3).to_string())
    worst = np.abs(report.table[["before_gap", "gap"]]).max()
    print(f"\nLargest gap of any group: {worst['before_gap']:.3f} -> {worst['gap']:.3f}")
    print()
    print(model.summary())


if __name__ == "__main__":
    main()
