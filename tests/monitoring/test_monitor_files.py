"""The state as a file: goes on where it was, refuses what is not one."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from streams import batch, rows_of, run

import recalibrate as rc
from recalibrate.files import ModelFileError
from recalibrate.monitoring.files import _checksum, from_bytes, to_bytes
from recalibrate.monitoring.judging import N_SUMS
from recalibrate.support import strictjson


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    monitor = run(np.random.default_rng(0))
    return monitor, monitor.save(tmp_path_factory.mktemp("monitor") / "m.json")


def test_a_loaded_monitor_goes_on_where_it_was(saved):
    monitor, path = saved
    again = rc.Monitor.load(path)
    assert to_bytes(again._known()) == path.read_bytes()
    other = rc.Monitor.load(path)
    X, p, y = batch(np.random.default_rng(1), gap=0.2)
    for each in (again, other):
        each.update(X, y, scores=p, time=50)
        with pytest.raises(ValueError, match="added before"):
            each.update(X, y, scores=p, time=50)
    assert str(again.report()) == str(other.report())
    assert again.report().n_rows == monitor.report().n_rows + 600
    with pytest.raises(ValueError, match="begun already"):
        again.start(X, scores=p)


def test_a_state_of_an_older_release_goes_on():
    """Version 1: 1,200 rows in four batches, the last two with a gap for women."""
    old = rc.Monitor.load(Path(__file__).with_name("state_version_1.json"))
    women = rows_of(old.table).loc["sex = F"]
    assert (women["rows"], women["alarm"]) == (609, False)
    # What the release that wrote it said. Now m is paid for by a logarithm, which narrows limits,
    # and in the lower band there is a share of the wealth for larger stakes.
    assert women["evidence"] == pytest.approx(2.248857, rel=0.05)
    assert (women["low"], women["high"]) == pytest.approx((-0.015859, 0.143778), abs=0.005)
    again = from_bytes(to_bytes(old._known()))
    assert to_bytes(again) == to_bytes(old._known())
    rng = np.random.default_rng(5)
    for time in range(4, 8):
        X, p, y = batch(rng, 300, gap=0.15)
        old.update(X, y, scores=p, time=time)
    women = rows_of(old.table).loc["sex = F"]
    assert women["alarm"]
    assert women["low"] < women["gap"] < women["high"]
    assert old._known().judgement.suffixes.shape[-1] == N_SUMS


def test_several_classes_and_no_labels_yet(tmp_path):
    monitor = rc.Monitor(classes=["a", "b", 3])
    monitor.start(None, scores=np.random.default_rng(0).dirichlet([1, 1, 1], 50))
    again = rc.Monitor.load(monitor.save(tmp_path / "m.json"))
    assert again.table["label"].tolist() == ["a", "b", "3"]
    assert again.report().verdict.startswith("No rows with labels yet")


def test_another_model_is_refused(tmp_path):
    X, _p, y = batch(np.random.default_rng(2), 1500, gap=0.2)
    model = rc.fit(lambda X: np.full(len(X), 0.5), X, y, H=rc.Groups("sex"))
    monitor = rc.Monitor(model, groups="sex")
    monitor.update(X, y)
    path = monitor.save(tmp_path / "m.json")
    assert rc.Monitor.load(path, model).update(X[:10], y[:10]) == ()
    refitted = model.refit(X, 1 - y)
    with pytest.raises(ValueError, match="watches another model"):
        rc.Monitor.load(path, refitted)


def test_files_are_not_overwritten_unless_allowed(saved):
    monitor, path = saved
    with pytest.raises(FileExistsError):
        monitor.save(path, overwrite=False)


def changed(path, edit):
    """The file with its content edited, and a checksum that fits."""
    head = json.loads(path.read_bytes())
    edit(head["state"])
    head["checksum"] = _checksum(head["state"])
    return strictjson.dump(head)


def test_damage_is_noticed(saved):
    _, path = saved
    data = path.read_bytes()
    for bad, match in [
        (b"", "not JSON"),
        (data[:-20], "not JSON"),
        (b"[1]", "format"),
        (b'{"format":"recalibrate.monitor","version":3}', "version is 3"),
        (b'{"format":"recalibrate.monitor","version":true}', "version is True"),
        (data.replace(b'"rows":7200', b'"rows":7300'), "checksum"),
        (data.replace(b'"alpha":0.05', b'"alpha":0.05,"alpha":0.5'), "repeats the key"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested deeper"),
        (b'{"a": NaN}', "NaN"),
    ]:
        assert bad != data
        with pytest.raises(ModelFileError, match=match):
            from_bytes(bad)


@pytest.mark.parametrize(
    "edit",
    [
        lambda s: s["timeline"]["sums"].pop(),
        lambda s: s["timeline"]["sums"].__setitem__(0, "1"),
        lambda s: s["timeline"]["sums"].__setitem__(0, -1),
        lambda s: s["timeline"]["sums"].__setitem__(0, None),
        lambda s: s["timeline"]["number"].__setitem__(0, 2),
        lambda s: s["timeline"]["start"].__setitem__(0, 99),
        lambda s: s["timeline"].__setitem__("number", list(range(1, 99))),
        lambda s: s["rules"].__setitem__("alpha", 2),
        lambda s: s["rules"].__setitem__("more", 2),
        lambda s: s["scale"].__setitem__("high", -1),
        lambda s: s["watched"]["edges"][0].reverse(),
        lambda s: s["watched"]["groups"].__setitem__("terms", []),
        lambda s: s["watched"]["reference"].__setitem__(0, None),
        lambda s: s["alarms"][0].__setitem__("group", 77),
        lambda s: s["alarms"][0].pop("since"),
        lambda s: s.__setitem__("time_kind", "moon"),
        lambda s: s.__setitem__("seen", [1]),
        lambda s: s.__setitem__("batches", True),
        lambda s: s.__setitem__("max_weight", 0),
        lambda s: s.pop("shift"),
    ],
)
def test_what_is_no_state_is_refused_although_its_checksum_fits(saved, edit):
    with pytest.raises(ModelFileError, match="this is not the state of a monitor"):
        from_bytes(changed(saved[1], edit))


def test_numbers_beyond_all_numbers_are_refused(saved, tmp_path):
    """Before their checksum is worked out, which is of numbers that JSON has."""
    path = tmp_path / "m.json"
    path.write_bytes(re.sub(rb'"tolerance":[0-9.e-]+', b'"tolerance":1e999', saved[1].read_bytes()))
    with pytest.raises(ModelFileError, match="state of a monitor: it holds 1e999"):
        rc.Monitor.load(path)
