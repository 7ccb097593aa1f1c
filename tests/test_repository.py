"""Facts that stand in two files of the repository are the same in both."""

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

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


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions_of_the_test_command() -> set[str]:
    """What `pip install -e ".[all,test]"` names, directly or through the extra `all`."""
    extras = PROJECT["project"]["optional-dependencies"]
    requirements = [*PROJECT["project"]["dependencies"], *extras["test"]]
    for extra in re.findall(r"\w+", extras["all"][0].partition("[")[2]):
        requirements += extras[extra]
    names = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {normalized(name[0]) for name in names if name}


packages_distributions = cache(importlib.metadata.packages_distributions)


def imported_when_collected(path: Path) -> set[str]:
    """Root modules that a test module imports at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def uninstalled_imports(path: Path, helpers: set[str]) -> set[str]:
    """Of them, those that the test command does not install."""
    known = {*sys.stdlib_module_names, "recalibrate", "recalibrate_adapters", *helpers}
    # Parts of what the extras install: dask brings distributed, for example.
    known |= {"distributed", "scipy", "joblib", "protobuf", "google"}
    installed = distributions_of_the_test_command()
    providers = packages_distributions()
    return {
        root
        for root in imported_when_collected(path) - known
        if normalized(root) not in installed
        and not installed.intersection(map(normalized, providers.get(root, [])))
    }


@pytest.mark.slow
def test_test_modules_import_only_what_the_test_command_installs():
    """Others stop the collection of the whole suite: `pytest.importorskip`, or a fixture."""
    folder = ROOT / "tests"
    helpers = {path.stem for path in folder.rglob("*.py")} | {p.name for p in folder.iterdir()}
    # Imported by the contract suite, which catches what is missing.
    modules = [p for p in folder.rglob("*.py") if p.name != "cases_torch.py"]
    wrong = {str(p.relative_to(ROOT)): uninstalled_imports(p, helpers) for p in modules}
    assert {name: roots for name, roots in wrong.items() if roots} == {}


def test_imports_of_uninstalled_packages_are_seen(tmp_path):
    module = tmp_path / "test_some.py"
    module.write_text("import json\nimport numpy.linalg\nimport torch\nfrom helper import x\n")
    assert uninstalled_imports(module, {"helper"}) == {"torch"}


def ci(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", ".ci/run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("readme", "complaint"),
    [
        ("    pip install . && recalibrate demo\n", "no command '... && pytest'"),
        ("    a && pytest\n    b && pytest\n    c && recalibrate demo\n", "several commands"),
    ],
)
def test_ci_needs_exactly_one_of_each_command(tmp_path, readme, complaint):
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text())
    (tmp_path / "README.md").write_text(readme)
    ended = ci("readme", folder=tmp_path)
    assert ended.returncode == 1
    assert complaint in ended.stderr


def test_ci_refuses_stages_that_it_does_not_have():
    ended = ci("everything", folder=ROOT)
    assert ended.returncode == 1
    assert "there is no stage 'everything'" in ended.stderr


def test_workflows_run_every_stage():
    stages = re.findall(r"^#   (\w+)  +\w", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert stages == ["readme", "newest", "oldest", "lint", "external", "deprecations"]
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    jobs = workflow["jobs"]
    runs = {name: job["steps"][-1]["run"].removeprefix(".ci/run ") for name, job in jobs.items()}
    more = jobs["more"]["strategy"]["matrix"]["stage"]
    alone = [runs[name] for name in ("lint", "readme", "deprecations")]
    assert sorted([*alone, *more]) == sorted(stages)
    assert jobs["readme"]["needs"] == jobs["more"]["needs"] == "lint"


def test_lower_bounds_are_those_of_the_project():
    path = ROOT / ".ci" / "lower_bounds.py"
    spec = importlib.util.spec_from_file_location("lower_bounds", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bounds = module.lower_bounds(ROOT / "pyproject.toml")
    stated = [*PROJECT["project"]["dependencies"]]
    stated += [PROJECT["project"]["optional-dependencies"][e][0] for e in module.EXTRAS]
    assert bounds == [re.sub(r">=([\d.]+)$", r"==\1", requirement) for requirement in stated]
    assert all(re.fullmatch(r"[\w-]+==\d+(\.\d+)*", bound) for bound in bounds)


def test_hooks_run_the_checks_of_ci():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    checks = (ROOT / ".ci" / "run").read_text()
    for check in ("ruff check", "ruff format", "mypy --strict"):
        assert check in hooks
        assert check in checks
