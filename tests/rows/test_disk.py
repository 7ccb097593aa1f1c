"""What of the rows on disk stays in memory."""

from recalibrate.rows import reading


def test_rows_stay_in_memory_up_to_an_eighth_of_what_a_container_may_have(tmp_path, monkeypatch):
    unlimited, limited = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    unlimited.write_text("max\n")
    limited.write_text("64000000\n")
    for limits, expected in (
        ((str(unlimited), str(limited), str(tmp_path / "missing")), 8_000_000),
        ((str(unlimited),), reading.default_memory()),
    ):
        monkeypatch.setattr(reading, "CONTAINER_LIMITS", limits)
        assert reading.default_memory() == expected
        assert 0 < expected <= reading.MOST_MEMORY
