"""A model in production: a year of weekly batches, a drift in one group, an alarm, a refit.

    python examples/monitoring.py
    python examples/monitoring.py --html monitor.html

The census is simulated. From week 30 on young women have high incomes more often than before. The
monitor looks every week at all groups; the chance that it ever raises a false alarm is at most 5 %.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]
GROUPS = ["SEX", "MAR", "RAC1P", "AGEP", "SEX*(AGEP < 35)"]
DRIFT, ROWS = 30, 2_000


def week(number: int):
    """Rows and labels; from DRIFT on the outcomes of young women are more frequent by .15."""
    data = census(ROWS, seed=1000 + number, categorical=True)
    drifted = (data.X["SEX"] == "female") & (data.X["AGEP"] < 35) & (number >= DRIFT)
    truth = np.clip(data.probability + 0.15 * drifted.to_numpy(), 0, 1)
    return data.X, (np.random.default_rng(number).random(ROWS) < truth).astype(float)


def main(argv: Sequence[str] | None = None) -> rc.Monitor:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", help="write the report as a page")
    parser.add_argument("--weeks", type=int, default=52)
    given = parser.parse_args(argv)

    train, calibration = (census(20_000, seed=seed, categorical=True) for seed in (1, 2))
    base = make_pipeline(StandardScaler(), LogisticRegression()).fit(train.X[SEEN], train.y)
    groups = rc.Groups(*GROUPS, min_rows=400)
    model = rc.fit(
        lambda X: base.predict_proba(X[SEEN])[:, 1], calibration.X, calibration.y, H=groups
    )

    monitor = rc.Monitor(model, groups, tolerance=0.03, alpha=0.05).start(calibration.X)
    recent = []
    for number in range(given.weeks):
        X, y = week(number)
        recent = [*recent, (X, y)][-8:]
        for group in monitor.update(X, y, time=number):
            print(f"week {number}: alarm, {group}")
    print()
    X = pd.concat([rows for rows, _ in recent], ignore_index=True)
    y = np.concatenate([labels for _, labels in recent])
    report = monitor.report(X, y)
    print(report)
    if given.html:
        report.to_html(given.html)

    better = model.refit(X, y)
    X, y = week(given.weeks)
    for name, each in (("before", model), ("after", better)):
        table = rc.audit(each, X, y, groups="SEX*(AGEP < 35)").table.set_index("group")
        print(f"\ngap of young women a week later, {name} the refit: ", end="")
        print(f"{table.loc['SEX = female * AGEP < 35', 'gap']:+.3f}", end="")
    print()
    return monitor


if __name__ == "__main__":
    main()
