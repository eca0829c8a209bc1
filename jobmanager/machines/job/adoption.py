"""Decides which running subtasks a new JobManager adopts, from what TaskManagers report.

    reports ─▶ the highest attempt of each subtask ─▶ each region ─┬─ adopted: all of it runs or has finished, as one, and goes on from
                                                                   │           the newest completed checkpoint
                                                                   └─ lacking: restarted

An attempt can go on from a checkpoint when it was restored from it, or acknowledged it to the JobManager that completed it. So an attempt that was
given up long ago, and still runs because its TaskManager was cut off, is not adopted. Nor is one that a later attempt has followed, which may
have aborted its transactions: a region is adopted in its last attempt only, whose number the job store notes before it
is deployed. Nothing of a job that was being stopped with a savepoint is adopted: its sources have ended. Flink restarts all
subtasks of a streaming job; it does something like this for batch jobs (FLIP-383).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import Origin
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.events import (
    EndOfDataReached,
    OperatorEventReceived,
    SubtaskAcknowledged,
    SubtaskDeclined,
    TaskManagerRegistered,
    TaskStateChanged,
)
from tidegate.jobmanager.machines.resources.task_managers import Placement
from tidegate.jobmanager.machines.restore.restore import finished_in
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.slot_sharing import SharedSlot, SlotSharing
from tidegate.model.ids import AllocationId, AttemptId, SubtaskId, TaskManagerId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.leadership.noted_attempts import NotedAttempts
from tidegate.model.states import ExecutionState

AwaitedEvent = (
    TaskManagerRegistered
    | TaskStateChanged
    | EndOfDataReached
    | SubtaskAcknowledged
    | SubtaskDeclined
    | OperatorEventReceived
)
"""The events that TaskManagers report while a job is RECONCILING."""

_GOES_ON = (ExecutionState.RUNNING, ExecutionState.FINISHED)
_ENDED = (ExecutionState.FAILED, ExecutionState.CANCELED)


@dataclass(frozen=True, slots=True)
class Reported:
    """An attempt and the TaskManager that reports it."""

    report: AttemptReport
    task_manager_id: TaskManagerId


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which subtasks are adopted and which restart.

    ``present``: the reported attempt of each subtask, of adopted regions and of others. ``finished``: subtasks of adopted regions that no
    TaskManager reports, but that had finished in the checkpoint. ``lacking``: subtasks of regions that are not adopted, reported or not.
    """

    present: tuple[Reported, ...]
    finished: tuple[SubtaskId, ...]
    lacking: frozenset[SubtaskId]


def adoption_of(graph: ExecutionGraph, origin: Origin) -> Adoption:
    """Creates the adoption of a job that starts from ``origin``."""
    newest = origin.newest
    finished = finished_in(origin.graph, newest.manifest) if newest else frozenset()
    return Adoption(graph, newest, finished, origin.noted)


