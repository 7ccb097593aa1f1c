"""A LightGBM regression, saved to a file and recalibrated from there.

    python examples/lightgbm_model.py

The census is simulated. The label is an income from 0 to 1; the model, a Tweedie regression, sees
neither sex nor race.
"""

import tempfile
from pathlib import Path

import numpy as np
from lightgbm import LGBMRegressor

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]
GROUPS = rc.Groups("SEX == 2", "AGEP < 25", "SEX == 2 and AGEP < 25")


def main() -> None:
    train, calibration, test = (census(10_000, seed=seed, task="income") for seed in (1, 2, 3))
    trained = LGBMRegressor(objective="tweedie", n_estimators=100, num_leaves=15, verbose=-1)
    trained.fit(train.X[SEEN], train.y)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.txt"
        trained.booster_.save_model(path)
        model = rc.fit(path, calibration.X, calibration.y, H=GROUPS)

    def before(X):
        return trained.predict(X[SEEN])

    report = rc.audit(model, test.X, test.y, groups=GROUPS, baseline=before)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap"]]
    print("Mean outcome minus mean prediction on 10,000 new rows, before and after:\n")
    print(table.round(3).to_string())
    worst = np.abs(report.table[["before_gap", "gap"]]).max()
    print(f"\nLargest gap of any group: {worst['before_gap']:.3f} -> {worst['gap']:.3f}")


if __name__ == "__main__":
    main()
