"""A real JobManager service without sockets, and TaskManagers that are only their half of the protocol.

    request ─▶ bytes ─▶ TaskManager ─▶ bytes ─▶ answer          trigger, confirm, submit ...
    acknowledgements of a TaskManager ─▶ bytes ─▶ JobManager    one message each

Everything that the JobManager does is real: machine, driver, outboxes, servicer, protobuf both ways, the storage pool and
``_metadata`` on disk. What the TaskManagers do is measured on the side, and taken off.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import xxhash

from tidegate.aio.pool import Pool
from tidegate.aio.transport import Transport
from tidegate.jobmanager.machines import events as ev
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.high_availability.services import without_high_availability
from tidegate.jobmanager.service.rpc.task_manager_servicer import TaskManagerServicer
from tidegate.jobmanager.service.storage.checkpoint_files import JobDirectories
from tidegate.jobmanager.service.task_managers.outbox import Link
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import BlobKey, JobId, OperatorId, TaskManagerId, VertexId, hex_id
from tidegate.model.keygroups import range_of
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2
from tidegate.store.checkpoints import CheckpointStorage

JOB = JobId(hex_id("control plane"))
STAGES = ("source", "map", "window", "rank", "sink")
SLOTS = 2
"""Of each TaskManager; a slot holds one subtask of every stage."""
INLINE_BYTES = 2048
MAX_PARALLELISM = 4096
QUIET = Configuration.from_strings({"heartbeat.timeout": "1 h"})
"""TaskManagers send heartbeats only when they are asked for."""


def vertex_of(stage: str) -> VertexId:
    return VertexId(hex_id("vertex", stage))


def operator_of(stage: str) -> OperatorId:
    return OperatorId(hex_id("operator", stage))


def make_graph(subtasks: int) -> JobGraph:
    width = subtasks // len(STAGES)

    def vertex(stage: str) -> JobVertex:
        info = OperatorInfo(operator_of(stage), stage, uid=stage, is_source=stage == "source", is_sink=stage == "sink")
        return JobVertex(vertex_of(stage), stage, width, MAX_PARALLELISM, (info,), BlobKey("0" * 64))

    kinds = (Partitioner.FORWARD, Partitioner.HASH, Partitioner.FORWARD, Partitioner.FORWARD)
    edges = [
        JobEdge(number, vertex_of(a), vertex_of(b), kind)
        for number, (a, b, kind) in enumerate(zip(STAGES, STAGES[1:], kinds, strict=False))
    ]
    return JobGraph(JOB, "control plane", tuple(vertex(stage) for stage in STAGES), tuple(edges))


def make_snapshot(vertex_id: str, index: int, parallelism: int) -> common_pb2.SubtaskSnapshot:
    """2 KiB inline: of a keyed stage as state and timers, of another as a list."""
    stage = next(s for s in STAGES if vertex_of(s) == vertex_id)
    if stage not in ("window", "rank"):
        element = common_pb2.OperatorStateHandle(
            state_name="splits", redistribution="SPLIT", elements=1, handle=_inline(INLINE_BYTES)
        )
        operator = common_pb2.OperatorSnapshot(operator=[element])
    else:
        groups = range_of(index, MAX_PARALLELISM, parallelism)
        operator = common_pb2.OperatorSnapshot(
            keyed=[
                common_pb2.SegmentHandle(
                    state_name=name,
                    first_key_group=groups.start,
                    last_key_group=groups.end,
                    offsets=range(groups.size + 1),
                    handle=_inline(INLINE_BYTES // 2),
                )
                for name in ("windows", "timers")
            ]
        )
    return common_pb2.SubtaskSnapshot(operators={operator_of(stage): operator})


def _inline(size_bytes: int) -> common_pb2.StateHandle:
    data = os.urandom(size_bytes)
    return common_pb2.StateHandle(size_bytes=size_bytes, checksum=xxhash.xxh3_64_hexdigest(data), data=data)


class Clock:
    """CPU of this process without what the TaskManagers used."""

    def __init__(self) -> None:
        self._task_managers_s = 0.0

    def task_managers(self, work: Callable[[], Any]) -> Any:
        start = time.thread_time()
        try:
            return work()
        finally:
            self._task_managers_s += time.thread_time() - start

    @property
    def task_managers_s(self) -> float:
        return self._task_managers_s

    def job_manager_s(self) -> float:
        return time.process_time() - self._task_managers_s


class SimulatedTaskManager:
    """Answers every call with success, as bytes. Its subtasks come up at once, and acknowledge when they are told to."""

    def __init__(self, name: str, cluster: SimulatedCluster) -> None:
        self.name = TaskManagerId(name)
        self._cluster = cluster
        self.parallelism: dict[str, int] = {}
        self.slots: dict[int, tuple[str, str]] = {}

    def registration(self) -> jobmanager_pb2.RegisterTaskManagerRequest:
        return jobmanager_pb2.RegisterTaskManagerRequest(
            task_manager_id=self.name,
            address=self.name,
            session=f"session of {self.name}",
            slots=[jobmanager_pb2.SlotReport(slot_index=index) for index in range(SLOTS)],
            host=f"host of {self.name}",
        )

    def heartbeat(self, generation: str) -> bytes:
        figures = common_pb2.TaskMetrics(
            records_in=1, records_out=2, bytes_in=3, bytes_out=4, busy_ms=5, watermark_ms=6
        )
        slots = [
            jobmanager_pb2.SlotReport(slot_index=index, allocation_id=allocation, job_id=job)
            for index, (allocation, job) in self.slots.items()
        ]
        return jobmanager_pb2.TaskManagerHeartbeat(
            generation=generation,
            task_manager_id=self.name,
            session=f"session of {self.name}",
            slots=slots,
            attempts=list(self.parallelism),
            metrics=dict.fromkeys(self.parallelism, figures),
        ).SerializeToString()

    def acknowledgements(self, generation: str, checkpoint_id: int) -> bytes:
        """Of all its subtasks, as one message."""
        figures = common_pb2.CheckpointMetrics(
            start_delay_ms=1.5, alignment_ms=0.5, sync_ms=0.25, async_ms=3.5, bytes_persisted=INLINE_BYTES
        )
        return jobmanager_pb2.AcknowledgeCheckpointRequest(
            generation=generation,
            acknowledgements=[
                common_pb2.Acknowledgement(
                    attempt=attempt,
                    checkpoint_id=checkpoint_id,
                    snapshot=make_snapshot(attempt.split("_")[1], int(attempt.split("_")[2]), parallelism),
                    metrics=figures,
                )
                for attempt, parallelism in self.parallelism.items()
            ],
        ).SerializeToString()

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        """The stub that the JobManager calls."""

        async def call(request: Any, timeout: float) -> Any:
            content = request.SerializeToString()
            if method == "ConfirmCheckpoint":
                self._cluster.on_confirm_sent()
            answer, kind = self._cluster.clock.task_managers(lambda: self._handle(method, content))
            return kind.FromString(answer)

        return call

    def _handle(self, method: str, content: bytes) -> tuple[bytes, Any]:
        request = getattr(taskmanager_pb2, f"{method}Request").FromString(content)
        if method in ("TriggerCheckpoint", "ConfirmCheckpoint", "AbortCheckpoint"):
            self._cluster.messages[method] = self._cluster.messages.get(method, 0) + 1
            if method == "TriggerCheckpoint":
                self._cluster.on_triggered()
            return taskmanager_pb2.CheckpointAnswer().SerializeToString(), taskmanager_pb2.CheckpointAnswer
        if method == "AllocateSlot":
            self.slots[request.slot_index] = (request.allocation_id, request.job_id)
        if method == "SubmitTask":
            deployment = common_pb2.TaskDeployment.FromString(request.deployment)
            self.parallelism[deployment.attempt] = deployment.parallelism
            self._cluster.on_submitted(deployment.attempt)
        if method == "ConnectTask":
            self._cluster.on_connected()
        return common_pb2.Ack().SerializeToString(), common_pb2.Ack


class SimulatedCluster:
    """``deploy``, then ``checkpoint`` again and again."""

    def __init__(self, subtasks: int, directory: Path, blobs: BlobStore, pool: Pool) -> None:
        self.clock = Clock()
        self.subtasks = subtasks
        self.messages: dict[str, int] = {}
        self.names = [f"tm-{number}" for number in range(-(-subtasks // (SLOTS * len(STAGES))))]
        self.task_managers = {name: SimulatedTaskManager(name, self) for name in self.names}
        self._directory = directory
        self.core = JobManagerCore(
            QUIET, without_high_availability(), blobs, CheckpointStorage(), pool, _fatal, connect=self._link
        )
        self.servicer = TaskManagerServicer(self.core, blobs)
        self._submitted: list[str] = []
        self._all_submitted, self._all_connected = asyncio.Event(), asyncio.Event()
        self._all_triggered, self._all_confirmed = asyncio.Event(), asyncio.Event()
        self._connects_missing = subtasks // len(STAGES) * (len(STAGES) - 1)
        self._triggers_missing = self._confirms_missing = 0
        self.confirmed_at_s = 0.0

    async def deploy(self) -> None:
        for task_manager in self.task_managers.values():
            request = task_manager.registration()
            self.core.session_opened(task_manager.name, request.session, request.address)
            self.core.session_alive(task_manager.name, request.session)
            slots = tuple(ev.ReportedSlot(index) for index in range(SLOTS))
            self.core.post(
                ev.TaskManagerRegistered(task_manager.name, request.session, request.address, request.host, slots)
            )
        configuration = {"execution.checkpointing.interval": "1 h", "execution.checkpointing.dir": str(self._directory)}
        directories = JobDirectories(str(self._directory), None)
        self.core.submit(ev.JobSubmitted(make_graph(self.subtasks), configuration), directories)
        await self._all_submitted.wait()
        for attempt in self._submitted:
            await self._report(attempt, "INITIALIZING", "localhost:1")
        await self._all_connected.wait()
        for attempt in self._submitted:
            await self._report(attempt, "RUNNING", None)

    async def checkpoint(self, checkpoint_id: int) -> tuple[float, float]:
        """CPU seconds of the JobManager, and seconds, from the request until the last confirm was sent."""
        acks = [tm.acknowledgements(self.core.generation, checkpoint_id) for tm in self.task_managers.values()]
        self.messages.clear()
        for event in (self._all_triggered, self._all_confirmed):
            event.clear()
        self._triggers_missing = self._confirms_missing = len(self.names)
        start_s, started_at = self.clock.job_manager_s(), time.perf_counter()
        request = self.core.snapshots.begin(JOB, SnapshotType.CHECKPOINT)
        self.core.post(request)
        await self._all_triggered.wait()
        for content in acks:
            received = jobmanager_pb2.AcknowledgeCheckpointRequest.FromString(content)
            (await self.servicer.AcknowledgeCheckpoint(received, None)).SerializeToString()
            await asyncio.sleep(0)  # each comes in a turn of its own
        await self._all_confirmed.wait()
        return self.confirmed_at_s - start_s, time.perf_counter() - started_at

    def heartbeats(self) -> list[bytes]:
        return [tm.heartbeat(self.core.generation) for tm in self.task_managers.values()]

    def beat(self, content: bytes) -> None:
        self.servicer._beat(jobmanager_pb2.TaskManagerHeartbeat.FromString(content))

    def on_submitted(self, attempt: str) -> None:
        self._submitted.append(attempt)
        if len(self._submitted) == self.subtasks:
            self._all_submitted.set()

    def on_connected(self) -> None:
        self._connects_missing -= 1
        if self._connects_missing == 0:
            self._all_connected.set()

    def on_triggered(self) -> None:
        self._triggers_missing -= 1
        if self._triggers_missing == 0:
            self._all_triggered.set()

    def on_confirm_sent(self) -> None:
        self._confirms_missing -= 1
        if self._confirms_missing == 0:
            self.confirmed_at_s = self.clock.job_manager_s()
            self._all_confirmed.set()

    async def _report(self, attempt: str, state: str, address: str | None) -> None:
        request = jobmanager_pb2.UpdateTaskStateRequest(
            generation=self.core.generation, attempt=attempt, state=state, data_address=address
        )
        answer = await self.servicer.UpdateTaskState(request, None)
        assert not answer.HasField("error"), answer.error

    def _link(self, address: str, transport: Transport) -> Link:
        async def close() -> None:
            return

        return Link(self.task_managers[address], close)  # type: ignore[arg-type]


@asynccontextmanager
async def simulated_cluster(subtasks: int, directory: Path) -> AsyncIterator[SimulatedCluster]:
    blobs, pool = BlobStore(None, directory), Pool(4, "storage")
    cluster = SimulatedCluster(subtasks, directory / "checkpoints", blobs, pool)
    try:
        yield cluster
    finally:
        await cluster.core.close()
        pool.close()
        blobs.close()


def _fatal(error: BaseException) -> None:
    raise error
