"""Models can be copied, pickled and sent to other processes; sessions are opened anew there."""

import copy
import gc
import pickle

import joblib
import numpy as np
import pandas as pd
import psutil
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import recalibrate as rc


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    return X, (rng.random(400) < 1 / (1 + np.exp(-X["a"]))).astype(int)


@pytest.fixture(scope="module")
def models(rows, tmp_path_factory):
    X, y = rows
    folder = tmp_path_factory.mktemp("models")
    model = rc.fit(LogisticRegression().fit(X, y), X, y, H=rc.Groups("a > 0"))
    model.save(folder / "model.rcal")
    model.to_onnx(folder / "model.onnx", X)
    return {
        "fitted": model,
        "saved": rc.load(folder / "model.rcal"),
        "exported": rc.load(folder / "model.onnx"),
        "on an exported one": rc.fit(folder / "model.onnx", X, y, H=rc.Groups("b > 0")),
    }


def through_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


WAYS = {
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),  # noqa: S301 - our own
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "copy": lambda model, folder: copy.copy(model),
    "joblib": through_joblib,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["fitted", "saved", "exported", "on an exported one"])
def test_copies_predict_the_same(name, way, models, rows, tmp_path):
    model = models[name]
    expected = model.predict(rows[0])  # a session is open now
    again = WAYS[way](model, tmp_path)
    np.testing.assert_array_equal(again.predict(rows[0]), expected)
    np.testing.assert_array_equal(model.predict(rows[0]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("H", [rc.Trees(), rc.Linear(), rc.Groups("a > 0", "b > 0")], ids=repr)
def test_mapped_models_need_few_file_handles_and_give_them_back(H, rows, tmp_path):
    """joblib maps every array of a pickle by a handle; a process may have about 1,000."""
    X, y = rows
    base = RandomForestClassifier(n_estimators=2, random_state=0).fit(X, y)
    loop = rc.Loop(max_rounds=30, levels=3, step=0.05)
    model = rc.fit(base, X, 1 - y, H, loop=loop, validation=False)
    expected = model.predict(X)
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    used = file_handles()
    gc.disable()
    try:
        mapped = joblib.load(path, mmap_mode="r")
        assert file_handles() - used < 30
        np.testing.assert_array_equal(mapped.predict(X), expected)
        del mapped
        assert file_handles() <= used
    finally:
        gc.enable()


def file_handles():
    return psutil.Process().num_fds()
