"""A container with read-only packages and without a home: everything works all the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import recalibrate

PROGRAM = """
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", UserWarning)
    import recalibrate as rc
    X = np.arange(400.0)[:, None] % 7
    y = (X[:, 0] > 3) * 1.0
    groups = rc.Groups("x0 > 3")
    few = rc.Loop(levels=1, max_rounds=3)
    model = rc.fit(np.full(400, 0.5), X, y, H=groups, validation=False, loop=few)
    found = model.predict(X, base=np.full(400, 0.5))
told = [str(entry.message) for entry in caught if "NUMBA_CACHE_DIR" in str(entry.message)]
print(rc.__file__, len(told), found[y == 1].min() > found[y == 0].max())
"""


@pytest.mark.slow
def test_nowhere_to_keep_compiled_code(tmp_path):
    # Permissions would not stop the superuser, who runs many containers: files in the places of
    # the folders do.
    package = tmp_path / "packages" / "recalibrate"
    source = Path(recalibrate.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(place for place in package.rglob("*") if place.is_dir())]:
        (folder / "__pycache__").touch()
    (tmp_path / "home").touch()
    home = str(tmp_path / "home")
    places = {"HOME": home, "XDG_CACHE_HOME": home, "PYTHONPATH": str(package.parent)}
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | places
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(package / "__init__.py"), "1", "True"]
