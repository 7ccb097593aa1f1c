"""A small table whose scores are wrong for one sex, and models made of it on the command line."""

import numpy as np
import pandas as pd
import pytest

from recalibrate.commands import main

N = 1200


def make_rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["F", "M"], n),
            "age": rng.integers(18, 80, n),
            "zip": rng.choice(["01234", "02345", "10000"], n),
        }
    )
    truth = np.where(frame["sex"] == "F", 0.7, 0.3)
    frame["y"] = (rng.random(n) < truth).astype(int)
    frame["p"] = np.round(rng.uniform(0.4, 0.6, n), 3)
    return frame


@pytest.fixture(scope="session")
def frame():
    return make_rows()


@pytest.fixture(scope="session")
def folder(tmp_path_factory, frame):
    """Files that tests read but do not change: rows.csv, rows.parquet, model.rcal."""
    made = tmp_path_factory.mktemp("commands")
    frame.to_csv(made / "rows.csv", index=False)
    frame.to_parquet(made / "rows.parquet", index=False)
    code = main([*fit_rows(made), "-o", str(made / "model.rcal"), "--quiet"])
    assert code == 0
    return made


@pytest.fixture(scope="session")
def exported(folder):
    """The model of the folder as a graph that decides."""
    path = folder / "exported.onnx"
    args = ["export", str(folder / "model.rcal"), "-o", str(path), "--decide", "absolute"]
    args += ["--data", str(folder / "rows.csv"), "--score-column", "p", "--quiet"]
    assert main(args) == 0
    return path


def fit_rows(folder):
    """Arguments of a small fit."""
    return [
        "fit", str(folder / "rows.csv"), "--label", "y", "--score-column", "p", "--drop", "id",
        "--text", "zip", "--H", "groups(sex, zip)",
    ]  # fmt: skip


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command inside of an empty folder; exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*args):
        code = main([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def refused(run):
    """Run a command that must be refused in one line; the line."""

    def call(*args):
        code, out, err = run(*args)
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1, err
        assert "Traceback" not in err
        return err

    return call
