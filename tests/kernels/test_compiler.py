"""How kernels are compiled, and what is said meanwhile."""

import gc
import io

import numba
import pytest
from numba.core import event

from recalibrate.kernels import compiler


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nothing_said_yet():
    compiler._tell_of_compiling.cache_clear()
    yield
    compiler._tell_of_compiling.cache_clear()


@pytest.mark.parametrize(("stream", "lines"), [(Terminal, 1), (io.StringIO, 0)])
def test_only_a_terminal_is_told_once_why_the_first_call_takes_long(monkeypatch, stream, lines):
    monkeypatch.setattr("sys.stderr", said := stream())

    def one() -> int:
        return 1

    def two() -> int:
        return 2

    for function in (one, two):
        function.__module__ = "recalibrate.kernels.example"
        assert numba.njit(function)() == function()
    assert said.getvalue().count("compiling for this machine") == lines


def test_kernels_of_others_say_nothing(monkeypatch):
    monkeypatch.setattr("sys.stderr", said := Terminal())

    def foreign() -> int:
        return 3

    assert numba.njit(foreign)() == 3
    assert said.getvalue() == ""


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("module", ["recalibrate.kernels.example", "elsewhere"])
def test_no_garbage_is_collected_while_a_kernel_is_compiled(module, collecting):
    class Collecting(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    def good(x):
        return x + 1

    def bad(x):
        return x + "text"

    for function in (good, bad):
        function.__module__ = module
    seen: list[bool] = []
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        with event.install_listener("numba:compile", Collecting()):
            assert numba.njit(good)(1) == 2
            assert gc.isenabled() is collecting
            with pytest.raises(numba.TypingError):
                numba.njit(bad)(1)
            assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [collecting and module == "elsewhere"] * 2
