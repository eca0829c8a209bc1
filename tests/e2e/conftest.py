"""One cluster for most tests: starting a JVM takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster

SLOTS = 2
LIMIT_S = 600
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that takes too long is interrupted by a signal, so that its processes are ended like after any failure. Those
    with a limit of their own keep it: they start servers, and a broker again and again."""
    for item in items:
        own = item.get_closest_marker("timeout") or item.get_closest_marker("slow")
        if item.path.is_relative_to(HERE) and own is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S, method="signal"), append=False)


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(session_cluster: Cluster) -> Cluster:
    """With 2 TaskManagers of 2 slots, whatever the test before did to them."""
    ensure_taskmanagers(session_cluster, 2)
    return session_cluster


@pytest.fixture(autouse=True)
def _logs_of_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """The ends of the shared cluster's logs, printed where pytest shows them when a test failed."""
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before and "session_cluster" in request.fixturenames:
        print(request.getfixturevalue("session_cluster").logs())


def ensure_taskmanagers(cluster: Cluster, count: int) -> None:
    """At least so many; tests that kill some begin with as many spares, since starting a JVM meanwhile would take the
    processor from what is measured."""
    for process in list(cluster.task_managers):
        if not process.is_alive():
            cluster.kill9(process)
    for _ in range(count - len(cluster.task_managers)):
        cluster.add_taskmanager(SLOTS)
    cluster.wait_slots(count * SLOTS)


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return tmp_path
