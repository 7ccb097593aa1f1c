"""`import recalibrate` is light, and so is every module of the core except those that may not."""

import json
import subprocess
import sys

import pytest

HEAVY = {
    "pandas", "sklearn", "scipy", "numba", "onnx", "onnxruntime", "skl2onnx", "xgboost",
    "lightgbm", "torch", "catboost", "dask", "distributed", "matplotlib", "jinja2",
    "recalibrate_adapters",
}  # fmt: skip

LIGHT_MODULES = [
    "recalibrate.data.table",
    "recalibrate.data.labels",
    "recalibrate.groups.expressions",
    "recalibrate.groups.groupset",
    "recalibrate.metrics",
    "recalibrate.support.checks",
    "recalibrate.bases.protocol",
    "recalibrate.simulate",
    "recalibrate.auditing",
]


def run(code: str) -> str:
    """Output of a fresh interpreter; in this one everything is loaded already."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_roots(statement: str) -> set[str]:
    code = f"import json, sys; {statement}; print(json.dumps(list(sys.modules)))"
    return {name.partition(".")[0] for name in json.loads(run(code))}


@pytest.mark.slow
def test_the_probe_sees_a_heavy_import():
    assert "pandas" in loaded_roots("import pandas")


def test_import_recalibrate_loads_no_framework():
    assert loaded_roots("import recalibrate") & HEAVY == set()


def test_dir_and_hasattr_load_no_framework():
    statement = "import recalibrate; dir(recalibrate); hasattr(recalibrate, 'no_such_name')"
    assert loaded_roots(statement) & HEAVY == set()


@pytest.mark.slow
@pytest.mark.parametrize("module", LIGHT_MODULES)
def test_core_modules_load_no_framework(module):
    assert loaded_roots(f"import {module}") & HEAVY == set()


def test_adapters_package_loads_no_framework():
    assert loaded_roots("import recalibrate_adapters") & (HEAVY - {"recalibrate_adapters"}) == set()


def test_dir_lists_all_public_names_before_any_use():
    names = run("import recalibrate; print(*dir(recalibrate))").split()
    assert set(run("import recalibrate; print(*recalibrate.__all__)").split()) <= set(names)


def test_metrics_is_a_module_without_being_imported_first():
    assert run("import recalibrate; print(recalibrate.metrics.__name__)") == "recalibrate.metrics\n"


@pytest.mark.slow
def test_loading_submodules_does_not_shadow_public_functions():
    code = (
        "import recalibrate.auditing, recalibrate; "
        "print(callable(recalibrate.audit), recalibrate.audit.__module__)"
    )
    assert run(code).split() == ["True", "recalibrate.auditing.entry"]
