"""The benchmark of the first fit says what is compiled."""

import json

import pytest
from scripts import load


@pytest.mark.slow
def test_a_cold_process_compiles_and_a_warm_one_does_not(tmp_path, capsys):
    path = tmp_path / "found.json"
    load("cold_start").main(["--rows", "500", "--json", str(path)])
    found = json.loads(path.read_text())
    ours = [each for each in found["cold"]["compiled"] if each["module"].startswith("recalibrate")]
    assert len(ours) > 20
    assert found["warm"]["compiled"] == []
    assert ours[0]["name"] in capsys.readouterr().out
