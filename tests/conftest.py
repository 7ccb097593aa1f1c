"""Rules for the whole test run."""

import os
from collections.abc import Generator

import pytest
from browser import Browser, find_chromium
from hypothesis import HealthCheck, settings

# Shared machines stall now and then: a deadline per example would be a wall-clock assert. In CI
# examples are derandomised, so that a failure is about the change and not about luck.
settings.register_profile("default", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
IN_CI = os.environ.get("CI", "").lower() == "true"
settings.load_profile("ci" if IN_CI else "default")

MUST_RUN = ("adapter", "parity")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn skips of adapter and parity tests into failures where CI=true.

    On a developer's machine a framework may be missing, and skipping is right. In CI it would
    mean that agreement with the framework was never tested while the run looks green.
    """
    report = yield
    expected_failure = hasattr(report, "wasxfail")  # reported as skipped, but it did run
    if IN_CI and report.skipped and not expected_failure:
        marks = [name for name in MUST_RUN if item.get_closest_marker(name)]
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
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} was skipped as a whole, which CI does not allow "
            f"(the skip said: {_reason(report.longrepr)}). Skip inside fixtures or tests."
        )
    return report


def _reason(longrepr: object) -> str:
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser, None, None]:
    """A real browser, for pages that are more than their text."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium: apt-get install --no-install-recommends chromium")
    started = Browser(found, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
