"""Failover: decides which subtasks restart after a failure, and when.

    failure ─▶ decide ─┬─ suppressed ────────────────────────────────▶ the job fails
                       └─ mark regions, cancel them ─▶ all over, backoff over, no write unsettled ─▶ new attempts

One restart is pending at a time; a failure meanwhile adds its regions to it and may postpone it.
Follows Flink's ``ExecutionFailureHandler.java`` and ``DefaultScheduler.restartTasksWithDelay``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.scheduling.restart import RestartStrategy, RestartSuppressed
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import SubtaskId
from tidegate.model.states import ExecutionState

_CANCELING = ExecutionState.CANCELING


@dataclass(frozen=True, slots=True)
class FailTheJob:
    """The job fails. ``failure`` includes the reason why nothing restarts."""

    failure: ErrorInfo


@dataclass(frozen=True, slots=True)
class RestartLater:
    """Subtasks restart at ``at_ms``. ``affected``: to be canceled now. ``is_new``: not merged into a pending restart."""

    affected: tuple[SubtaskId, ...]
    at_ms: int
    is_new: bool


class Failover:
    """Decides what restarts after a failure of one job."""

    def __init__(self, graph: ExecutionGraph, strategy: RestartStrategy, *, regional: bool) -> None:
        self._graph = graph
        self._strategy = strategy
        self._regional = regional
        self._affected: dict[SubtaskId, None] = {}
        self._at_ms = 0
        self._backoff_is_over = False

    @property
    def is_pending(self) -> bool:
        return bool(self._affected)

    @property
    def is_of_all(self) -> bool:
        """Tells whether every task is to restart."""
        return len(self._affected) == len(self._graph)

    def covers(self, subtask: SubtaskId) -> bool:
        """Tells whether the subtask is to restart."""
        return subtask in self._affected

    def decide(self, failure: ErrorInfo, failed: SubtaskId | None, now_ms: int) -> FailTheJob | RestartLater:
        """Decides whether a failure restarts subtasks or fails the job. ``failed``: the subtask; ``None`` when the whole job failed."""
        if not failure.retriable:
            return FailTheJob(_because(failure, "The failure is not recoverable"))
        decision = self._strategy.on_failure(now_ms)
        if isinstance(decision, RestartSuppressed):
            return FailTheJob(_because(failure, f"Recovery is suppressed by {decision.by}"))
        everything = failed is None or not self._regional
        affected = tuple(e.subtask_id for e in self._graph) if everything else affected_by(self._graph, _given(failed))
        is_new = not (decision.merged and self.is_pending)
        self._affected.update(dict.fromkeys(affected))
        self._at_ms = max(self._at_ms, now_ms + decision.delay_ms)
        self._backoff_is_over = False
        return RestartLater(affected, self._at_ms, is_new)

    def restart_all(self, now_ms: int) -> RestartLater:
        """Restarts every task without a failure: the restart strategy does not decide."""
        return self._restart(tuple(e.subtask_id for e in self._graph), now_ms)

    def restart_lost(self, lost: Iterable[SubtaskId], now_ms: int) -> RestartLater:
        """Restarts the regions of subtasks that were lost with an earlier JobManager: the restart strategy does not decide."""
        if not self._regional:
            return self.restart_all(now_ms)
        affected = dict.fromkeys(subtask for one in lost for subtask in affected_by(self._graph, one))
        return self._restart(tuple(affected), now_ms)

    def _restart(self, affected: tuple[SubtaskId, ...], now_ms: int) -> RestartLater:
        is_new = not self.is_pending
        self._affected.update(dict.fromkeys(affected))
        self._at_ms = max(self._at_ms, now_ms)
        self._backoff_is_over = False
        return RestartLater(affected, self._at_ms, is_new)

    def on_backoff_over(self) -> None:
        self._backoff_is_over = True

    def take_ready(self) -> tuple[SubtaskId, ...]:
        """Returns the subtasks to restart now, in the order of the graph; none while the backoff runs or one has not
        ended.
        """
        if not self._affected or not self._backoff_is_over:
            return ()
        if not all(self._graph[s].state.is_terminal for s in self._affected):
            return ()
        taken, self._affected = self._affected, {}
        self._at_ms = 0
        return tuple(e.subtask_id for e in self._graph if e.subtask_id in taken)

    def clear(self) -> None:
        """Drops the pending restart, because the job ends."""
        self._affected = {}

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a subtask that is to restart is not being canceled."""
        self._strategy.check_invariants()
        alive = [s for s in self._affected if self._graph[s].is_deployed and self._graph[s].state is not _CANCELING]
        assert not alive, f"{alive} are to restart, and nobody cancels them"


def _given(subtask: SubtaskId | None) -> SubtaskId:
    assert subtask is not None
    return subtask


def _because(failure: ErrorInfo, why: str) -> ErrorInfo:
    return replace(failure, message=f"{failure.message} ({why})", retriable=False)


def affected_by(graph: ExecutionGraph, failed: SubtaskId) -> tuple[SubtaskId, ...]:
    """Returns the region of a failed subtask and of those that must restart with it.

    These are subtasks with union state in a common vertex that may finish or have finished: a new attempt that runs alone could never
    complete a checkpoint (in Flink it can happen).
    """
    affected: dict[SubtaskId, None] = {}
    open_regions = [graph.regions.of(failed)]
    while open_regions:
        region = open_regions.pop()
        affected.update(dict.fromkeys(region))
        for vertex_id in {s.vertex_id for s in region}:
            if any(op.uses_union_state for op in graph.vertices[vertex_id].operators):
                leaving = [e.subtask_id for e in graph.executions_of(vertex_id) if e.may_finish]
                open_regions.extend(graph.regions.of(s) for s in leaving if s not in affected)
    return tuple(affected)
