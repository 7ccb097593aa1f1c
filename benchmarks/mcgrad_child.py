"""MCGrad's part of ``lgbmcv.py`` and ``groups.py``: runs where mcgrad is."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from measuring import best_of


def main(path: Path) -> None:
    """Fit and predict what the file says; prints the seconds, and saves the predictions."""
    from mcgrad.methods import MCGrad, RegressionMCGrad

    given = pickle.loads(path.read_bytes())  # noqa: S301 written by lgbmcv.py a moment ago
    model = (MCGrad if given["binary"] else RegressionMCGrad)()
    rows, many = pd.DataFrame(given["rows"]), pd.DataFrame(given["many"])
    columns = {
        "categorical_feature_column_names": given["categorical"],
        "numerical_feature_column_names": given["numerical"],
    }
    fit = best_of(given["repeats"], lambda: model.fit(rows, "score", "label", **columns))
    predict = best_of(2 * given["repeats"], lambda: model.predict(many, "score", **columns))
    np.save(path.with_suffix(".npy"), np.asarray(model.predict(many, "score", **columns), float))
    print(json.dumps({"fit": vars(fit), "predict": vars(predict)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
