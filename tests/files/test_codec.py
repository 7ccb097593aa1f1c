"""The codec: what a description writes it reads back, and refuses everything else."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, TypeVar

import numpy as np
import pytest
from forging import Forgery, seal
from numpy.typing import NDArray

import recalibrate as rc
from recalibrate import files
from recalibrate.core.kinds import CLASSES, module_of
from recalibrate.files import ModelFileError, codec
from recalibrate.files.codec import ClassFiles

INF = float("inf")


@dataclass
class Part:
    weight: NDArray[np.float64]
    name: str = ""


@dataclass
class Whole:
    count: int
    share: float
    side: Literal["left", "right"]
    flag: bool
    names: tuple[str, ...] | None
    errors: tuple[float, ...]
    part: Part | None
    parts: tuple[Part, ...] = ()


PART = codec.Record(Part, {"name": codec.text(5)})
WHOLE = codec.Record(
    Whole,
    {"count": codec.whole(1, 9), "parts": codec.Items(PART)},
    names={"side": "hand"},
    since={"flag": (2, True)},
)
VALUE = Whole(3, -INF, "left", False, ("a",), (0.5, INF), Part(np.ones(2)), (Part(np.zeros(1)),))


def written():
    writer = codec.Writer()
    return WHOLE.encode(VALUE, writer), writer.arrays


def read(data, arrays, **options):
    return WHOLE.decode(data, "it", codec.Reader(arrays=list(arrays), **options))


def test_types_describe_a_record():
    data, arrays = written()
    assert json.loads(json.dumps(data, allow_nan=False)) == {
        "count": 3, "share": "-inf", "hand": "left", "flag": False, "names": ["a"],
        "errors": [0.5, "inf"], "part": {"weight": 0, "name": ""},
        "parts": [{"weight": 1, "name": ""}],
    }  # fmt: skip
    again = read(data, arrays)
    assert repr(again) == repr(VALUE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, r"it\.count must be a whole number from 1 to 9, got 0"),
        ({"count": 3.0}, r"it\.count must be a whole number"),
        ({"count": True}, r"it\.count must be a whole number"),
        ({"share": "1"}, r"it\.share must be a number, got '1'"),
        ({"share": 1e999}, r"it\.share must be a number"),
        ({"share": 2**53}, r"it\.share must be a number"),
        ({"share": True}, r"it\.share must be a number"),
        ({"hand": "up"}, r"it\.hand must be one of left, right, got 'up'"),
        ({"flag": 1}, r"it\.flag must be true or false"),
        ({"names": ["a", 1]}, r"it\.names must be a list of texts"),
        ({"errors": [0.5, None]}, r"it\.errors\[1\] must be a number"),
        ({"part": []}, r"it\.part must be an object with fields"),
        ({"part": {"weight": 2, "name": ""}}, r"it\.part\.weight must be the number of an array"),
        ({"parts": [{"weight": 1, "name": "x" * 6}]}, r"it\.parts\[0\]\.name must be a text of"),
        ({"parts": [{"weight": 0, "name": ""}]}, r"uses array 0 for a second time"),
        ({"side": "left"}, r"it has unknown fields: \['side'\]"),
    ],
    ids=str,
)
def test_everything_else_is_refused(changes, message):
    data, arrays = written()
    with pytest.raises(ModelFileError, match=message):
        read({**data, **changes}, arrays)


@pytest.mark.parametrize("array", [np.ones(2, np.float32), np.ones((2, 1))], ids=repr)
def test_arrays_of_another_kind(array):
    data, arrays = written()
    with pytest.raises(ModelFileError, match=r"it\.part\.weight must be 1-d array of float64"):
        read(data, [array, arrays[1]])


def test_arrays_are_never_narrowed():
    with pytest.raises(TypeError, match="Cannot cast"):
        codec.Array(np.int32).encode(np.arange(3.0), codec.Writer())


def test_no_field_may_be_missing():
    data, arrays = written()
    for name in data:
        with pytest.raises(ModelFileError, match=f"it has no field '{name}'"):
            read({k: v for k, v in data.items() if k != name}, arrays)


def test_fields_that_older_versions_lack():
    data, arrays = written()
    del data["flag"]
    assert read(data, arrays, version=1).flag is True
    with pytest.raises(ModelFileError, match="has no field 'flag'"):
        read(data, arrays, version=2)


def test_types_that_say_too_little():
    with pytest.raises(TypeError, match="does not say how"):
        codec.by_type(dict[str, int])


def test_faults_between_fields_say_where():
    def make(**values):
        raise ValueError("they do not fit")

    record = codec.Record(Part, make=make)
    with pytest.raises(ModelFileError, match=r"^a\.b: they do not fit$"):
        record.decode({"weight": 0, "name": ""}, "a.b", codec.Reader(arrays=[np.ones(1)]))


# --- the format's versions, and the classes H ---------------------------------------------------


def test_only_files_of_the_first_version_may_lack_fields_of_the_second(tmp_path):
    rng = np.random.default_rng(0)
    X, score = rng.normal(size=(200, 1)), np.full(200, 0.5)
    model = rc.fit(
        score, X, rng.random(200), rc.Trees(depth=1), validation=False, loop=rc.Loop(max_rounds=1)
    )
    forged = Forgery(files.to_bytes(model)[0])
    del forged.model["settings"]["row_share"], forged.model["settings"]["step_doubles"]
    del forged.model["H"]["score_order"], forged.model["encoders"][0]["features"][0]["ordered"]
    text, payload = json.dumps(forged.header).encode(), b"".join(a.tobytes() for a in forged.arrays)
    path = tmp_path / "model.rcal"
    path.write_bytes(seal(text, payload, version=1))
    np.testing.assert_array_equal(rc.load(path).predict(X, base=score), model.predict(X, score))
    path.write_bytes(seal(text, payload, version=2))
    with pytest.raises(ModelFileError, match="has no field"):
        rc.load(path)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_describes_itself(kind):
    own = module_of(kind).FILES
    assert isinstance(own, ClassFiles)
    for record in (own.spec, own.encoder, own.table):
        assert record.type.__module__.startswith(("recalibrate.classes.", "recalibrate.data."))


def test_files_know_no_class():
    """A class is found by the list of `recalibrate.core.kinds`, never by its name."""
    for path in Path(files.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in named if name.startswith("recalibrate.classes")], path


def test_arrays_are_known_behind_an_alias_with_a_parameter():
    """What ``NDArray[np.int32]`` is from numpy 2.5 on, where Python has such aliases."""
    scalar = TypeVar("scalar", bound=np.generic)

    class Alias:
        __value__ = np.ndarray[tuple[Any, ...], np.dtype[scalar]]

    found = codec.by_type(GenericAlias(Alias, (np.int32,)))
    assert found == codec.by_type(NDArray[np.int32]) == codec.Array(np.int32)
