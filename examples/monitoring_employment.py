"""Employment in Massachusetts, 2015 to 2018: a model of 2015 watched for three years.

    pip install --no-deps nannyml        # its wheel carries the data
    python examples/monitoring_employment.py

Scores of a model, labels and ten columns of the American Community Survey come with the package
nannyml; only its data files are read. The model's scores are watched as they are, and after a
recalibration on the rows of 2015.
"""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

import recalibrate as rc

COLUMNS = ["RAC1P", "SEX", "AGEP", "MAR", "SCHL", "CIT", "DIS", "NATIVITY", "MIL", "MIG"]
SCORE, LABEL = "predicted_probability", "employed"


def read() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of 2015, and those of the years after with their labels."""
    found = find_spec("nannyml")
    if found is None or not found.submodule_search_locations:
        print("nothing to watch: the data come with nannyml, pip install --no-deps nannyml")
        raise SystemExit  # without the data there is nothing wrong, either
    folder = Path(found.submodule_search_locations[0]) / "datasets" / "data"
    reference, later, labels = (
        pd.read_parquet(folder / f"employment_MA_{name}.pq")
        for name in ("reference", "analysis", "analysis_target")
    )
    return reference, later.merge(labels, on="id")


def main() -> dict[str, rc.Monitor]:
    reference, later = read()
    model = rc.fit(reference[SCORE].to_numpy(), reference[COLUMNS], reference[LABEL])
    monitors = {}
    for name in ("base", "recalibrated on 2015"):
        watched = None if name == "base" else model
        given = "scores" if watched is None else "base"
        monitor = rc.Monitor(watched, rc.Groups(*COLUMNS, min_rows=200), tolerance=0.01)
        monitor.start(reference, **{given: reference[SCORE]})
        for year, rows in later.groupby("year"):
            monitor.update(rows, rows[LABEL], time=int(year), **{given: rows[SCORE]})
        monitors[name] = monitor
        report = monitor.report()
        print(f"{name}: {len(report.alarms)} alarms in {len(report.groups)} groups")
        for group in report.alarms:
            print(f"  {group.group}: {group.gap:+.3f} ({group.low:+.3f} to {group.high:+.3f})")
    return monitors


if __name__ == "__main__":
    main()
