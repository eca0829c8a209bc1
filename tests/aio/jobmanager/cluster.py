"""A real JobManager on loopback, and a TaskManager that plays its part of the protocol without running anything."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc.aio

from tests.own import own_signing, own_transport
from tidegate.aio.process import Services, Shutdown
from tidegate.aio.rpc import open_channel, start_server
from tidegate.aio.transport import Transport
from tidegate.aio.transports import transport_of
from tidegate.jobmanager.service.app import Listening, start_services
from tidegate.model.configuration import Configuration
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import BlobKey, JobId, OperatorId, VertexId
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub, JobManagerServiceStub
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerServicer, add_TaskManagerServicer_to_server
from tidegate.wire.convert import graph_to_pb
from tidegate.wire.versions import JOB_FORMAT, PYTHON_VERSION, VERSION

PROGRAM = b"an opaque program"
KEY = BlobKey(hashlib.sha256(PROGRAM).hexdigest())
SOURCE, SINK = VertexId("1" * 32), VertexId("2" * 32)
JOB = JobId("a" * 32)


def _configured(settings: Mapping[str, str]) -> Configuration:
    texts = {"jobmanager.rpc.port": "0", "rest.port": "0", "heartbeat.interval": "200 ms", "heartbeat.timeout": "60 s"}
    options = {key.replace("__", "-").replace("_", "."): text for key, text in settings.items()}
    return Configuration.from_strings({**texts, **options})


@asynccontextmanager
async def running_job_manager(**settings: str) -> AsyncIterator[Listening]:
    services = Services()
    try:
        yield await start_services(_configured(settings), services, Shutdown())
    finally:
        await services.stop_all()


@asynccontextmanager
async def client_of(listening: Listening, transport: Transport | None = None) -> AsyncIterator[Any]:
    async with open_channel(f"127.0.0.1:{listening.rpc_port}", transport or own_transport()) as channel:
        yield JobManagerClientServiceStub(channel)


@asynccontextmanager
async def cluster(*names: str, **settings: str) -> AsyncIterator[tuple[Any, list[FakeTaskManager], Listening]]:
    """A client of a JobManager with these settings, and TaskManagers with these names."""
    by = transport_of(_configured(settings))
    async with running_job_manager(**settings) as listening, client_of(listening, by) as client:
        task_managers = [FakeTaskManager(name, transport=by) for name in names]
        try:
            for task_manager in task_managers:
                await task_manager.start(listening)
            yield client, task_managers, listening
        finally:
            for task_manager in task_managers:
                await task_manager.stop()


def make_graph(**configuration: str) -> JobGraph:
    def vertex(vertex_id: VertexId, name: str, *, is_source: bool = False, is_sink: bool = False) -> JobVertex:
        operator = OperatorInfo(OperatorId(vertex_id), name, uid=name, is_source=is_source, is_sink=is_sink)
        return JobVertex(vertex_id, name, 2, 128, (operator,), KEY)

    vertices = (vertex(SOURCE, "numbers", is_source=True), vertex(SINK, "print", is_sink=True))
    edges = (JobEdge(0, SOURCE, SINK, Partitioner.HASH),)
    texts = {key.replace("__", "-").replace("_", "."): text for key, text in configuration.items()}
    return JobGraph(JOB, "trivial", vertices, edges, texts, python_version=PYTHON_VERSION)


async def put_blob(client: Any, content: bytes = PROGRAM) -> str:
    async def chunks() -> AsyncIterator[common_pb2.BlobChunk]:
        yield common_pb2.BlobChunk(data=content[:5])
        yield common_pb2.BlobChunk(data=content[5:])

    return str((await client.PutBlob(chunks())).key)


async def submit(client: Any, graph: JobGraph, **fields: Any) -> jobmanager_pb2.SubmitJobResponse:
    signed = graph_to_pb(own_signing()().signed(graph))
    request = jobmanager_pb2.SubmitJobRequest(graph=signed, client_version=VERSION, job_format=JOB_FORMAT)
    for name, value in fields.items():
        setattr(request, name, value)
    answer: jobmanager_pb2.SubmitJobResponse = await client.SubmitJob(request)
    return answer


async def start_job(client: Any, **configuration: str) -> None:
    """The trivial job, submitted."""
    await put_blob(client)
    answer = await submit(client, make_graph(**configuration))
    assert not answer.HasField("error"), answer.error


async def run_job(client: Any, **configuration: str) -> jobmanager_pb2.JobStatus:
    """Starts a job like ``start_job``, and waits until all its tasks run; returns its status."""
    await start_job(client, **configuration)
    return await watch_until(client, JOB, is_running)


def is_running(status: jobmanager_pb2.JobStatus) -> bool:
    return status.state == "RUNNING" and all(
        subtask.state == "RUNNING" for vertex in status.vertices for subtask in vertex.subtasks
    )


async def watch_until(
    client: Any, job_id: str, condition: Callable[[jobmanager_pb2.JobStatus], bool], timeout_s: float = 20
) -> jobmanager_pb2.JobStatus:
    """The first status that fulfils the condition."""
    status = None
    try:
        async with asyncio.timeout(timeout_s):
            async for status in client.WatchJob(jobmanager_pb2.JobRequest(job_id=job_id)):
                if condition(status):
                    return status  # type: ignore[no-any-return]
    except TimeoutError:
        raise AssertionError(f"not reached; the last status was {status}") from None
    raise AssertionError(f"the job ended first: {status}")


class FakeTaskManager(TaskManagerServicer):
    """Answers everything with success and reports what a good task would. ``behaviour`` switches parts off."""

    def __init__(self, name: str, slots: int = 2, transport: Transport | None = None) -> None:
        self._transport = transport or own_transport()
        self.name = name
        self.slots = slots
        self.generation = ""
        self.session = f"session-{name}"
        self.story: list[str] = []
        self.snapshot = common_pb2.SubtaskSnapshot()
        self.deployments: dict[str, common_pb2.TaskDeployment] = {}
        self.allocations: dict[str, int] = {}
        self.confirms_to_drop = 0
        self.operator_events: list[common_pb2.OperatorEventRequest] = []
        self.acknowledges = True
        self.triggered = asyncio.Event()
        self.last_trigger = 0
        self._refused: asyncio.Event = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: grpc.aio.Server | None = None
        self._heartbeat: Any = None
        self._channel: Any = None

    async def start(self, listening: Listening, reports: list[jobmanager_pb2.AttemptReport] | None = None) -> None:
        """Again after ``die``: its tasks went on."""
        self._server, port = await start_server(
            "127.0.0.1",
            0,
            lambda server: add_TaskManagerServicer_to_server(self, server),
            "fake TaskManager",
            transport=self._transport,
        )
        self._channel = open_channel(f"127.0.0.1:{listening.rpc_port}", self._transport)
        self.job_manager: Any = JobManagerServiceStub(self._channel)
        registration = self.registration(f"127.0.0.1:{port}")
        registration.attempts.extend(reports or [])
        answer = await self.job_manager.RegisterTaskManager(registration)
        assert not answer.HasField("error"), answer.error
        self.generation = answer.generation
        self._address = f"127.0.0.1:{port}"
        await self._open_heartbeats()

    async def _open_heartbeats(self) -> None:
        self._heartbeat = self.job_manager.Heartbeat()
        await self._heartbeat.write(self._beat())
        await self._heartbeat.read()

    async def break_link(self) -> None:
        """Its connection to the JobManager ends without a word; its process, and what runs there, goes on."""
        await self._channel.close()

    async def come_back(self, listening: Listening) -> None:
        """Behind ``break_link``: on a new connection, as the same process."""
        self._channel = open_channel(f"127.0.0.1:{listening.rpc_port}", self._transport)
        self.job_manager = JobManagerServiceStub(self._channel)
        registration = self.registration(self._address)
        registration.attempts.extend(self.reports(0, self.generation))
        answer = await self.job_manager.RegisterTaskManager(registration)
        assert not answer.HasField("error"), answer.error
        assert answer.generation == self.generation
        await self._open_heartbeats()

    async def say_goodbye(self) -> None:
        """Its last heartbeat, as of a TaskManager that shuts down."""
        last = self._beat()
        last.is_last = True
        await self._heartbeat.write(last)

    def registration(self, address: str, **fields: Any) -> jobmanager_pb2.RegisterTaskManagerRequest:
        request = jobmanager_pb2.RegisterTaskManagerRequest(
            task_manager_id=self.name,
            address=address,
            version=VERSION,
            python_version=PYTHON_VERSION,
            slots=self._slot_report(),
            host="localhost",
            session=self.session,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def reports(self, acknowledged: int, generation: str) -> list[jobmanager_pb2.AttemptReport]:
        """Its tasks, RUNNING, which acknowledged that checkpoint (0: none) to the JobManager of that generation."""
        held = jobmanager_pb2.AcknowledgedCheckpoint(checkpoint_id=acknowledged, generation=generation)
        return [
            jobmanager_pb2.AttemptReport(
                attempt=attempt,
                allocation_id=deployment.allocation_id,
                state="RUNNING",
                data_address="127.0.0.1:1",
                acknowledged=[held] if acknowledged else [],
                newest_id=acknowledged,
            )
            for attempt, deployment in self.deployments.items()
        ]

    def _slot_report(self) -> list[jobmanager_pb2.SlotReport]:
        taken = {index: allocation for allocation, index in self.allocations.items()}
        return [
            jobmanager_pb2.SlotReport(
                slot_index=index, allocation_id=taken.get(index, ""), job_id=JOB if index in taken else ""
            )
            for index in range(self.slots)
        ]

    async def beat(self, metrics: dict[str, common_pb2.TaskMetrics] | None = None) -> None:
        await self._heartbeat.write(self._beat(metrics))

    async def heartbeats_ended(self, timeout_s: float = 5) -> bool:
        """Whether the JobManager ends the stream, in order or not, within the time."""
        with suppress(grpc.aio.AioRpcError):
            async with asyncio.timeout(timeout_s):
                while await self._heartbeat.read() is not grpc.aio.EOF:
                    continue
        return True

    def _beat(self, metrics: dict[str, common_pb2.TaskMetrics] | None = None) -> jobmanager_pb2.TaskManagerHeartbeat:
        return jobmanager_pb2.TaskManagerHeartbeat(
            generation=self.generation,
            task_manager_id=self.name,
            session=self.session,
            slots=self._slot_report(),
            attempts=list(self.deployments),
            metrics=metrics,
        )

    async def die(self) -> None:
        """Without a word."""
        for task in self._tasks:
            task.cancel()
        if self._channel is not None:
            await self._channel.close()
        await self.stop_listening()

    async def stop_listening(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def stop(self) -> None:
        await self.die()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def AllocateSlot(self, request: taskmanager_pb2.AllocateSlotRequest, context: Any) -> common_pb2.Ack:
        self.story.append("allocate")
        self.allocations[request.allocation_id] = request.slot_index
        return common_pb2.Ack()

    async def FreeSlot(self, request: taskmanager_pb2.FreeSlotRequest, context: Any) -> common_pb2.Ack:
        self.story.append("free")
        self.allocations.pop(request.allocation_id, None)
        self._later(
            self.job_manager.SlotFreed(
                jobmanager_pb2.SlotFreedRequest(
                    generation=self.generation, task_manager_id=self.name, allocation_id=request.allocation_id
                )
            )
        )
        return common_pb2.Ack()

    async def SubmitTask(self, request: taskmanager_pb2.SubmitTaskRequest, context: Any) -> common_pb2.Ack:
        self.story.append("submit")
        deployment = common_pb2.TaskDeployment.FromString(request.deployment)
        self.deployments[deployment.attempt] = deployment
        self._later(self._come_up(deployment.attempt))
        return common_pb2.Ack()

    async def ConnectTask(self, request: taskmanager_pb2.ConnectTaskRequest, context: Any) -> common_pb2.Ack:
        self.story.append("connect")
        return common_pb2.Ack()

    async def CancelTask(self, request: taskmanager_pb2.CancelTaskRequest, context: Any) -> common_pb2.Ack:
        self.story.append("cancel")
        if self.deployments.pop(request.attempt, None) is not None:
            self._later(self.report(request.attempt, "CANCELED"))
        return common_pb2.Ack()

    async def TriggerCheckpoint(
        self, request: taskmanager_pb2.TriggerCheckpointRequest, context: Any
    ) -> taskmanager_pb2.CheckpointAnswer:
        self.story.append(f"trigger {request.checkpoint_id}")
        self.triggered.set()
        self.last_trigger = request.checkpoint_id
        if self.acknowledges:  # as if the barriers had flown
            self._later(self.acknowledge(list(self.deployments), request.checkpoint_id))
        return taskmanager_pb2.CheckpointAnswer()

    async def ConfirmCheckpoint(
        self, request: taskmanager_pb2.ConfirmCheckpointRequest, context: Any
    ) -> taskmanager_pb2.CheckpointAnswer:
        self.story.append(f"confirm {request.checkpoint_id}")
        if self.confirms_to_drop > 0:
            self.confirms_to_drop -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "lost on the way")
        for attempt in request.may_finish:
            if self.deployments.pop(attempt, None) is not None:
                self._later(self.report(attempt, "FINISHED"))
        return taskmanager_pb2.CheckpointAnswer()

    async def AbortCheckpoint(
        self, request: taskmanager_pb2.AbortCheckpointRequest, context: Any
    ) -> taskmanager_pb2.CheckpointAnswer:
        self.story.append(f"abort {request.checkpoint_id}")
        return taskmanager_pb2.CheckpointAnswer()

    async def SendOperatorEvent(self, request: common_pb2.OperatorEventRequest, context: Any) -> common_pb2.Ack:
        self.story.append(f"event {request.event.number}: {request.event.WhichOneof('event')}")
        self.operator_events.append(request)
        return common_pb2.Ack()

    async def report(
        self,
        attempt: str,
        state: str,
        error: common_pb2.Error | None = None,
        address: str | None = None,
        metrics: common_pb2.TaskMetrics | None = None,
    ) -> common_pb2.Ack:
        request = jobmanager_pb2.UpdateTaskStateRequest(
            generation=self.generation,
            attempt=attempt,
            state=state,
            error=error,
            data_address=address,
            metrics=metrics,
        )
        answer: common_pb2.Ack = await self.job_manager.UpdateTaskState(request)
        return answer

    async def acknowledge(
        self, attempts: Iterable[str], checkpoint_id: int | None = None
    ) -> jobmanager_pb2.AcknowledgeCheckpointAnswer:
        """In one message; the last checkpoint that was triggered, or that one."""
        of = self.last_trigger if checkpoint_id is None else checkpoint_id
        request = jobmanager_pb2.AcknowledgeCheckpointRequest(
            generation=self.generation,
            acknowledgements=[
                common_pb2.Acknowledgement(attempt=attempt, checkpoint_id=of, snapshot=self.snapshot)
                for attempt in attempts
            ],
        )
        answer: jobmanager_pb2.AcknowledgeCheckpointAnswer = await self.job_manager.AcknowledgeCheckpoint(request)
        return answer

    async def end_of_data(self) -> None:
        """All tasks here have read everything."""
        for attempt in list(self.deployments):
            await self.job_manager.EndOfData(
                jobmanager_pb2.EndOfDataRequest(generation=self.generation, attempt=attempt)
            )

    async def _come_up(self, attempt: str) -> None:
        await self.report(attempt, "INITIALIZING", address="127.0.0.1:1")
        await self.report(attempt, "RUNNING")

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
