"""Clusters for most tests: starting a JVM takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.pool import SPREAD, SURVIVING, USUAL, made_ready, pooled
from tests.e2e.waiting import HANG_LIMIT_S
from tests.e2e.watching import CALL_LIMIT_S, TERMINAL
from tidegate.pb import jobmanager_pb2 as pb

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
    with pooled(tmp_path_factory.mktemp("usual"), USUAL) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def surviving_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pooled(tmp_path_factory.mktemp("surviving"), SURVIVING) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spread_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pooled(tmp_path_factory.mktemp("spread"), SPREAD) as cluster:
        yield cluster


@pytest.fixture
def cluster(session_cluster: Cluster) -> Cluster:
    """With 2 TaskManagers of 2 slots, whatever the test before did to them."""
    return made_ready(session_cluster, 2)


@pytest.fixture
def surviving_cluster(surviving_session: Cluster) -> Cluster:
    """With 2 TaskManagers of 2 slots, and jobs that outlive their JobManager."""
    return made_ready(surviving_session, 2)


@pytest.fixture
def spread_cluster(spread_session: Cluster) -> Cluster:
    """Like ``surviving_cluster``, with a third TaskManager, and with the subtasks of a job on as many as there are."""
    return made_ready(spread_session, 3)


@pytest.fixture(autouse=True)
def _logs_of_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """The ends of the logs of shared clusters, printed where pytest shows them when a test failed; what it ran ends with it."""
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        for name in {"session_cluster", "surviving_session", "spread_session"} & {*request.fixturenames}:
            cluster = request.getfixturevalue(name)
            print(cluster.logs())
            if cluster.job_manager is not None and cluster.job_manager.is_alive():
                cancel_what_is_left(cluster)


def cancel_what_is_left(cluster: Cluster) -> None:
    """Jobs of a test that failed keep no slots from the next one."""
    left = cluster.stub.ListJobs(pb.ListJobsRequest(include_terminal=False), timeout=CALL_LIMIT_S).jobs
    for job in left:
        cluster.stub.CancelJob(pb.JobRequest(job_id=job.job_id), timeout=CALL_LIMIT_S)
    for job in left:
        watch = cluster.watch(job.job_id)
        watch.wait_for(lambda moment: moment.status.state in TERMINAL, HANG_LIMIT_S, "a job that was left is over")


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return tmp_path
