"""A thousand damaged files; benchmarks/fuzz_files.py damages ten thousand, with bounds checks."""

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz_files.py"


def load_script():
    spec = importlib.util.spec_from_file_location("benchmark_fuzz_files", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_damaged_files_are_refused_or_predict(tmp_path):
    script = load_script()
    job = script.rcal_job(script.make_cases(), 1, tmp_path)
    outcomes = Counter(map(job, range(1000)))
    assert outcomes["bytes: refused"] > 300
    # Edits that leave a sane model must occur, or the fuzzer would not get past the first check.
    assert outcomes["edits: predicts"] > 20


CHILDREN = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from fuzz_children import run_in_children

def job(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 4:
        raise KeyError("four")
    while number == 6:
        pass
    return "fine"

outcomes, findings = run_in_children(job, 9, seconds=1)
print(sorted(outcomes.items()))
print(*findings, sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="fork")
def test_whatever_happens_to_a_child_is_counted():
    folder = str(SCRIPT.parent)
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN, folder], capture_output=True, text=True, check=True
    )
    counted, *findings = done.stdout.splitlines()
    assert counted == "[('CRASH', 1), ('HANG', 1), ('UNCLEAR', 1), ('fine', 6)]"
    assert [line.partition(":")[0] for line in findings] == ["input 2", "input 4", "input 6"]
