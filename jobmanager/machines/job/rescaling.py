"""Changes the parallelism of a running job, because a user asks for it or because slots come or go.

    RescaleRequested ─▶ checkpoint ─▶ WriteShape ─▶ ShapeWritten ─▶ cancel ─▶ all over ─▶ the new shape, from the newest checkpoint
                           │              ▲
                           └─ they fail ──┘      goes back to the newest one that is complete, as a failure does

    STEADY ──begins──▶ CHECKPOINTING ──complete, or too many failed──▶ WRITING ──written──▶ CHANGING ──deployed──▶ STEADY
       └──the job restarts, or did not get its slots───────────────────▲

While the new parallelism (the job's *shape*) is being written to the job store nothing restarts: it is not known then which one the next
JobManager would use. An adaptive job uses the available slots between its bounds: its upper bounds at once, fewer only when no more slots
came for a while. Follows Flink's ``AdaptiveScheduler`` (``Executing.java``, ``WaitingForResources.java``), which restarts the job with the
next checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import WriteShape
from tidegate.jobmanager.machines.events import ClientRequest, RescaleRequested
from tidegate.jobmanager.machines.job.rescale_history import RescaleHistory
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.settings import ElasticSettings
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph
from tidegate.model.ids import CheckpointId, VertexId
from tidegate.model.rescaling.bounds import (
    NOT_SAID,
    Bounds,
    ParallelismBounds,
    bounds_of,
    completed,
    fit,
    parallelism_of,
    slots_of,
    with_parallelism,
)
from tidegate.model.rescaling.history import SchedulerState, TerminatedReason, TriggerCause
from tidegate.model.rescaling.shape import Shape
from tidegate.model.states import JobState

SHAPE_TIMER, SETTLED_TIMER, DELAY_TIMER = "shape", "slots-settled", "shape-delay"
WAITS_FOR_CHECKPOINT = "waits for the next checkpoint, to change the parallelism with it"
TAKES_CHECKPOINT = "takes a checkpoint, to change the parallelism with it"
RETRY_MS = 1_000
"""The time after which a failed write of the parallelism is repeated, in ms. Chosen, not measured."""


class RescalePhase(Enum):
    """The phases of a change of parallelism."""

    STEADY = "nothing is under way"
    CHECKPOINTING = "a checkpoint is taken first"
    WRITING = "the shape is on its way to the job store"
    CHANGING = "subtasks of the old shape are canceled"


class ShapeStep(Enum):
    """The next step of the job towards another parallelism."""

    NOTHING = "go on"
    CHECKPOINT = "take a checkpoint"
    CANCEL = "cancel everything"


@dataclass(frozen=True, slots=True)
class JobNow:
    """The state of a job, as far as its parallelism depends on it.

    ``runs``: every subtask is RUNNING or FINISHED; ``waits``: it waits for slots. ``slots``: those that it holds and those that are free.
    ``newest``: its latest completed checkpoint. ``failed``: how many checkpoints have failed so far.
    """

    state: JobState
    runs: bool
    waits: bool
    slots: int
    newest: CheckpointId | None
    failed: int
    takes_checkpoints: bool
    is_being_stopped: bool
    restarts_all: bool


_J, _P, _S = JobState, RescalePhase, ShapeStep
_ENDING = {_J.FAILING: SchedulerState.FAILING, _J.CANCELLING: SchedulerState.CANCELING}
_ENDED = {_J.CANCELLING: TerminatedReason.JOB_CANCELED, _J.FINISHED: TerminatedReason.JOB_FINISHED}


class Rescaling:
    """Decides when and to which parallelism one job is rescaled.

    ``submitted``: the graph as submitted; ``requests``: open requests of clients from an earlier JobManager.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        submitted: JobGraph,
        requests: Iterable[ClientRequest],
        settings: ElasticSettings,
        buffer: CommandBuffer,
    ) -> None:
        self._graph = graph
        self._submitted = submitted
        self._settings = settings
        self._buffer = buffer
        self._wanted = [one.bounds for one in requests if isinstance(one, RescaleRequested)]
        self._shape: Shape | None = None
        self._since: CheckpointId | None = None
        self._failed = 0
        self._has_waited = False
        self._changed_ms = buffer.now_ms - settings.cooldown_ms
        self._settles_ms: int | None = None
        self._is_settled = False
        self.phase = _P.STEADY
        self.rescales = 0
        self.history = RescaleHistory(settings.history_size, graph, buffer.now_ms)
        if self.is_adaptive:
            self.history.begin(TriggerCause.INITIAL_SCHEDULE, self.bounds, buffer.now_ms)

    @property
    def bounds(self) -> Bounds:
        """Returns the bounds of the parallelism of each vertex."""
        if self._wanted:
            return self._wanted[-1]
        if self._settings.is_reactive:
            whole = ParallelismBounds(NOT_SAID, NOT_SAID)
            return completed(self._submitted, {v.vertex_id: whole for v in self._submitted.vertices})
        return bounds_of(self._submitted)

    @property
    def is_adaptive(self) -> bool:
        """Tells whether the job runs below its upper bounds when slots are missing."""
        return self._settings.is_adaptive

    @property
    def wanted_slots(self) -> int:
        """Returns how many slots the job would use if it could; 0: as many as it has."""
        if self._settings.is_reactive or not (self._wanted or self.is_adaptive):
            return 0
        best = self._highest()
        return slots_of(self._graph.graph, best) if best is not None else 0

    @property
    def is_held_up(self) -> bool:
        """Tells whether nothing may restart now, because the new parallelism is being written to the job store."""
        return self.phase is _P.WRITING

    @property
    def restarts_all(self) -> bool:
        """Tells whether a restart now changes the parallelism, so that every task restarts."""
        return self.phase is _P.CHANGING

    # ---- what happens ------------------------------------------------------------------------------------------------

    def require(self, event: RescaleRequested) -> None:
        is_new = event.bounds != self.bounds
        self._wanted = [event.bounds]
        if is_new:
            self._note_trigger(TriggerCause.UPDATE_REQUIREMENT, TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED)

    def step(self, now: JobNow) -> ShapeStep:
        """Takes the next step of a rescale, if one can be taken now. None is while the job is being stopped with a savepoint."""
        self._note(now)
        found = self._step(now)
        if found is not _S.NOTHING or self.phase is not _P.STEADY:
            self._note_begin()
        return found

    def _step(self, now: JobNow) -> ShapeStep:
        if now.is_being_stopped or not (self._wanted or self.is_adaptive):
            self._put_off()
            return _S.NOTHING
        match self.phase, now.state:
            case _P.STEADY, _J.RUNNING if now.waits or (now.runs and now.takes_checkpoints):
                if self._target(now.slots, waits=now.waits) is None:
                    return _S.NOTHING
                return _S.CANCEL if now.waits else self._begin(now)  # what waits is not deployed meanwhile: it restarts
            case ((_P.STEADY | _P.CHECKPOINTING), _J.RESTARTING):
                self._put_off()
                if self._target(now.slots, waits=True) is None:
                    return _S.NOTHING
                # Unless everything restarts, tasks are canceled first, so that nothing of another region is deployed.
                return self._write(now) if now.restarts_all else _S.CANCEL
            case _P.CHECKPOINTING, _J.RUNNING if self._is_due(now):
                return self._write(now)
            case _P.CHECKPOINTING, _J.RUNNING if self._has_waited:
                self._has_waited = False
                self._buffer.log("INFO", TAKES_CHECKPOINT, job=self._graph.graph.job_id)
                return _S.CHECKPOINT
            case _P.CHANGING, (_J.RUNNING | _J.RESTARTING) if not now.restarts_all:
                return _S.CANCEL
            case _:
                return _S.NOTHING

    def on_written(self, error: ErrorInfo | None) -> bool:
        """Handles the end of ``WriteShape``, which stores the job's new parallelism; returns whether subtasks are to be canceled now. A failed write is
        repeated after ``RETRY_MS``.
        """
        if self.phase is not _P.WRITING:
            return False
        if error is None:
            self.phase = _P.CHANGING
            return True
        self._buffer.log("WARN", f"the new shape may not be in the job store, and is written again: {error.message}")
        self._buffer.start_timer(self._timer(SHAPE_TIMER), RETRY_MS)
        return False

    def on_retry(self) -> None:
        if self.phase is _P.WRITING:
            self._emit()

    def on_waited_for(self, kind: str) -> None:
        """Handles a timer: no more slots came for a while, so the available ones are used; or no checkpoint was due, so one is taken."""
        if kind == SETTLED_TIMER:
            self._settles_ms, self._is_settled = None, True
        else:
            self._has_waited = self.phase is _P.CHECKPOINTING

    def take(self) -> tuple[JobGraph, int] | None:
        """Returns the graph with which everything restarts and the number of its attempts; ``None`` when the parallelism does not change."""
        self.history.enter(SchedulerState.CREATING_EXECUTION_GRAPH, self._buffer.now_ms)
        if self.phase is not _P.CHANGING:
            return None
        assert self._shape is not None
        self.phase, shape = _P.STEADY, self._shape
        self.rescales += 1
        self._changed_ms = self._buffer.now_ms
        return with_parallelism(self._graph.graph, shape.parallelism), shape.first_attempt

    def stop(self, state: JobState) -> None:
        """Ends any rescale, because the job ends and is in this state."""
        self.history.enter(_ENDING.get(state, SchedulerState.FINISHED), self._buffer.now_ms)
        self.history.end(_ENDED.get(state, TerminatedReason.JOB_FAILED), self._buffer.now_ms)
        self._buffer.cancel_timer(self._timer(SHAPE_TIMER))
        self._unsettle()
        self._stop_waiting()
        self.phase = _P.STEADY

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a shape is being written that does not exist, or whose attempt numbers are not new."""
        if self.phase in (_P.WRITING, _P.CHANGING):
            assert self._shape is not None, f"{self.phase.name} without a shape"
            old = [e.attempt for e in self._graph if e.attempt.attempt >= self._shape.first_attempt]
            assert not old, f"{old} would be of the new shape, which begins with {self._shape.first_attempt}"
        self.history.check_invariants()
        is_armed = self._buffer.is_armed(self._timer(SETTLED_TIMER))
        assert is_armed == (self._settles_ms is not None), f"settles at {self._settles_ms}, and its timer: {is_armed}"

    # ---- what is remembered ------------------------------------------------------------------------------------------

    def on_failover(self, failure: ErrorInfo) -> None:
        """Notes that a failure restarts the job. A parallelism that is being written is used all the same, as another attempt."""
        self._note_trigger(TriggerCause.RECOVERABLE_FAILOVER, TerminatedReason.JOB_FAILOVER_RESTARTING)
        self.history.enter(SchedulerState.RESTARTING, self._buffer.now_ms, failure)

    def _note_trigger(self, trigger: TriggerCause, overtaken: TerminatedReason) -> None:
        """Begins a new entry of the rescale history; a job with fixed parallelism has none."""
        if not (self.is_adaptive or self._wanted):
            return
        self.history.end(overtaken, self._buffer.now_ms)
        self.history.begin(trigger, self.bounds, self._buffer.now_ms)

    def _note_begin(self) -> None:
        """Begins an entry of the rescale history if none is in progress."""
        if not self.history.is_under_way:
            trigger = TriggerCause.NEW_RESOURCE_AVAILABLE if self.is_adaptive else TriggerCause.UPDATE_REQUIREMENT
            self.history.begin(trigger, self.bounds, self._buffer.now_ms)

    def _note(self, now: JobNow) -> None:
        """Notes the job's state in the rescale history, and ends the entry once the job runs with the new parallelism."""
        self.history.enter(_scheduler_state(now), self._buffer.now_ms)
        if not (self.history.is_under_way and now.runs and now.state is _J.RUNNING and self.phase is _P.STEADY):
            return
        if self.history.has_restarted:
            self.history.end(TerminatedReason.SUCCEEDED, self._buffer.now_ms)
        elif self._fitting(now.slots) is None and (
            self.is_adaptive or self._highest() == parallelism_of(self._graph.graph)
        ):
            self.history.end(TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE, self._buffer.now_ms)

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _begin(self, now: JobNow) -> ShapeStep:
        self.phase, self._since, self._failed = _P.CHECKPOINTING, now.newest, now.failed
        if self._settings.max_delay_ms > 0:
            self._buffer.log("INFO", WAITS_FOR_CHECKPOINT, job=self._graph.graph.job_id)
            self._buffer.start_timer(self._timer(DELAY_TIMER), self._settings.max_delay_ms)
            return _S.NOTHING
        self._buffer.log("INFO", TAKES_CHECKPOINT, job=self._graph.graph.job_id)
        return _S.CHECKPOINT

    def _is_due(self, now: JobNow) -> bool:
        """Tells whether the awaited checkpoint is complete, or too many have failed."""
        has_failed = now.failed - self._failed >= self._settings.max_failed_checkpoints
        return now.newest != self._since or has_failed

    def _write(self, now: JobNow) -> ShapeStep:
        """Writes the parallelism that fits now to the job store; nothing is written if the job has it already."""
        parallelism = self._fitting(now.slots)
        self._unsettle()
        self._stop_waiting()
        if parallelism is None:
            self.phase = _P.STEADY
            return _S.NOTHING
        highest = max(execution.attempt.attempt for execution in self._graph)
        self._shape = Shape(parallelism, max(highest, self._graph.first_attempt) + 1)
        self.phase = _P.WRITING
        self._emit()
        return _S.NOTHING

    def _put_off(self) -> None:
        """Postpones the rescale; a parallelism that is being written stays."""
        if self.phase is _P.CHECKPOINTING:
            self.phase = _P.STEADY
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._has_waited = False
        self._buffer.cancel_timer(self._timer(DELAY_TIMER))

    def _target(self, slots: int, *, waits: bool) -> dict[VertexId, int] | None:
        """Returns the parallelism to change to now; ``None``: none, or not yet. ``waits``: the job waits for slots."""
        found = self._fitting(slots)
        graph = self._graph.graph
        is_most = found is not None and found == self._highest()
        if found is None or not (waits or is_most or slots_of(graph, found) > slots_of(graph, parallelism_of(graph))):
            self._unsettle()
            return None
        delay_ms = self._delay_ms(is_most=is_most, waits=waits)
        if self._is_settled or delay_ms <= 0:
            return found
        if self._settles_ms is None or self._buffer.now_ms + delay_ms < self._settles_ms:
            self._settles_ms = self._buffer.now_ms + delay_ms
            self._buffer.start_timer(self._timer(SETTLED_TIMER), delay_ms)
        return None

    def _delay_ms(self, *, is_most: bool, waits: bool) -> int:
        if not self.is_adaptive:
            return 0
        if waits:
            return 0 if is_most else self._settings.submission_stabilization_ms
        cooldown_ms = self._changed_ms + self._settings.cooldown_ms - self._buffer.now_ms
        return cooldown_ms if is_most else max(cooldown_ms, self._settings.stabilization_ms)

    def _fitting(self, slots: int) -> dict[VertexId, int] | None:
        """Returns the parallelism that fits into ``slots``; ``None`` when there is none or the job has it already."""
        if self._graph.is_any_vertex_finishing:
            return None  # in another shape it could not be known which of its subtasks have finished
        found = fit(self._graph.graph, self.bounds, slots) if self.is_adaptive else self._highest()
        if found is None or found == parallelism_of(self._graph.graph):
            return None
        return found if slots_of(self._graph.graph, found) <= slots else None

    def _highest(self) -> dict[VertexId, int] | None:
        """Returns the parallelism with any number of slots."""
        return fit(self._graph.graph, self.bounds, sum(both.upper for both in self.bounds.values()))

    def _unsettle(self) -> None:
        self._settles_ms, self._is_settled = None, False
        self._buffer.cancel_timer(self._timer(SETTLED_TIMER))

    def _emit(self) -> None:
        assert self._shape is not None
        self._buffer.emit(WriteShape(self._graph.graph.job_id, self._shape))

    def _timer(self, kind: str) -> str:
        return f"job/{self._graph.graph.job_id}/{kind}"


def _scheduler_state(now: JobNow) -> SchedulerState:
    match now.state:
        case _J.RUNNING if now.waits:
            return SchedulerState.WAITING_FOR_RESOURCES
        case _J.RUNNING:
            return SchedulerState.EXECUTING if now.runs else SchedulerState.CREATING_EXECUTION_GRAPH
        case _J.RESTARTING:
            return SchedulerState.RESTARTING
        case _:
            return SchedulerState.CREATED
