"""Exceptions of signal handlers in the middle of boosting: raised where they belong, and safely."""

import ast
import json
import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import recalibrate
from recalibrate import kernels

SCRIPT = """
import collections, faulthandler, json, random, signal, sys, warnings
import numpy as np, pandas as pd, recalibrate as rc

faulthandler.enable()
warnings.simplefilter("ignore")
interrupts, threads = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
n = 40_000 if threads > 1 else 400  # fewer rows are not shared out
X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")).assign(g=rng.choice(list("xyz"), n))
p = rng.uniform(0.2, 0.8, n)
y = (rng.random(n) < np.where(X["g"] == "x", 0.2, p)).astype(int)


def fit():
    # Cross-validated rounds on the whole table (one part), or on parts for every thread.
    return rc.fit(
        p, X, y, H=rc.Trees(depth=3), loop=rc.Loop(max_rounds=8), engine=rc.Engine(threads=threads)
    )


class Stop(Exception):
    pass


raised = 0


def handle(number, frame):
    global raised
    raised += 1
    raise Stop


# Python itself drops exceptions of handlers that happen to run inside of a finalizer.
dropped = []
sys.unraisablehook = lambda unraisable: dropped.append(unraisable.exc_type.__name__)
expected = fit().predict(X, base=p)
signal.signal(signal.SIGALRM, handle)
delays, seen = random.Random(0), collections.Counter()
for _ in range(interrupts):
    before = raised
    try:
        signal.setitimer(signal.ITIMER_REAL, delays.uniform(0.0005, 0.02))
        while raised == before:
            fit()
        seen["lost"] += 1
    except Stop:
        seen["raised"] += 1
    except Exception as error:
        seen[repr(error)] += 1
same = bool((fit().predict(X, base=p) == expected).all())
print(json.dumps([seen["raised"] + len(dropped), seen, same]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX timers")
@pytest.mark.parametrize(("interrupts", "threads"), [(400, 1), (40, 2)])
def test_hundreds_of_interruptions_in_boosting(interrupts, threads):
    """A segmentation fault, a SystemError or a lost exception would be seen here."""
    command = [sys.executable, "-c", SCRIPT, str(interrupts), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    count, seen, same = json.loads(done.stdout)
    assert count == interrupts, seen
    assert same


def returned(function):
    """What a kernel returns, as it is annotated."""
    return str(function.py_func.__annotations__.get("return", "None"))


@pytest.mark.slow
def test_kernels_that_python_calls_return_numbers_or_one_array():
    """See `recalibrate.kernels.compiler.kernel` about the others."""
    number = r"(int|float|bool)"
    harmless = re.compile(rf"None|Any|{number}|NDArray\[.*\]|tuple\[{number}(, {number})*\]")
    unsafe = set()
    for module in pkgutil.iter_modules(kernels.__path__):
        found = vars(import_module(f"{kernels.__name__}.{module.name}"))
        for name, function in found.items():
            if hasattr(function, "py_func") and not harmless.fullmatch(returned(function)):
                unsafe.add(name)
    root = Path(recalibrate.__path__[0])
    for path in root.rglob("*.py"):
        tree = ast.parse(path.read_text())
        inside = path.parent.name == "kernels"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not inside:
                assert unsafe.isdisjoint(alias.name for alias in node.names), path
            if isinstance(node, ast.Attribute) and not inside:
                assert node.attr not in unsafe, path
            if inside and isinstance(node, ast.FunctionDef) and not node.decorator_list:
                called = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                assert unsafe.isdisjoint(called), f"{path}: {node.name}"
