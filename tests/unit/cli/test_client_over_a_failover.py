"""Commands go on with the next JobManager wherever the one before dies: before a request is taken, after it was taken and before the answer, and between two
statuses. Every such moment of every command is tried."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NoReturn, TypeVar, cast

import grpc
import pytest

from tests.aio.jobmanager.cluster import JOB, make_graph
from tidegate.cli.client import JobManagerClient
from tidegate.model.errors import Unreachable
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import add_JobManagerClientServiceServicer_to_server

T = TypeVar("T")
STATES = ("CREATED", "RUNNING", "FINISHED")
AWAY = 3
"""So many requests the next JobManager refuses before it leads."""


class Store:
    """What outlives a JobManager."""

    def __init__(self) -> None:
        self.submitted: list[str] = []
        self.canceled = 0
        self.savepoints: dict[str, str] = {}
        self.parallelism = 1


class Death:
    """Counts moments, and says at which one the first JobManager dies."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.moments = 0

    def comes(self) -> bool:
        self.moments += 1
        return self.moments == self.at


class JobManager:
    """Answers from the store. From the moment of its death on, or until it leads, it is unavailable."""

    def __init__(
        self, store: Store, death: Death, standbys: list[str], away: int = 0, *, outlives: bool = True
    ) -> None:
        self._store = store
        self._death = death
        self._standbys = standbys
        self._away = away
        self._outlives = outlives
        self._is_dead = False

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Methods of the service that no command here calls."""
        if method.startswith("_"):
            raise AttributeError(method)
        return self._abort

    def _moment(self, context: Any) -> None:
        if self._away:
            self._away -= 1
            self._abort(context)
        if self._is_dead or self._death.comes():
            self._is_dead = True
            self._abort(context)

    def _abort(self, context: Any) -> NoReturn:
        context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        raise AssertionError

    def _answered(self, context: Any, act: Callable[[], T]) -> T:
        self._moment(context)
        answer = act()
        self._moment(context)
        return answer

    def GetCluster(self, request: pb.GetClusterRequest, context: Any) -> pb.ClusterStatus:
        kind = "FILESYSTEM" if self._outlives else "NONE"
        standbys = [pb.JobManagerContact(rpc=address) for address in self._standbys]
        return self._answered(context, lambda: pb.ClusterStatus(high_availability=kind, standbys=standbys))

    def PutBlob(self, request_iterator: Iterator[common_pb2.BlobChunk], context: Any) -> common_pb2.BlobRef:
        return self._answered(
            context, lambda: common_pb2.BlobRef(size_bytes=sum(len(c.data) for c in request_iterator))
        )

    def SubmitJob(self, request: pb.SubmitJobRequest, context: Any) -> pb.SubmitJobResponse:
        def take() -> pb.SubmitJobResponse:
            self._store.submitted.append(request.graph.job_id)
            return pb.SubmitJobResponse(job_id=request.graph.job_id)

        return self._answered(context, take)

    def WatchJob(self, request: pb.JobRequest, context: Any) -> Iterator[pb.JobStatus]:
        self._moment(context)
        if request.job_id not in self._store.submitted:
            yield pb.JobStatus(error=common_pb2.Error(code="unknown-job", message="no such job"))
            return
        for state in STATES:
            yield pb.JobStatus(job_id=request.job_id, state=state)
            self._moment(context)

    def CancelJob(self, request: pb.JobRequest, context: Any) -> common_pb2.Ack:
        def take() -> common_pb2.Ack:
            self._store.canceled += 1
            return common_pb2.Ack()

        return self._answered(context, take)

    def RescaleJob(self, request: pb.RescaleJobRequest, context: Any) -> pb.RescaleJobResponse:
        def take() -> pb.RescaleJobResponse:
            self._store.parallelism = request.parallelism
            return pb.RescaleJobResponse(parallelism={"v": request.parallelism})

        return self._answered(context, take)

    def TriggerSavepoint(self, request: pb.TriggerSavepointRequest, context: Any) -> pb.SnapshotResponse:
        def take() -> pb.SnapshotResponse:
            path = self._store.savepoints.setdefault(request.request_id, f"/sp/{len(self._store.savepoints)}")
            return pb.SnapshotResponse(path=path)

        return self._answered(context, take)

    StopWithSavepoint = TriggerSavepoint


def serve(service: JobManager) -> tuple[grpc.Server, str]:
    server = grpc.server(ThreadPoolExecutor(4))
    add_JobManagerClientServiceServicer_to_server(cast(Any, service), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def with_death_at(at: int, command: Callable[[JobManagerClient, Store], None]) -> bool:
    """Runs a command whose JobManager dies at a moment. Returns whether it came to that."""
    store, death = Store(), Death(at)
    second, standby = serve(JobManager(store, Death(0), [], AWAY))
    first, address = serve(JobManager(store, death, [standby]))
    try:
        with JobManagerClient(address, lambda: standby) as client:
            command(client, store)
    finally:
        first.stop(None)
        second.stop(None)
    return death.moments >= at


def run(client: JobManagerClient, store: Store) -> None:
    assert client.submit(make_graph(), {}) == JOB
    with closing(client.watch_beyond(JOB)) as statuses:
        assert [status.state for status in statuses][-1] == "FINISHED"
    assert client.status(JOB).state in STATES
    assert set(store.submitted) == {JOB}
    assert len(store.submitted) == 1, "it was taken before the JobManager died, and is not submitted again"


def rescale(client: JobManagerClient, store: Store) -> None:
    store.submitted.append(JOB)
    assert client.rescale(JOB, 4, []) == {"v": 4}
    with closing(client.watch_beyond(JOB)) as statuses:
        assert [status.state for status in statuses][-1] == "FINISHED"
    assert store.parallelism == 4


def cancel(client: JobManagerClient, store: Store) -> None:
    client.cancel(JOB)
    assert store.canceled in (1, 2), "to cancel twice is to cancel once"


def savepoint(client: JobManagerClient, store: Store) -> None:
    assert client.savepoint(JOB, "", 10).path == "/sp/0"
    assert len(store.savepoints) == 1, "the next one knows the request by its id"


def stop(client: JobManagerClient, store: Store) -> None:
    assert client.stop(JOB, "", False, 10).path == "/sp/0"
    assert len(store.savepoints) == 1


@pytest.mark.parametrize(("command", "at_least"), [(run, 12), (rescale, 10), (cancel, 4), (savepoint, 4), (stop, 4)])
def test_a_command_goes_on_wherever_its_jobmanager_dies(
    command: Callable[[JobManagerClient, Store], None], at_least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.cli.client._FAILOVER_PAUSE_S", 0.001)
    moments = 0
    for at in itertools.count(1):
        if not with_death_at(at, command):
            break
        moments = at
    assert moments >= at_least


def test_without_high_availability_it_is_an_error_at_once() -> None:
    server, address = serve(JobManager(Store(), Death(3), [], outlives=False))
    try:
        with JobManagerClient(address) as client, pytest.raises(Unreachable, match=address):
            client.cancel(JOB)
    finally:
        server.stop(None)
