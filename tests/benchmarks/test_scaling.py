"""benchmarks/scaling.py measures in fresh processes; its times are not judged here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scripts import load


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    return load("scaling")


@pytest.mark.slow
def test_measures_in_fresh_processes(
    scaling: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--rows", "3000", "--features", "12", "--rows-for-features", "2000"]
    quick = ["--rounds", "2", "--levels", "5", "--repeats", "1", "--threads", "1"]
    by_rows, by_features = scaling.main([*sizes, *quick])
    printed = capsys.readouterr().out

    assert [(r.rows, r.features) for r in by_rows + by_features] == [(3000, 10), (2000, 12)]
    for result in by_rows + by_features:
        assert result.table_bytes == 4 * result.rows * result.features
        assert result.learners >= 2
        assert scaling.show(result) in printed
    assert scaling.HEADER in printed
    assert "times its float32 size on top of the input" in printed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the mark is not inherited")
def test_does_not_count_the_memory_of_the_starting_process(
    scaling: ModuleType, tmp_path: Path
) -> None:
    scaling.write_data(tmp_path, 2000, 5)
    ballast = np.ones(40_000_000)  # 320 MB that this process holds and the child does not

    result = scaling.in_child(scaling.Order(str(tmp_path), 1, 5, 1, 1, 1))

    assert result.extra_bytes < ballast.nbytes / 4


def test_verdicts(scaling: ModuleType) -> None:
    def result(rows: int, features: int, seconds: float, extra: int) -> object:
        return scaling.Result(rows, features, seconds, 10, 4 * rows * features, extra)

    by_rows = [result(1_000_000, 10, 1.0, 0), result(10_000_000, 10, 16.0, 2_000_000_000)]
    by_features = [result(1000, 5, 1.0, 0), result(1000, 10, 2.0, 0)]

    assert scaling.verdicts(by_rows, by_features) == [
        "10,000,000 rows cost 1.60 times as much a row as 1,000,000; limit 1.5: EXCEEDED",
        "10 features cost 1.00 times as much a feature as 5",
        "largest table: 5.00 times its float32 size on top of the input; limit 3: EXCEEDED",
    ]
