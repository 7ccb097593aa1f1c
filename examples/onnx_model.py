"""A model that exists only as an ONNX file: recalibrated, with its columns found by name.

    python examples/onnx_model.py

Whoever trained the model is gone; the file takes one matrix, so the columns are named here.
"""

import tempfile
from pathlib import Path

import numpy as np
from recalibrate_adapters.onnx import OnnxBase
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier

import recalibrate as rc
from recalibrate.simulate import census

SEEN = ["AGEP", "SCHL", "WKHP"]
GROUPS = rc.Groups("SEX == 2", "AGEP < 25", "SEX == 2 and AGEP < 25")


def write_file(folder: Path) -> Path:
    """The file that somebody left: a classifier, with labels and a map of probabilities."""
    train = census(10_000, seed=1)
    rows = train.X[SEEN].to_numpy(dtype=np.float32)
    forest = RandomForestClassifier(50, min_samples_leaf=50, random_state=0).fit(rows, train.y)
    path = folder / "classifier.onnx"
    path.write_bytes(to_onnx(forest, rows[:1]).SerializeToString())
    return path


def main() -> None:
    calibration, test = census(10_000, seed=2), census(10_000, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder))
        # rc.fit(path, ...) would do, if the table had just these columns in this order.
        base = OnnxBase(path, columns=SEEN)
        model = rc.fit(base, calibration.X, calibration.y, H=GROUPS)

    report = rc.audit(model, test.X, test.y, groups=GROUPS, baseline=base)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap"]]
    print("Mean outcome minus mean prediction on 10,000 new rows, before and after:\n")
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
