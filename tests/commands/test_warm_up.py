"""Compiling in advance."""

import json
import os
import subprocess
import sys

import pytest

from recalibrate.commands import main, warm_up

AFTER = """
import json
import recalibrate as rc
from recalibrate.kernels import compiler
from recalibrate.simulate import census

data = census(500, seed=1, categorical=True)
model = rc.fit(data.scores, data.X, data.y, progress=False)
model.predict(data.X, base=data.scores)
rc.audit(model, data.X, data.y, groups="SEX", base=data.scores)
missed = {each.__name__ for each in compiler._KERNELS if each.stats.cache_misses}
print(json.dumps(sorted(missed)))
"""


@pytest.mark.slow
def test_after_it_a_new_process_compiles_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run(*args):
        command = [sys.executable, *args]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert str(tmp_path) in run("-m", "recalibrate", "warm-up")
    assert json.loads(run("-c", AFTER)) == []


def test_it_fails_where_code_cannot_be_kept(monkeypatch, capsys):
    monkeypatch.setattr(warm_up, "warm_up", lambda: (40, None))
    assert main(["warm-up"]) == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
