"""One process at a time."""

import os
import signal
import subprocess
import sys

import pytest

from recalibrate.support import atomic
from recalibrate.support.atomic import locked

COUNT = """
import sys
from pathlib import Path
from recalibrate.support.atomic import locked

path = Path(sys.argv[1])
for _ in range(50):
    with locked(path, timeout=300):
        path.write_text(str(int(path.read_text()) + 1))
"""

HOLD = """
import sys
from recalibrate.support.atomic import locked

with locked(sys.argv[1], timeout=0):
    print("locked", flush=True)
    sys.stdin.readline()
"""


def start_holder(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    return process


def test_nothing_is_lost_between_processes(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")
    running = [subprocess.Popen([sys.executable, "-c", COUNT, str(path)]) for _ in range(4)]
    assert [process.wait(timeout=300) for process in running] == [0] * 4
    assert path.read_text() == "200"
    assert os.listdir(tmp_path) == ["count"]


def test_waiting_ends_with_an_error_that_says_why(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    monkeypatch.setattr(atomic, "PAUSE", 0.0)
    with start_holder(path) as process:
        busy = pytest.raises(TimeoutError, match=r"another process .* on .*state\.json")
        with busy, locked(path, timeout=0.01):
            pytest.fail("two processes have the lock")
        process.communicate("done\n", timeout=60)
    with locked(path, timeout=0):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_killed_holder_holds_nothing(tmp_path):
    path = tmp_path / "state.json"
    with start_holder(path) as process:
        process.send_signal(signal.SIGKILL)
    with locked(path, timeout=0):
        pass
    assert os.listdir(tmp_path) == []


def test_errors_release_the_lock(tmp_path):
    path = tmp_path / "state.json"
    with pytest.raises(ValueError, match="inside"), locked(path, timeout=0):
        raise ValueError("inside")
    with locked(path, timeout=0):
        pass


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def no_locks(handle):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(atomic, "lock_now", no_locks)
    refused = pytest.raises(OSError, match="use a folder on a file system with locks")
    with refused, locked(tmp_path / "state.json", timeout=0):
        pass


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic, "open", refuse, raising=False)
    path = tmp_path / "state.json"
    with pytest.raises(PermissionError) as caught, locked(path, timeout=0):
        pytest.fail("there is no lock")
    said = str(caught.value)
    assert said.startswith("[Errno 13] Permission denied: while ")
    assert repr(str(path)) in said
    assert f"in its folder {str(tmp_path)!r}; allow this user to write there" in said


def test_an_interruption_while_the_lock_is_taken_leaves_it_free(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    path = tmp_path / "state.json"
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "is_current", interrupt)
        with pytest.raises(KeyboardInterrupt), locked(path, timeout=0):
            pytest.fail("there is no lock")
    with locked(path, timeout=0):
        pass
    assert os.listdir(tmp_path) == []
