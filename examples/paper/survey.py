"""Person files of the American Community Survey to the features and labels of ACSIncome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from common import Features, Floats

FEATURES = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]
INCOME, WEIGHT = "PINCP", "PWGTP"
NEW_NAMES = {"RELSHIPP": "RELP"}  # since 2019
INCOME_CAP = 100_000.0


def read_income(paths: Sequence[Path], *, drop_above_cap: bool) -> tuple[Features, Floats]:
    """Ten numeric codes, and the income up to 100,000 scaled to [0, 1].

    Rows are those of folktables' ACSIncome: persons above 16 with an income above 100 who work.
    """
    people = pd.concat([_read(path) for path in paths], ignore_index=True)
    people = people[
        (people["AGEP"] > 16)
        & (people[INCOME] > 100)
        & (people["WKHP"] > 0)
        & (people[WEIGHT] >= 1)
    ]
    if drop_above_cap:
        people = people[people[INCOME] <= INCOME_CAP]
    if people.empty:
        raise SystemExit(f"no rows with an income in {', '.join(map(str, paths))}")
    X = people[FEATURES].fillna(0.0).to_numpy(np.float32)  # folktables puts zeros as well
    y = np.minimum(people[INCOME].to_numpy(np.float64), INCOME_CAP) / INCOME_CAP
    return X, y


def _read(path: Path) -> pd.DataFrame:
    wanted = {*FEATURES, *NEW_NAMES, INCOME, WEIGHT}
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
    else:
        table = pd.read_csv(path, usecols=lambda name: name in wanted)
    table = table.rename(columns=NEW_NAMES)
    if WEIGHT not in table:
        table[WEIGHT] = 1
    missing = sorted({*FEATURES, INCOME} - set(table.columns))
    if missing:
        raise SystemExit(
            f"{path} has no column {', '.join(missing)}; give a person file of the survey, such "
            "as psam_p06.csv"
        )
    return table[[*FEATURES, INCOME, WEIGHT]]
