"""Facts that stand in two files of the repository are the same in both."""

import re
import tomllib
from pathlib import Path

import pytest

import recalibrate

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_citation_is_of_this_version():
    (version,) = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version == recalibrate.__version__


def test_ci_runs_every_python_that_is_supported():
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    (matrix,) = re.findall(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())
    assert re.findall(r"3\.\d+", matrix) == re.findall(r":: (3\.\d+)", classifiers)


@pytest.mark.parametrize("path", PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
def test_what_the_source_archive_includes_is_there(path):
    assert (ROOT / path).exists()


def test_hooks_run_the_checks_of_ci():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    checks = (ROOT / ".ci" / "run").read_text()
    for check in ("ruff check", "ruff format", "mypy --strict"):
        assert check in hooks
        assert check in checks
