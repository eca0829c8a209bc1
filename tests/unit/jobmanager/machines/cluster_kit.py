"""A cluster without a world: a real JobManagerMachine, and a bookkeeper that answers its commands when told to.

Nothing happens by itself. ``settle()`` lets everything that is polite happen (calls are answered, locations made, manifests
written, files removed); each kind of politeness can be switched off to look at the moment between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.jobmanager.machines.views import CheckpointsView, JobView
from tidegate.model.checkpoint import CheckpointMetrics, DeclineReason, SubtaskSnapshot
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.graph import DEFAULT_SLOT_SHARING_GROUP, JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import (
    AttemptId,
    BlobKey,
    CheckpointId,
    Generation,
    JobId,
    OperatorId,
    SubtaskId,
    TaskManagerId,
    VertexId,
    hex_id,
)
from tidegate.model.states import ExecutionState, JobState

C = TypeVar("C", bound=c.Command)

JOB = JobId(hex_id("job"))
GENERATION = Generation(hex_id("generation"))
FAULT = ErrorInfo.of(SubtaskLost("killed by the test"))


def vertex_id(name: str) -> VertexId:
    return VertexId(hex_id("vertex", name))


def operator_id(name: str) -> OperatorId:
    return OperatorId(hex_id("operator", name))


def vertex(
    name: str, parallelism: int, *, source: bool = False, group: str = DEFAULT_SLOT_SHARING_GROUP, union: bool = False
) -> JobVertex:
    sink = name.lower().startswith("sink")
    info = OperatorInfo(operator_id(name), name, uid=name, is_source=source, is_sink=sink, uses_union_state=union)
    return JobVertex(vertex_id(name), name, parallelism, 128, (info,), BlobKey("0" * 64), slot_sharing_group=group)


def graph(
    vertices: Iterable[JobVertex], edges: Iterable[tuple[str, str, Partitioner]] = (), job_id: JobId = JOB
) -> JobGraph:
    return JobGraph(
        job_id,
        "job",
        tuple(vertices),
        tuple(JobEdge(i, vertex_id(a), vertex_id(b), p) for i, (a, b, p) in enumerate(edges)),
    )


def two_stage(parallelism: int = 2, partitioner: Partitioner = Partitioner.HASH, *, union: bool = False) -> JobGraph:
    return graph(
        [vertex("source", parallelism, source=True, union=union), vertex("sink", parallelism)],
        [("source", "sink", partitioner)],
    )


class Cluster:
    START_MS = 1_000_000
    """When its clock begins."""

    def __init__(self, configuration: Mapping[str, str] | None = None) -> None:
        self.machine = Dispatcher(configuration)
        self.now_ms = self.START_MS
        self.sent: list[c.Command] = []
        self.inbox: list[c.Command] = []
        self.timers: dict[str, int] = {}
        self.answers_calls = True
        self.checkpoints_at = "/cp"
        self.makes_locations = True
        self.writes_manifests = True
        self.removes_files = True
        self.writes_shapes = True
        self.whole: Collection[str] | None = ()
        """Locations of checkpoints and savepoints that could be restored when the storage is asked; ``None``: it does not answer."""
        self.refusal: Callable[[c.Command], ErrorInfo | None] = lambda command: None
        self.sessions: dict[str, str] = {}
        self.tell(e.GenerationStarted(GENERATION, seed=7))

    # ---- in and out --------------------------------------------------------------------------------------------------

    def tell(self, *events: e.Event) -> list[c.Command]:
        """The commands of these events alone, in order."""
        answer: list[c.Command] = []
        for event in events:
            for command in self.machine.on(event, self.now_ms):
                self._note(command)
                answer.append(command)
        return answer

    def settle(self) -> list[c.Command]:
        """Answer politely until nothing is left that would be answered; all commands on the way."""
        seen: list[c.Command] = []
        while True:
            answers = [(command, self._polite(command)) for command in self.inbox]
            self.inbox = [command for command, answer in answers if answer is None]
            events = [answer for _, answer in answers if answer is not None]
            if not events:
                return seen
            seen.extend(self.tell(*events))

    def pass_time(self, duration_ms: int) -> list[c.Command]:
        """Timers fire in order; after each everything polite happens."""
        until, seen = self.now_ms + duration_ms, []
        while self.timers:
            name, at_ms = min(self.timers.items(), key=lambda t: (t[1], t[0]))
            if at_ms > until:
                break
            del self.timers[name]
            self.now_ms = max(self.now_ms, at_ms)
            seen.extend(self.tell(e.TimerFired(name)))
            seen.extend(self.settle())
        self.now_ms = until
        return seen

    def of(self, kind: type[C], commands: Iterable[c.Command] | None = None) -> list[C]:
        return [command for command in (self.sent if commands is None else commands) if isinstance(command, kind)]

    def _note(self, command: c.Command) -> None:
        self.sent.append(command)
        match command:
            case c.StartTimer():
                self.timers[command.timer] = self.now_ms + command.delay_ms
            case c.CancelTimer():
                assert self.timers.pop(command.timer, None) is not None, f"{command} was not armed"
            case c.Log() | c.JobChanged() | c.JobTerminated() | c.ReportSnapshot() | c.CloseTaskManager():
                pass
            case _:
                self.inbox.append(command)

    def _polite(self, command: c.Command) -> e.Event | None:
        call_id = getattr(command, "call_id", None)
        if call_id is not None:
            return e.CallAnswered(call_id, self.refusal(command)) if self.answers_calls else None
        match command:
            case c.CreateLocation() if self.makes_locations:
                location = f"{self.checkpoints_at}/chk-{command.checkpoint_id}"
                shared = "" if command.snapshot_type.is_savepoint else f"{self.checkpoints_at}/shared"
                return e.LocationCreated(command.job_id, command.checkpoint_id, location, shared_location=shared)
            case c.WriteManifest() | c.ReadBackManifest() if self.writes_manifests:
                return e.ManifestWritten(command.job_id, command.checkpoint_id, 100)
            case c.DiscardCheckpoint() if self.removes_files:
                return e.CheckpointDiscarded(command.job_id, command.checkpoint_id)
            case c.WriteShape() if self.writes_shapes:
                return e.ShapeWritten(command.job_id)
            case c.DiscardSharedFiles() if self.removes_files:
                return e.SharedFilesDiscarded(command.job_id, command.checkpoint_id)
            case c.InspectCheckpoints() if self.whole is not None:
                return e.CheckpointsInspected(command.job_id, tuple(p for p in command.locations if p in self.whole))
            case _:
                return None

    # ---- what the world does -----------------------------------------------------------------------------------------

    def register(self, name: str, slots: int, session: str = "s1") -> list[c.Command]:
        self.sessions[name] = session
        report = tuple(e.ReportedSlot(i) for i in range(slots))
        told = self.tell(
            e.TaskManagerRegistered(TaskManagerId(name), session, f"{name}:1", name, report, memory_bytes=1 << 30)
        )
        return told + self.settle()

    def submit(
        self, job: JobGraph, configuration: Mapping[str, str] | None = None, restore: e.RestoreFrom | None = None
    ) -> list[c.Command]:
        return self.tell(e.JobSubmitted(job, dict(configuration or {}), restore)) + self.settle()

    def state(self, attempt: AttemptId, state: ExecutionState, error: ErrorInfo | None = None) -> list[c.Command]:
        address = f"addr-{attempt.vertex_id[:4]}-{attempt.subtask}-{attempt.attempt}"
        started = state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING)
        told = self.tell(e.TaskStateChanged(attempt, state, error, address if started else None))
        return told + self.settle()

    def fail(self, attempt: AttemptId, error: ErrorInfo = FAULT) -> list[c.Command]:
        return self.state(attempt, ExecutionState.FAILED, error)

    def start_tasks(self) -> None:
        """Everything that was submitted and has not started comes up."""
        for attempt in self.attempts(ExecutionState.DEPLOYING):
            self.state(attempt, ExecutionState.INITIALIZING)
        for attempt in self.attempts(ExecutionState.INITIALIZING):
            self.state(attempt, ExecutionState.RUNNING)

    def cancel_tasks(self) -> None:
        """Everything that was told to cancel is over."""
        for attempt in self.attempts(ExecutionState.CANCELING):
            self.state(attempt, ExecutionState.CANCELED)

    def acknowledge(
        self, attempt: AttemptId, checkpoint_id: int, snapshot: SubtaskSnapshot | None = None
    ) -> list[c.Command]:
        event = e.SubtaskAcknowledged(
            attempt, CheckpointId(checkpoint_id), snapshot or SubtaskSnapshot(), CheckpointMetrics()
        )
        return self.tell(event) + self.settle()

    def decline(
        self, attempt: AttemptId, checkpoint_id: int, reason: DeclineReason = DeclineReason.DECLINED
    ) -> list[c.Command]:
        return self.tell(e.SubtaskDeclined(attempt, CheckpointId(checkpoint_id), reason)) + self.settle()

    def complete_checkpoint(self, checkpoint_id: int) -> list[c.Command]:
        seen = []
        for attempt in self.attempts(ExecutionState.RUNNING):
            seen.extend(self.acknowledge(attempt, checkpoint_id))
        return seen

    # ---- what is seen ------------------------------------------------------------------------------------------------

    def job(self, job_id: JobId = JOB) -> JobView:
        view = self.machine.job(job_id)
        assert view is not None
        return view

    def job_state(self) -> JobState:
        return self.job().state

    def checkpoints(self) -> CheckpointsView:
        view = self.machine.checkpoints(JOB)
        assert view is not None
        return view

    def attempts(self, *states: ExecutionState, of: str | None = None) -> list[AttemptId]:
        """Current attempts in one of these states (any, when none is given)."""
        return [
            s.current.attempt
            for v in self.job().vertices
            if of is None or v.vertex_id == vertex_id(of)
            for s in v.subtasks
            if not states or s.current.state in states
        ]

    def attempt(self, name: str, index: int = 0) -> AttemptId:
        return self.attempts(of=name)[index]

    def states(self) -> set[ExecutionState]:
        return {s.current.state for v in self.job().vertices for s in v.subtasks}


def subtask(name: str, index: int = 0) -> SubtaskId:
    return SubtaskId(vertex_id(name), index)


def running_job(
    job: JobGraph | None = None,
    configuration: Mapping[str, str] | None = None,
    *,
    slots: int = 2,
    task_managers: int = 1,
) -> Cluster:
    """A job whose tasks all run."""
    cluster = Cluster()
    for number in range(task_managers):
        cluster.register(f"tm-{number + 1}", slots)
    cluster.submit(job or two_stage(), configuration)
    cluster.start_tasks()
    assert cluster.states() == {ExecutionState.RUNNING}
    return cluster


CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}
P = "execution.checkpointing"


def checkpointed(**settings: str) -> Cluster:
    """A running job whose first checkpoint is pending; keys are the last part of the option's name."""
    options = {f"{P}.{key.replace('_', '-')}": text for key, text in settings.items()}
    cluster = running_job(configuration={**CHECKPOINTED, **options})
    until_triggered(cluster, 1)
    return cluster


def until_triggered(cluster: Cluster, checkpoint_id: int) -> None:
    for _ in range(100):
        if any(t.checkpoint_id == checkpoint_id for t in cluster.of(c.TriggerCheckpoint)):
            return
        cluster.pass_time(50)
    raise AssertionError(f"checkpoint {checkpoint_id} was never triggered")
