"""benchmarks/halves.py cuts calibration rows in half, and compares methods on them."""

import numpy as np
import pytest
from scripts import load

pytest.importorskip("lightgbm")


@pytest.mark.slow
def test_only_calibration_rows_are_used_and_level_sets_compared(capsys):
    halves = load("halves")
    case = load("quality_cases").simulate_case(3000)
    first, second = halves.halves(case, draws=1)
    rows = sorted([*first.bases["lr"][0], *second.bases["lr"][0]])
    assert rows == sorted(case.bases["lr"][0])
    np.testing.assert_array_equal(first.y[0], second.y[1])
    found = halves.main(["--rows", "3000", "--draws", "1", "--threads", "1"])
    assert list(found) == ["simulated census / lr", "simulated census / tree"]
    methods = found["simulated census / tree"]
    assert methods[halves.OURS][0] < methods[halves.LGBM][0]  # an over-fitted tree needs a line
    assert "means over 2 pairs" in capsys.readouterr().out
