"""What holds for all tests: the folder decides the marker and the time limit, hypothesis has no deadline."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.browser.chromium", "tests.servers.fixtures"]

TESTS = Path(__file__).parent
E2E_TIMEOUT_S = 300
SIM_TIMEOUT_S = 300
EXIT_TIMEOUT_S = 60

# CI repeats the same examples, so that a change is judged by what it changed; `make soak` looks for new ones.
settings.register_profile("tidegate", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("tidegate")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets what it runs in the background ignore Ctrl-C, and children would inherit that; some tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in `e2e/` and `sim/`, and give it the time it needs unless it asks for its own."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder not in ("e2e", "sim"):
            continue
        item.add_marker(folder)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_S if folder == "e2e" else SIM_TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def _home_of_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Embedded clusters of tests keep their files where pytest removes them, not in the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def pytest_unconfigure() -> None:
    """A run that is done but does not end says where its threads are, and fails: a gRPC server that a test forgot keeps the
    interpreter from ending, and who waits for the run would learn nothing."""
    faulthandler.dump_traceback_later(EXIT_TIMEOUT_S, exit=True)
