"""The JobManager's client for the command line, blocking. Raises `TidegateError`s that name the address."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import grpc

from tidegate.aio.admission import identified
from tidegate.aio.rpc import BLOB_CHUNK_BYTES, open_blocking_channel
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.errors import DuplicateJob, ErrorInfo, ExternalError, TidegateError, UnknownJob, Unreachable
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId, hex_id
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub, JobManagerServiceStub
from tidegate.security.signing import SigningNow
from tidegate.wire.convert import error_from_pb, error_of_status, graph_from_pb, graph_to_pb
from tidegate.wire.leading import leader_in
from tidegate.wire.versions import JOB_FORMAT, VERSION

CALL_TIMEOUT_S = 30.0
"""The timeout of a call, in seconds. Chosen, not measured: a JobManager under load answers within seconds."""
FAILOVER_PATIENCE_S = 60.0
"""How long to wait for the next JobManager, in seconds: Flink's default for the session of a leader that was lost."""
_FAILOVER_PAUSE_S = 0.2
"""The pause between two searches for the leading JobManager, in seconds. Chosen, not measured."""

T = TypeVar("T")
_Take = Callable[[float], pb.SnapshotResponse]
"""Requests a snapshot and waits for its outcome, with this timeout of the call in seconds."""


class _Elsewhere(Exception):
    """Raised when a standby JobManager answers with the leader's address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class JobManagerClient:
    """A connection to the leading JobManager, found through a standby if need be. Use it as a context manager."""

    def __init__(
        self,
        address: str,
        find_leader: Callable[[], str] | None = None,
        transport: Transport = PLAIN,
        metadata: tuple[tuple[str, str], ...] = (),
        signing: SigningNow | None = None,
        rest_scheme: str = "http",
    ) -> None:
        """Opens the connection.

        ``find_leader``: looks the leader up in the configured store; raises ``TidegateError`` while there is none. ``metadata``: sent with
        each call; it identifies the user. ``signing``: signs submitted programs. ``rest_scheme``: ``http`` or ``https``, for the address of
        the JobManager's page.
        """
        self._rest_scheme = rest_scheme
        self.metadata = metadata
        self._signing = signing
        self._find_leader, self.transport = find_leader, transport
        self._outlives = find_leader is not None
        """Whether jobs outlive their JobManager, as far as is known."""
        self._standbys: list[str] = []
        self._connect(address)

    def _connect(self, address: str) -> None:
        self.address = address
        self._channel = open_blocking_channel(address, self.transport)
        self._calls = identified(self._channel, self.metadata)
        self._stub = JobManagerClientServiceStub(self._calls)

    def _go_to(self, address: str) -> None:
        self.close()
        self._connect(address)

    def _follow(self, standby: _Elsewhere) -> None:
        """Connects to the leader that a standby has named. With a standby, jobs outlive their JobManager."""
        self._outlives = True
        self._go_to(standby.address)

    def __enter__(self) -> JobManagerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def submit(
        self,
        graph: JobGraph,
        blobs: Mapping[BlobKey, bytes],
        restore_path: str = "",
        allow_non_restored_state: bool = False,
        hidden_in: str = "",
    ) -> JobId:
        """Uploads the files that the graph needs and submits it, signed. Raises the error that refuses it.

        ``hidden_in``: the job from which ``program_of`` got the graph, whose secrets the new job gets. If jobs outlive their JobManager and
        this one is lost meanwhile, the next one is asked whether it knows the job, and otherwise gets it again: it refuses a submission
        that another one has accepted, also when its job has ended.
        """
        request = pb.SubmitJobRequest(
            graph=graph_to_pb(graph if self._signing is None else self._signing().signed(graph)),
            restore_path=restore_path,
            allow_non_restored_state=allow_non_restored_state,
            client_version=VERSION,
            job_format=JOB_FORMAT,
            hidden_in=hidden_in,
            submission_id=secrets.token_hex(16),
        )
        lost_at = 0.0
        while True:
            try:
                self._learn_standbys()
                if not (lost_at and self._knows(graph.job_id)):
                    self._submit_once(request, blobs)
                return graph.job_id
            except DuplicateJob:
                if not lost_at:
                    raise
                return graph.job_id
            except Unreachable as error:
                lost_at = self._outwait(error, lost_at)

    def _submit_once(self, request: pb.SubmitJobRequest, blobs: Mapping[BlobKey, bytes]) -> None:
        for content in blobs.values():
            self._put(content)
        _raise_if(self._call(lambda: self._stub.SubmitJob(request, timeout=CALL_TIMEOUT_S * 2)))

    def _knows(self, job_id: JobId) -> bool:
        try:
            self._status_once(job_id)
        except UnknownJob:
            return False
        return True

    def watch(self, job_id: str) -> Generator[pb.JobStatus, None, None]:
        """Yields the status now and after each change, until the job is terminal. Raises `UnknownJob`, `Unreachable`."""
        try:
            yield from self._watch(job_id)
        except _Elsewhere as standby:
            self._follow(standby)
            try:
                yield from self._watch(job_id)
            except _Elsewhere:
                raise self._unreachable("the leader of the cluster is changing; try again") from None

    def _watch(self, job_id: str) -> Generator[pb.JobStatus, None, None]:
        statuses = self._stub.WatchJob(pb.JobRequest(job_id=job_id))
        try:
            for status in statuses:
                _raise_if(status)
                yield status
        except grpc.RpcError as error:
            raise self._error_of(error) from None
        finally:
            statuses.cancel()

    def watch_beyond(self, job_id: str) -> Generator[pb.JobStatus, None, None]:
        """Yields the status like ``watch``, also across the loss of a JobManager: waits up to ``FAILOVER_PATIENCE_S`` for the next one.

        It does so only where jobs outlive their JobManager. Also raises ``UnknownJob`` when the job ended meanwhile.
        """
        lost_at = 0.0
        while True:
            try:
                self._learn_standbys()
                with closing(self.watch(job_id)) as statuses:
                    for status in statuses:
                        lost_at = 0.0
                        yield status
                    return
            except Unreachable as error:
                lost_at = self._outwait(error, lost_at)

    def _outwait(self, error: Unreachable, lost_at: float) -> float:
        """Waits a moment for the next JobManager; returns when the loss was first noticed: now, if ``lost_at`` is 0.

        Raises the error where there is no next one, or it has not come for ``FAILOVER_PATIENCE_S``.
        """
        lost_at = lost_at or time.monotonic()
        if not self._outlives or time.monotonic() - lost_at > FAILOVER_PATIENCE_S:
            raise error
        time.sleep(_FAILOVER_PAUSE_S)
        self._look_elsewhere()
        return lost_at

    def _learn_standbys(self) -> None:
        """Updates whether jobs outlive their JobManager, and the addresses of standbys. Raises ``Unreachable``, without a change."""
        status = self.cluster()
        self._standbys = [standby.rpc for standby in status.standbys if standby.rpc]
        self._outlives = status.high_availability not in ("", "NONE")

    def _look_elsewhere(self) -> None:
        """Connects to the leader that the store names, or else to the next known standby."""
        if self._find_leader is not None:
            try:
                found = self._find_leader()
            except TidegateError:
                return
        elif self._standbys:
            found = self._standbys.pop(0)
            self._standbys.append(self.address)  # it may be started again
        else:
            return
        if found != self.address:
            self._go_to(found)

    def status(self, job_id: str) -> pb.JobStatus:
        """Returns the status of a job. Raises ``UnknownJob``, ``Unreachable``."""
        return self._beyond(lambda: self._status_once(job_id))

    def _status_once(self, job_id: str) -> pb.JobStatus:
        statuses = self.watch(job_id)
        try:
            return next(statuses)
        finally:
            statuses.close()

    def cancel(self, job_id: str) -> None:
        """Cancels a job; returns when the JobManager, or the next one, has accepted the request, which is then carried out in any case."""

        def ask() -> None:
            _raise_if(self._call(lambda: self._stub.CancelJob(pb.JobRequest(job_id=job_id), timeout=CALL_TIMEOUT_S)))

        self._beyond(ask)

    def rescale(self, job_id: str, parallelism: int, vertices: Sequence[str]) -> dict[str, int]:
        """Changes the parallelism of a job; returns the new parallelism of each vertex, when the JobManager, or the next one, has accepted it."""
        request = pb.RescaleJobRequest(job_id=job_id, parallelism=parallelism, vertices=vertices)

        def ask() -> dict[str, int]:
            answer = self._call(lambda: self._stub.RescaleJob(request, timeout=CALL_TIMEOUT_S))
            _raise_if(answer)
            return dict(answer.parallelism)

        return self._beyond(ask)

    def list_jobs(
        self, include_terminal: bool, timeout_s: float = CALL_TIMEOUT_S, *, with_findings: bool = False
    ) -> list[pb.JobStatus]:
        request = pb.ListJobsRequest(include_terminal=include_terminal, with_findings=with_findings)
        return list(self._call(lambda: self._stub.ListJobs(request, timeout=timeout_s)).jobs)

    def checkpoints(self, job_id: str, subtasks_of: int = 0) -> pb.CheckpointList:
        """Returns the history of checkpoints; only the one with the id ``subtasks_of`` carries its subtasks."""
        request = pb.ListCheckpointsRequest(job_id=job_id, subtasks_of=subtasks_of)
        answer: pb.CheckpointList = self._call(lambda: self._stub.ListCheckpoints(request, timeout=CALL_TIMEOUT_S))
        _raise_if(answer)
        return answer

    def savepoint(self, job_id: str, directory: str, timeout_s: float) -> pb.SnapshotResponse:
        """Takes a savepoint and waits for it. ``directory``: empty for the configured one. Raises its error, or that it takes longer."""
        take = self._savepoint(job_id, directory, timeout_s, secrets.token_hex(16))
        return self._taken(take, "savepoint", timeout_s)

    def trigger_savepoint(self, job_id: str, directory: str) -> str:
        """Triggers a savepoint without waiting; returns the trigger's id, by which REST reports its outcome. Raises why it cannot be taken."""
        trigger_id = secrets.token_hex(16)
        take = self._savepoint(job_id, directory, 0, hex_id(job_id, trigger_id))
        self._requested(take, 0)
        return trigger_id

    def _savepoint(self, job_id: str, directory: str, timeout_s: float, request_id: str) -> _Take:
        request = pb.TriggerSavepointRequest(
            job_id=job_id, target_directory=directory, wait_ms=int(timeout_s * 1000), request_id=request_id
        )
        return lambda limit_s: self._stub.TriggerSavepoint(request, timeout=limit_s)

    def checkpoint(self, job_id: str, full: bool, timeout_s: float) -> pb.SnapshotResponse:
        """Takes a checkpoint and waits for it. Raises its error, or that it takes longer."""
        request = pb.TriggerJobCheckpointRequest(job_id=job_id, full=full, wait_ms=int(timeout_s * 1000))
        return self._taken(
            lambda limit_s: self._stub.TriggerCheckpoint(request, timeout=limit_s), "checkpoint", timeout_s
        )

    def stop(self, job_id: str, directory: str, drain: bool, timeout_s: float) -> pb.SnapshotResponse:
        """Stops a job with a savepoint and waits until it has FINISHED. Raises its error, or that it takes longer."""
        take = self._stop(job_id, directory, drain, timeout_s, secrets.token_hex(16))
        return self._taken(take, "stop", timeout_s)

    def trigger_stop(self, job_id: str, directory: str, drain: bool) -> str:
        """Triggers a stop with a savepoint without waiting; returns the trigger's id, as ``trigger_savepoint`` does."""
        trigger_id = secrets.token_hex(16)
        take = self._stop(job_id, directory, drain, 0, hex_id(job_id, trigger_id))
        self._requested(take, 0)
        return trigger_id

    def _stop(self, job_id: str, directory: str, drain: bool, timeout_s: float, request_id: str) -> _Take:
        request = pb.StopWithSavepointRequest(
            job_id=job_id,
            target_directory=directory,
            drain=drain,
            wait_ms=int(timeout_s * 1000),
            request_id=request_id,
        )
        return lambda limit_s: self._stub.StopWithSavepoint(request, timeout=limit_s)

    def dispose_savepoint(self, path: str) -> None:
        request = pb.DisposeSavepointRequest(path=path)
        _raise_if(self._call(lambda: self._stub.DisposeSavepoint(request, timeout=CALL_TIMEOUT_S * 10)))

    def cluster(self, timeout_s: float = CALL_TIMEOUT_S) -> pb.ClusterStatus:
        answer: pb.ClusterStatus = self._call(lambda: self._stub.GetCluster(pb.GetClusterRequest(), timeout=timeout_s))
        return answer

    def page_url(self) -> str:
        """Returns the address of the JobManager's page, without a ``/`` at the end; empty when it has none. Raises ``Unreachable``."""
        port = self.cluster().rest_port
        return f"{self._rest_scheme}://{self.address.rpartition(':')[0]}:{port}" if port else ""

    def another(self) -> JobManagerClient:
        """Returns a client of the same JobManager with a connection of its own, for another thread."""
        return JobManagerClient(
            self.address, self._find_leader, self.transport, self.metadata, self._signing, self._rest_scheme
        )

    def program_of(self, job_id: str) -> tuple[JobGraph, dict[BlobKey, bytes]]:
        """Returns the graph and files of a running job, with its current parallelism and its secrets hidden.

        Raises `UnknownJob`, `Unreachable`, and `NotSigned` if this client signs and the program was not signed: it would be signed again.
        """
        answer = self._call(lambda: self._stub.GetJobGraph(pb.JobRequest(job_id=job_id), timeout=CALL_TIMEOUT_S))
        _raise_if(answer)
        graph = graph_from_pb(answer.graph)
        if self._signing is not None:
            self._signing().check_graph(graph)
        blobs = JobManagerServiceStub(self._calls)

        def read(key: str) -> bytes:
            chunks = blobs.GetBlob(common_pb2.BlobRef(key=key), timeout=CALL_TIMEOUT_S * 10)
            return b"".join(chunk.data for chunk in chunks)

        return graph, {key: self._call(partial(read, key)) for key in graph.blob_keys()}

    def kv_state_location(self, job_id: str, name: str) -> pb.KvStateLocationAnswer:
        """Returns where a queryable state is served now. Raises `UnknownJob`, `Unreachable`."""
        request = pb.KvStateLocationRequest(job_id=job_id, name=name)

        def ask() -> pb.KvStateLocationAnswer:
            answer = self._call(lambda: self._stub.GetKvStateLocation(request, timeout=CALL_TIMEOUT_S))
            _raise_if(answer)
            return answer

        return self._beyond(ask)

    def _requested(self, take: _Take, timeout_s: float) -> pb.SnapshotResponse:
        """Requests a snapshot, again from the next JobManager when this one is lost: the id tells that it is the same request."""

        def ask() -> pb.SnapshotResponse:
            answer = self._call(lambda: take(timeout_s + CALL_TIMEOUT_S))
            _raise_if(answer)
            return answer

        return self._beyond(ask)

    def _taken(self, take: _Take, what: str, timeout_s: float) -> pb.SnapshotResponse:
        answer = self._requested(take, timeout_s)
        if answer.in_progress:
            raise ExternalError(
                f"the {what} is not complete after {timeout_s:g} s and continues; `tidegate checkpoints` shows it, "
                "--timeout waits longer"
            )
        return answer

    def _beyond(self, ask: Callable[[], T]) -> T:
        """Calls ``ask``, again at the next JobManager when this one is lost and jobs outlive it. Raises what ``ask`` raises."""
        lost_at = 0.0
        while True:
            try:
                self._learn_standbys()
                return ask()
            except UnknownJob as error:
                if lost_at:
                    raise UnknownJob(
                        f"the JobManager was lost meanwhile, and the job has ended: {error.message}"
                    ) from None
                raise
            except Unreachable as error:
                lost_at = self._outwait(error, lost_at)

    def _put(self, content: bytes) -> None:
        self._call(lambda: self._stub.PutBlob(_chunks(content), timeout=CALL_TIMEOUT_S * 10))

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return self._call_once(call)
        except _Elsewhere as standby:
            self._follow(standby)
        try:
            return self._call_once(call)
        except _Elsewhere:
            raise self._unreachable("the leader of the cluster is changing; try again") from None

    def _call_once(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except grpc.RpcError as error:
            raise self._error_of(error) from None

    def _error_of(self, error: grpc.RpcError) -> Exception:
        assert isinstance(error, grpc.Call), error
        code, details = error.code(), error.details() or ""
        metadata = [(str(key), value) for key, value in error.trailing_metadata() or ()]
        if code is grpc.StatusCode.UNAVAILABLE:
            leader = leader_in(metadata)
            return _Elsewhere(leader) if leader else self._unreachable(details)
        return error_of_status(int(code.value[0]), details, metadata, f"the JobManager at {self.address}")

    def _unreachable(self, details: str) -> Unreachable:
        found = self.transport.diagnose(self.address, details)
        if found:
            return Unreachable(found, details=details)
        return Unreachable(
            f"no JobManager at {self.address}; start one with `tidegate cluster start` or `tidegate jobmanager`, "
            "or give its address with --jobmanager",
            details=details,
        )


def failure_of(status: pb.JobStatus) -> ErrorInfo | None:
    """Returns the last failure of a job; ``None`` without one."""
    return error_from_pb(status.failure) if status.HasField("failure") else None


def _raise_if(answer: Any) -> None:
    if answer.HasField("error"):
        raise error_from_pb(answer.error).to_exception()


def _chunks(content: bytes) -> Iterator[common_pb2.BlobChunk]:
    for start in range(0, max(1, len(content)), BLOB_CHUNK_BYTES):
        yield common_pb2.BlobChunk(data=content[start : start + BLOB_CHUNK_BYTES])
