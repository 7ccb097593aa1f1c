"""Score a Dask DataFrame with an exported model: every worker runs the one ONNX file.

    python examples/dask_scoring.py

The workers need onnxruntime, numpy, pandas and recalibrate (which turns a table into the file's
inputs), but not the framework of the base model. The numbers are those of the model that was
exported, to the last bit, whatever the partitions. The census is simulated; the cluster is two
processes on this machine.
"""

import tempfile
from functools import lru_cache
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster
from xgboost import XGBClassifier

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]


@lru_cache(maxsize=1)
def opened(path: str):
    """The file, opened once in every worker."""
    return rc.load(path)


def score(rows: pd.DataFrame, path: str) -> pd.DataFrame:
    """Probability and log-odds of some rows."""
    model = opened(path)
    out = pd.DataFrame(index=rows.index, columns=["probability", "margin"], dtype="f8")
    if len(rows):
        out["probability"] = model.predict(rows)
        out["margin"] = model.margins(rows)
    return out


def main() -> None:
    train, calibration, new = (census(20_000, seed=seed) for seed in (1, 2, 3))
    base = XGBClassifier(n_estimators=50, max_depth=3).fit(train.X[SEEN], train.y)
    model = rc.fit(base, calibration.X, calibration.y, H=rc.Groups("SEX", "RAC1P", min_rows=100))

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        path = str(Path(folder) / "model.onnx")
        model.to_onnx(path, new.X[:1000])
        rows = dd.from_pandas(new.X, npartitions=7)
        meta = pd.DataFrame({"probability": pd.Series(dtype="f8"), "margin": pd.Series(dtype="f8")})
        scored = rows.map_partitions(score, path, meta=meta).compute()

    # Log-odds are float64 in the file, probabilities float32.
    np.testing.assert_array_equal(scored["margin"], model.margins(new.X))
    np.testing.assert_array_equal(scored["probability"], np.float32(model.predict(new.X)))
    print(f"{len(scored):,} rows in 7 partitions on 2 workers: bit-equal to the local model")
    print(scored.head().round(4).to_string())


if __name__ == "__main__":
    main()
