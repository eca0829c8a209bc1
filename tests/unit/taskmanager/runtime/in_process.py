"""A job in one process: every subtask in a thread of its own, over real Unix sockets, and a JobManager of a few lines.

    job = InProcessJob(env.build(), directory)  ;  job.start()  ;  job.checkpoint()  ;  job.finish()

State is really written and read. The queue of what the subtasks tell is the only thing that is waited on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import cloudpickle

from tests.unit.taskmanager.harness.short_paths import short_directory
from tests.unit.taskmanager.runtime.coordinating import Coordinators
from tests.unit.taskmanager.runtime.deploying import Deployer
from tidegate.aio.async_calls import AsyncCalls
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import (
    Acknowledgement,
    Alignment,
    CheckpointOptions,
    DeclineReason,
    OperatorStateHandle,
    RestoredOperator,
    SegmentHandle,
    StateRedistribution,
    SubtaskSnapshot,
)
from tidegate.model.coordinators.operator_events import (
    OperatorEvent,
    ReaderEvent,
    SourceSplit,
)
from tidegate.model.deployment import ProducerAddress, TaskDeployment
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobVertex
from tidegate.model.ids import AttemptId, OperatorId, VertexId
from tidegate.model.program import VertexProgram
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment
from tidegate.taskmanager.runtime.launch import SubtaskRun
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import (
    AbortCheckpoint,
    CancelTask,
    ConfirmCheckpoint,
    ConnectInputs,
    ControlLost,
    OperatorEventArrived,
    TaskMetrics,
)

TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Told:
    attempt: AttemptId
    what: str
    value: Any = None


class RecordingPort:
    """Implements ``ControlPort``: everything goes into one queue, with the time when it came."""

    def __init__(self, attempt: AttemptId, inbox: queue.SimpleQueue[Told]) -> None:
        self._attempt = attempt
        self._inbox = inbox
        self.last_metrics = TaskMetrics()

    def state_changed(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        self._tell("state", (state, error))

    def listening(self, address: str) -> None:
        self._tell("listening", address)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        self._tell("ack", acknowledgement)

    def decline(self, checkpoint_id: int, reason: DeclineReason, error: ErrorInfo | None = None) -> None:
        self._tell("decline", (checkpoint_id, reason, error))

    def end_of_data(self) -> None:
        self._tell("end-of-data")

    def operator_event(self, event: OperatorEvent) -> None:
        self._tell("operator-event", event)

    def metrics(self, metrics: TaskMetrics) -> None:
        self.last_metrics = metrics

    def _tell(self, what: str, value: Any = None) -> None:
        self._inbox.put(Told(self._attempt, what, value))


@dataclass
class Task:
    attempt: AttemptId
    vertex: JobVertex
    deployment: TaskDeployment
    mailbox: Mailbox
    port: RecordingPort
    thread: threading.Thread | None = None
    state: ExecutionState = ExecutionState.DEPLOYING
    error: ErrorInfo | None = None
    address: str | None = None
    ended: bool = False


@dataclass
class Completed:
    checkpoint_id: int
    location: str
    acks: dict[AttemptId, Acknowledgement]
    duration_ms: float = 0.0
    waiting: Mapping[OperatorId, tuple[SourceSplit, ...]] = field(default_factory=dict, kw_only=True)
    """Splits that no reader had; a checkpoint of before coordinators has none."""

    def restored(self, operator_id: OperatorId, subtask: int, parallelism: int) -> RestoredOperator:
        """Keyed segments go to everybody (each reads its key groups); list state is dealt by element."""
        parts = [
            ack.snapshot.operators[operator_id] for ack in self._in_order() if operator_id in ack.snapshot.operators
        ]
        keyed: list[SegmentHandle] = [segment for part in parts for segment in part.keyed]
        handles: list[OperatorStateHandle] = []
        slices: list[tuple[int, int]] = []
        for i, part in enumerate(parts):
            for handle in part.operator:
                if handle.redistribution is StateRedistribution.UNION or i % parallelism == subtask:
                    handles.append(handle)
                    slices.append((0, handle.elements))
        return RestoredOperator(tuple(keyed), tuple(handles), tuple(slices))

    def damaged(self) -> Completed:
        """The same, with one byte of each keyed segment flipped."""
        acks = {attempt: replace(ack, snapshot=_flip(ack.snapshot)) for attempt, ack in self.acks.items()}
        return replace(self, acks=acks)

    def _in_order(self) -> list[Acknowledgement]:
        return [self.acks[attempt] for attempt in sorted(self.acks)]


def _flip(snapshot: SubtaskSnapshot) -> SubtaskSnapshot:
    def flipped(segment: SegmentHandle) -> SegmentHandle:
        data = bytearray(segment.handle.data or b"")
        assert data, "small states travel inline"
        data[len(data) // 2] ^= 1
        return replace(segment, handle=replace(segment.handle, data=bytes(data)))

    return SubtaskSnapshot(
        {op: replace(part, keyed=tuple(map(flipped, part.keyed))) for op, part in snapshot.operators.items()}
    )


@dataclass
class InProcessJob:
    built: BuiltJob
    directory: Path
    restore: Completed | None = None
    attempt: int = 0
    probes: Mapping[str, Callable[[AttemptId, Mapping[str, object]], None]] = field(default_factory=dict)
    first_checkpoint: int = 1
    finished: frozenset[VertexId] = frozenset()
    """Vertices that had finished in the restored checkpoint."""
    shared_location: str = ""
    """For incremental checkpoints."""
    local_state: str = ""
    """Where copies of state go."""
    alignment: Alignment = Alignment.ALIGNED
    aligned_timeout_ms: int | None = None
    loses_reader_events: bool = False
    tasks: dict[AttemptId, Task] = field(default_factory=dict)
    declined: list[tuple[AttemptId, int, DeclineReason]] = field(default_factory=list)
    stepped_back: list[tuple[AttemptId, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inbox: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self.sockets = short_directory(self)
        self._reader_events, self._passed_on = count(1), count(1)
        self.acks: dict[int, dict[AttemptId, Acknowledgement]] = {}
        self.next_id = self.first_checkpoint
        waiting = None if self.restore is None else self.restore.waiting
        self._coordinators = Coordinators(self.built.graph, waiting, self._send_event)
        self._waiting: dict[int, dict[OperatorId, tuple[SourceSplit, ...]]] = {}
        deployer = Deployer(self.built, self.attempt, self.restore, self.finished)
        for vertex in self.built.graph.vertices:
            for index in range(vertex.parallelism):
                attempt = deployer.attempt_id(vertex.vertex_id, index)
                deployment = deployer.deployment(vertex, attempt)
                self.tasks[attempt] = Task(attempt, vertex, deployment, Mailbox(), RecordingPort(attempt, self.inbox))

    def start(self) -> None:
        self.start_failing()
        self.until(lambda: all(task.state is not ExecutionState.DEPLOYING for task in self.tasks.values()), "deployed")
        self.until(lambda: all(task.state is not ExecutionState.INITIALIZING for task in self.tasks.values()), "run")

    def start_failing(self) -> None:
        """As ``start``, without waiting for RUNNING."""
        for task in self.tasks.values():
            task.thread = threading.Thread(target=self._run, args=(task,), name=str(task.attempt.subtask), daemon=True)
            task.thread.start()
        self.until(lambda: all(task.address is not None for task in self.tasks.values()), "all listen", failing=True)
        for task in self.tasks.values():
            producers = dict.fromkeys(p for edge in task.deployment.inputs for p in edge.producers)
            addresses = tuple(ProducerAddress(p, self.tasks[p].address or "") for p in producers)
            task.mailbox.put(ConnectInputs(addresses))

    def checkpoint_until(self, condition: Callable[[], bool]) -> None:
        """One confirmed checkpoint after another."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, "no end of it"
            self.checkpoint()

    def checkpoint(self, *, confirm: bool = True) -> Completed:
        """Trigger, wait for all, confirm. Fails when a subtask declines. Subtasks at their end wait for ``finish``: they would
        decline the next checkpoint, and how soon a source is at its end depends on the machine."""
        completed = self.complete(self.trigger())
        if confirm:
            self.confirm(completed.checkpoint_id, may_finish=False)
        return completed

    def trigger(self) -> int:
        n, self.next_id = self.next_id, self.next_id + 1
        location = self._location(n)
        Path(location).mkdir(parents=True)
        self.acks[n] = {}
        self._waits_for = [task.attempt for task in self.tasks.values() if not task.state.is_terminal]
        self._may_finish = {v.vertex_id for v in self.built.graph.vertices if all(t.ended for t in self._of(v))}
        options = CheckpointOptions(
            location,
            alignment=self.alignment,
            aligned_timeout_ms=self.aligned_timeout_ms,
            shared_location=self.shared_location,
        )
        self._waiting[n] = self._coordinators.snapshot(n)
        mail = Barrier(n, time.time_ns() // 1_000_000, options)
        for task in self._first_running():
            task.mailbox.put(mail)
        return n

    def complete(self, n: int) -> Completed:
        began = time.perf_counter()
        self.until(lambda: len(self.acks[n]) >= len(self._waits_for) or bool(self.declined), f"checkpoint {n}")
        assert not self.declined, self.declined
        duration_ms = (time.perf_counter() - began) * 1000
        return Completed(n, self._location(n), dict(self.acks[n]), duration_ms, waiting=self._waiting.get(n, {}))

    def confirm(self, n: int, *, may_finish: bool = True) -> None:
        for task in self.tasks.values():
            if not task.state.is_terminal:
                task.mailbox.put(ConfirmCheckpoint(n, may_finish and task.vertex.vertex_id in self._may_finish))

    def abort(self, n: int) -> None:
        for task in self.tasks.values():
            task.mailbox.put(AbortCheckpoint(n))

    def finish(self) -> None:
        """Checkpoints until every subtask is FINISHED."""
        self.until(lambda: all(task.ended or task.state.is_terminal for task in self.tasks.values()), "end of data")
        while not self.is_over:
            n = self.trigger()
            self.until(lambda n=n: self._is_settled(n), f"the outcome of checkpoint {n}")  # type: ignore[misc]
            if len(self.acks[n]) == len(self._waits_for):
                self.confirm(n)
            else:  # as the JobManager does when a subtask that is about to finish declines, or finishes without a vote
                self.abort(n)
                self.declined.clear()
        self.join()

    def cancel(self) -> None:
        for task in self.tasks.values():
            task.mailbox.put(CancelTask())
        self.until(lambda: self.is_over, "CANCELED")
        self.join()

    def cut_off(self) -> None:
        """The control streams break: all threads end, and nobody says why."""
        for task in self.tasks.values():
            task.mailbox.put(ControlLost())
        self.join()

    def join(self) -> None:
        for task in self.tasks.values():
            if task.thread is not None:
                task.thread.join(TIMEOUT_S)
                assert not task.thread.is_alive(), f"{task.attempt} does not end"

    @property
    def is_over(self) -> bool:
        return all(task.state.is_terminal for task in self.tasks.values())

    @property
    def states(self) -> set[ExecutionState]:
        return {task.state for task in self.tasks.values()}

    @property
    def errors(self) -> list[ErrorInfo]:
        return [task.error for task in self.tasks.values() if task.error is not None]

    def until(self, condition: Callable[[], bool], what: str, *, failing: bool = False) -> None:
        """Take in what the subtasks tell until ``condition``, which may also become true without a word of theirs. Fails at once when a subtask FAILED,
        unless ``failing``."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            try:
                told = self.inbox.get(timeout=LOOK_EVERY_S)
            except queue.Empty:
                if time.monotonic() < deadline:
                    continue
                states = {f"{t.vertex.name} {t.attempt.subtask}": (t.state.name, t.ended) for t in self.tasks.values()}
                told_acks = {n: len(acks) for n, acks in self.acks.items()}
                raise AssertionError(
                    f"timed out waiting for: {what}; {states}; {told_acks}; {self.declined}; {self.errors}"
                ) from None
            self._take_in(told)
            if not failing:
                assert not self.errors, self.errors[0]

    def _take_in(self, told: Told) -> None:
        task = self.tasks[told.attempt]
        match told.what:
            case "listening":
                task.address = told.value
            case "state":
                task.state, task.error = told.value
            case "ack":
                known = self.acks[told.value.checkpoint_id]
                assert told.attempt not in known, f"{told.attempt} acknowledged {told.value.checkpoint_id} twice"
                known[told.attempt] = told.value
            case "decline":
                self.declined.append((told.attempt, told.value[0], told.value[1]))
            case "operator-event" if isinstance(told.value.event, ReaderEvent):
                self._pass_on(told.value.event)
            case "operator-event":
                self._coordinators.on_event(told.attempt, told.value)
            case "end-of-data":
                assert not task.ended
                task.ended = True

    def _send_event(self, attempt: AttemptId, event: OperatorEvent) -> None:
        self.tasks[attempt].mailbox.put(OperatorEventArrived(event))

    def _pass_on(self, event: ReaderEvent) -> None:
        """To the enumerator, as the JobManager does: not before it runs. It may lose every third event and bring every fifth twice."""
        (task,) = (t for t in self.tasks.values() if t.vertex.operators[0].operator_id == event.enumerator)
        number = next(self._reader_events)
        times = (0 if number % 3 == 0 else 1 + (number % 5 == 0)) if self.loses_reader_events else 1
        for _ in range(times if task.state is ExecutionState.RUNNING else 0):
            task.mailbox.put(OperatorEventArrived(OperatorEvent(event.enumerator, next(self._passed_on), event)))

    def _run(self, task: Task) -> None:
        program: VertexProgram = cloudpickle.loads(self.built.blobs[task.vertex.program])

        def probe(point: str, told: Mapping[str, object]) -> None:
            if point in self.probes:
                self.probes[point](task.attempt, told)

        environment = SubtaskEnvironment(
            listen=f"unix:{self.sockets}",
            temp_dir=str(self.directory),
            local_state_dir=self.local_state,
            probe=probe if self.probes else None,
            open_async_calls=AsyncCalls,
            step_back=lambda nice: self.stepped_back.append((task.attempt, nice)),
        )
        for _ in SubtaskRun(task.deployment, program, task.mailbox, task.port, environment).pauses():
            pass

    def _is_settled(self, n: int) -> bool:
        if any(checkpoint_id == n for _, checkpoint_id, _ in self.declined):
            return True
        missing = [attempt for attempt in self._waits_for if attempt not in self.acks[n]]
        return not missing or any(self.tasks[attempt].state.is_terminal for attempt in missing)

    def _first_running(self) -> list[Task]:
        running = {t.attempt for t in self.tasks.values() if not t.state.is_terminal}
        return [
            task
            for task in self.tasks.values()
            if task.attempt in running and not any(p in running for e in task.deployment.inputs for p in e.producers)
        ]

    def _of(self, vertex: JobVertex) -> list[Task]:
        return [task for task in self.tasks.values() if task.vertex is vertex]

    def _location(self, n: int) -> str:
        return str(self.directory / f"attempt-{self.attempt}" / f"chk-{n}")
