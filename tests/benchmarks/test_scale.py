"""The benchmark of blocks on disk runs, and says what it found; times are not judged here."""

from __future__ import annotations

import pytest
from scripts import load

scale = load("scale")


@pytest.mark.slow
def test_both_ways_are_measured_in_fresh_processes(capsys, tmp_path):
    quick = ["--rounds", "2", "--levels", "5", "--threads", "1", "--block-rows", "1000"]
    results = scale.main(["--both", "3000", "--blocks", "2000", "--cache", str(tmp_path), *quick])
    printed = capsys.readouterr().out
    assert [(each.where, each.rows) for each in results] == [
        ("memory", 3000),
        ("blocks", 3000),
        ("blocks", 2000),
    ]
    memory, blocks, _ = results
    assert blocks.model == memory.model
    assert memory.learners >= 2
    assert "the same model" in printed
    assert "3,000 rows take" in printed
    for result in results:
        assert scale.show(result) in printed
    assert not list(tmp_path.iterdir())


def test_verdict_names_another_model_and_a_ratio_that_is_too_high():
    def result(where, cpu, model):
        return scale.Result(where, 1000, 1.0, cpu, 0, 0, 0, 1, model)

    memory = result("memory", 1.0, "a")
    assert "1.10 times as much" in scale.verdict(memory, result("blocks", 1.1, "a"))
    assert "kept" in scale.verdict(memory, result("blocks", 1.1, "a"))
    assert "EXCEEDED" in scale.verdict(memory, result("blocks", 1.5, "a"))
    assert "ANOTHER MODEL" in scale.verdict(memory, result("blocks", 1.1, "b"))


def test_growth_names_rows_that_cost_more_and_memory():
    small = scale.Result("memory", 1_000_000, 1.0, 1.0, 0, 0, 0, 1, "a")
    large = scale.Result("memory", 10_000_000, 9.0, 16.0, 2_000_000_000, 0, 0, 1, "b")
    assert scale.growth([small, large]) == [
        "10,000,000 rows cost 1.60 times as much a row as 1,000,000, limit 1.5: EXCEEDED",
        "10,000,000 rows take 5.00 times their float32 table beside the input, limit 3: EXCEEDED",
    ]
