"""What holds for all tests: the folder decides the marker and the time limit, hypothesis has no deadline."""

from __future__ import annotations

import faulthandler
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.browser.chromium", "tests.servers.fixtures"]

TESTS = Path(__file__).parent
E2E_TIMEOUT_S = 300
SIM_TIMEOUT_S = 300
EXIT_TIMEOUT_S = 60

settings.register_profile("tidegate", deadline=None, print_blob=True)
settings.load_profile("tidegate")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in `e2e/` and `sim/`, and give it the time it needs unless it asks for its own."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder not in ("e2e", "sim"):
            continue
        item.add_marker(folder)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_S if folder == "e2e" else SIM_TIMEOUT_S))


def pytest_unconfigure() -> None:
    """A run that is done but does not end says where its threads are, and fails: a gRPC server that a test forgot keeps the
    interpreter from ending, and who waits for the run would learn nothing."""
    faulthandler.dump_traceback_later(EXIT_TIMEOUT_S, exit=True)
