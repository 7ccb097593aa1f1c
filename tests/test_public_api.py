"""The public names are pinned: adding or removing one is a decision, not an accident."""

import importlib.metadata
import inspect
import pydoc
from pathlib import Path
from types import ModuleType

import pytest

import recalibrate
from recalibrate.support.checks import require

PUBLIC = {
    "AuditFailed",
    "AuditReport",
    "Certificate",
    "Engine",
    "Estimator",
    "Groups",
    "LSBoostClassifier",
    "LSBoostRegressor",
    "Linear",
    "Loop",
    "Monitor",
    "Polynomial",
    "Recalibrated",
    "RecalibratedClassifier",
    "RecalibratedRegressor",
    "Trees",
    "__version__",
    "audit",
    "fit",
    "load",
    "losses",
    "metrics",
}


def test_all_is_pinned():
    assert set(recalibrate.__all__) == PUBLIC
    assert len(recalibrate.__all__) == len(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_resolves_and_stays(name):
    value = getattr(recalibrate, name)
    assert value is getattr(recalibrate, name)


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_every_public_name_is_documented(name):
    assert pydoc.getdoc(getattr(recalibrate, name)).strip()


@pytest.mark.parametrize("name", ["losses", "metrics"])
def test_public_modules_are_the_modules(name):
    module = getattr(recalibrate, name)
    assert isinstance(module, ModuleType)
    assert module.__name__ == f"recalibrate.{name}"


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'recalibrate' has no attribute 'fitt'"):
        recalibrate.fitt  # noqa: B018 - the access is the test


def test_completion_shows_public_names_only():
    import recalibrate.auditing  # a submodule that is loaded is no public name

    assert set(dir(recalibrate)) == PUBLIC


def test_the_root_holds_public_objects_only():
    root = Path(recalibrate.__file__).parent
    modules = {path.stem for path in root.glob("*.py")}
    assert modules == {
        "__init__", "__main__", "deciding", "ensemble", "estimators", "loading", "losses",
        "metrics", "model", "scores", "simulate",
    }  # fmt: skip


def test_version_is_the_installed_one():
    try:
        installed = importlib.metadata.version("recalibrate-lsboost")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the distribution is not installed, the package runs from the source tree")
    assert recalibrate.__version__ == installed


def test_audit_takes_its_options_by_name():
    parameters = inspect.signature(recalibrate.audit).parameters
    assert list(parameters)[:4] == ["model_or_scores", "X", "y", "groups"]
    by_name = {n for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert by_name == {
        "base", "Z", "positive", "classes", "baseline", "H", "richer", "cluster", "by",
        "time", "thresholds", "reference", "depth", "min_rows", "bands", "bins", "alpha",
        "exposure", "loss", "sample_weight",
    }  # fmt: skip


def test_require_returns_the_module():
    assert require("xml.dom", "report").__name__ == "xml.dom"


@pytest.mark.parametrize("module", ["no_such_framework", "no_such_framework.part", "json.nothing"])
def test_require_says_how_to_install(module):
    with pytest.raises(ImportError, match=r'pip install "recalibrate-lsboost\[report\]"') as caught:
        require(module, "report")
    assert caught.value.name == module


def test_require_leaves_errors_inside_an_installed_module_alone(tmp_path, monkeypatch):
    (tmp_path / "broken_framework.py").write_text("import its_missing_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_missing_dependency") as caught:
        require("broken_framework", "report")
    assert "pip install" not in str(caught.value)
