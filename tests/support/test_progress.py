"""The display of a loop: what it writes on standard error, and when it does not."""

import io
import sys
from types import SimpleNamespace

import pytest

from recalibrate.core import boost
from recalibrate.core.boost import Progress


class Screen(io.StringIO):
    """A text stream that says whether it is a terminal."""

    terminal = True

    def isatty(self):
        return self.terminal


class Clock:
    """Time under the control of the test."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def screen(monkeypatch):
    """Standard error, as the module sees it: pytest puts its own in place after fixtures."""
    made = Screen()
    monkeypatch.setattr(boost, "sys", SimpleNamespace(stderr=made))
    return made


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(boost, "monotonic", made)
    return made


def lines_of(screen):
    return [line.rstrip() for line in screen.getvalue().split("\r")[1:]]


@pytest.mark.parametrize(
    ("terminal", "enabled", "writes"),
    [
        (True, None, True),
        (False, None, False),
        (False, True, True),
        (True, False, False),
    ],
)
def test_writes_only_where_someone_looks(screen, terminal, enabled, writes):
    screen.terminal = terminal
    with Progress(3, enabled) as bar:
        bar.update(round=1)
    assert (screen.getvalue() != "") is writes


def test_it_writes_to_the_stderr_of_the_moment(monkeypatch):
    bar, screen = Progress(3), Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with bar:
        bar.update(round=1)
    assert "round 1/3" in screen.getvalue()


def test_without_stderr_it_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(3, enabled=True) as bar:
        bar.update(round=1)


def test_a_closed_stream_is_not_asked(screen):
    screen.close()
    with Progress(3) as bar:
        bar.update(round=1)


def test_line_shows_what_is_known(screen, clock):
    with Progress(20) as bar:
        clock.now += 1.25
        bar.update(round=7, error=0.123456789, validation=0.5)
    assert lines_of(screen)[0] == "round 7/20  error 0.123457  validation 0.5  1.2 s"


def test_line_leaves_out_what_is_not_known(screen, clock):
    with Progress(9) as bar:
        bar.update(round=7)
    assert lines_of(screen)[0] == "round 7/9  0.0 s"


def test_updates_are_throttled_and_the_last_state_stays(screen, clock):
    with Progress(1000) as bar:
        for number in range(1, 1001):
            bar.update(round=number)
            clock.now += 0.001
    shown = lines_of(screen)
    assert 10 <= len(shown) <= 12  # one second at ten a second, and the final line
    assert shown[0].startswith("round 1/1000")
    assert shown[-1].startswith("round 1000/1000")
    assert screen.getvalue().endswith("\n")
    assert screen.getvalue().count("\n") == 1


def test_a_shorter_line_erases_the_longer_one(screen, clock):
    with Progress(10) as bar:
        bar.update(round=1, error=0.123456)
        clock.now += 1.0
        bar.update(round=2)
    first, second = screen.getvalue().split("\r")[1:3]
    assert len(second) == len(first)
    assert second.rstrip() == "round 2/10  1.0 s"


def test_lines_are_cut_to_the_terminal(monkeypatch, screen):
    monkeypatch.setenv("COLUMNS", "30")
    with Progress(10) as bar:
        bar.update(round=1, error=0.123456, validation=0.123456)
    assert max(len(line) for line in lines_of(screen)) == 29


def test_nothing_is_written_without_an_update(screen):
    with Progress(10):
        pass
    assert screen.getvalue() == ""


def stop_after_one_round():
    with Progress(10) as bar:
        bar.update(round=4)
        raise KeyError("stop")


def test_an_exception_passes_through_and_leaves_the_line(screen):
    with pytest.raises(KeyError, match="stop"):
        stop_after_one_round()
    assert screen.getvalue().endswith("\n")


def test_update_outside_the_block_is_silent(screen):
    bar = Progress(10, enabled=True)
    bar.update(round=1)
    with bar:
        pass
    bar.update(round=2)
    assert screen.getvalue() == ""
