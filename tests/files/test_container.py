"""The outer form of a file: lengths, checksum, JSON, arrays."""

import json
import os
import sys
import tracemalloc

import numpy as np
import pytest
from forging import Forgery, seal

import recalibrate as rc
from recalibrate.files import ModelFileError, container, to_bytes
from recalibrate.files.container import CHECKSUM_BYTES, MAGIC, PREFIX, VERSION, pack, unpack
from recalibrate.support import strictjson


@pytest.fixture(scope="module")
def good():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < 0.4) * 1.0
    model = rc.fit(
        np.full(300, 0.5), X, y, rc.Trees(depth=2), validation=False, loop=rc.Loop(max_rounds=2)
    )
    return to_bytes(model)[0]


def load(data, tmp_path):
    path = tmp_path / "model.rcal"
    path.write_bytes(data)
    return rc.load(path)


def test_the_good_file_is_good(good, tmp_path):
    assert load(good, tmp_path).n_rounds_ == 2


def test_arrays_of_every_kind_come_back():
    given = [
        np.array([True, False]),
        np.arange(5, dtype=np.uint8),
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.array([-1, 2**62], dtype=np.int64),
        np.array([np.nan, -0.0, np.inf], dtype=np.float32),
        np.array([[5e-324], [1e308]]),
        np.empty((0, 4)),
        np.arange(8.0)[::2],
        np.arange(3, dtype=">i4"),
    ]
    _, model, found = unpack(pack({"a": 1}, given))
    assert model == {"a": 1}
    for array, again in zip(given, found, strict=True):
        np.testing.assert_array_equal(again, array)
        assert again.dtype == array.dtype.newbyteorder("=")
        assert again.flags.aligned
        assert again.flags.c_contiguous
    with pytest.raises(TypeError, match="object"):
        pack({"a": 1}, [np.array([None])])


def test_every_truncation_is_refused(good, tmp_path):
    lengths = {*range(0, len(good), 97), *range(40), len(good) - 1, len(good) - 33}
    for length in sorted(lengths):
        with pytest.raises(ModelFileError, match=r"truncated|not a \.rcal file"):
            load(good[:length], tmp_path)
    with pytest.raises(ModelFileError, match="too long"):
        load(good + b"\0", tmp_path)


def test_every_flipped_bit_is_refused(good, tmp_path):
    rng = np.random.default_rng(0)
    places = {*range(PREFIX.size), *rng.integers(len(good), size=150).tolist(), len(good) - 1}
    for at in sorted(places):
        damaged = bytearray(good)
        damaged[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(ModelFileError):
            load(bytes(damaged), tmp_path)


def test_a_flipped_bit_inside_is_named(good, tmp_path):
    damaged = bytearray(good)
    damaged[len(good) // 2] ^= 1
    with pytest.raises(ModelFileError, match=r"checksum does not match.*damaged or edited"):
        load(bytes(damaged), tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04\x95", b"{}", MAGIC[:5]])
def test_other_files_are_refused(content, tmp_path):
    with pytest.raises(ModelFileError, match=r"not a \.rcal file|truncated"):
        load(content, tmp_path)


def test_a_newer_version_asks_for_an_upgrade(good, tmp_path):
    forged = Forgery(good)
    text = json.dumps(forged.header).encode()
    payload = b"".join(a.tobytes() for a in forged.arrays)
    with pytest.raises(
        ModelFileError, match=rf"format version {VERSION + 1}.*newer.*pip install -U"
    ):
        load(seal(text, payload, version=VERSION + 1), tmp_path)
    with pytest.raises(ModelFileError, match="no format version 0"):
        load(seal(text, payload, version=0), tmp_path)


@pytest.mark.parametrize(
    ("header", "payload"), [(2**40, 0), (2**63, 5), (10, 2**62), (2**64 - 1, 2**64 - 1)]
)
def test_oversized_claims_are_refused_before_anything_is_allocated(header, payload, tmp_path):
    data = PREFIX.pack(MAGIC, 1, header, payload) + bytes(100)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="more than any model has"):
        load(data, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([["<f8", [2**32]]], "should take"),
        ([["<f8", [2**40]]], "impossible shape"),
        ([["<f8", [2**31, 2**31]]], "should take"),
        ([["<f8", [-1]]], "impossible shape"),
        ([["<f8", [2**70]]], "impossible shape"),
        ([["<f8", [True]]], "impossible shape"),
        ([["<f8", [1.0]]], "impossible shape"),
        ([["<f8", []]], "impossible shape"),
        ([["<f8", [1] * 40]], "impossible shape"),
        ([["<f8", "1"]], "impossible shape"),
        ([["|O", [1]]], "unknown kind"),
        ([["|V8", [1]]], "unknown kind"),
        ([["<f8"]], "unknown kind"),
        ([[["<f8"], [1]]], "unknown kind"),
        ({"a": 1}, "must list"),
        (None, "must list"),
    ],
)
def test_impossible_arrays_are_refused(listed, message, good, tmp_path):
    forged = Forgery(good)
    forged.header["arrays"] = listed
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=message):
        load(forged.seal_as_listed(), tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_flags_are_0_or_1(good, tmp_path):
    forged = Forgery(good)
    flags = forged.array("steps", 0, "table", "missing_left")
    flags.view(np.uint8)[0] = 2
    with pytest.raises(ModelFileError, match="neither 0 nor 1"):
        load(forged.seal(), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"arrays":[],"model":{},"model":{}}', "repeats the key 'model'"),
        (b'{"arrays":[],"model":NaN}', "NaN"),
        (b'{"arrays":[],"model":-Infinity}', "Infinity"),
        (b'{"arrays":[],"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"arrays":[],"model":' + b'{"a":' * 500 + b"1" + b"}" * 501, "nested deeper"),
        (b'{"arrays":[],"model":"\xff"}', "not JSON"),
        ('{"arrays":[],"model":{}}'.encode("utf-16"), "not JSON"),
        (b'{"arrays":[],"model":' + b"1" * 5000 + b"}", "not JSON"),
        (b'{"arrays":[],"model":{}', "not JSON"),
        (b"[]", "arrays and a model"),
        (b'{"arrays":[],"model":{},"more":1}', "arrays and a model"),
        (b'{"arrays":[],"model":{}}', "has no field"),
        (b'{"arrays":[],"model":[]}', "must be an object"),
        (b"", "not JSON"),
    ],
    ids=str,
)
def test_headers_with_no_meaning_or_two(text, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        load(seal(text, b""), tmp_path)


def test_brackets_inside_of_texts_are_no_nesting():
    nested = {"a": "[" * 1000 + '"' + "{" * 1000, "b\\": ["\\"]}
    assert strictjson.parse(strictjson.dump(nested)) == nested


def test_nothing_that_json_lacks_is_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        strictjson.dump(float("nan"))


def test_models_too_large_for_a_file_are_refused(monkeypatch):
    monkeypatch.setattr(container, "MOST_HEADER_BYTES", 1000)
    with pytest.raises(ValueError, match=r"too large for a file.*very many categories"):
        pack({"text": "x" * 1000}, [])


def test_missing_files_folders_and_pipes(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        rc.load(tmp_path / "none.rcal")
    with pytest.raises(FileNotFoundError, match="no file"):
        rc.load(tmp_path)
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe.rcal")
        with pytest.raises(FileNotFoundError, match="no file"):
            rc.load(tmp_path / "pipe.rcal")


def test_the_checksum_is_the_end_of_the_file(good):
    import hashlib

    assert hashlib.sha256(good[:-CHECKSUM_BYTES]).digest() == good[-CHECKSUM_BYTES:]
