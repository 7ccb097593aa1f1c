import io
import sys

import pytest

from recalibrate.support.progress import Progress


class Screen(io.StringIO):
    """A text stream that says whether it is a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Clock:
    """Time under the control of the test."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


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
def test_writes_only_where_someone_looks(terminal, enabled, writes):
    screen = Screen(terminal)
    with Progress(3, enabled, stream=screen) as bar:
        bar.update(round=1)
    assert (screen.getvalue() != "") is writes


def test_default_stream_is_the_stderr_of_the_moment(monkeypatch):
    screen = Screen(terminal=True)
    bar = Progress(3)
    monkeypatch.setattr(sys, "stderr", screen)
    with bar:
        bar.update(round=1)
    assert "round 1/3" in screen.getvalue()


def test_without_stderr_it_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(3, enabled=True) as bar:
        bar.update(round=1)


def test_a_closed_stream_is_not_asked():
    screen = Screen(terminal=True)
    screen.close()
    with Progress(3, stream=screen) as bar:
        bar.update(round=1)


def test_line_shows_what_is_known():
    screen, clock = Screen(terminal=True), Clock()
    with Progress(20, stream=screen, clock=clock) as bar:
        clock.now += 1.25
        bar.update(round=7, error=0.123456789, validation=0.5)
    assert lines_of(screen)[0] == "round 7/20  error 0.123457  validation 0.5  1.2 s"


def test_line_leaves_out_what_is_not_known():
    screen = Screen(terminal=True)
    with Progress(stream=screen, clock=Clock()) as bar:
        bar.update(round=7)
    assert lines_of(screen)[0] == "round 7  0.0 s"


def test_updates_are_throttled_and_the_last_state_stays():
    screen, clock = Screen(terminal=True), Clock()
    with Progress(1000, stream=screen, clock=clock) as bar:
        for number in range(1, 1001):
            bar.update(round=number)
            clock.now += 0.001
    shown = lines_of(screen)
    assert 10 <= len(shown) <= 12  # one second at ten a second, and the final line
    assert shown[0].startswith("round 1/1000")
    assert shown[-1].startswith("round 1000/1000")
    assert screen.getvalue().endswith("\n")
    assert screen.getvalue().count("\n") == 1


def test_a_shorter_line_erases_the_longer_one():
    screen, clock = Screen(terminal=True), Clock()
    with Progress(10, stream=screen, clock=clock) as bar:
        bar.update(round=1, error=0.123456)
        clock.now += 1.0
        bar.update(round=2)
    first, second = screen.getvalue().split("\r")[1:3]
    assert len(second) == len(first)
    assert second.rstrip() == "round 2/10  1.0 s"


def test_lines_are_cut_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    screen = Screen(terminal=True)
    with Progress(10, stream=screen) as bar:
        bar.update(round=1, error=0.123456, validation=0.123456)
    assert max(len(line) for line in lines_of(screen)) == 29


def test_nothing_is_written_without_an_update():
    screen = Screen(terminal=True)
    with Progress(10, stream=screen):
        pass
    assert screen.getvalue() == ""


def stop_after_one_round(screen):
    with Progress(10, stream=screen) as bar:
        bar.update(round=4)
        raise KeyError("stop")


def test_an_exception_passes_through_and_leaves_the_line():
    screen = Screen(terminal=True)
    with pytest.raises(KeyError, match="stop"):
        stop_after_one_round(screen)
    assert screen.getvalue().endswith("\n")


def test_update_outside_the_block_is_silent():
    screen = Screen(terminal=True)
    bar = Progress(10, enabled=True, stream=screen)
    bar.update(round=1)
    with bar:
        pass
    bar.update(round=2)
    assert screen.getvalue() == ""
