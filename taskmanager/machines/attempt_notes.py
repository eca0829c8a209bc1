"""What a TaskManager notes of an execution attempt while it runs, so that a JobManager that becomes the leader can take the attempt over (docs/adr/0154)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorEvent,
    CoordinatorReport,
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
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId, Generation, SubtaskId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.task_events import CheckpointMail, CheckpointMailKind, SubmittedTask, SubtaskReported


class RunningAttemptNotes:
    """The notes of one attempt. Mails count when they are accepted, acknowledgements when they are sent to a JobManager."""

    def __init__(self, task: SubmittedTask, now_ms: int) -> None:
        restored_id = task.restored_id or 0
        self._task = task
        self._deployed_ms = now_ms
        self._restored_id = self._confirmed_id = self._newest_id = restored_id
        self._acknowledged: dict[int, Generation] = {}
        self._may_finish = False
        self._is_being_stopped = False
        self.state = ExecutionState.DEPLOYING
        """The state that the subtask reported last, never a final one."""
        self._end_of_data: object | None = None
        """The message by which the subtask reported its end of data, once it did."""
        self._unanswered: dict[int, tuple[CoordinatorEvent, object]] = {}
        """Events that the subtask sent to its operator coordinator and that were not answered, by number: the event and its message."""
        self._assigned: list[tuple[int, SourceSplit]] = []
        self._discovered: list[tuple[int, SourceSplit]] = []
        self._last_event = 0

    def on_state(self, state: ExecutionState) -> None:
        self.state = state

    def on_reported(self, reported: SubtaskReported) -> None:
        if reported.is_end_of_data:
            self._end_of_data = reported.message
        if reported.event is not None and isinstance(reported.event.event, ReportBacklog):
            self._answered(ReportBacklog)  # by the next one: a JobManager that takes the lead hears the last
        if reported.event is not None and not isinstance(reported.event.event, ReaderEvent):
            self._unanswered[reported.event.number] = (reported.event.event, reported.message)

    def unanswered_messages(self) -> tuple[object, ...]:
        """Returns the messages that may be unanswered, which a JobManager that takes the attempt over must receive: events for coordinators, and the end of
        data.
        """
        requests = [message for _, message in self._unanswered.values()]
        return tuple(requests) if self._end_of_data is None else (*requests, self._end_of_data)

    def on_acknowledged(self, checkpoint_id: int, generation: Generation) -> None:
        self._newest_id = max(self._newest_id, checkpoint_id)
        self._acknowledged[checkpoint_id] = generation

    def on_mail(self, mail: CheckpointMail | OperatorEvent) -> bool:
        """Notes a mail to the subtask. Returns ``False`` for a coordinator's event that came before and must not be delivered again."""
        if isinstance(mail, OperatorEvent):
            return self._on_operator_event(mail)
        self._on_checkpoint(mail)
        return True

    def _on_operator_event(self, event: OperatorEvent) -> bool:
        if event.number <= self._last_event:
            return False
        self._last_event = event.number
        match event.event:
            case AddSplits(splits):
                self._answered(RequestSplit)
                self._assigned += [(self._newest_id, split) for split in splits]
            case NoMoreSplits():
                self._answered(RequestSplit)
            case StartDiscovery(known):
                self._answered(RequestDiscovery)
                self._discovered += [(self._newest_id, split) for split in known]
            case DiscoveryNoted(number):
                found, _ = self._unanswered.pop(number, (None, None))
                if isinstance(found, SplitsDiscovered):
                    self._discovered += [(self._newest_id, split) for split in found.splits]
            case _:
                pass
        return True

    def _answered(self, kind: type[CoordinatorEvent]) -> None:
        self._unanswered = {n: said for n, said in self._unanswered.items() if not isinstance(said[0], kind)}

    @property
    def _awaits_discovery(self) -> bool:
        return any(isinstance(event, RequestDiscovery) for event, _ in self._unanswered.values())

    def _on_checkpoint(self, mail: CheckpointMail) -> None:
        self._newest_id = max(self._newest_id, mail.checkpoint_id)
        match mail.kind:
            case CheckpointMailKind.TRIGGER:
                self._is_being_stopped |= mail.ends_the_job
            case CheckpointMailKind.CONFIRM:
                self._confirmed_id = max(self._confirmed_id, mail.checkpoint_id)
                self._may_finish |= mail.may_finish
                self._acknowledged = {n: to for n, to in self._acknowledged.items() if n >= self._confirmed_id}
                self._assigned = [(after, split) for after, split in self._assigned if after >= self._confirmed_id]
                self._discovered = [(after, split) for after, split in self._discovered if after >= self._confirmed_id]
            case CheckpointMailKind.ABORT:
                self._acknowledged.pop(mail.checkpoint_id, None)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a checkpoint is noted as restored, confirmed or acknowledged whose id is higher than every id in messages so far."""
        named = (self._restored_id, self._confirmed_id, *self._acknowledged)
        assert max(named) <= self._newest_id, f"knows of {named}, and {self._newest_id} is the newest"

    def report(self, state: ExecutionState, address: str | None, error: ErrorInfo | None = None) -> AttemptReport:
        """Returns the report of the attempt for a JobManager. ``state``: the state to report."""
        return AttemptReport(
            attempt=self._task.attempt,
            allocation_id=self._task.allocation_id,
            state=state,
            deployed_ms=self._deployed_ms,
            data_address=address,
            restored_id=self._restored_id,
            acknowledged=tuple(sorted(self._acknowledged.items())),
            confirmed_id=self._confirmed_id,
            newest_id=self._newest_id,
            at_end_of_data=self._end_of_data is not None,
            may_finish=self._may_finish,
            is_being_stopped=self._is_being_stopped,
            error=error,
            events=CoordinatorReport(
                tuple(self._assigned), self._last_event, tuple(self._discovered), self._awaits_discovery
            ),
        )


class EndedAttempts:
    """The attempts whose process is gone and that a JobManager that becomes the leader must know.

    An attempt is kept as long as its slot belongs to the job and no later attempt of the subtask was submitted. Of all others only the highest attempt number
    is kept, so that none begins twice.
    """

    def __init__(self) -> None:
        self._begun: dict[AllocationId, dict[SubtaskId, int]] = {}
        """The highest attempt number of each subtask that began in a slot."""
        self._reports: dict[AttemptId, AttemptReport] = {}
        self._unreported: set[AttemptId] = set()

    def keep(self, report: AttemptReport, *, is_reported: bool) -> None:
        self._reports[report.attempt] = report
        if not is_reported:
            self._unreported.add(report.attempt)

    def reports(self) -> tuple[AttemptReport, ...]:
        return tuple(self._reports.values())

    def take_unreported(self) -> tuple[AttemptReport, ...]:
        """Returns the reports of attempts whose end was not reported yet, and counts them as reported."""
        unreported = tuple(self._reports[attempt] for attempt in sorted(self._unreported))
        self._unreported.clear()
        return unreported

    def free(self, allocation_id: AllocationId) -> None:
        """Forgets the attempts of a slot that was freed."""
        self._begun.pop(allocation_id, None)
        self._forget([a for a, report in self._reports.items() if report.allocation_id == allocation_id])

    def has_begun(self, task: SubmittedTask) -> bool:
        """Tells whether this attempt, or a later one of the subtask, was submitted before in the same slot. Nothing begins in a slot that was freed."""
        return task.attempt.attempt <= self._begun.get(task.allocation_id, {}).get(task.attempt.subtask_id, -1)

    def begin(self, task: SubmittedTask) -> None:
        """Notes that an attempt begins, and forgets the earlier attempts of the same subtask."""
        attempt = task.attempt
        self._begun.setdefault(task.allocation_id, {})[attempt.subtask_id] = attempt.attempt
        self._forget([a for a in self._reports if (a.job_id, a.subtask_id) == (attempt.job_id, attempt.subtask_id)])

    def check_invariants(self, alive: Collection[AttemptId]) -> None:
        """Raises ``AssertionError`` when an attempt is both over and alive, or is to be reported and not known."""
        assert self._unreported <= self._reports.keys(), (
            f"{self._unreported - self._reports.keys()} ended, nobody knows how"
        )
        both = self._reports.keys() & set(alive)
        assert not both, f"{both} are over, and here"

    def _forget(self, attempts: Iterable[AttemptId]) -> None:
        for attempt in attempts:
            del self._reports[attempt]
            self._unreported.discard(attempt)
