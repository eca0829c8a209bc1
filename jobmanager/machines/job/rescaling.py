"""Another shape for a job that runs: from what a user wants to the moment in which everything is deployed anew.

    RescaleRequested ─▶ checkpoint ─▶ WriteShape ─▶ ShapeWritten ─▶ cancel ─▶ all over ─▶ the new shape, from the newest checkpoint
                           │              ▲
                           └─ they fail ──┘      goes back to the newest one that is complete, as a failure does

    STEADY ──begins──▶ CHECKPOINTING ──complete, or too many failed──▶ WRITING ──written──▶ CHANGING ──deployed──▶ STEADY
       └──the job restarts anyway──────────────────────────────────────▲

While the shape is on its way to the store nothing restarts: whether the next JobManager would go on in the old shape or in the new one is not known then. Follows Flink's
``AdaptiveScheduler`` (``Executing.java``), which restarts the job with the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import WriteShape
from tidegate.jobmanager.machines.events import Asked, RescaleRequested
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph
from tidegate.model.ids import CheckpointId, VertexId
from tidegate.model.rescaling.bounds import Bounds, bounds_of, fit, parallelism_of, slots_of, with_parallelism
from tidegate.model.rescaling.shape import Shape

SHAPE_TIMER = "shape"
TAKES_CHECKPOINT = "takes a checkpoint, to change the parallelism with it"
RETRY_MS = 1_000
"""Chosen, not measured: a disk that refused a write has often the same answer in the next moment."""


class RescalePhase(Enum):
    STEADY = "nothing is under way"
    CHECKPOINTING = "a checkpoint is taken first"
    WRITING = "the shape is on its way to the job store"
    CHANGING = "subtasks of the old shape are canceled"


_P = RescalePhase


class Rescaling:
    """One job's. ``asked``: what clients wanted of an earlier JobManager."""

    def __init__(
        self, graph: ExecutionGraph, asked: Iterable[Asked], max_failed_checkpoints: int, buffer: CommandBuffer
    ) -> None:
        self._graph = graph
        self._buffer = buffer
        self._most_failed = max_failed_checkpoints
        self._wanted = [one.bounds for one in asked if isinstance(one, RescaleRequested)]
        self._shape: Shape | None = None
        self._since: CheckpointId | None = None
        self._failed = 0
        self.phase = _P.STEADY
        self.rescales = 0

    @property
    def bounds(self) -> Bounds:
        """Between which numbers of subtasks each vertex may run."""
        return self._wanted[-1] if self._wanted else bounds_of(self._graph.graph)

    @property
    def is_asked_for(self) -> bool:
        """A user has said within which bounds the job is to run."""
        return bool(self._wanted)

    @property
    def wanted_slots(self) -> int:
        """How many the job would have, if it could; 0: as many as it has."""
        best = self._best(None) if self._wanted else None
        return slots_of(self._graph.graph, best) if best is not None else 0

    @property
    def is_held_up(self) -> bool:
        """Nothing may restart now: the shape is on its way to the store."""
        return self.phase is _P.WRITING

    @property
    def restarts_all(self) -> bool:
        """What restarts now restarts in the new shape."""
        return self.phase is _P.CHANGING

    def require(self, event: RescaleRequested) -> None:
        self._wanted = [event.bounds]

    def wants(self, slots: int) -> bool:
        """Whether another shape is to be taken, with so many slots for the job. No other one is under way."""
        return self.phase is _P.STEADY and self._target(slots) is not None

    def checkpoint(self, newest: CheckpointId | None, failed: int) -> None:
        """The job runs, and takes a checkpoint. ``failed``: how many have failed so far."""
        assert self.phase is _P.STEADY, self.phase
        self.phase, self._since, self._failed = _P.CHECKPOINTING, newest, failed
        self._buffer.log("INFO", TAKES_CHECKPOINT, job=self._graph.graph.job_id)

    def is_due(self, newest: CheckpointId | None, failed: int) -> bool:
        """The checkpoint that was awaited is complete, or too many have failed."""
        is_over = newest != self._since or failed - self._failed >= self._most_failed
        return self.phase is _P.CHECKPOINTING and is_over

    def write(self, slots: int) -> None:
        """The shape that fits now goes to the store; none, when the job has it meanwhile."""
        parallelism = self._target(slots)
        if parallelism is None:
            self.phase = _P.STEADY
            return
        highest = max(execution.attempt.attempt for execution in self._graph)
        self._shape = Shape(parallelism, max(highest, self._graph.first_attempt) + 2)
        self.phase = _P.WRITING
        self._emit()

    def on_written(self, error: ErrorInfo | None) -> bool:
        """Returns whether subtasks of the old shape are to be canceled now."""
        if self.phase is not _P.WRITING:
            return False
        if error is None:
            self.phase = _P.CHANGING
            return True
        self._buffer.log("WARN", f"the new shape may not be in the job store, and is written again: {error.message}")
        self._buffer.start_timer(self._timer, RETRY_MS)
        return False

    def on_retry(self) -> None:
        if self.phase is _P.WRITING:
            self._emit()

    def take(self) -> tuple[JobGraph, int] | None:
        """The graph in which everything restarts, and the number of its attempts; ``None``: it restarts as it is."""
        if self.phase is not _P.CHANGING:
            return None
        assert self._shape is not None
        self.phase, shape = _P.STEADY, self._shape
        self.rescales += 1
        return with_parallelism(self._graph.graph, shape.parallelism), shape.first_attempt

    def put_off(self) -> None:
        """Not now. A shape that is on its way to the store goes on."""
        if self.phase is _P.CHECKPOINTING:
            self.phase = _P.STEADY

    def stop(self) -> None:
        """The job ends: what the store holds of another shape means nothing then."""
        self._buffer.cancel_timer(self._timer)
        self.phase = _P.STEADY

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a shape is under way that was never made, or whose attempts are not new."""
        if self.phase in (_P.WRITING, _P.CHANGING):
            assert self._shape is not None, f"{self.phase.name} without a shape"
            old = [e.attempt for e in self._graph if e.attempt.attempt >= self._shape.first_attempt - 1]
            assert not old, f"{old} would be of the new shape, which begins with {self._shape.first_attempt}"

    @property
    def _timer(self) -> str:
        return f"job/{self._graph.graph.job_id}/{SHAPE_TIMER}"

    def _emit(self) -> None:
        assert self._shape is not None
        self._buffer.emit(WriteShape(self._graph.graph.job_id, self._shape))

    def _target(self, slots: int) -> dict[VertexId, int] | None:
        """Another parallelism than it has, that it can take; ``None``: it has what it can have."""
        if not self._wanted or self._graph.is_any_vertex_finishing:
            return None  # in another shape it could not be known which of its subtasks have finished
        found = self._best(slots)
        return None if found in (None, parallelism_of(self._graph.graph)) else found

    def _best(self, slots: int | None) -> dict[VertexId, int] | None:
        """``None``: with any number of slots."""
        graph = self._graph.graph
        most = slots_of(graph, {v: both.upper for v, both in self.bounds.items()})
        best = fit(graph, self.bounds, most)
        return best if slots is None or (best is not None and slots_of(graph, best) <= slots) else None
