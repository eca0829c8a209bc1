"""A JobManager's heart for the REST endpoint: a real machine that is driven by hand, and counters that are given."""

from __future__ import annotations

import atexit
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, Cluster, graph, running_job, two_stage, vertex
from tidegate.aio.inspection import LogFile, ThreadInfo
from tidegate.aio.working_directories import make_working_directory
from tidegate.jobmanager.machines.commands import Command, ReportSnapshot
from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.jobmanager.machines.events import ClientRequest, Event, WorkersFound
from tidegate.jobmanager.programs.files import ProgramFiles
from tidegate.jobmanager.programs.runs import ProgramRuns
from tidegate.jobmanager.rest.fault_service import FaultService
from tidegate.jobmanager.service.clients.snapshot_requests import SnapshotRequests
from tidegate.jobmanager.service.clients.watchers import Watchers
from tidegate.model.configuration import Configuration
from tidegate.model.errors import StorageError
from tidegate.model.ids import AttemptId, JobId, TaskManagerId
from tidegate.model.states import JobState
from tidegate.pb.common_pb2 import Accumulator, SampledStack, SampleStacksOptions, TaskMetrics
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.client_places import ClientPlace
from tidegate.wire.task_metrics import BUSY_TIME, RESIDENT_MEMORY, ReadingSpan

SETTINGS = {"rest.cache.execution-graph.timeout": "0 ms", "rest.cache.checkpoint-statistics.timeout": "0 ms"}
_UPLOADS = make_working_directory("test-uploads", Configuration.from_strings({}))
_UPLOADED_TO = str(_UPLOADS.directory)
atexit.register(_UPLOADS.remove)

T = TypeVar("T")

FIGURES = {
    "Status.JVM.Threads.Count": 7.0,
    "Status.JVM.CPU.Load": 0.25,
    "Status.JVM.Memory.Heap.Used": 1024.0,
    "Status.JVM.GarbageCollector.G1_Young_Generation.Count": 3.0,
    "Status.JVM.GarbageCollector.G1_Young_Generation.Time": 12.0,
    "Status.Flink.Memory.Managed.Total": float(64 << 20),
    "Status.Flink.Memory.Network.Total": float(16 << 20),
    "System.CPU.Count": 2.0,
    "System.Memory.Total": float(8 << 30),
    "Status.JVM.Memory.Heap.Max": float(4 << 30),
}

RETAINED = {"execution.checkpointing.dir": "/cp", "execution.checkpointing.num-retained": "1"}


class Counted:
    """What TaskManagers would have told: the same for every attempt, growing with its index."""

    def __init__(self) -> None:
        self.is_silent = False
        self.accumulators: dict[str, Accumulator] = {}
        self.user: dict[str, float] = {}
        self.busy: dict[str, float] = {}
        """The share of its time, by operator."""
        self.memory_bytes = 0.0

    def metrics_of(self, attempt: AttemptId) -> TaskMetrics | None:
        if self.is_silent:
            return None
        counters = _counters(10_000, attempt.subtask)
        for name, accumulator in self.accumulators.items():
            counters.accumulators[name].CopyFrom(accumulator)
        counters.user.update(self.user)
        if self.memory_bytes:
            counters.figures[RESIDENT_MEMORY] = self.memory_bytes * (1 + attempt.subtask)
        return counters

    def span_of(self, attempt: AttemptId) -> ReadingSpan | None:
        if self.is_silent:
            return None
        earlier, later = (_counters(at_ms, attempt.subtask) for at_ms in (0, 10_000))
        for name, share in self.busy.items():
            for counters, busy_ms in ((earlier, 0.0), (later, share * 10_000)):
                counters.operator_ids[name] = "f" * 32
                counters.user[f"{name}.{BUSY_TIME}"] = busy_ms
        return ReadingSpan(earlier, later, 10_000, 10_000)

    def process_metrics_of(self, task_manager_id: TaskManagerId) -> Mapping[str, float]:
        return {} if self.is_silent else FIGURES


def _counters(at_ms: int, index: int) -> TaskMetrics:
    return TaskMetrics(
        records_in=at_ms // (10 + index),
        records_out=at_ms // 20,
        bytes_in=at_ms,
        bytes_out=at_ms,
        busy_ms=at_ms // 4,
        idle_ms=at_ms // 4,
        backpressured_ms=at_ms // 2,
        watermark_ms=at_ms,
    )


class OwnFigures:
    def look(self) -> Mapping[str, float]:
        return {"Status.JVM.CPU.Load": 0.5}


