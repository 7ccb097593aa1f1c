"""A package of someone else registers its models, without a line of ours."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.scores import as_base

PACKAGE = Path(__file__).parent / "third_party_package"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The package, installed by pip into a folder of its own."""
    pytest.importorskip("pip")
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    done = subprocess.run([*pip, *options, str(PACKAGE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(site)
    yield site
    for name in ("thirdparty_models", "thirdparty_adapter"):
        sys.modules.pop(name, None)


def table(n):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.uniform(18, 80, n)})
    y = rng.random(n) < np.where(X["age"] > 40, 0.6, 0.2) + np.where(X["sex"] == "F", 0.2, -0.1)
    return X, y


def test_a_registered_model_is_recalibrated(installed):
    import thirdparty_models

    X, y = table(3000)
    model = rc.fit(thirdparty_models.Stump("age", 40, 0.2, 0.6), X, y, H=rc.Groups("sex"))
    assert model.base.name == "stump"
    women = (X["sex"] == "F").to_numpy()
    gap = y[women].mean() - model.predict(X)[women].mean()
    # The base is off by .2; what is left is within the noise of the women's own mean.
    assert abs(gap) < 2 * y[women].std() / np.sqrt(women.sum())


def test_a_registered_file_is_read(installed, tmp_path):
    path = tmp_path / "model.stump"
    text = json.dumps({"column": "age", "threshold": 40, "below": 0.2, "above": 0.6})
    path.write_text(text)
    base = as_base(path)
    assert base.scores(pd.DataFrame({"age": [20, 60]})).tolist() == [0.2, 0.6]


def test_what_is_registered_is_listed(installed, tmp_path):
    class Unknown:
        def predict(self, X):
            return X

    with pytest.raises(TypeError, match=r"Adapters present: .*thirdparty_models"):
        as_base(Unknown())
    unknown = tmp_path / "model.unknown"
    unknown.touch()
    with pytest.raises(ValueError, match=r"'\.unknown'.*\.stump"):
        as_base(unknown)


def test_without_the_package_it_is_unknown(site):
    # The class alone, as if the package had been removed after the model was made.
    class Stump:
        def predict(self, X):
            return X

    Stump.__module__ = "thirdparty_models"
    with pytest.raises(TypeError, match="No installed adapter knows models of type thirdparty"):
        as_base(Stump())
