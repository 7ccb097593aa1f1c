"""Files appear whole or not at all."""

import os
import signal
import stat
import subprocess
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


WRITER = """
import sys
import recalibrate.support.atomic as writing

def wait(handle):
    print("written under a temporary name", flush=True)
    sys.stdin.readline()

writing.os.fsync = wait
writing.atomic_write(sys.argv[1], b"by the other process")
"""


def start_writer(path):
    """A process that is in the middle of writing a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "written under a temporary name\n"
    return process


@posix
def test_what_a_killed_writer_leaves_is_removed_by_the_next(tmp_path):
    path, other = tmp_path / "model.rcal", tmp_path / "other.rcal"
    for each in (path, other):
        with start_writer(each) as process:
            process.send_signal(signal.SIGKILL)
    assert len(names(tmp_path)) == 2  # each left its temporary file
    atomic_write(path, b"new")
    assert len(names(tmp_path)) == 2  # not that of another target
    assert "model.rcal" in names(tmp_path)
    atomic_write(other, b"new")
    assert names(tmp_path) == ["model.rcal", "other.rcal"]


@posix
def test_a_writer_that_is_alive_is_left_alone(tmp_path):
    path = tmp_path / "model.rcal"
    with start_writer(path) as process:
        atomic_write(path, b"by this process")
        assert path.read_bytes() == b"by this process"
        assert len(names(tmp_path)) == 2
        process.communicate("go on\n", timeout=60)
    assert process.returncode == 0
    assert path.read_bytes() == b"by the other process"
    assert names(tmp_path) == ["model.rcal"]


def test_a_temporary_file_that_is_taken_for_abandoned_is_made_again(tmp_path, monkeypatch):
    """Another writer may remove the file between its creation and its lock."""
    lock, seen = writing.lock_now, []

    def removed_first(handle):
        if not seen:
            seen.extend(tmp_path.iterdir())
            seen[0].unlink()
        return lock(handle)

    monkeypatch.setattr(writing, "lock_now", removed_first)
    assert atomic_write(tmp_path / "model.rcal", b"one").read_bytes() == b"one"
    assert len(seen) == 1
    assert names(tmp_path) == ["model.rcal"]


def test_without_locks_files_are_written_and_nothing_is_removed(tmp_path, monkeypatch):
    def no_locks(handle):
        raise OSError("not supported")

    path = tmp_path / "model.rcal"
    left = writing.hidden_name(path, "00000000.tmp")
    left.write_bytes(b"perhaps of a writer that is alive")
    monkeypatch.setattr(writing, "lock_now", no_locks)
    assert atomic_write(path, b"one").read_bytes() == b"one"
    assert left.exists()


@posix
@pytest.mark.parametrize("name", ["lock_now", "is_current"])
def test_an_interruption_while_the_file_is_made_leaves_nothing(tmp_path, monkeypatch, name):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, name, interrupt)
    handles = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "model.rcal", b"one")
    assert names(tmp_path) == []
    if handles is not None:
        assert len(os.listdir("/proc/self/fd")) == handles