class Adoption:
    """Collects reported attempts of one recovered job until it is decided which are adopted.

    ``newest``: the checkpoint that the job would be restored from; ``finished``: subtasks that had finished in it.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        newest: CompletedCheckpoint | None,
        finished: frozenset[SubtaskId],
        noted: NotedAttempts,
    ) -> None:
        """Creates an adoption without reports. ``noted``: the last attempt numbers of all regions."""
        self._graph = graph
        self._noted = noted
        self._sharing = SlotSharing(graph.graph)
        self.newest_id = newest.checkpoint_id if newest else 0
        self._generation = newest.manifest.generation if newest else None
        self._finished = finished
        self._reports: dict[AttemptId, Reported] = {}
        self._operator_events: list[OperatorEventReceived] = []

    # ---- what is reported --------------------------------------------------------------------------------------------

    def note(self, event: AwaitedEvent) -> None:
        match event:
            case TaskManagerRegistered():
                for report in event.attempts:
                    if report.attempt.job_id == self._graph.graph.job_id and self._is_subtask(report.attempt):
                        self._reports[report.attempt] = Reported(report, event.task_manager_id)
            case TaskStateChanged():
                self._change(event.attempt, lambda report: replace(report, state=event.state, error=event.error))
            case EndOfDataReached():
                self._change(event.attempt, lambda report: replace(report, at_end_of_data=True))
            case SubtaskAcknowledged() | SubtaskDeclined():
                pass  # of a checkpoint that the earlier JobManager began: it is aborted
            case OperatorEventReceived():
                self._operator_events.append(event)
            case _:
                assert_never(event)

    # ---- what follows from it ----------------------------------------------------------------------------------------

    def is_decided(self, held: Mapping[AllocationId, Placement]) -> bool:
        """Tells whether no further report could make the verdict better. ``held``: the allocated slots of the job."""
        present = self._present(held)
        return all(self._is_decided(region, present) for region in self._graph.regions.all)

    def decide(self, held: Mapping[AllocationId, Placement]) -> Verdict:
        present = self._present(held)
        is_being_stopped = any(reported.report.is_being_stopped for reported in self._reports.values())
        lacking: set[SubtaskId] = set()
        finished: list[SubtaskId] = []
        for region in self._graph.regions.all:
            if is_being_stopped or not self._is_adoptable(region, present):
                lacking.update(region)
            else:
                finished += [subtask for subtask in region if subtask not in present]
        return Verdict(tuple(present.values()), tuple(finished), frozenset(lacking))

    def settle(self, operators: OperatorCoordinators) -> None:
        """Handles the operator events that arrived before the verdict."""
        for event in self._operator_events:
            operators.on_event(event)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a report is not one of a subtask of this job."""
        for attempt, reported in self._reports.items():
            assert reported.report.attempt == attempt, f"{reported.report.attempt} is kept under {attempt}"
            assert attempt.job_id == self._graph.graph.job_id, f"{attempt} is of another job"
            assert self._is_subtask(attempt), f"{attempt} is of no subtask of the job"

    def _present(self, held: Mapping[AllocationId, Placement]) -> dict[SubtaskId, Reported]:
        """Returns the highest reported attempt of each subtask whose slot exists; of subtasks that share a slot only those in the same one."""
        highest: dict[SubtaskId, Reported] = {}
        for attempt in sorted(self._reports):
            reported = self._reports[attempt]
            place = held.get(reported.report.allocation_id)
            is_here = place is not None and place.task_manager_id == reported.task_manager_id
            if is_here and not (reported.report.state in _ENDED and self._is_earlier(attempt)):
                highest[attempt.subtask_id] = reported
        slots: dict[SharedSlot, AllocationId] = {}
        present: dict[SubtaskId, Reported] = {}
        for subtask, reported in highest.items():
            allocation_id = reported.report.allocation_id
            if slots.setdefault(self._sharing.slot_of(subtask), allocation_id) == allocation_id:
                present[subtask] = reported
        return present

    def _is_adoptable(self, region: tuple[SubtaskId, ...], present: dict[SubtaskId, Reported]) -> bool:
        if self._is_followed(region, present):
            return False
        return all(self._goes_on(subtask, present.get(subtask)) for subtask in region)

    def _is_followed(self, region: tuple[SubtaskId, ...], present: dict[SubtaskId, Reported]) -> bool:
        """Tells whether a reported attempt of the region was not its last."""
        return any(self._is_earlier(present[s].report.attempt) for s in region if s in present)

    def _is_earlier(self, attempt: AttemptId) -> bool:
        return is_earlier(attempt, self._noted.of(self._graph.regions.index_of(attempt.subtask_id)))

    def _is_decided(self, region: tuple[SubtaskId, ...], present: dict[SubtaskId, Reported]) -> bool:
        if self._noted.of(self._graph.regions.index_of(region[0])) < 0:
            return True  # no attempt of it was ever deployed
        if self._is_followed(region, present):
            return False  # the later one may still be reported
        if self._is_adoptable(region, present):
            return True
        reports = [present[s].report for s in region if s in present]
        return len(reports) == len(region) and any(r.state not in _GOES_ON or r.is_being_stopped for r in reports)

    def _goes_on(self, subtask: SubtaskId, reported: Reported | None) -> bool:
        if reported is None:
            return subtask in self._finished
        report = reported.report
        had_finished = subtask in self._finished and report.state is ExecutionState.FINISHED
        if report.events.awaits_discovery and report.restored_id != self.newest_id:
            return False  # it is unknown which splits are in the newest checkpoint, and not in the one from which it started
        return report.state in _GOES_ON and (had_finished or report.holds(self.newest_id, self._generation))

    def _is_subtask(self, attempt: AttemptId) -> bool:
        vertex = self._graph.vertices.get(attempt.vertex_id)
        return vertex is not None and attempt.subtask < vertex.parallelism

    def _change(self, attempt: AttemptId, change: Callable[[AttemptReport], AttemptReport]) -> None:
        known = self._reports.get(attempt)
        if known is not None and known.report.state is not ExecutionState.FINISHED:
            self._reports[attempt] = replace(known, report=change(known.report))


def is_earlier(attempt: AttemptId, last: int) -> bool:
    """Tells whether a later attempt has followed this one. ``last``: the number of the last attempt of its region."""
    return attempt.attempt != last
