"""The environment that has the oldest supported onnxruntime, numpy, and nothing else.

``RECALIBRATE_OLDEST_PYTHON`` says where its interpreter is:

    python -m venv --without-pip FOLDER
    pip --python FOLDER install --no-deps numpy onnxruntime==1.23
    RECALIBRATE_OLDEST_PYTHON=FOLDER/bin/python pytest tests/graph
"""

import os
import subprocess

import pytest

VARIABLE = "RECALIBRATE_OLDEST_PYTHON"


def bare_command() -> list[str]:
    """How to start that interpreter, isolated from the folders and packages of this one."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter with the oldest supported onnxruntime")
    return [python, "-I"]


def run_bare(*arguments: object) -> str:
    """What a program prints there; it has to end well."""
    command = [*bare_command(), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
