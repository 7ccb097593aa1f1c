"""JSON with one meaning: time and memory are linear in the text, and bounded."""

import pytest

from recalibrate.support import strictjson
from recalibrate.support.checks import ModelFileError
from recalibrate.support.strictjson import MOST_NESTING, parse


def test_quotes_without_an_end():
    """Each escaped quote could begin a string: looking for its end anew took quadratic time."""
    for text in (b'"' + b'\\"' * 300_000, b'["' + b'a\\"' * 300_000 + b"[" * 100):
        with pytest.raises(ModelFileError, match="not JSON"):
            parse(text)


def test_nesting_is_counted_across_pieces(monkeypatch):
    monkeypatch.setattr(strictjson, "_PIECE", 7)
    deepest = b"[" * MOST_NESTING + b"]" * MOST_NESTING
    assert parse(b'{"[[[[": 1}') == {"[[[[": 1}
    assert parse(deepest)
    with pytest.raises(ModelFileError, match="nested deeper than 64"):
        parse(b"[" + deepest + b"]")


def test_many_lists(monkeypatch):
    """An empty list takes twenty times the memory of its text."""
    monkeypatch.setattr(strictjson, "MOST_PARTS", 1000)
    assert len(parse(b"[" + b"[]," * 998 + b"[]]")) == 999
    with pytest.raises(ModelFileError, match="more than 1,000 lists and objects"):
        parse(b"[" + b"[]," * 999 + b"[]]")
    with pytest.raises(ModelFileError, match="more than 1,000 texts"):
        parse(b"[" + b'"ab",' * 1001 + b"1]")


def test_what_it_is_and_whether_numbers_are_finite():
    with pytest.raises(ModelFileError, match="the state holds NaN"):
        parse(b"[NaN]", "the state")
    assert parse(b"[Infinity]", finite=False) == [float("inf")]
    for number in (b"1e999", b"-1E+400", b"1" + b"0" * 400 + b".0"):
        with pytest.raises(ModelFileError, match=r"the state holds .*, which is beyond all"):
            parse(b"[" + number + b"]", "the state")
        assert abs(parse(number, finite=False)) == float("inf")
    assert parse(b"[1e308, 1e-999, -0.0]") == [1e308, 0.0, 0.0]
