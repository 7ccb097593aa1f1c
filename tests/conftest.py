"""Rules for the whole test run."""

import os
from collections.abc import Generator
from typing import Any

import pytest
from browser import Browser, find_chromium
from hypothesis import HealthCheck, settings

# A worker per core already: threads of OpenMP (scikit-learn, xgboost, lightgbm) would only wait for
# each other. Read when the first of these is imported, so it has to stand here.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Shared machines stall now and then: a deadline per example would be a wall-clock assert. Examples
# are derandomised, so that everybody runs the same tests and a failure is about the change and not
# about luck; `pytest --hypothesis-profile=explore` looks for new examples.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("default")

IN_CI = os.environ.get("CI", "").lower() == "true"
MUST_RUN = ("adapter", "parity")
# `.ci/run` runs the suite twice: first as the README says, where external tests may skip, then the
# external tests alone with everything that they need.
EXTERNAL_MUST_RUN = os.environ.get("RECALIBRATE_EXTERNAL", "") == "required"
EXTERNAL_FIXTURES = {"torch", "browser"}
EXTERNAL_MODULES = ("torch",)
MOST_WORKERS = 8  # each takes up to a gigabyte


def pytest_xdist_auto_num_workers() -> int:
    """One worker per core that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, MOST_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests whose fixtures need more than the extras install."""
    for item in items:
        if EXTERNAL_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("external")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn skips of adapter, parity and external tests into failures where CI=true.

    On a developer's machine a framework may be missing, and skipping is right. In CI it would
    mean that agreement with the framework was never tested while the run looks green.
    """
    report = yield
    expected_failure = hasattr(report, "wasxfail")  # reported as skipped, but it did run
    if IN_CI and report.skipped and not expected_failure:
        external = item.get_closest_marker("external") is not None
        marks = [name for name in MUST_RUN if item.get_closest_marker(name)]
        if external:
            marks = ["external"] if EXTERNAL_MUST_RUN else []
        if marks:
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} is marked {' and '.join(marks)} and may not be skipped in CI "
                f"(the skip said: {_reason(report.longrepr)})."
            )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Forbid skipping whole modules in CI: their marks cannot be read, so they could hide some."""
    report = yield
    reason = _reason(report.longrepr)
    external = any(f"could not import {name!r}" in reason for name in EXTERNAL_MODULES)
    if IN_CI and report.skipped and (EXTERNAL_MUST_RUN or not external):
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} was skipped as a whole, which CI does not allow "
            f"(the skip said: {reason}). Skip inside fixtures or tests."
        )
    return report


def _reason(longrepr: object) -> str:
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)


@pytest.fixture(scope="session")
def torch() -> Any:
    """The package, which no extra of the test command installs."""
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser, None, None]:
    """A real browser, for pages that are more than their text."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium: apt-get install --no-install-recommends chromium")
    started = Browser(found, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
