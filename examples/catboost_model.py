"""A CatBoost model, saved to a file and recalibrated from there.

    python examples/catboost_model.py

The census is simulated; the model sees neither sex nor race.
"""

import tempfile
from pathlib import Path

from catboost import CatBoostClassifier

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]
GROUPS = rc.Groups("SEX == 2", "AGEP < 25", "SEX == 2 and AGEP < 25")


def main() -> None:
    train, calibration, test = (census(10_000, seed=seed) for seed in (1, 2, 3))
    trained = CatBoostClassifier(
        iterations=100, depth=4, random_seed=0, verbose=False, allow_writing_files=False
    )
    trained.fit(train.X[SEEN], train.y)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        trained.save_model(str(path))
        model = rc.fit(path, calibration.X, calibration.y, H=GROUPS)

    report = rc.audit(model, test.X, test.y, groups=GROUPS, baseline=trained)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap"]]
    print("Mean outcome minus mean prediction on 10,000 new rows, before and after:\n")
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
