"""MCGrad's part of ``speed.py --mcgrad``: runs where mcgrad is, and needs nothing else of ours."""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd


def best_of(runs: int, work: Callable[[], Any]) -> dict[str, float]:
    """Least seconds of several runs: on the clock, and of all processors together."""
    wall, cpu = [], []
    for _ in range(runs):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return {"wall": min(wall), "cpu": min(cpu)}


def main(path: Path) -> None:
    """Fit and predict what the file says; prints the seconds."""
    from mcgrad.methods import MCGrad, RegressionMCGrad

    given = pickle.loads(path.read_bytes())  # noqa: S301 written by speed.py a moment ago
    model = (MCGrad if given["binary"] else RegressionMCGrad)()
    rows, many = pd.DataFrame(given["rows"]), pd.DataFrame(given["many"])
    columns = {
        "categorical_feature_column_names": given["categorical"],
        "numerical_feature_column_names": given["numerical"],
    }
    fit = best_of(given["repeats"], lambda: model.fit(rows, "score", "label", **columns))
    predict = best_of(2 * given["repeats"], lambda: model.predict(many, "score", **columns))
    print(json.dumps({"fit": fit, "predict": predict}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
