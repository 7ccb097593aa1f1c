"""How large the library is, and how much of it each use loads: printed, and held where it is.

``pytest -n 0 -s tests/test_size.py`` shows the table. Whoever makes a number smaller lowers its
limit here; whoever has to raise one says why in the commit.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMITS = {"modules": 200, "lines of code": 39_900, "comparisons of links and kinds": 293}
LOADED = {"fit": 87, "audit": 69, "monitor": 92, "predict": 52}

PREPARE = """
import json, sys
import numpy as np, pandas as pd, recalibrate as rc
rng = np.random.default_rng(0)
X = pd.DataFrame({"a": rng.normal(size=600), "sex": rng.choice(["f", "m"], 600)})
f = rng.uniform(0.1, 0.9, 600)
y = (rng.uniform(size=600) < f).astype(int)
path = sys.argv[1]
"""
USES = {
    "fit": "rc.fit(f, X, y)",
    "audit": "rc.audit(f, X, y, groups=['sex'])",
    "monitor": "rc.Monitor(groups=['sex'], tolerance=0.01).update(X, y, scores=f)",
    "predict": "rc.load(path).predict(X, base=f)",
}
TELL = """
names = [name for name in sys.modules if name.partition(".")[0].startswith("recalibrate")]
print(json.dumps(names))
"""


def code_lines(text, tree):
    """Lines that are neither blank nor comments nor docstrings."""
    documented = set()
    for node in ast.walk(tree):
        has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if has_docstring and ast.get_docstring(node):
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.split("#")[0].strip()) and k not in documented for k, line in lines)


def measure():
    modules = code = comparisons = 0
    for folder in ("recalibrate", "adapters/recalibrate_adapters"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            modules += 1
            code += code_lines(text, ast.parse(text))
            comparisons += len(re.findall(r"""(?:link|kind)\s*(?:==|!=)\s*["']""", text))
    return dict(zip(LIMITS, (modules, code, comparisons), strict=True))


def run(code, path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREPARE + code + TELL, str(path)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def test_size_of_the_tree():
    if not (ROOT / "adapters").exists():
        pytest.skip("the source tree is not here")
    found = measure()
    for name, number in found.items():
        print(f"{name}: {number} (at most {LIMITS[name]})")
    assert all(found[name] <= limit for name, limit in LIMITS.items()), found


@pytest.mark.slow
def test_modules_that_each_use_loads(tmp_path):
    path = tmp_path / "model.rcal"
    run("rc.fit(f, X, y, H=rc.Trees()).save(path)", path)
    found = {use: len(run(code, path)) for use, code in USES.items()}
    for use, number in found.items():
        print(f"modules that {use} loads: {number} (at most {LOADED[use]})")
    assert all(found[use] <= limit for use, limit in LOADED.items()), found