class Inline:
    """What is slow elsewhere is done at once."""

    async def _done(self, call: Callable[[], T]) -> T:
        return call()

    def submit(self, call: Callable[[], T]) -> Awaitable[T]:
        return self._done(call)


class Inspected:
    """A TaskManager's answers, one log file and one thread."""

    async def logs(self, address: str) -> list[LogFile]:
        return [LogFile("taskmanager.log", 12, 1_700_000_000_000)]

    async def read_log(self, address: str, name: str) -> bytes:
        if name != "taskmanager.log":
            raise StorageError(f"There is no log file {name!r} here.")
        return b"a line\n"

    async def read_own_log(self, address: str) -> bytes:
        return b"a line\n"

    async def read_stdout(self, address: str) -> bytes:
        raise StorageError("The output of this process goes to its terminal, not into a file.")

    async def threads(self, address: str) -> list[ThreadInfo]:
        return [ThreadInfo("MainThread", "a stack")]

    async def sample(
        self, address: str, attempts: Sequence[AttemptId], options: SampleStacksOptions
    ) -> dict[AttemptId, Sequence[SampledStack]]:
        loop, user = "tidegate.taskmanager.runtime.subtask.step:90", "job.Slow.map:12"
        waits = "tidegate.taskmanager.runtime.mailbox.Mailbox.wait:77"
        stacks = [
            SampledStack(frames=[loop, user], count=60, on_cpu=True),
            SampledStack(frames=[loop, user, "time.sleep:1"], count=10),
            SampledStack(frames=[loop, waits], count=30),
        ]
        return dict.fromkeys(attempts, stacks)


class Scene:
    def __init__(self, cluster: Cluster, settings: dict[str, str] | None = None) -> None:
        self.cluster = cluster
        self.attempts = Counted()
        self.process = OwnFigures()
        self.configuration = Configuration.from_strings({**SETTINGS, **(settings or {})})
        self.snapshots = SnapshotRequests()
        self.watchers = Watchers()
        self.savepoint_directory = False
        self.is_deposed = False
        self.inspector = Inspected()
        self.programs: ProgramRuns | None = ProgramRuns(
            ProgramFiles(_UPLOADED_TO, _UPLOADED_TO, 100_000), Inline(), 30_000, _UPLOADED_TO
        )
        self.faults: FaultService | None = None
        self.disposed: list[str] = []
        self.shut_down_for: list[str] = []
        self._tell = cluster.tell
        cluster.tell = self._told  # type: ignore[method-assign]

    @property
    def machine(self) -> Dispatcher:
        return self.cluster.machine

    def _told(self, *events: Event) -> list[Command]:
        """What the machine answers, and the ends of snapshots to those who wait for them."""
        commands = self._tell(*events)
        for report in self.cluster.of(ReportSnapshot, commands):
            self.snapshots.reported(report)
        return commands

    def now_ms(self) -> int:
        return self.cluster.now_ms

    def post(self, event: Event) -> None:
        self.cluster.tell(event)
        self.cluster.settle()

    async def ask(self, asked: ClientRequest) -> None:
        self.post(asked)

    async def place_of_client(self, location: str) -> ClientPlace:
        return CheckpointStorage().place_of_client(location)

    def has_savepoint_directory(self, job_id: JobId) -> bool:
        return self.savepoint_directory

    async def dispose(self, path: str) -> None:
        self.disposed.append(path)

    def shut_down(self, reason: str) -> None:
        self.shut_down_for.append(reason)


def recorded_scene() -> Scene:
    """A running job with two completed checkpoints, the first of them subsumed."""
    cluster = running_job(configuration={**CHECKPOINTED, **RETAINED})
    for checkpoint_id in (1, 2):
        cluster.pass_time(1_000)
        cluster.now_ms += 30
        cluster.complete_checkpoint(checkpoint_id)
    view = cluster.checkpoints()
    assert [checkpoint.status for checkpoint in view.history] == ["COMPLETED", "COMPLETED"]
    return Scene(cluster)


def waiting_for_three() -> Cluster:
    """A job of parallelism 9, for which three TaskManagers with three slots each are starting."""
    cluster = Cluster({"tidegate.resourcemanager.driver": "process", "taskmanager.numberOfTaskSlots": "3"})
    cluster.tell(WorkersFound(()))
    cluster.submit(graph([vertex("source", 9, source=True)]), CHECKPOINTED)
    cluster.pass_time(4_000)
    return cluster


def failed_job() -> Cluster:
    cluster = running_job(two_stage(), {"restart-strategy.type": "none"})
    cluster.fail(cluster.attempt("sink", 1))
    cluster.cancel_tasks()
    assert cluster.job_state() is JobState.FAILED
    return cluster
