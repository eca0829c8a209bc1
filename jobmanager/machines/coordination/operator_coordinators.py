"""The operator coordinators of one job, and their events.

    OperatorEventReceived ──▶ coordinator ──▶ SendOperatorEvent, in the outbox of its TaskManager
    ReaderEvent ──────────────▶ passed on, unread, to the enumerator that runs on a TaskManager (docs/adr/0178)
    ReportBacklog ────────────▶ the periodic checkpoints of the job: ``execution.checkpointing.interval-during-backlog``

Laws. A coordinator is snapshotted in the same step in which its sources are triggered, and one outbox carries events and triggers in their
order: what was sent before is in the reader's state of that checkpoint, what is sent after is in the coordinator's (Flink's
``afterSourceBarrierInjection``). An event that does not arrive fails its attempt before anything after it is sent. Events of attempts that
have ended, and repeated ones, change nothing. A coordinator without unassigned splits is not in the checkpoint.

Follows Flink's ``OperatorCoordinatorHolder.java``, whose subtask gateways close between the snapshot and the barrier instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import SendOperatorEvent
from tidegate.jobmanager.machines.coordination.source_coordinator import SourceCoordinator
from tidegate.jobmanager.machines.events import OperatorEventReceived
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorEvent,
    CoordinatorState,
    DiscoveryNoted,
    NoMoreSplits,
    OperatorEvent,
    ReaderEvent,
    ReportBacklog,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.graph import OperatorInfo
from tidegate.model.ids import AttemptId, CheckpointId, OperatorId, SubtaskId, VertexId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState


class OperatorCoordinators:
    """The operator coordinators of one job, by operator."""

    def __init__(self, graph: ExecutionGraph, restored: CheckpointManifest | None, buffer: CommandBuffer) -> None:
        """Creates the coordinators of a job that starts from the checkpoint ``restored``, or from its beginning."""
        self._graph = graph
        self._buffer = buffer
        self._backlog: frozenset[OperatorId] = frozenset()
        self._watch_backlog: Callable[[bool], None] = lambda _: None
        self.reshape(restored)

    def watch_backlog(self, watch: Callable[[bool], None]) -> None:
        """Sets a callback that is called when a source starts or stops processing a backlog, with whether any source does."""
        self._watch_backlog = watch

    def _note_backlog(self, backlog: frozenset[OperatorId]) -> None:
        if backlog != self._backlog:
            self._backlog = backlog
            self._watch_backlog(bool(backlog))

    def reshape(self, restored: CheckpointManifest | None) -> None:
        """Recreates the coordinators for a changed parallelism; the job starts from this checkpoint, or from its beginning (``None``)."""
        graph = self._graph
        self._sources: dict[OperatorId, SourceCoordinator] = {}
        self._operators_of: dict[VertexId, list[OperatorId]] = {}
        self._vertex_of = {
            operator.operator_id: vertex.vertex_id for vertex in graph.graph.vertices for operator in vertex.operators
        }
        self._sent: dict[AttemptId, int] = {}
        self._received: dict[AttemptId, int] = {}
        self._note_backlog(frozenset())
        for vertex in graph.graph.vertices:
            for operator in vertex.operators:
                if operator.splits is not None:
                    splits = initial_splits(operator, restored)
                    self._sources[operator.operator_id] = SourceCoordinator(
                        splits, vertex.parallelism, discovers=operator.discovers_splits
                    )
                    self._operators_of.setdefault(vertex.vertex_id, []).append(operator.operator_id)

    def on_event(self, received: OperatorEventReceived) -> None:
        """Handles an event that an operator of a subtask sent to its coordinator."""
        execution = self._graph.current(received.attempt)
        sent, event = received.event, received.event.event
        if execution is None or not self._is_reachable(execution):
            return
        if sent.number <= self._received.get(execution.attempt, 0):
            return
        self._received[execution.attempt] = sent.number
        match event:
            case RequestSplit() | RequestDiscovery() | SplitsDiscovered():
                source = self._sources.get(sent.operator_id)
                if source is not None:
                    self._answer(execution, sent, event, source)
            case ReaderEvent():
                self._pass_on(replace(event, subtask=execution.attempt.subtask))
            case ReportBacklog(is_processing):
                self._note_backlog(
                    self._backlog - {sent.operator_id} | ({sent.operator_id} if is_processing else set())
                )
            case AddSplits() | NoMoreSplits() | StartDiscovery() | DiscoveryNoted():
                self._buffer.log("WARN", f"ignored {type(event).__name__} of a reader", attempt=received.attempt)
            case _:
                assert_never(event)

    def _answer(
        self,
        execution: Execution,
        sent: OperatorEvent,
        event: RequestSplit | RequestDiscovery | SplitsDiscovered,
        source: SourceCoordinator,
    ) -> None:
        answer: CoordinatorEvent | None
        match event:
            case RequestSplit():
                answer = source.on_request(execution.attempt.subtask)
            case RequestDiscovery():
                answer = source.on_discovery_requested()
            case SplitsDiscovered():
                source.on_discovered(event)
                answer = DiscoveryNoted(sent.number)
        if answer is not None:
            self._send(execution, sent.operator_id, answer)
        self._give_out(sent.operator_id)

    def _give_out(self, operator_id: OperatorId) -> None:
        """Sends splits to readers that have waited for some, or that new splits are assigned to."""
        vertex_id, source = self._vertex_of[operator_id], self._sources[operator_id]
        for subtask, splits in source.given_out(
            lambda index: self._is_reachable(self._graph[SubtaskId(vertex_id, index)])
        ):
            self._send(self._graph[SubtaskId(vertex_id, subtask)], operator_id, splits)

    def snapshot(self, checkpoint_id: CheckpointId) -> Mapping[OperatorId, CoordinatorState]:
        """Returns the states of all coordinators, in the step in which the sources are triggered.

        Splits that are assigned to a certain reader are sent to it before; all readers are running.
        """
        for operator_id in self._sources:
            self._give_out(operator_id)
        states = {operator_id: source.snapshot(checkpoint_id) for operator_id, source in self._sources.items()}
        return {operator_id: state for operator_id, state in states.items() if state.unassigned}

    def on_completed(self, checkpoint_id: CheckpointId) -> None:
        """Notes a completed checkpoint: whatever restarts from now on starts from this one or a later one."""
        for source in self._sources.values():
            source.on_completed(checkpoint_id)

    def on_subtasks_reset(self, subtasks: Iterable[SubtaskId], checkpoint_id: CheckpointId | None) -> None:
        """Resets subtasks to this checkpoint (``None``: to the beginning): splits that were assigned to them since are unassigned again."""
        for subtask in subtasks:
            for operator_id in self._operators_of.get(subtask.vertex_id, ()):
                self._sources[operator_id].on_subtask_reset(subtask.index, checkpoint_id)
            self._note_backlog(frozenset(o for o in self._backlog if self._vertex_of[o] != subtask.vertex_id))
        over = [a for a in (*self._sent, *self._received) if self._graph.current(a) is None]
        for attempt in over:
            self._sent.pop(attempt, None)
            self._received.pop(attempt, None)

    def adopt(self, reports: Iterable[AttemptReport], newest_id: int) -> None:
        """Takes over the events of adopted attempts, which go on from the checkpoint ``newest_id``."""
        reports = list(reports)
        for report in reports:
            found = [split for after_id, split in report.events.discovered if after_id >= newest_id]
            for operator_id in self._operators_of.get(report.attempt.vertex_id, ()):
                self._sources[operator_id].adopt_discovered(found)
        for report in reports:
            attempt, events = report.attempt, report.events
            self._sent[attempt] = events.last_number
            since = [split for after_id, split in events.assigned if after_id >= newest_id]
            for operator_id in self._operators_of.get(attempt.vertex_id, ()):
                self._sources[operator_id].adopt(attempt.subtask, since)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a coordinator contradicts itself."""
        for source in self._sources.values():
            source.check_invariants()

    def _pass_on(self, event: ReaderEvent) -> None:
        """Forwards an event to the enumerator in subtask 0 of its vertex; drops it while that is not running, since the reader repeats it."""
        vertex_id = self._vertex_of.get(event.enumerator)
        if vertex_id is None:
            return
        execution = self._graph[SubtaskId(vertex_id, 0)]
        if execution.state is ExecutionState.RUNNING and self._is_reachable(execution):
            self._send(execution, event.enumerator, event)

    def _is_reachable(self, execution: Execution) -> bool:
        """Tells whether events can be sent to the attempt: it is deployed and not being canceled, and its TaskManager is connected."""
        lives = execution.is_deployed and execution.state is not ExecutionState.CANCELING
        return lives and execution.task_manager_id is not None and self._buffer.is_connected(execution.task_manager_id)

    def _send(self, execution: Execution, operator_id: OperatorId, event: CoordinatorEvent) -> None:
        attempt, task_manager_id = execution.attempt, execution.task_manager_id
        assert task_manager_id is not None, attempt
        number = self._sent[attempt] = self._sent.get(attempt, 0) + 1
        call = OpenCall(CallKind.OPERATOR_EVENT, task_manager_id, job_id=attempt.job_id, attempt=attempt)
        sent = OperatorEvent(operator_id, number, event)
        self._buffer.emit(SendOperatorEvent(self._buffer.open_call(call), task_manager_id, attempt, sent))


def initial_splits(operator: OperatorInfo, restored: CheckpointManifest | None) -> tuple[SourceSplit, ...]:
    """Returns the splits with which a coordinator starts.

    These are the unassigned ones of the checkpoint, or all that the client listed if the checkpoint has no state of the operator. Where
    splits were assigned in advance, the state of its readers holds all of them.
    """
    for state in restored.operators if restored is not None else ():
        if state.operator_id == operator.operator_id:
            return state.coordinator.unassigned if state.coordinator is not None else ()
    return operator.splits or ()
