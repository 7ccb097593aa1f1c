"""What tests of boosted trees have in common."""

from typing import Any

import numpy as np
import pandas as pd
from cases import input_type, with_neighbours

from recalibrate.scores import predicted_mean


def assert_same(base: Any, frame: Any, native: Any) -> None:
    """Equal up to the float32 sums of the framework; a row on a wrong side is far off."""
    native = np.asarray(native, dtype=np.float64)
    atol = 1e-5 * float(np.abs(native).mean())
    np.testing.assert_allclose(predicted_mean(base, frame), native, rtol=1e-5, atol=atol)


def on_thresholds(base: Any, frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Rows whose numbers are thresholds of the model, and the numbers next to these."""
    rng = np.random.default_rng(seed)
    result = frame.copy()
    ensembles = base._form.ensembles
    for j, name in enumerate(base._form.schema.names):
        found = [e.threshold[(e.feature == j) & (e.subset < 0)] for e in ensembles]
        at = np.concatenate(found)
        if len(at):
            result[name] = rng.choice(with_neighbours(at), len(frame))
    return result


def run_graph(base: Any, frame: pd.DataFrame) -> Any:
    """Scores of a base's graph; missing text is empty text."""
    import onnxruntime

    session = onnxruntime.InferenceSession(base.graph().SerializeToString())
    inputs = session.get_inputs()
    if inputs[0].name == "X":
        return session.run(None, {"X": frame.to_numpy(dtype=input_type(inputs[0]))})[0]
    feeds = {}
    for value in inputs:
        column = frame[value.name].astype(object)
        if value.type == "tensor(string)":
            feeds[value.name] = column.where(column.notna(), "").to_numpy().reshape(-1, 1)
        else:
            feeds[value.name] = column.to_numpy(dtype=input_type(value)).reshape(-1, 1)
    return session.run(None, feeds)[0]
