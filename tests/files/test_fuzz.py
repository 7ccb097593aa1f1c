"""A thousand damaged files; benchmarks/fuzz_files.py damages ten thousand, with bounds checks."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz_files.py"


def load_script():
    spec = importlib.util.spec_from_file_location("benchmark_fuzz_files", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_damaged_files_are_refused_or_predict(tmp_path):
    script = load_script()
    job = script.rcal_job(script.make_cases(), 1, tmp_path)
    outcomes = Counter(map(job, range(1000)))
    assert outcomes["bytes: refused"] > 300
    # Edits that leave a sane model must occur, or the fuzzer would not get past the first check.
    assert outcomes["edits: predicts"] > 20
