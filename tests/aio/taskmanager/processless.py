"""A TaskManager without Spark: real gRPC to its JobManager; its subtasks are threads that dial in with the real control stream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tidegate.aio.pool import Pool
from tidegate.aio.rpc import start_server
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId
from tidegate.pb.taskmanager_pb2_grpc import (
    add_TaskManagerInspectionServicer_to_server,
    add_TaskManagerServicer_to_server,
)
from tidegate.security.reloading import Reloaded
from tidegate.security.signing import SigningNow
from tidegate.security.sockets import TlsFiles
from tidegate.security.tls import Material
from tidegate.taskmanager.machines.task_events import SubmittedTask, TaskLimits
from tidegate.taskmanager.machines.task_manager import TaskManagerMachine
from tidegate.taskmanager.runtime.ports import Mail
from tidegate.taskmanager.service.blob_cache import BlobCache
from tidegate.taskmanager.service.identity import make_identity
from tidegate.taskmanager.service.inspection import InspectionService
from tidegate.taskmanager.service.jobmanager.connection import JobManagerConnection, RegistrationTimes
from tidegate.taskmanager.service.jobmanager.leader_retrieval import LeaderRetrieval, StandaloneLeaderRetrieval
from tidegate.taskmanager.service.registration import keep_registered
from tidegate.taskmanager.service.servicer import TaskManagerService
from tidegate.taskmanager.service.subtask_control import SubtaskControl, listen_for_subtasks
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.taskmanager.spark.control_stream import ControlStream
from tidegate.taskmanager.spark.deploy import OnEnd
from tidegate.taskmanager.spark.entry import SubtaskEntry

LIMITS = TaskLimits(
    start_timeout_ms=20_000,
    unresponsive_timeout_ms=300,
    cancellation_timeout_ms=0,
    orphan_timeout_ms=200,
    exit_timeout_ms=5_000,
)


@dataclass
class Started:
    """One attempt as the deployer was asked to start it."""

    task: SubmittedTask
    token: str
    on_end: OnEnd
    killed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def attempt(self) -> AttemptId:
        return self.task.attempt

    def end(self, error: ErrorInfo | None = None) -> None:
        """Its Spark job returned."""
        self.on_end(self.attempt, error)


class FakeSubtasks:
    """Implements ``Deployer``: starts nothing, and ends what is killed."""

    def __init__(self) -> None:
        self.started: dict[str, Started] = {}
        self.removed: list[AttemptId] = []
        self.released: list[AllocationId] = []
        self.ends_when_killed = True
        self.emptied = asyncio.Event()

    def start(self, task: SubmittedTask, token: str, on_end: OnEnd) -> None:
        self.started[str(task.attempt)] = Started(task, token, on_end)

    def kill(self, attempt: AttemptId, pid: int, host: str) -> None:
        started = self.started[str(attempt)]
        started.killed.set()
        if self.ends_when_killed:
            started.end()

    def exit_status(self, pid: int, *, is_lost: bool) -> int | None:
        return None

    def release(self, allocation_id: AllocationId) -> None:
        self.released.append(allocation_id)

    def remove(self, attempt: AttemptId) -> None:
        self.removed.append(attempt)
        self.emptied.set()


@dataclass
class Processless:
    executor: TaskExecutor
    subtasks: FakeSubtasks
    job_manager: JobManagerConnection
    blobs: BlobCache
    control_address: str
    address: str
    fatal: list[BaseException]
    printed: list[tuple[str, str, bool]]
    failed: asyncio.Event

    def dial(
        self, attempt: str, token: str | None = None, tls: TlsFiles | None = None
    ) -> tuple[ControlStream, list[Mail], threading.Condition]:
        """The subtask's end of a control stream; what it is told is gathered."""
        mails: list[Mail] = []
        arrived = threading.Condition()

        def deliver(mail: Mail) -> None:
            with arrived:
                mails.append(mail)
                arrived.notify_all()

        entry = SubtaskEntry(self.control_address, attempt, token or self.subtasks.started[attempt].token)
        return ControlStream(entry, deliver, tls), mails, arrived


@asynccontextmanager
async def processless(
    fake: FakeJobManager,
    directory: Path,
    slots: int = 2,
    times: RegistrationTimes | None = None,
    port: int | None = None,
    listen: str = "127.0.0.1:0",
    retrieval: LeaderRetrieval | None = None,
    signing: SigningNow | None = None,
    tls: Reloaded[Material] | None = None,
) -> AsyncIterator[Processless]:
    fatal: list[BaseException] = []
    failed = asyncio.Event()

    def on_fatal(error: BaseException) -> None:
        fatal.append(error)
        failed.set()

    printed: list[tuple[str, str, bool]] = []
    client = JobManagerConnection(
        retrieval or StandaloneLeaderRetrieval(f"127.0.0.1:{port or fake.port}"),
        times or RegistrationTimes(20, 100, 100, 50, 30_000),
    )
    subtasks = FakeSubtasks()
    executor = TaskExecutor(TaskManagerMachine(slots, 10_000, LIMITS), subtasks, client.tell, on_fatal)
    pool, printing = Pool(2, "io"), Pool(1, "printing")
    blobs = BlobCache(directory / "blobs", client.fetch_blob, pool)
    tokens = iter(f"token-{number}" for number in range(1000))

    def register(server: grpc.aio.Server) -> None:
        add_TaskManagerServicer_to_server(TaskManagerService(executor, lambda: next(tokens), signing), server)
        add_TaskManagerInspectionServicer_to_server(InspectionService(executor, pool, lambda attempt, pid: ""), server)

    def show(name: str, text: str, is_error: bool) -> None:
        printed.append((name, text, is_error))

    server, bound = await start_server("127.0.0.1", 0, register, "TaskManager")
    control = SubtaskControl(executor, blobs, printing, show, client.align_watermark)
    listener, dialed = await listen_for_subtasks(control, listen, "127.0.0.1", tls)
    identity = make_identity(Configuration.from_strings({}), "127.0.0.1", bound)
    stop = keep_registered(client, executor, identity, on_fatal)
    try:
        yield Processless(executor, subtasks, client, blobs, dialed, identity.address, fatal, printed, failed)
    finally:
        subtasks.ends_when_killed = True
        await asyncio.wait_for(stop(), 10)
        listener.close()
        await server.stop(None)
        executor.close()
        pool.close()
        printing.close()
