"""The program as a process: exit codes, interruption, pipes, and what it loads."""

import json
import os
import signal
import subprocess
import sys

import pytest

from recalibrate.commands import entry, main

COMMANDS = ["fit", "predict", "audit", "monitor", "export", "inspect", "demo", "warm-up"]


def program(*args, **options):
    command = [sys.executable, "-m", "recalibrate", *map(str, args)]
    options = {"capture_output": True, "text": True, "timeout": 120, "check": False, **options}
    return subprocess.run(command, **options)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "examples:\n" in said
    assert f"recalibrate {command} " in said.partition("examples:")[2]


def test_usage_errors_are_one_line(capsys):
    for args in ([], ["fitt"], ["fit", "--lable", "y"], ["inspect"]):
        assert main(args) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "--help" in said


def test_version(capsys):
    import recalibrate

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"recalibrate {recalibrate.__version__}\n"


@pytest.mark.slow
def test_the_module_runs_as_a_program(folder):
    done = program("inspect", folder / "model.rcal", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == 1200


@pytest.mark.slow
def test_errors_of_a_process_are_one_line_without_a_traceback():
    done = program("inspect", "none.rcal")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "recalibrate inspect: error: there is no file 'none.rcal'\n"


def test_debug_shows_the_traceback(capsys):
    assert main(["inspect", "none.rcal", "--debug"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("error: there is no file 'none.rcal'\n")


def test_faults_of_the_program_are_told_apart(capsys, monkeypatch):
    def broken(args, console):
        raise KeyError("x")

    monkeypatch.setattr(entry.inspect, "run", broken)
    assert main(["inspect", "none.rcal"]) == 3
    said = capsys.readouterr().err
    assert "KeyError: 'x' (a fault of this program" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(folder):
    """As in ``recalibrate inspect model.rcal | true``."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = program(
            "inspect", folder / "model.rcal", stdout=write, stderr=subprocess.PIPE,
            capture_output=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [["inspect", "model.rcal"], ["--help"], ["fit", "--help"], ["--version"]],
    ids=" ".join,
)
def test_a_full_disk_is_an_error(folder, command, unbuffered):
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = program(
            *command, cwd=folder, env=env, stdout=full, stderr=subprocess.PIPE, capture_output=False
        )
        assert done.returncode == 2
        assert done.stderr == (
            "recalibrate: error: cannot write to standard output: No space left on device; "
            "output is incomplete\n"
        )
        # Where there is no place for the message, the exit code still says it.
        assert (
            program(*command, cwd=folder, stdout=full, stderr=full, capture_output=False).returncode
            == 2
        )


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_does_not_hide_a_failed_gate_or_stop_the_work(folder, tmp_path):
    gate = ["audit", folder / "rows.csv", "--label", "y", "--score-column", "p", "--drop", "id"]
    gate += ["--max-gap", "0.0001", "--rule", "estimate", "--groups", "sex"]
    page = tmp_path / "audit.html"
    with open("/dev/full", "w") as full:
        done = program(
            *gate, "--html", page, stdout=full, stderr=subprocess.PIPE, capture_output=False
        )
    assert done.returncode == 1
    assert "cannot write to standard output" in done.stderr
    assert page.exists()


def shell(line, folder):
    """Exit code of the first command of a pipe, or of one whose streams were closed."""
    script = f"{line}; exit ${{PIPESTATUS[0]}}"
    command = ["bash", "-c", script.replace("recalibrate ", f"{sys.executable} -m recalibrate ")]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="bash")
def test_exit_codes_do_not_depend_on_who_listens(folder):
    """A gate that fails must not pass because its output is cut, or goes nowhere."""
    gate = "recalibrate audit rows.csv --label y --score-column p --drop id --max-gap 0.0001"
    gate += " --rule estimate --groups sex"
    for listening in ("| true", ">&- 2>&-"):
        assert shell(f"{gate} {listening}", folder)[0] == 1, listening
    for listening in ("2>&-", "2>&1 | true"):
        assert shell(f"recalibrate inspect none.rcal {listening}", folder)[0] == 2, listening
    assert shell("recalibrate --help | true", folder) == (0, "")


@pytest.mark.parametrize("option", ["--H", "--groups"])
def test_deep_lists_in_arguments_are_bad_input(option, folder, capsys):
    deep = "[" * 5000 + "]" * 5000
    command = "fit" if option == "--H" else "audit"
    args = [command, folder / "rows.csv", "--label", "y", "--score-column", "p"]
    for text in (f"trees(features={deep})", f"groups({deep})", deep, "(" * 9999 + ")" * 9999):
        more = ["-o", folder / "never.rcal"] if command == "fit" else []
        assert main([*map(str, args), option, text, *map(str, more)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def interrupt(script, args, folder, number=signal.SIGINT):
    """Run a script until it says that it waits, then send a signal; what it said, and errors."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Jobs in the background of a shell ignore Ctrl-C, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    said = ""
    try:
        while "waiting" not in said:
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    # Python ends itself by the signal where code made from text was interrupted; shells call
    # that 130, too.
    assert process.returncode in (128 + number, -signal.SIGINT)
    return said, err


MESSAGE = "error: interrupted; no file was left half-written\n"

WHILE_WRITING = """
import os, signal, sys
import recalibrate.support.atomic as writing

def wait(handle):
    # The file is written under its temporary name, but not in place yet.
    print("waiting", sorted(os.listdir(".")), flush=True)
    signal.pause()

writing.os.fsync = wait
from recalibrate.commands import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupted_fit_leaves_nothing_behind(folder, tmp_path):
    """Interrupted at the worst moment: while the file is being written."""
    args = [
        "fit", folder / "rows.csv", "--label", "y", "--score-column", "p", "--drop", "id",
        "--H", "groups(sex)", "-o", "m.rcal",
    ]  # fmt: skip
    said, err = interrupt(WHILE_WRITING, args, tmp_path)
    assert said.startswith("waiting ['.")  # only the temporary file
    assert "m.rcal" not in said
    assert err == f"recalibrate fit: {MESSAGE}"
    assert list(tmp_path.iterdir()) == []


KEPT = """
import signal, sys
from recalibrate.commands import main
from recalibrate.core import boost

own, rounds = boost._Run.round, []

def wait(self):
    rounds.append(own(self))
    if len(rounds) == 2:
        print("waiting", flush=True)
        signal.pause()

boost._Run.round = wait
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupted_fit_is_no_fit(folder, tmp_path):
    """In Python it gives the rounds that it has; a pipeline must not take that for a model."""
    args = [
        "fit", folder / "rows.csv", "--label", "y", "--score-column", "p", "--drop", "id",
        "--H", "trees", "--alpha", "0.001", "-o", "m.rcal",
    ]  # fmt: skip
    _, err = interrupt(KEPT, args, tmp_path)
    assert err.endswith(f"recalibrate fit: {MESSAGE}")
    assert list(tmp_path.iterdir()) == []


SWALLOWED = """
import os, signal, sys, time
from pathlib import Path
from recalibrate.commands import demo, main

def wait(parts):
    # Like a framework whose callback drops the exception and fails for it.
    print("waiting", sorted(os.listdir(".")), flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        raise ValueError("the callback failed")

demo.train_base = wait
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_a_framework_swallows(tmp_path, number):
    """SIGTERM is how containers are stopped."""
    said, err = interrupt(SWALLOWED, ["demo", "made", "--rows", "1000"], tmp_path, number)
    assert "['.recalibrate-" in said  # the hidden folder
    what = "interrupted" if number == signal.SIGINT else "terminated"
    assert err == f"recalibrate demo: {MESSAGE.replace('interrupted', what)}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_names_that_the_terminal_cannot_show(folder, frame, tmp_path):
    table = tmp_path / "größe.csv"
    frame.to_csv(table, index=False)
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = program("audit", table, "--label", "größe", "--score-column", "p", env=env)
    assert done.returncode == 2
    assert "no column 'gr\\xf6\\xdfe'" in done.stderr


def test_the_parser_loads_no_framework():
    code = (
        "import json, sys; from recalibrate.commands import main; main(['fit', '--help']); "
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert loaded.isdisjoint({"pandas", "sklearn", "numba", "onnx", "onnxruntime", "xgboost"})
