"""Files appear whole or not at all."""

import os
import stat
import sys

import pytest

from recalibrate.support import atomic as writing
from recalibrate.support.atomic import atomic_write, check_writable

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_and_its_replacement(tmp_path):
    path = tmp_path / "model.rcal"
    assert atomic_write(path, b"one") == path
    atomic_write(str(path), b"two, longer")
    assert path.read_bytes() == b"two, longer"
    assert names(tmp_path) == ["model.rcal"]


def test_an_existing_file_is_kept_on_request(tmp_path):
    path = tmp_path / "model.rcal"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="exists already"):
        atomic_write(path, b"new", overwrite=False)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["model.rcal"]
    atomic_write(tmp_path / "other.rcal", b"new", overwrite=False)
    assert names(tmp_path) == ["model.rcal", "other.rcal"]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "model.rcal"
    monkeypatch.setattr(writing, "check_writable", lambda *_, **__: path.write_bytes(b"first") * 0)
    monkeypatch.setattr(writing.os, "chmod", lambda *_: None)
    with pytest.raises(FileExistsError, match="meanwhile"):
        atomic_write(path, b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["model.rcal"]


def test_without_hard_links_an_existing_file_is_still_kept(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError("not supported")

    monkeypatch.setattr(writing.os, "link", no_links)
    path = atomic_write(tmp_path / "model.rcal", b"one", overwrite=False)
    with pytest.raises(FileExistsError):
        atomic_write(path, b"two", overwrite=False)
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["model.rcal"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
def test_an_interruption_leaves_everything_as_it_was(tmp_path, monkeypatch, broken, error):
    path = tmp_path / "model.rcal"
    path.write_bytes(b"old")

    def fail(*_):
        raise error

    monkeypatch.setattr(writing.os, broken, fail)
    with pytest.raises(type(error)):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["model.rcal"]


def test_the_folder_must_exist_and_the_path_be_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first"):
        atomic_write(tmp_path / "no" / "model.rcal", b"")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        atomic_write(tmp_path, b"")


@posix
def test_devices_are_not_replaced():
    with pytest.raises(ValueError, match="device or pipe"):
        check_writable(os.devnull)


@posix
def test_permissions_are_those_of_any_new_file_and_are_kept(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    path = atomic_write(tmp_path / "model.rcal", b"one")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    atomic_write(path, b"two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "model.rcal"
    link = tmp_path / "latest.rcal"
    link.symlink_to(target)
    atomic_write(link, b"one")
    assert link.is_symlink()
    assert target.read_bytes() == b"one"
    assert names(tmp_path / "real") == ["model.rcal"]


def test_a_name_of_the_greatest_length(tmp_path):
    path = atomic_write(tmp_path / ("m" * 250 + ".rcal"), b"one")
    assert path.read_bytes() == b"one"
